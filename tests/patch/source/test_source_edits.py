"""Every patch: the faulty kernel computes a wrong value before it, and the right one after."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from source_trees import EXECUTORCH, NNTRAINER, RIGHT, WRONG, computed, copy_of, snapshot

from graphcheck.advisory.load import all_advisories
from graphcheck.patch.description import all_patches, load_patch, patch_by_id
from graphcheck.patch.source.edit import edit_site
from graphcheck.patch.source.run import apply, revert, select, status
from graphcheck.patch.source.states import State

compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here")
EDITS = [patch.id for patch in all_patches() if patch.source is not None]


@compiler
def test_kernels_are_wrong_before_and_right_after(tree: Path, tmp_path: Path) -> None:
    assert computed(tree, tmp_path / "before") == WRONG
    outcome = apply(select(tree))
    assert {state.state for state in outcome.states} == {State.APPLIED}
    assert computed(tree, tmp_path / "after") == RIGHT


@compiler
def test_average_pooling_of_nntrainer(tmp_path: Path) -> None:
    root = copy_of(NNTRAINER, tmp_path / "tree")
    before = snapshot(root)
    assert computed(root, tmp_path / "before") == {"nntrainer_average_pooling": ["1"]}
    outcome = apply(select(root))
    assert outcome.tree.version == "9.8.7"
    assert computed(root, tmp_path / "after") == {"nntrainer_average_pooling": ["4"]}
    revert(select(root))
    assert snapshot(root) == before


def _metadata(root: Path) -> dict[str, int]:
    path = root / "exir" / "emit" / "_emit_program.py"
    spec = importlib.util.spec_from_file_location("emit_of_the_tree", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    kinds = ("USER_OUTPUT", "BUFFER_MUTATION", "GRADIENT_TO_PARAMETER", "TOKEN")
    specs = [SimpleNamespace(kind=module.OutputKind[kind]) for kind in kinds]
    method = SimpleNamespace(graph_signature=SimpleNamespace(output_specs=specs))
    found: dict[str, int] = module._get_training_metadata({"forward": method})
    return found


def test_the_exporter_counts_the_outputs_of_the_program(tree: Path) -> None:
    assert _metadata(tree) == {"gradients forward": 2, "parameters forward": 3}
    apply(select(tree, ["training_metadata"]))
    assert _metadata(tree) == {"gradients forward": 1, "parameters forward": 2}


REPAIRED = {
    "max_pool2d_with_indices_backward": "void max_pool_backward_impl(T t) {"
    " float* p = t.mutable_data_ptr<float>(); std::memset(p, 0, t.nbytes()); p[0] += 1; }",
    "native_dropout": "void native_dropout_out() { auto s = 1.0 / (1.0 - prob); use(s); }",
    "native_group_norm": "void group_norm() { const double d = x[i] - mean; var += d * d; }",
    "native_layer_norm": "void layer_norm_scalar() { const double d = x[i] - mean; v += d * d; }",
    "native_layer_norm_half": "void layer_norm() {"
    " if constexpr (is_reduced_floating_point<T>) {} }",
    "native_batch_norm": "void _native_batch_norm_legit_no_stats_out() {"
    " float d = x[i] - mean; v += d * d; }",
    "addmm": "void vec_addmm() { using A = acc<T>; A s = 0; }"
    " void vec_matmul() { using A = acc<T>; A s = 0; }",
    "convolution": "void conv2d_impl() { using A = acc<T>; A s = 0.0f; }",
    "cumsum": "void cumsum_tensors() { float running = 0; }",
    "var": "void compute_variance() { using A = acc<T>; A sum = all(); }",
    "sum_one_dim": "void opt_sum_dim_out() { if (in.scalar_type() == ScalarType::Float) fast(); }",
    "flip": "void unflip_flat_ix() { const size_t size = 1; auto n = in.strides()[d];"
    " auto at = ix / stride % size; }",
    "training_metadata": "def _get_training_metadata(m):\n"
    "    return [s for s in m if s.kind != OutputKind.BUFFER_MUTATION]\n",
    "sgd_half_parameters": "void SGD::step() { if (p.scalar_type() != ScalarType::Float) {} }",
    "nntrainer_average_pooling": "void Pooling2DLayer::calcDerivative() {"
    " auto [pt, pb, pl, pr] = padding; int a = h - ph + pb; int b = w - pw + pr; }",
}
"""A repair that someone else could have made, for each patch."""


@pytest.mark.parametrize("name", EDITS)
def test_another_repair_is_recognised_by_its_structure(name: str) -> None:
    patch = patch_by_id(name)
    assert patch is not None
    assert patch.source is not None
    for site in patch.source.sites:
        if f" {site.function}(" in REPAIRED[name]:
            answer = edit_site(patch, site, REPAIRED[name], site.files[0])
            assert (answer.state, answer.text) == (State.FIXED, None)


@pytest.mark.parametrize("name", EDITS)
def test_what_is_neither_fault_nor_repair_is_a_conflict(name: str) -> None:
    patch = patch_by_id(name)
    assert patch is not None
    assert patch.source is not None
    for site in patch.source.sites:
        if site.files[0].endswith(".py"):
            text = f"def {site.function}(a):\n    return a\n"
        else:
            text = f"int {site.function}(int a) {{ return a; }}\n"
        answer = edit_site(patch, site, text, site.files[0])
        assert answer.state is State.CONFLICT
        assert answer.reason.endswith("is neither the known fault nor a known repair")


@pytest.mark.parametrize("patch", all_patches(), ids=lambda patch: patch.id)
def test_descriptions_say_what_they_mend(patch: object) -> None:
    known = {advisory.id: advisory for advisory in all_advisories()}
    assert patch.title  # type: ignore[attr-defined]
    assert len(patch.wrong) > 30  # type: ignore[attr-defined]
    assert patch.cost.endswith(".")  # type: ignore[attr-defined]
    for advisory in patch.advisories:  # type: ignore[attr-defined]
        assert advisory in known
        assert set(known[advisory].ops) <= set(patch.ops)  # type: ignore[attr-defined]


def test_every_patch_of_sources_has_its_cases() -> None:
    assert set(REPAIRED) == set(EDITS)
    executorch = {name for name in EDITS if not name.startswith("nntrainer")}
    assert executorch == (set(RIGHT) - {"sgd_takes_float"}) | {"training_metadata"}
    outcome = status(select(EXECUTORCH))
    assert {state.patch.id: state.state for state in outcome.states} == dict.fromkeys(
        executorch, State.NEEDED
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ("title: [1]", "Expected `str`, got `array` - at `$.title`"),
        ("surprise: 1", "Object contains unknown field `surprise`"),
        ("id: other", "its id is 'other', which must be the name of its folder"),
        ("affected: newer", "affected: 'newer' is no version range"),
        ("folder: /tmp", "folder is not for a file to say"),
        (
            "source: {sites: [{files: [../x.cpp], function: f, fixed: [[a]], variants: []}]}",
            "site f needs at least one file, variant and fixed form",
        ),
        (
            "source: {sites: [{files: [../x.cpp], function: f, fixed: [[a]],"
            " variants: [{steps: [{find: a, after: b}]}]}]}",
            "site f: ../x.cpp leaves the tree",
        ),
        (
            "source: {sites: [{files: [x.cpp], function: f, fixed: [[a]],"
            " variants: [{steps: [{find: a}]}]}]}",
            "site f: a step is one of after, before, replace, body and rename",
        ),
    ],
)
def test_bad_descriptions_are_refused(tmp_path: Path, change: str, told: str) -> None:
    from graphcheck.errors import UsageError

    values = {"id": "mine", "title": "t", "affected": "''", "wrong": "w", "cost": "c"}
    key, _, value = change.partition(": ")
    values[key] = value
    path = tmp_path / "mine" / "patch.yaml"
    path.parent.mkdir()
    path.write_text("".join(f"{key}: {value}\n" for key, value in values.items()))
    with pytest.raises(UsageError) as caught:
        load_patch(path)
    assert caught.value.message == f"the patch mine cannot be read: {told}."


def test_the_installed_exporter_is_right_with_the_patch(tmp_path: Path) -> None:
    pytest.importorskip("executorch")
    from torch.export.graph_signature import OutputKind

    from graphcheck.runtime.libraries import find_package

    package = find_package()
    assert package is not None
    path = tmp_path / "exir" / "emit" / "_emit_program.py"
    path.parent.mkdir(parents=True)
    shutil.copy(package / "exir" / "emit" / "_emit_program.py", path)
    kinds = (OutputKind.USER_OUTPUT, OutputKind.BUFFER_MUTATION, OutputKind.GRADIENT_TO_PARAMETER)
    specs = [SimpleNamespace(kind=kind, target="p") for kind in (*kinds, OutputKind.TOKEN)]
    methods = {"forward": SimpleNamespace(graph_signature=SimpleNamespace(output_specs=specs))}
    starts = []
    for step in ("as it is", "patched"):
        if step == "patched":
            apply(select(tmp_path))
        name = f"executorch.exir.emit._emit_program_{len(starts)}"
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        found = module._get_training_metadata(methods)
        starts.append([found[f"__et_training_{what}_index_forward"] for what in WHAT])
    assert starts == [[2, 3], [1, 2]]


WHAT = ("gradients", "parameters")
