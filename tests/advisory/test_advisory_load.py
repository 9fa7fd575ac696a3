"""Every advisory is complete and read strictly; reading imports neither torch nor executorch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from graphcheck.advisory.load import advisory_by_id, all_advisories, load_advisory
from graphcheck.advisory.probes.interface import all_probes, probe_names
from graphcheck.advisory.ranges import in_range
from graphcheck.advisory.types import Verified
from graphcheck.errors import UsageError
from graphcheck.resources import patches_dir
from graphcheck.rules.interface import rule_by_code

GOOD = """\
id: GCA-2026-0099
published: "2026-11-29T00:00:00Z"
modified: "2026-11-30T00:00:00Z"
summary: Halves are doubled
details: >-
  It doubles
  them.
affected:
- package: {ecosystem: PyPI, name: executorch}
  ranges:
  - type: ECOSYSTEM
    events:
    - introduced: "1.0"
    - fixed: "2.0"
references:
- {type: FIX, url: "https://example.org/1"}
severity: silently wrong
says: doubles halves
ops: [aten.half]
kernels: ["aten::half.out"]
rule: GC301
probe: max_pool2d_backward
consequence: Wrong.
evidence: [seen]
verified:
- command: look
  wrong: ["1.5.1"]
  right: ["2.0", "0.9"]
mends:
- {kind: rewrite, name: a, description: b, exact: true}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "GCA-2026-0099.yaml"
    path.write_text(text)
    return path


def test_every_advisory_is_complete() -> None:
    found = all_advisories()
    assert len(found) >= 20
    assert [a.id for a in found] == sorted({a.id for a in found})
    for advisory in found:
        assert rule_by_code(advisory.rule) is not None, advisory.id
        assert advisory.evidence, advisory.id
        assert advisory.mends, advisory.id
        assert advisory.verified, advisory.id
        assert advisory.severity, advisory.id
        # What goes on from the name of an op must be there when an op is named.
        assert bool(advisory.says) == bool(advisory.ops), advisory.id


def test_every_probe_belongs_to_an_advisory_and_every_advisory_has_one() -> None:
    assert {a.probe for a in all_advisories()} == set(probe_names())
    assert set(all_probes()) == set(probe_names())


def test_the_patches_named_are_those_that_say_they_mend_it() -> None:
    by_advisory: dict[str, set[str]] = {}
    for path in patches_dir().glob("*/patch.yaml"):
        patch = yaml.safe_load(path.read_text(encoding="utf-8"))
        for advisory in patch.get("advisories", ()):
            by_advisory.setdefault(advisory, set()).add(patch["id"])
    assert {a.id: set(a.patches) for a in all_advisories() if a.patches} == by_advisory


def test_an_advisory_is_found_by_its_id_in_any_case() -> None:
    found = advisory_by_id("gca-2026-0001")
    assert found is not None
    assert found.ops == ("aten.max_pool2d_with_indices_backward",)
    assert advisory_by_id("GCA-1999-0001") is None


def test_a_good_file_is_read(tmp_path: Path) -> None:
    advisory = load_advisory(write(tmp_path, GOOD))
    assert advisory.what == "It doubles them."
    assert advisory.affected == ">=1.0,<2.0"
    assert advisory.fixed_in == "2.0"
    assert advisory.references == ("https://example.org/1",)
    seen = {(entry.version, entry.outcome) for entry in advisory.verified}
    assert seen == {("0.9", "right"), ("1.5.1", "wrong"), ("2.0", "right")}
    assert advisory.seen_on("1.5.1+cpu") == Verified("1.5.1", "wrong", "look")
    assert advisory.seen_on("1.4.1") is None
    assert advisory.mends == (
        {"kind": "rewrite", "name": "a", "description": "b", "exact": True, "command": ""},
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("summary:", "sumary:"), "Object contains unknown field `sumary`"),
        (("summary: Halves are doubled\n", ""), "Object missing required field `summary`"),
        (("[seen]", "seen"), "Expected `array`, got `str` - at `$.evidence`"),
        (("kind: rewrite", "kind: hope"), "Invalid enum value 'hope' - at `$.mends[0].kind`"),
        (("exact: true", "exact: 1"), "Expected `bool`, got `int` - at `$.mends[0].exact`"),
        (
            ("id: GCA-2026-0099", "id: GCA-2026-0098"),
            "its id is 'GCA-2026-0098', which must be the name of the file",
        ),
        (('introduced: "1.0"', 'introduced: "about 1"'), "affected: 'about 1' is no version"),
        (('fixed: "2.0"', 'fixed: "0.5"'), "affected: it ends with 0.5, before it begins"),
        (
            ('    - introduced: "1.0"\n', ""),
            "affected: one range with introduced, and fixed or last_affected, is needed",
        ),
        (
            ('- fixed: "2.0"', '- mended: "2.0"'),
            "Invalid enum value 'mended' - at `key` in `$.affected[0].ranges[0].events[1]`",
        ),
        (
            ("name: executorch", "name: torch"),
            "Invalid enum value 'torch' - at `$.affected[0].package.name`",
        ),
        (
            ('wrong: ["1.5.1"]', 'wrong: ["1.5.1", "2.1"]'),
            "verified: 2.1 was seen wrong, which the range >=1.0,<2.0 contradicts",
        ),
        (
            ('right: ["2.0", "0.9"]', 'right: ["1.2"]'),
            "verified: 1.2 was seen right, which the range >=1.0,<2.0 contradicts",
        ),
        (
            ("ops: [aten.half]\n", ""),
            "it must name the ops it concerns, or say what else it concerns",
        ),
    ],
)
def test_a_wrong_file_is_refused_with_its_name(
    tmp_path: Path, change: tuple[str, str], why: str
) -> None:
    path = write(tmp_path, GOOD.replace(*change))
    with pytest.raises(UsageError) as caught:
        load_advisory(path)
    assert caught.value.message == f"the advisory GCA-2026-0099.yaml cannot be read: {why}."
    assert str(path) in caught.value.hint


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (
            "when: {arguments: {}}\n",
            "GCA-2026-0099.yaml: when: unknown key 'arguments' in a condition.",
        ),
        (
            "reduction: {of: x, product_of: y}\n",
            "GCA-2026-0099.yaml: reduction: the keys ['of', 'product_of'] do not belong together.",
        ),
        (
            "reduction: {product_of: y, below: many}\n",
            "GCA-2026-0099.yaml: reduction.below: an integer is needed.",
        ),
    ],
)
def test_wrong_conditions_are_refused(tmp_path: Path, extra: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_advisory(write(tmp_path, GOOD + extra))
    assert caught.value.message == message


def test_broken_yaml_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"GCA-2026-0099\.yaml cannot be read: "):
        load_advisory(write(tmp_path, "id: [\n"))
    with pytest.raises(UsageError, match=r"gone\.yaml cannot be read: .*No such file"):
        load_advisory(tmp_path / "gone.yaml")


def test_version_ranges_are_hints() -> None:
    advisory = advisory_by_id("GCA-2026-0001")
    assert advisory is not None
    assert in_range(advisory, "1.5.1") is True
    assert in_range(advisory, "1.5.1+cpu") is True
    assert in_range(advisory, "0.5.0") is None
    assert in_range(advisory, "1.6.0") is None
    assert in_range(advisory, "unknown") is None


def test_a_fixed_version_is_not_affected(tmp_path: Path) -> None:
    advisory = load_advisory(write(tmp_path, GOOD))
    assert in_range(advisory, "2.1") is False
    assert in_range(advisory, "1.9") is True
    assert in_range(advisory, "0.9") is None


def test_reading_and_the_cache_import_neither_torch_nor_executorch(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from graphcheck.advisory import all_advisories, cached, describe\n"
        "results = cached()\n"
        "for a in all_advisories(): describe(a, results.get(a.id))\n"
        "print([m for m in ('torch', 'executorch', 'numpy') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "", "GRAPHCHECK_CACHE_DIR": str(tmp_path)},
    )
    assert done.stdout.strip() == "[]"
