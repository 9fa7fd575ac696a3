"""What `graphcheck doctor` looks at, one function each. Torch is imported in a child only."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any

from graphcheck.errors import DeviceError, GraphcheckError
from graphcheck.process import WorkerFailure, run_worker
from graphcheck.report.about import byte_size

__all__ = ["Item", "RuntimeFacts", "diagnose", "runtime_facts"]

FOUND, MISSING, NOTE, NOT_CHECKED = "found", "MISSING", "note", "NOT CHECKED"
_CHILD_SECONDS = 120.0


@dataclass(frozen=True)
class Item:
    """One thing looked at: `state` is found, MISSING, note or NOT CHECKED; `hint` how to get it."""

    name: str
    state: str
    detail: str
    hint: str = ""


@dataclass(frozen=True)
class RuntimeFacts:
    """What a child process saw: names in the registry; "" or why an import failed."""

    kernels: tuple[str, ...] = ()
    torch_error: str = ""
    runtime_error: str = ""
    training_error: str = ""


def diagnose(on_progress: Callable[[str], None]) -> Iterator[Item]:
    """Everything, in the order in which one thing needs the other."""
    from graphcheck import __version__

    yield Item("graphcheck", FOUND, __version__)
    system = f"{platform.system()} {platform.machine()}"
    yield Item("Python", FOUND, f"{platform.python_version()} ({system}) in {sys.prefix}")
    packages = [_package(name) for name in ("torch", "torchvision", "executorch")]
    yield from packages
    yield _libraries()
    if any(item.state == MISSING for item in packages[::2]):
        yield Item("runtime", NOT_CHECKED, "torch or executorch is not installed")
    else:
        on_progress("importing torch and the runtime in a child process")
        yield from _runtime()
    yield _compiler()
    yield _runner()
    yield from _cache()
    yield _probes()


def _package(name: str) -> Item:
    from packaging.requirements import Requirement

    wanted = next(
        (r for r in map(Requirement, metadata.requires("graphcheck") or ()) if r.name == name), None
    )
    needed = str(wanted.specifier) if wanted else ""
    hint = f"pip install '{name}{needed}'"
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Item(name, MISSING, "not installed", hint)
    if wanted and not wanted.specifier.contains(version, prereleases=True):
        return Item(name, MISSING, f"{version} is installed, graphcheck needs {needed}", hint)
    return Item(name, FOUND, version)


def _libraries() -> Item:
    from graphcheck.runtime.libraries import build_id, find_libraries

    try:
        libraries = find_libraries()
        return Item(
            "runtime libraries", FOUND, f"{libraries.library_dir} (build {build_id(libraries)})"
        )
    except DeviceError as error:
        return Item("runtime libraries", MISSING, error.message, error.hint)


def _runtime() -> Iterator[Item]:
    try:
        facts = _ask(training=True)
    except WorkerFailure as failure:
        # The training extension is the last thing imported; look whether the rest stands alone.
        try:
            facts = _ask(training=False)
        except WorkerFailure as again:
            detail = f"the child process {again.detail} while {again.stage or 'starting'}"
            yield Item("runtime", MISSING, detail, "pip install --force-reinstall executorch")
            return
        yield from _imports(facts, f"the child process {failure.detail} while {failure.stage}")
        return
    yield from _imports(facts, facts.training_error)


def _ask(*, training: bool) -> RuntimeFacts:
    return run_worker(
        f"{__name__}:runtime_facts", {"training": training}, RuntimeFacts, timeout=_CHILD_SECONDS
    )


def _imports(facts: RuntimeFacts, training_error: str) -> Iterator[Item]:
    error = facts.torch_error or facts.runtime_error
    if error:
        yield Item("runtime", MISSING, error, "pip install --force-reinstall torch executorch")
        return
    yield Item("runtime", FOUND, f"{len(facts.kernels)} kernels in its registry")
    yield _opset(frozenset(facts.kernels))
    if training_error:
        # Only the user's own Python training needs it; the native runner does not.
        yield Item("training extension", NOTE, f"cannot be imported: {training_error}")
    else:
        yield Item("training extension", FOUND, "executorch.extension.training")


def _opset(live: frozenset[str]) -> Item:
    from graphcheck.opset.load import load

    try:
        opset = load()
    except GraphcheckError as error:
        return Item("operator set", MISSING, error.message, error.hint)
    name = f"{opset.runtime} {opset.version} ({len(opset.kernels)} kernels)"
    lost, more = len(opset.kernels - live), len(live - opset.kernels)
    if lost or more:
        detail = f"{name} differs from the registry: {lost} not in it, {more} more in it"
        hint = "graphcheck check --target live uses what the registry holds"
        return Item("operator set", NOTE, detail, hint)
    return Item("operator set", FOUND, f"{name}, the same as the registry")


def _compiler() -> Item:
    from graphcheck.runtime.toolchain import find_compiler

    try:
        compiler = find_compiler()
    except DeviceError as error:
        return Item("C++ compiler", MISSING, f"{error.message}; validate needs one", error.hint)
    return Item("C++ compiler", FOUND, f"{compiler.version} ({' '.join(compiler.command)})")


def _runner() -> Item:
    from graphcheck.files import cache_dir
    from graphcheck.runtime.build import runner_key
    from graphcheck.runtime.libraries import find_libraries
    from graphcheck.runtime.toolchain import find_compiler

    try:
        key = runner_key(find_compiler(), find_libraries())
    except DeviceError:
        return Item("native runner", NOT_CHECKED, "compiler or libraries are missing")
    try:
        path = cache_dir("runner") / key / "runner"
    except DeviceError as error:
        return Item("native runner", NOT_CHECKED, error.message)
    if path.is_file():
        return Item("native runner", FOUND, str(path))
    return Item("native runner", NOTE, "not built yet; the first validate builds it")


def _cache() -> Iterator[Item]:
    from graphcheck.files import cache_dir, check_cache

    try:
        folder = cache_dir()
        check_cache(folder)
    except DeviceError as error:
        yield Item("cache", MISSING, error.message, error.hint)
        return
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield Item("cache", FOUND, f"{folder} ({byte_size(size)})")


def _probes() -> Item:
    from graphcheck.advisory.load import all_advisories
    from graphcheck.advisory.run import cached

    try:
        advisories = [entry for entry in all_advisories() if entry.probe]
        results = cached()
    except (GraphcheckError, OSError) as error:
        return Item("advisories", NOT_CHECKED, str(error))
    wrong = sum(result.outcome == "wrong" for result in results.values())
    return Item(
        "advisories",
        NOTE,
        f"{len(advisories)} known, {len(results)} probed on this runtime, {wrong} proven wrong",
        "graphcheck advisory list",
    )


def runtime_facts(request: dict[str, Any]) -> RuntimeFacts:
    """Worker task: import torch, the bindings and (if asked) the training extension."""
    from graphcheck.worker import progress

    progress("importing torch")
    try:
        import torch  # noqa: F401  # before any pybinding
    except Exception as error:
        return RuntimeFacts(torch_error=_said(error))
    progress("importing the runtime's bindings")
    try:
        from executorch.extension.pybindings import portable_lib

        kernels = tuple(sorted(set(portable_lib._get_operator_names())))
    except Exception as error:
        return RuntimeFacts(runtime_error=_said(error))
    training_error = ""
    if request["training"]:
        progress("importing the training extension")
        try:
            import executorch.extension.training  # noqa: F401
        except Exception as error:
            training_error = _said(error)
    return RuntimeFacts(kernels=kernels, training_error=training_error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]
