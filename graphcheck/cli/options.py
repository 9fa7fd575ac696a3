"""Options that several verbs share, and how they combine with `[tool.graphcheck]`."""

from __future__ import annotations

import difflib
import os
import shlex
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from graphcheck.cli.exits import FailOn
from graphcheck.config import Config, find_pyproject, load_config, target_folder
from graphcheck.errors import UsageError
from graphcheck.options import MOST_MEGABYTES, MOST_NUMBER, MOST_SECONDS, CheckOptions
from graphcheck.report.interface import Format, find_format, format_names
from graphcheck.suppress import is_code_prefix

__all__ = [
    "BatchOption",
    "ClassesOption",
    "ConfigOption",
    "ExitZeroOption",
    "FailOnOption",
    "FormatOption",
    "IgnoreOption",
    "InputOption",
    "LibraryOption",
    "LossOption",
    "MemoryOption",
    "ModelArgument",
    "OpsetOption",
    "OutputOption",
    "QuietOption",
    "SelectOption",
    "StampOption",
    "StrictOption",
    "TargetArgument",
    "TimeoutOption",
    "VerboseOption",
    "check_options",
    "checked_seconds",
    "checked_target",
    "chosen",
    "chosen_format",
    "codes_of",
    "configuration",
    "fail_on_of",
    "options_again",
]

Options = TypeVar("Options", bound=CheckOptions)
_PROGRAMS = (".pt2", ".pte")
_FORMATS = ", ".join(format_names())

TargetArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        help="model.py, model.py:Net, pkg.mod:factory, torchvision:resnet18, model.pte, model.pt2.",
    ),
]
ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="TARGET",
        show_default=False,
        help="model.py, model.py:Net, pkg.mod:factory, torchvision:resnet18, model.pt2.",
    ),
]
InputOption = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="SPEC",
        help="Example input such as 'float32[2,3,64,64]' or 'int64[2]<10'; once for each input.",
    ),
]
LossOption = Annotated[
    str | None,
    typer.Option("--loss", metavar="NAME", help="Loss for a model that returns predictions."),
]
ClassesOption = Annotated[
    int | None,
    typer.Option(
        "--num-classes", min=1, max=MOST_NUMBER, help="Number of classes of a torchvision model."
    ),
]
BatchOption = Annotated[
    bool | None,
    typer.Option("--dynamic-batch/--static-batch", help="Make dim 0 of the inputs dynamic."),
]
StrictOption = Annotated[bool, typer.Option("--strict", help="Export in strict mode.")]
OpsetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        "--opset",
        metavar="RUNTIME",
        help="Runtime to judge for, such as executorch==1.3.1:portable, or the file of an "
        "operator set; default is the installed one.",
    ),
]
LibraryOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--kernel-library",
        metavar="FILE",
        help="Shared library with your own kernels; may be repeated.",
    ),
]
StampOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--stamp",
        metavar="FILE[=TREE]",
        help="Stamp of the patched source tree that the runtime is built from, and the tree to "
        "hold it against; may be repeated.",
    ),
]
SelectOption = Annotated[
    list[str] | None,
    typer.Option("--select", metavar="CODES", help="Only these codes or prefixes: GC1,GC301."),
]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="CODES", help="Suppress these codes or prefixes."),
]
FailOnOption = Annotated[
    str | None,
    typer.Option(
        "--fail-on",
        metavar="SEVERITY",
        help="Least severity that gives exit code 1: error, warning, note or never"
        " (default: warning).",
    ),
]
ExitZeroOption = Annotated[
    bool, typer.Option("--exit-zero", help="Exit code 0 even if there are findings.")
]
FormatOption = Annotated[
    str | None,
    typer.Option("--output-format", metavar="FORMAT", help=f"One of {_FORMATS} (default: text)."),
]
OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the result to this file."),
]
TimeoutOption = Annotated[
    float | None,
    typer.Option("--timeout", metavar="SECONDS", help="Time limit for the model (default: 600)."),
]
MemoryOption = Annotated[
    int | None,
    typer.Option(
        "--memory-limit",
        metavar="MIB",
        min=1,
        max=MOST_MEGABYTES,
        help="Memory limit for the model.",
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Configuration; default is the pyproject.toml nearest to the target.",
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Findings and summary only.")]
VerboseOption = Annotated[
    int, typer.Option("--verbose", "-v", count=True, show_default=False, help="More details.")
]


def chosen(option: Any, setting: Any, default: Any) -> Any:
    """The option if it was given, else the setting of the configuration, else the default."""
    if option is not None:
        return option
    return default if setting is None else setting


def configuration(target: str, path: Path | None) -> Config:
    """The configuration for a target. Raises UsageError."""
    if path is not None:
        if not os.path.isfile(path):
            raise UsageError(
                f"--config {path}: there is no such file.",
                "Check the path, or leave it out to use pyproject.toml.",
            )
        return load_config(path)
    return load_config(find_pyproject(target_folder(target)))


def chosen_format(option: str | None, config: Config) -> Format:
    """The output format. Raises UsageError for an unknown one."""
    name = chosen(option, config.output_format, "text")
    found = find_format(name)
    if found is None:
        raise UsageError(f"There is no output format `{name}`.", f"Choose one of {_FORMATS}.")
    return found


def fail_on_of(option: str | None, config: Config) -> FailOn:
    """The least severity that fails. Raises UsageError for a bad value."""
    value = chosen(option, config.fail_on, FailOn.WARNING.value)
    try:
        return FailOn(value)
    except ValueError:
        where = "--fail-on" if option is not None else f"{config.path}: `fail-on`"
        names = ", ".join(level.value for level in FailOn)
        raise UsageError(
            f"{where}: there is no severity `{value}`.", f"Choose one of {names}."
        ) from None


def codes_of(option: list[str] | None, name: str) -> tuple[str, ...]:
    """The codes of a repeatable option that also takes commas. Raises UsageError."""
    from graphcheck.rules.interface import all_rules

    codes = [code.strip().upper() for text in option or () for code in text.split(",")]
    for code in codes:
        if not is_code_prefix(code):
            raise UsageError(
                f"{name}: `{code}` is not a code.",
                "Codes look like GC301, or a prefix such as GC3; `graphcheck rule` lists them.",
            )
        if name == "--ignore" and code.startswith("GC0"):
            raise UsageError(
                f"{name}: `{code}` cannot be ignored.",
                "GC0 says that the model could not be checked.",
            )
        if not any(rule.code.startswith(code) for rule in all_rules()):
            raise UsageError(
                f"{name}: no rule has a code that begins with `{code}`.",
                "`graphcheck rule` lists them.",
            )
    return tuple(codes)


def checked_target(target: str) -> str:
    """The target, if it can be one. Raises UsageError that names a near file.

    Only what costs nothing is looked at here; loading is the child's work.
    """
    from graphcheck.workload.targets.interface import kind_of

    head, colon, tail = target.rpartition(":")
    path = Path(head if colon and Path(head).suffix == ".py" and os.sep not in tail else target)
    program = path.suffix.lower() in _PROGRAMS
    try:
        is_file = path.suffix == ".py" or program or kind_of(target).name == "file"
    except UsageError as error:
        near = _near(path)
        raise UsageError(error.message, f"Did you mean {near}?") if near else error from None
    if is_file and not os.path.isfile(path) and not (program and os.path.exists(path)):
        raise _no_file(path)
    return target


def _no_file(path: Path) -> UsageError:
    if os.path.isdir(path):
        return UsageError(f"{path} is a folder, not a model file.", "Name the file in it.")
    if not os.path.isdir(path.absolute().parent):
        return UsageError(f"There is no folder {path.parent} for {path.name}.", "Check the path.")
    near = _near(path)
    hint = f"Did you mean {near}?" if near else f"Looked in {path.absolute().parent}."
    return UsageError(f"There is no file {path}.", hint)


def _near(path: Path) -> Path | None:
    """The file with a name like this that could be meant: first of those that end the same."""
    folder = path.absolute().parent
    try:
        names = [entry.name for entry in os.scandir(folder) if entry.is_file()]
    except (OSError, ValueError):
        return None
    models = {name.lower(): name for name in names if name.lower().endswith((".py", *_PROGRAMS))}
    wanted = path.name.lower()
    alike = [name for name in models if name.endswith(path.suffix.lower())]
    for offered in (alike, models):
        near = difflib.get_close_matches(wanted, offered, n=1)
        if near:
            return path.with_name(models[near[0]])
    return None


def options_again(
    inputs: list[str] | None,
    loss: str | None,
    num_classes: int | None,
    dynamic_batch: bool | None,
    opset: str | None,
    kernel_libraries: list[Path] | None,
) -> str:
    """The options of this command line that describe the target, for the next command.

    What the configuration says is read again, so it is not repeated.
    """
    words: list[str] = []
    for spec in inputs or ():
        words += ("--input", spec)
    if loss is not None:
        words += ("--loss", loss)
    if num_classes is not None:
        words += ("--num-classes", str(num_classes))
    if dynamic_batch is not None:
        words.append("--dynamic-batch" if dynamic_batch else "--static-batch")
    if opset is not None:
        words += ("--target", opset)
    for path in kernel_libraries or ():
        words += ("--kernel-library", str(path))
    return shlex.join(words)


def checked_seconds(seconds: float) -> float:
    """A time limit, if it can be one. Raises UsageError."""
    if 0 < seconds <= MOST_SECONDS:
        return seconds
    bound = f"at most {MOST_SECONDS:.0f}" if seconds > 0 else "greater than 0"
    raise UsageError(
        f"--timeout must be {bound}, not {seconds:g}.", "For instance --timeout 600 (seconds)."
    )


def check_options(
    make: type[Options],
    config: Config,
    target: str,
    *,
    inputs: list[str] | None,
    loss: str | None,
    num_classes: int | None,
    dynamic_batch: bool | None,
    strict: bool,
    opset: str | None,
    kernel_libraries: list[Path] | None,
    timeout: float | None,
    memory_limit: int | None,
    select: list[str] | None = None,
    ignore: list[str] | None = None,
    **more: Any,
) -> Options:
    """`make` (CheckOptions or ValidateOptions) of options and configuration. Raises UsageError."""
    if opset is not None and not opset.strip():
        raise UsageError("--target is empty.", "Name a release, such as executorch==1.5.1.")
    libraries = tuple(str(path.absolute()) for path in kernel_libraries or ())
    for library in libraries or config.kernel_library:
        if not os.path.isfile(library):
            raise UsageError(
                f"--kernel-library {library}: there is no such file.",
                "Check the path; graphcheck patch build -o DIR makes such a library.",
            )
    seconds = checked_seconds(chosen(timeout, config.timeout, 600.0))
    return make(
        target=target,
        inputs=tuple(inputs or config.input),
        loss=chosen(loss, config.loss, None),
        num_classes=chosen(num_classes, config.num_classes, None),
        dynamic_batch=chosen(dynamic_batch, config.dynamic_batch, False),
        opset=chosen(opset, config.opset, None),
        kernel_libraries=libraries or config.kernel_library,
        timeout=seconds,
        memory_limit=chosen(memory_limit, config.memory_limit, None),
        strict=strict,
        select=codes_of(select, "--select") or config.select,
        ignore=(*codes_of(ignore, "--ignore"), *config.ignore),
        per_module_ignores=tuple((config.per_module_ignores or {}).items()),
        **more,
    )
