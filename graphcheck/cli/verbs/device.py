"""`graphcheck device`: where programs can be run, and a runner for a device of the user's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from graphcheck.cli.interface import Verb
from graphcheck.cli.output import emit, emit_line, look, say
from graphcheck.cli.tables import FormatChoice, JsonOption, table, wants_json
from graphcheck.errors import ExitCode

__all__ = ["VERB"]

_app = typer.Typer(
    help="List devices, or build a runner for one.",
    no_args_is_help=False,
    rich_markup_mode=None,
)


@_app.command("list")
def list_devices(as_json: JsonOption = False, output_format: FormatChoice = None) -> int:
    """List the devices that `validate --on` takes, and what this machine lacks for them.

    Devices with an address are not contacted; those that an adb server knows are shown.
    """
    from graphcheck.runtime.devices.interface import DeviceSettings, devices, families

    rows: list[dict[str, Any]] = [
        {"name": name, "state": device.missing() or "ready", "what": device.summary}
        for name, device in devices().items()
    ]
    for prefix, family in families().items():
        missing = family.open("x", DeviceSettings()).missing()
        form = f"{prefix}:{family.form}"
        rows.append({"name": form, "state": missing or "usable", "what": family.summary})
        rows += [
            {"name": seen.name, "state": seen.detail, "what": family.summary}
            for seen in family.seen()
        ]
    if wants_json(as_json, output_format):
        emit(json.dumps(rows, indent=2) + "\n")
        return ExitCode.OK
    keys = ("name", "state", "what")
    emit(table(("device", *keys[1:]), [tuple(row[key] for key in keys) for row in rows], look()))
    return ExitCode.OK


@_app.command("build")
def build(
    executorch: Annotated[
        Path,
        typer.Option(
            "--executorch",
            metavar="DIR",
            help="Sources of ExecuTorch, what `cmake --install` wrote, or the package of a wheel.",
        ),
    ],
    ndk: Annotated[
        Path | None, typer.Option("--ndk", metavar="DIR", help="Android NDK, for arm64 devices.")
    ] = None,
    toolchain: Annotated[
        Path | None,
        typer.Option("--toolchain", metavar="FILE", help="CMake toolchain file of another target."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The runner (default with --ndk: where adb: looks for one).",
        ),
    ] = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", metavar="DIR", help="Folder for the build trees."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the commands only.")] = False,
) -> int:
    """Build a native runner with CMake, for --runner of validate and export.

    The commands are printed before they are run. From sources, ExecuTorch itself is built first.

    Exit code 0: built; 2: wrong usage; 4: CMake or a compiler is missing, or it does not build.
    """
    from graphcheck.runtime.device_build import carry_out, plan_build
    from graphcheck.runtime.devices.adb import default_runner

    place = output or (default_runner() if ndk is not None else Path("runner"))
    plan = plan_build(executorch, ndk=ndk, toolchain=toolchain, output=place, work=work)
    if dry_run:
        for step in plan.steps:
            emit_line(f"# {step.what}")
            emit_line(str(step))
        emit_line(f"# copy {plan.built} to {plan.output}")
        return ExitCode.OK
    emit(f"{carry_out(plan, say)}\n")
    return ExitCode.OK


def _register(app: typer.Typer) -> None:
    app.add_typer(_app, name="device")


VERB = Verb(name="device", order=7, register=_register)
