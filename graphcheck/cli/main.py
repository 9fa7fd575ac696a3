"""The entry point: the default verb, and one place where errors become exit codes."""

from __future__ import annotations

import contextlib
import difflib
import gc
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, NoReturn

import typer

from graphcheck.cli.interface import all_verbs, verb_names, verbs_for
from graphcheck.cli.output import complain, emit_line
from graphcheck.errors import ExitCode, GraphcheckError, ModelError, UsageError

__all__ = ["application", "main", "run", "with_default_verb"]

_DEFAULT = "check"
_ROOT_OPTIONS = ("--help", "-h", "--version")
_LOUDNESS = ("-q", "--quiet", "-v", "-vv", "--verbose")
# Typer's own errors of usage: their class has a private home, but BadParameter is one of them.
_TYPER_ERRORS: tuple[type[BaseException], ...] = tuple(
    base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
)


def _version(wanted: bool) -> None:
    if wanted:
        from graphcheck import __version__

        emit_line(f"graphcheck {__version__}")
        raise typer.Exit()


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Makes PyTorch models trainable on ExecuTorch, and proves it.

    `graphcheck model.py` is short for `graphcheck check model.py`.
    """


def application(verb: str = "") -> typer.Typer:
    """The Typer application with this verb, or with every verb of the registry."""
    app = typer.Typer(
        name="graphcheck",
        add_completion=False,
        no_args_is_help=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_root)
    # Typer reads the options of every verb that it is given, which takes longer than most verbs do.
    for entry in verbs_for(verb):
        entry.register(app)
    return app


def with_default_verb(arguments: Sequence[str], verbs: Sequence[str]) -> list[str]:
    """The arguments with `check` put in where no verb was given. Raises UsageError."""
    given = list(arguments)
    if not given:
        return ["--help"]
    loud = 0
    while loud < len(given) and given[loud] in _LOUDNESS:
        loud += 1
    if 0 < loud < len(given) and given[loud] in verbs:
        return [given[loud], *given[:loud], *given[loud + 1 :]]
    first = given[0]
    if first in verbs or first in _ROOT_OPTIONS:
        return given
    if first.startswith("-") or any(mark in first for mark in ".:/\\") or os.path.exists(first):
        return [_DEFAULT, *given]
    near = difflib.get_close_matches(first, verbs, n=1)
    guess = f"Did you mean `{near[0]}`? " if near else ""
    told = ", ".join(verb.name for verb in all_verbs())
    raise UsageError(
        f"`{first}` is neither a verb nor a target.",
        f"{guess}Verbs are {told}; a target is model.py, model.py:Net,"
        " pkg.mod:factory, torchvision:resnet18, model.pte, model.pt2.",
    )


def run(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit code and never raises (but for SystemExit's kin)."""
    try:
        with _terminated_as_interrupt():
            code = _run(with_default_verb(arguments, verb_names()))
            return code if arguments else ExitCode.USAGE
    except GraphcheckError as error:
        prefix = f"{error.code}: " if isinstance(error, ModelError) and error.code else ""
        complain(f"{prefix}{error.message}", error.hint)
        return _traced(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        complain("interrupted")
        return ExitCode.INTERRUPTED
    except Exception as error:
        return _internal(error)


def _run(arguments: list[str]) -> int:
    try:
        app = application(arguments[0] if arguments else "")
        code: Any = app(args=arguments, prog_name="graphcheck", standalone_mode=False)
    except _TYPER_ERRORS as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "graphcheck"
        message = getattr(error, "format_message", error.__str__)()
        complain(" ".join(message.split()), f"`{path} --help` lists arguments and options.")
        return ExitCode.USAGE
    if code == ExitCode.INTERRUPTED:  # newer versions of Typer catch Ctrl-C themselves
        raise KeyboardInterrupt
    return int(code or 0)


def _internal(error: Exception) -> int:
    from graphcheck.process import WorkerFailure

    if isinstance(error, WorkerFailure):
        what = f"a child process of graphcheck failed: {error.detail}"
    else:
        text = str(error).strip().splitlines()
        what = f"internal error: {type(error).__name__}{': ' + text[0] if text else ''}"
    complain(
        what,
        "This is a bug in graphcheck. Set GRAPHCHECK_TRACEBACK=1 and run the command again for"
        " the traceback to report.",
    )
    return _traced(ExitCode.INTERNAL)


def _traced(code: ExitCode) -> ExitCode:
    if os.environ.get("GRAPHCHECK_TRACEBACK"):
        traceback.print_exc()
    return code


@contextlib.contextmanager
def _terminated_as_interrupt() -> Iterator[None]:
    """Let SIGTERM unwind like Ctrl-C, so that child processes are ended, too."""

    def interrupt(number: int, frame: Any) -> NoReturn:
        raise KeyboardInterrupt

    try:
        previous = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def main() -> NoReturn:
    """The `graphcheck` command."""
    # What a command line reads and imports lives until its end: looking for garbage among it, then
    # or at the interpreter's end, frees nothing.
    gc.set_threshold(200_000, 50, 50)
    code = int(run(sys.argv[1:]))
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
