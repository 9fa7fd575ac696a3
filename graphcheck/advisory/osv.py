"""Advisories as documents in the Open Source Vulnerability format, schema version 1.7.

What OSV has a field for is there under its name. What is ours alone (the op, the condition on its
arguments, the probe, what was verified) is in `ecosystem_specific` of the affected package, and
what concerns the document in `database_specific`: OSV lets both hold anything.
"""

from __future__ import annotations

from typing import Any

import msgspec

from graphcheck.advisory.types import Advisory

__all__ = ["SCHEMA_VERSION", "to_osv"]

SCHEMA_VERSION = "1.7.0"


def to_osv(advisory: Advisory) -> dict[str, Any]:
    """The document of one advisory: plain values, ready for JSON."""
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "id": advisory.id,
        "published": advisory.published,
        "modified": advisory.modified,
        "summary": advisory.title,
        "details": _details(advisory),
        "affected": [_affected(advisory)],
        "references": [{"type": kind, "url": url} for kind, url in advisory.typed_references],
        "database_specific": {
            "severity": advisory.severity,
            "rule": advisory.rule,
            "mends": msgspec.to_builtins(advisory.mends),
            "patches": list(advisory.patches),
        },
    }
    if advisory.aliases:
        document["aliases"] = list(advisory.aliases)
    return document


def _details(advisory: Advisory) -> str:
    parts = [advisory.what, f"**What follows.** {advisory.consequence}"]
    if advisory.evidence:
        parts.append("\n".join(("**Evidence**", *(f"- {e.strip()}" for e in advisory.evidence))))
    return "\n\n".join(parts)


def _affected(advisory: Advisory) -> dict[str, Any]:
    specific: dict[str, Any] = {
        "ops": list(advisory.ops),
        "concerns": advisory.concerns,
        "kernels": list(advisory.kernels),
        "condition": msgspec.to_builtins(advisory.when),
        "reduction": msgspec.to_builtins(advisory.reduction),
        "probe": advisory.probe,
        "verified": msgspec.to_builtins(advisory.verified),
    }
    if advisory.libraries:
        specific["libraries"] = list(advisory.libraries)
    return {
        "package": {
            "ecosystem": "PyPI",
            "name": "executorch",
            "purl": "pkg:pypi/executorch",
        },
        "ranges": [
            {
                "type": "ECOSYSTEM",
                "events": [{kind: version} for kind, version in advisory.events],
            }
        ],
        "versions": [v.version for v in advisory.verified if v.outcome == "wrong"],
        "ecosystem_specific": specific,
    }
