"""Trees as people keep them: line ends, tabs, other names, other namespaces, comments anywhere."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from source_trees import EXECUTORCH, copy_of, snapshot

from graphcheck.patch.description import all_patches
from graphcheck.patch.source.edit import edit_site
from graphcheck.patch.source.run import apply, revert, select, status
from graphcheck.patch.source.states import State
from graphcheck.patch.source.tokens import tokens_of

LOCALS = re.compile(
    r"(?<![\w\"./>])(result|gradient|place|keep|input_data|out_data|x|y|sum|squares|average|spread"
    r"|root|means|inverses|rows|total|from|into|length|columns|num|mean|there|back|quick|slope"
    r"|output)(?![\w\"/(])"
)


def crlf(text: str) -> str:
    return text.replace("\n", "\r\n")


def tabs(text: str) -> str:
    return re.sub(r"^(?:  )+", lambda found: "\t" * (len(found[0]) // 2), text, flags=re.M)


def wide(text: str) -> str:
    return re.sub(r"^ +", lambda found: found[0] * 2, text, flags=re.M)


def renamed(text: str) -> str:
    return LOCALS.sub(r"\1_2", text)


def new_namespace(text: str) -> str:
    text = text.replace("namespace torch::executor::native", "namespace executorch::kernels")
    text = text.replace("namespace torch::executor", "namespace executorch::kernels::portable")
    return text.replace("namespace torch {", "namespace executorch {")


def byte_order_mark(text: str) -> str:
    return "\xef\xbb\xbf" + text


def other_bytes(text: str) -> str:
    return text + "\n// caf\xe9, in an older encoding"


def braces_apart(text: str) -> str:
    return re.sub(r"^( *)(.*\)) \{$", r"\1\2\n\1{", text, flags=re.M)


def commented(text: str) -> str:
    return re.sub(r";$", "; // {(", text, flags=re.M)


LAYOUTS = {
    layout.__name__: layout
    for layout in (
        crlf,
        tabs,
        wide,
        renamed,
        new_namespace,
        byte_order_mark,
        other_bytes,
        braces_apart,
        commented,
    )
}
PYTHON = {"crlf", "wide", "renamed", "byte_order_mark"}
"""The layouts that leave Python source what it is."""


def laid_out(tree: Path, names: list[str]) -> None:
    for path in tree.rglob("*"):
        if path.suffix in (".cpp", ".h", ".py"):
            text = path.read_bytes().decode("latin-1")
            for name in names:
                if path.suffix != ".py" or name in PYTHON:
                    text = LAYOUTS[name](text)
            path.write_bytes(text.encode("latin-1"))


@pytest.mark.parametrize("name", LAYOUTS)
def test_apply_again_and_revert(tmp_path: Path, name: str) -> None:
    tree = copy_of(EXECUTORCH, tmp_path / "tree")
    laid_out(tree, [name])
    _there_and_back(tree)


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.sampled_from(sorted(set(LAYOUTS) - {"wide"})), unique=True), st.randoms())
def test_any_mixture_of_layouts(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], chance: random.Random
) -> None:
    tree = copy_of(EXECUTORCH, tmp_path_factory.mktemp("mixed") / "tree")
    last = [name for name in names if name == "crlf"]
    names = [name for name in names if name != "crlf"]
    chance.shuffle(names)
    laid_out(tree, names + last)
    _there_and_back(tree)


def _there_and_back(tree: Path) -> None:
    before = snapshot(tree)
    bytes_before = {path: (tree / path).read_bytes() for path in before}
    outcome = apply(select(tree))
    assert {state.state for state in outcome.states} == {State.APPLIED}
    assert len(outcome.changed) == 15
    for path in outcome.changed:
        _looks_alike(bytes_before[path], (tree / path).read_bytes())
    once = snapshot(tree)
    assert apply(select(tree)).changed == ()
    assert snapshot(tree) == once
    revert(select(tree))
    assert snapshot(tree) == before
    assert {state.state for state in status(select(tree)).states} == {State.NEEDED}


def _looks_alike(before: bytes, after: bytes) -> None:
    """New lines end and are indented as the old ones; a byte order mark stays first."""
    assert (b"\r\n" in after) == (b"\r\n" in before)
    if b"\r\n" in before:
        assert after.count(b"\n") == after.count(b"\r\n")
    if b"\n\t" in before:
        new = set(after.splitlines()) - set(before.splitlines())
        assert not [line for line in new if line.startswith(b"  ") and line.strip()]
    assert after.startswith(b"\xef\xbb\xbf") == before.startswith(b"\xef\xbb\xbf")
    assert after.count(b"\xef\xbb\xbf") == before.count(b"\xef\xbb\xbf")


PATCH = next(p for p in all_patches() if p.id == "max_pool2d_with_indices_backward")
FILE = "kernels/portable/cpu/op_max_pool2d_with_indices_backward.cpp"


def edited(body: str) -> tuple[State, str, str]:
    assert PATCH.source is not None
    answer = edit_site(PATCH, PATCH.source.sites[0], body, FILE)
    return answer.state, answer.reason, answer.text or ""


def test_the_inserted_lines_take_the_indentation_of_their_place() -> None:
    state, _, text = edited(
        "#include <a>\n\nvoid max_pool_backward_impl(T t)\n{\n"
        "\tfloat* p = t.mutable_data_ptr<float>(); // here\n\tp[0] += 1;\n}\n"
    )
    assert state is State.NEEDED
    assert text == (
        "#include <a>\n#include <cstring>\n\nvoid max_pool_backward_impl(T t)\n{\n"
        "\t// graphcheck patch max_pool2d_with_indices_backward\n"
        "\tfloat* p = t.mutable_data_ptr<float>(); // here\n"
        "\t// The loop below only adds: start from zero.\n"
        "\tstd::memset(p, 0, t.nbytes());\n"
        "\tp[0] += 1;\n}\n"
    )


def test_a_function_on_one_line() -> None:
    state, _, text = edited(
        "void max_pool_backward_impl(T t) { float* p = t.mutable_data_ptr<float>(); p[0] += 1; }"
    )
    assert state is State.NEEDED
    assert text.splitlines()[-4:] == [
        "float* p = t.mutable_data_ptr<float>();",
        "// The loop below only adds: start from zero.",
        "std::memset(p, 0, t.nbytes());",
        "p[0] += 1; }",
    ]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "void max_pool_backward_impl(T t) { if (a) float* p = t.mutable_data_ptr<float>(); }",
            "the statement to edit is part of another one",
        ),
        (
            "void max_pool_backward_impl(T t) { float* p = t.mutable_data_ptr<float>();"
            " float* q = t.mutable_data_ptr<float>(); }",
            "more than one place fits the edit",
        ),
    ],
)
def test_an_unclear_place_is_a_conflict(body: str, reason: str) -> None:
    state, told, _ = edited(body)
    assert (state, told) == (State.CONFLICT, f"max_pool_backward_impl in {FILE}: {reason}")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("void max_pool_backward_impl() { f(); ", "its brackets do not balance: a { is never"),
        ("void f() { ) }", "its brackets do not balance: a ) too many"),
        ('a\n"b\n', "line 2 has a quotation mark that is never closed"),
        ("a\n/* b", "the comment that starts in line 2 is never closed"),
        ("a\0b", "it holds zero bytes, so it is no text in an 8-bit encoding"),
    ],
)
def test_a_file_that_is_half_there(text: str, why: str) -> None:
    state, reason, _ = edited(text)
    assert state is State.CONFLICT
    assert reason.startswith(f"{FILE} cannot be read: {why}")


def test_code_in_comments_strings_and_dead_branches_is_no_code() -> None:
    state, reason, _ = edited(
        "// void max_pool_backward_impl() { float* p = t.mutable_data_ptr<float>(); }\n"
        'auto s = R"x(void max_pool_backward_impl() { ")" })x";\n'
        "#if 0\nvoid max_pool_backward_impl() { don't\n#endif\n"
        "#define A void max_pool_backward_impl() { \\\n }\n"
        "void max_pool_backward_impl();\n"
    )
    assert (state, reason) == (
        State.CONFLICT,
        f"{FILE} has no function max_pool_backward_impl",
    )


def test_conditionals_that_open_a_bracket_twice() -> None:
    state, _, _ = edited(
        "#ifdef A\nvoid max_pool_backward_impl(T t) {\n#else\n"
        "void max_pool_backward_impl(U t) {\n#endif\n"
        "float* p = t.mutable_data_ptr<float>();\n}\n"
    )
    assert state is State.NEEDED


def test_two_definitions_are_both_edited() -> None:
    one = "void max_pool_backward_impl(T t) {\n  float* p = t.mutable_data_ptr<float>();\n}\n"
    state, _, text = edited(one + one.replace("float", "double"))
    assert state is State.NEEDED
    assert text.count("std::memset(p, 0, t.nbytes());") == 2


GAPS = ("", "", " ", "\t", "\n", "\r\n    ", " /* { ; */ ", " // ) }\n")


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32))
def test_white_space_and_comments_between_any_two_tokens(seed: int) -> None:
    chance = random.Random(seed)
    for patch in all_patches():
        for site in patch.source.sites if patch.source else ():
            path = EXECUTORCH / site.files[0]
            if path.suffix == ".py" or not path.is_file():
                continue
            scattered = _scattered(path.read_bytes().decode("latin-1"), chance)
            answer = edit_site(patch, site, scattered, site.files[0])
            assert (answer.state, answer.reason) == (State.NEEDED, "")
            assert answer.text is not None
            again = edit_site(patch, site, answer.text, site.files[0])
            assert (again.state, again.reason) == (State.APPLIED, "")


def _scattered(text: str, chance: random.Random) -> str:
    out, end, before = "", 0, None
    for token in tokens_of(text, "cpp"):
        out += text[end : token.start]
        if before is not None and "directive" not in (token.kind, before.kind):
            out += chance.choice(GAPS)
        out += token.text
        end, before = token.end, token
    return out + text[end:]
