"""Known-wrong kernels: advisories as data, and the probes that prove them on the machine."""

from __future__ import annotations

from graphcheck.advisory.load import advisory_by_id, all_advisories
from graphcheck.advisory.run import cached, probe
from graphcheck.advisory.words import describe

__all__ = ["advisory_by_id", "all_advisories", "cached", "describe", "probe"]
