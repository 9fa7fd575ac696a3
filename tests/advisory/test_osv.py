"""Every advisory is a valid OSV document; a document with a fault is none."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from graphcheck.advisory.load import all_advisories
from graphcheck.advisory.osv import to_osv
from graphcheck.cli.main import run

SCHEMA = json.loads(Path(__file__).with_name("osv_schema.json").read_text())


@pytest.fixture(scope="module")
def validator() -> Any:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    return jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("advisory", all_advisories(), ids=lambda a: a.id)
def test_every_advisory_is_a_document(validator: Any, advisory: Any) -> None:
    document = json.loads(json.dumps(to_osv(advisory)))
    validator.validate(document)
    assert document["details"].startswith(advisory.what)
    (affected,) = document["affected"]
    assert affected["ecosystem_specific"]["ops"] == list(advisory.ops)
    assert affected["versions"], "it was seen on one version at least"


def _events(document: Any, *events: dict[str, str]) -> None:
    document["affected"][0]["ranges"][0]["events"] = list(events)


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d.pop("modified"),
        lambda d: d.update(modified="yesterday"),
        lambda d: d.update(id="CVE-1"),
        lambda d: d.update(sumary="x"),
        lambda d: d["references"].append({"type": "BLOG", "url": "https://example.org"}),
        lambda d: d["affected"][0]["package"].update(ecosystem="pip"),
        lambda d: _events(d, {"fixed": "1.0"}),
        lambda d: _events(d, {"introduced": "1"}, {"fixed": "2"}, {"last_affected": "3"}),
        lambda d: _events(d, {"introduced": "1", "fixed": "2"}),
    ],
)
def test_a_damaged_document_is_refused(validator: Any, damage: Callable[[Any], None]) -> None:
    document = to_osv(all_advisories()[0])
    validator.validate(document)
    damage(document)
    assert list(validator.iter_errors(document))


def test_export_writes_files(
    validator: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["advisory", "export", "--osv", "-o", str(tmp_path)]) == 0
    count = len(all_advisories())
    assert capsys.readouterr().err == f"{count} documents written to {tmp_path}\n"
    files = sorted(tmp_path.iterdir())
    assert [file.stem for file in files] == [advisory.id for advisory in all_advisories()]
    for file in files:
        validator.validate(json.loads(file.read_text()))
    one = tmp_path / "one.json"
    assert run(["advisory", "export", "--osv", "gca-2026-0001", "-o", str(one)]) == 0
    (document,) = json.loads(one.read_text())
    assert document["id"] == "GCA-2026-0001"


def test_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["advisory", "export"]) == 2
    assert capsys.readouterr().err == (
        "graphcheck: error: There is one format to export advisories in.\nnext: Add --osv.\n"
    )
    assert run(["advisory", "export", "--osv", "GCA-2026-9999"]) == 2
    assert "There is no advisory `GCA-2026-9999`." in capsys.readouterr().err
