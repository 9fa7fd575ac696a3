"""Findings that the user has silenced: by a comment in the source, or by configuration.

    self.pool = nn.MaxPool2d(2)  # graphcheck: ignore[GC301] kernel is replaced on our devices

The comment stands on the line that constructs the module or on the line of the op itself; on the
last line of a statement of several lines it counts for the whole statement. Codes may be prefixes
(`GC3`); without codes it silences all. GC0 (could not check) cannot be silenced.

`apply` wants the findings *before* they are deduplicated, since each has its own place.
"""

from __future__ import annotations

import fnmatch
import io
import re
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from graphcheck.options import CheckOptions
from graphcheck.report.types import Suppressed, UnusedSuppression
from graphcheck.rules.dedupe import deduplicate
from graphcheck.rules.types import Finding

__all__ = [
    "Comment",
    "SuppressConfig",
    "apply",
    "config_of",
    "is_code_prefix",
    "read_comments",
    "read_sources",
]

_COMMENT = re.compile(
    r"#\s*graphcheck:\s*ignore(?![\w-])\s*(?:\[(?P<codes>[^\]]*)\])?(?P<reason>[^#]*)"
)
_CODE_PREFIX = re.compile(r"GC\d{0,3}\Z")
_NEVER = "GC0"


@dataclass(frozen=True)
class SuppressConfig:
    """What configuration silences: code prefixes, and code prefixes by module path pattern.

    A non-empty `select` silences everything it does not name.
    """

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    per_module_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()


@dataclass(frozen=True)
class Comment:
    """A suppression comment: it counts for lines `first` to `line` (1-based, both included).

    `codes` is () when it silences every code; `unclear` are those that are no code at all.
    """

    line: int
    first: int
    codes: tuple[str, ...]
    reason: str
    text: str
    unclear: tuple[str, ...] = ()

    def silences(self, code: str) -> bool:
        if self.codes:
            return any(code.startswith(prefix) for prefix in self.codes)
        return not self.unclear


def is_code_prefix(text: str) -> bool:
    """Whether `text` is a code or the beginning of one: GC, GC3, GC30, GC301."""
    return _CODE_PREFIX.match(text) is not None


def config_of(options: CheckOptions) -> SuppressConfig:
    """The part of the options that silences findings."""
    return SuppressConfig(options.select, options.ignore, options.per_module_ignores)


def read_comments(text: str) -> tuple[Comment, ...]:
    """The suppression comments of Python source, in order; a string that looks like one is none.

    Source that does not tokenize gives the comments up to the fault.
    """
    comments: list[tuple[int, str, int]] = []
    last_line: dict[int, int] = {}
    start = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.append((token.start[0], token.string, start or token.start[0]))
            elif token.type == tokenize.NEWLINE:
                last_line[start] = token.end[0]
                start = 0
            elif not start and token.type not in (
                tokenize.NL,
                tokenize.INDENT,
                tokenize.DEDENT,
                tokenize.ENDMARKER,
            ):
                start = token.start[0]
    except (tokenize.TokenError, SyntaxError):
        pass
    found = []
    for line, string, begin in comments:
        match = _COMMENT.search(string)
        if match is None:
            continue
        first = begin if last_line.get(begin) == line else line
        found.append(_comment(line, first, match))
    return tuple(found)


def _comment(line: int, first: int, match: re.Match[str]) -> Comment:
    named = [part.strip().upper() for part in (match["codes"] or "").split(",")]
    named = [part for part in named if part]
    codes = tuple(part for part in named if is_code_prefix(part))
    unclear = tuple(part for part in named if not is_code_prefix(part))
    if match["codes"] is not None and not named:
        unclear = ("[]",)
    reason = match["reason"].strip().lstrip(":-").strip()
    return Comment(line, first, codes, reason, match[0].strip(), unclear)


def read_sources(findings: Iterable[Finding], *files: str) -> dict[str, str]:
    """The text of every Python file that the findings name, and of `files`; by path as named."""
    names = dict.fromkeys(name for name in files if name)
    for finding in findings:
        names.update(dict.fromkeys((finding.source.file, finding.source.constructed_file)))
    sources = {}
    for name in names:
        if not name.endswith(".py"):
            continue
        try:
            with tokenize.open(name) as stream:
                sources[name] = stream.read()
        except (OSError, SyntaxError, UnicodeDecodeError):
            continue
    return sources


def apply(
    findings: Iterable[Finding], sources: Mapping[str, str], config: SuppressConfig
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...], tuple[UnusedSuppression, ...]]:
    """Split findings into kept and suppressed; the third part are comments that silence nothing.

    `sources` maps file paths, as the findings name them, to their text. Kept findings are as they
    came; suppressed ones are deduplicated for each comment or setting that silences them.
    """
    comments = {name: read_comments(text) for name, text in sources.items() if "graphcheck" in text}
    used: set[tuple[str, int]] = set()
    kept: list[Finding] = []
    suppressed: list[Suppressed] = []
    for finding in findings:
        if finding.code.startswith(_NEVER):
            kept.append(finding)
            continue
        # Comments first, so that one which also configuration covers does not count as unused.
        silenced = _by_comment(finding, comments, used) or _by_config(finding, config)
        if silenced is None:
            kept.append(finding)
        else:
            suppressed.append(silenced)
    return tuple(kept), tuple(_merged(suppressed)), tuple(_unused(comments, used))


def _merged(suppressed: Iterable[Suppressed]) -> Iterable[Suppressed]:
    groups: dict[tuple[str, str], list[Finding]] = {}
    for entry in suppressed:
        groups.setdefault((entry.by, entry.reason), []).append(entry.finding)
    for (by, reason), findings in groups.items():
        for finding in deduplicate(findings):
            yield Suppressed(finding, by, reason)


def _by_comment(
    finding: Finding, comments: Mapping[str, tuple[Comment, ...]], used: set[tuple[str, int]]
) -> Suppressed | None:
    source = finding.source
    places = ((source.file, source.line), (source.constructed_file, source.constructed_line))
    answer = None
    for file, line in places:
        for comment in comments.get(file, ()):
            if comment.first <= line <= comment.line and comment.silences(finding.code):
                used.add((file, comment.line))
                if answer is None:
                    place = f"{Path(file).name}:{comment.line}"
                    answer = Suppressed(finding, f"comment at {place}", comment.reason)
    return answer


def _by_config(finding: Finding, config: SuppressConfig) -> Suppressed | None:
    code = finding.code
    if config.select and not any(code.startswith(prefix) for prefix in config.select):
        return Suppressed(finding, f"not in select {', '.join(config.select)}")
    for prefix in config.ignore:
        if code.startswith(prefix):
            return Suppressed(finding, f"ignore {prefix}")
    modules = finding.modules or ((finding.source.module,) if finding.source.module else ())
    for pattern, prefixes in config.per_module_ignores:
        covers = bool(modules) and all(fnmatch.fnmatchcase(name, pattern) for name in modules)
        if covers and any(code.startswith(prefix) for prefix in prefixes):
            return Suppressed(finding, f"per-module-ignores {pattern}")
    return None


def _unused(
    comments: Mapping[str, tuple[Comment, ...]], used: set[tuple[str, int]]
) -> Iterable[UnusedSuppression]:
    for file in sorted(comments):
        for comment in comments[file]:
            if comment.unclear:
                why = f"{', '.join(comment.unclear)} is not a code such as GC301"
            elif (file, comment.line) in used:
                continue
            elif any(code.startswith(_NEVER) for code in comment.codes):
                why = "GC0 cannot be suppressed"
            else:
                why = "no finding here"
            yield UnusedSuppression(file, comment.line, comment.text, why)
