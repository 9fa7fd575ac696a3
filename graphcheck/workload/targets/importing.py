"""Importing a user's file or module as Python itself would, and finding the model in it."""

from __future__ import annotations

import contextlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from graphcheck.errors import ModelError
from graphcheck.workload.request import WorkloadRequest
from graphcheck.workload.seeding import seed_generators
from graphcheck.workload.targets.interface import Loaded
from graphcheck.workload.user_code import running_user_code, shown_path

__all__ = ["arguments_hidden", "import_file", "loaded_from", "on_path"]

_TAKEN: dict[str, str] = {}
"""Names in `sys.modules` that we gave to user files, with the file."""


def on_path(folder: str) -> None:
    """Put `folder` first on the import path, as Python does for a script it runs."""
    if folder not in sys.path:
        sys.path.insert(0, folder)


@contextlib.contextmanager
def arguments_hidden(file: str) -> Iterator[None]:
    """A file that reads `sys.argv` at import must not see graphcheck's arguments."""
    kept = sys.argv
    sys.argv = [file]
    try:
        yield
    finally:
        sys.argv = kept


def _package_of(path: Path) -> tuple[Path, str]:
    """The folder that must be on the import path, and the dotted name of the file below it."""
    folder = path.parent
    parts = [path.stem]
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parts.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(parts)


def _free_name(stem: str, file: str) -> str:
    """A module name nobody else uses; the same file keeps its name when loaded again."""
    if not stem.isidentifier():
        stem = "model_" + "".join(c if c.isalnum() and c.isascii() else "_" for c in stem)
    name = stem
    number = 1
    while _TAKEN.get(name) != file and (
        name in sys.modules or name in sys.builtin_module_names or _is_installed(name, file)
    ):
        number += 1
        name = f"{stem}_{number}"
    _TAKEN[name] = file
    return name


def _is_installed(name: str, file: str) -> bool:
    if name in sys.stdlib_module_names:
        return True
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and spec.origin not in (file, None)


def import_file(path: Path) -> ModuleType:
    """Import a file under its own name, with its folder on the path; `__main__` code stays off.

    A file inside a package is imported as part of it, so that relative imports work. Raises
    ModelError naming the user's line.
    """
    path = path.resolve()
    file = str(path)
    shown = shown_path(file)
    hint = f"Run `python {shown}` to see the whole traceback."
    on_path(str(path.parent))
    root, dotted = _package_of(path)
    with (
        running_user_code(
            f"{shown} could not be imported", hint=hint, folder=os.path.dirname(file)
        ),
        arguments_hidden(file),
    ):
        if "." in dotted:
            if str(root) not in sys.path:
                sys.path.append(str(root))
            sys.modules.pop(dotted, None)
            return importlib.import_module(dotted)
        name = _free_name(path.stem, file)
        spec = importlib.util.spec_from_file_location(name, file)
        if spec is None or spec.loader is None:
            raise ModelError(f"{shown} is not a Python file.", "Give a file that ends in .py.")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            sys.modules.pop(name, None)
            raise
        return module


def _needed(factory: Any) -> list[str] | None:
    """Names of the arguments without default; None when there is no signature to read."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError):
        return None
    return [
        parameter.name
        for parameter in signature.parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _module_classes(module: ModuleType) -> list[type]:
    from torch import nn

    return [
        value
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, nn.Module)
        and value.__module__ == module.__name__
    ]


def _make(value: Any, name: str, where: str, folder: str) -> Any:
    """The model that `value` is or makes: a module, a class, or a function."""
    from torch import nn

    if isinstance(value, nn.Module):
        return value
    if not callable(value):
        raise ModelError(
            f"{where}:{name} is of type {type(value).__name__}, not a torch.nn.Module.",
            "Name a module, a class with a no-argument constructor, or a function that returns "
            "the model.",
        )
    needed = _needed(value)
    if needed:
        raise ModelError(
            f"{where}:{name} cannot be called without arguments: it needs {', '.join(needed)}.",
            f"Offer a function without arguments, for instance `def get_model(): return "
            f"{name}(...)`.",
        )
    with running_user_code(f"{name}() in {where} failed", folder=folder):
        made = value()
    if not isinstance(made, nn.Module):
        raise ModelError(
            f"{name}() in {where} returned {_type_name(made)}, not a torch.nn.Module.",
            f"Let {name}() return the model alone.",
        )
    return made


def _type_name(value: Any) -> str:
    return "None" if value is None else f"an object of type {type(value).__name__}"


def _find_model(module: ModuleType, where: str, folder: str) -> Any:
    from torch import nn

    if callable(getattr(module, "get_model", None)):
        return _make(module.get_model, "get_model", where, folder)
    if isinstance(getattr(module, "model", None), nn.Module):
        return module.model
    classes = _module_classes(module)
    usable = [kind for kind in classes if not _needed(kind)]
    if len(usable) == 1:
        return _make(usable[0], usable[0].__name__, where, folder)
    if usable:
        names = ", ".join(kind.__name__ for kind in usable)
        raise ModelError(
            f"{where} has {len(usable)} modules that could be the model: {names}.",
            f"Name one: `{where}:{usable[-1].__name__}`, or offer get_model().",
        )
    if classes:
        first = classes[-1]
        needed = ", ".join(_needed(first) or ())
        raise ModelError(
            f"{where} has no model that can be built without arguments: {first.__name__}() needs "
            f"{needed}.",
            f"Add `def get_model(): return {first.__name__}(...)` to the file.",
        )
    raise ModelError(
        f"{where} offers no model: no get_model(), no object `model`, no nn.Module subclass.",
        "Add `def get_model():` that returns the torch.nn.Module to train.",
    )


def _attribute(module: ModuleType, name: str, where: str) -> Any:
    import difflib

    value: Any = module
    for part in name.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            public = [other for other in dir(value) if not other.startswith("_")]
            close = difflib.get_close_matches(part, public, n=1)
            guess = f"Did you mean {close[0]}?" if close else _models_of(value, where)
            raise ModelError(f"{where} has no attribute {name!r}.", guess) from None
    return value


def _models_of(value: Any, where: str) -> str:
    """What of a module could be meant: its own model classes, and what builds one."""
    from torch import nn

    own = [
        name
        for name, other in vars(value).items()
        if getattr(other, "__module__", None) == getattr(value, "__name__", "")
        and (name == "get_model" or (isinstance(other, type) and issubclass(other, nn.Module)))
    ]
    if not own:
        return "Check the name after the colon."
    return f"Name one of {', '.join(sorted(own)[:6])} after the colon."


def _offer(module: ModuleType, function: str, value: str, where: str, folder: str) -> Any:
    """What `get_x()` returns, or `x`, or None."""
    found = getattr(module, function, None)
    if callable(found):
        needed = _needed(found)
        if needed:
            raise ModelError(
                f"{function}() in {where} is called without arguments, but it needs "
                f"{', '.join(needed)}.",
                f"Give {function}() no arguments, or defaults for them.",
            )
        with running_user_code(f"{function}() in {where} failed", folder=folder):
            made = found()
        if made is None:
            raise ModelError(f"{function}() in {where} returned None.", f"Let {function}() return.")
        return made
    return getattr(module, value, None)


def _offered_loss(module: ModuleType, where: str, folder: str) -> Any:
    found = getattr(module, "get_loss", None)
    if not callable(found):
        return None
    # `def get_loss(output, targets)` is read as the loss itself.
    loss = found if _needed(found) else _offer(module, "get_loss", "", where, folder)
    if not callable(loss):
        raise ModelError(
            f"get_loss() in {where} returned {_type_name(loss)}, which cannot be called.",
            "Return a function or module that is called with output and targets, for instance "
            "torch.nn.CrossEntropyLoss().",
        )
    return loss


def loaded_from(
    module: ModuleType, attribute: str, where: str, folder: str, request: WorkloadRequest
) -> Loaded:
    """Find model, example inputs, loss and targets in an imported module.

    `attribute` names the model; empty means the convention. `where` is how messages call the
    module. Raises ModelError.
    """
    seed_generators(request.seed)
    if attribute:
        model = _make(_attribute(module, attribute, where), attribute, where, folder)
    else:
        model = _find_model(module, where, folder)
    inputs = None
    if not request.inputs:
        inputs = _offer(module, "get_example_inputs", "example_inputs", where, folder)
    loss = None if request.loss else _offered_loss(module, where, folder)
    targets = None
    if request.loss or loss is not None:
        targets = _offer(module, "get_example_targets", "example_targets", where, folder)
    return Loaded(
        module=model,
        inputs=inputs,
        loss=loss,
        targets=targets,
        file=getattr(module, "__file__", None) or "",
        folder=folder,
    )
