"""Every rule is registered once, explained, and named in a test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import graphcheck.rules
from graphcheck.rules.interface import Rule, all_rules, rule_by_code

TESTS = Path(__file__).parents[1]
FILES = {
    match[1].upper(): path
    for path in Path(graphcheck.rules.__file__).parent.glob("gc*.py")
    if (match := re.match(r"(gc\d{3})_\w+", path.stem))
}


def test_every_file_is_a_rule_and_every_code_is_that_of_its_file() -> None:
    assert [rule.code for rule in all_rules()] == sorted(FILES)


def test_names_are_unique() -> None:
    names = [rule.name for rule in all_rules()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_a_rule_is_explained(rule: Rule) -> None:
    assert re.fullmatch(r"GC\d{3}", rule.code)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.summary.endswith(".")
    assert len(rule.explanation) > 100
    assert rule.example
    assert rule_by_code(rule.code.lower()) is rule


@pytest.mark.parametrize("code", sorted(FILES))
def test_a_rule_is_named_in_a_test(code: str) -> None:
    module = FILES[code].stem
    assert any(
        code in text or module in text
        for path in TESTS.rglob("test_*.py")
        if path != Path(__file__)
        for text in [path.read_text()]
    ), f"no test names {code}"
