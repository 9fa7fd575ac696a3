"""`.pt2` archives that cannot be trusted: looked at, and written anew with what is needed alone.

`torch.export.load` runs code that the archive brings: pickled weights, constants and inputs are
unpickled, native libraries are loaded, sizes are evaluated by sympy, guards are compiled, enums and
defaultdicts import modules, and a node may call any attribute of torch. Here the archive is read by
`zipfile`, its JSON is held against lists of what a traced model consists of, and what passes is
written to a new file. Two readers that see different things in one archive do not matter then.
"""

from __future__ import annotations

import json
import os
import re
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphcheck.errors import ModelError

__all__ = ["MODEL", "clean_archive"]

MODEL = "models/model.json"
_ENTRIES = 50_000
_JSON_BYTES = 256 << 20
_HINT = "Give a file that torch.export.save() of torch 2.14 wrote."
_AGAIN = "Check the model's own source instead: graphcheck model.py"
_CODE_HINT = f"Only plain tensors and ATen operators are read from a file. {_AGAIN}"
_NAME = re.compile(r"[\w.+@=-]+(/[\w.+@=-]+)*")
_TARGET = re.compile(
    r"torch\.ops\.(aten|prims|quantized_decomposed)\.\w+\.\w+"
    r"|torch\.ops\.higher_order\.(cond|while_loop|scan|map_impl|wrap_with_set_grad_enabled"
    r"|wrap_with_autocast)"
    r"|torch\.sym_\w+|torch\._sym_[a-z]+|_operator\.[a-z]\w*|math\.[a-z]\w*"
)
_SYMBOLS = re.compile(r"[usz]\d+|s\d+_\d+")
# fmt: off
_FUNCTIONS = frozenset(
    (
        "Max", "Min", "Abs", "Mod", "PythonMod", "FloorDiv", "CleanDiv", "CeilDiv",
        "IntTrueDiv", "FloatTrueDiv", "ModularIndexing", "PowByNatural", "FloatPow",
        "CeilToInt", "FloorToInt", "RoundToInt", "TruncToInt", "ToFloat", "Where", "Identity",
        "floor", "ceiling", "Eq", "Ne", "Lt", "Le", "Gt", "Ge", "And", "Or", "Not",
        "Piecewise", "true", "false", "True", "False", "oo", "int_oo", "zoo", "Rational",
        "Integer",
    )
)
# fmt: on
_EXPRESSION = re.compile(r"[\w\s+\-*/(),.<>=!&|~]*")
_POWER = re.compile(r"(?<=[\w)])\*\*[1-9](?!\w|\s*\*\*)")
_FRAME = re.compile(r'^\s*File "([^"]+)"', re.MULTILINE)
_METADATA = ("stack_trace", "nn_module_stack", "torch_fn")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CONTAINERS = frozenset(
    [
        None,
        "builtins.tuple",
        "builtins.list",
        "builtins.dict",
        "collections.OrderedDict",
        "torch.fx.immutable_collections.immutable_list",
        "torch.fx.immutable_collections.immutable_dict",
        "torch.Size",
    ]
)


def clean_archive(path: str, folder: Path) -> Path:
    """A copy of the archive in `folder` that is safe to load; guards on inputs are left out.

    Raises ModelError for what is no such archive, is damaged, too large, or brings code.
    """
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise ModelError(f"{path} is no regular file, not an exported program", _HINT)
        size = os.path.getsize(path)
        with zipfile.ZipFile(path) as archive:
            root, entries = _entries(path, archive, size)
            return _rewritten(path, archive, root, entries, folder)
    except ModelError:
        raise
    except OSError as error:
        why = error.strerror or str(error)
        raise ModelError(f"{path} cannot be read: {why}", _HINT) from None
    except zipfile.BadZipFile:
        what = "is empty" if os.path.getsize(path) == 0 else "is no zip archive, or a damaged one"
        raise ModelError(f"{path} {what}, not an exported program", _HINT) from None
    except Exception as error:
        # zipfile meets damage with errors of many kinds.
        why = f"{type(error).__name__}: {error}".splitlines()[0][:120]
        raise ModelError(f"{path} is a damaged exported program: {why}", _HINT) from None


def _entries(
    path: str, archive: zipfile.ZipFile, size: int
) -> tuple[str, dict[str, zipfile.ZipInfo]]:
    """Entries by name below the archive's one folder, which is the first result."""
    infos = archive.infolist()
    if len(infos) > _ENTRIES:
        raise ModelError(f"{path} has {len(infos)} entries, more than {_ENTRIES}", _HINT)
    if sum(info.file_size for info in infos) > size:
        raise ModelError(
            f"{path} says that its {len(infos)} entries are larger than the file, which torch "
            "stores as they are",
            _HINT,
        )
    roots = {info.filename.partition("/")[0] for info in infos}
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = info.filename.partition("/")[2]
        bad = not _NAME.fullmatch(info.filename) or ".." in info.filename.split("/")
        if bad or len(roots) != 1 or not name or name in found:
            raise ModelError(
                f"{path} has an entry {info.filename[:80]!r}, which torch would not write", _HINT
            )
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ModelError(f"{path} has a compressed entry {info.filename!r}", _HINT)
        found[name] = info
    if "archive_format" not in found or MODEL not in found:
        raise ModelError(f"{path} is a zip archive without {MODEL}, not an exported program", _HINT)
    for name in found:
        if name.startswith("data/aotinductor/"):
            raise ModelError(f"{path} brings compiled libraries ({name})", _CODE_HINT)
    return roots.pop(), found


def _rewritten(
    path: str,
    archive: zipfile.ZipFile,
    root: str,
    entries: dict[str, zipfile.ZipInfo],
    folder: Path,
) -> Path:
    if archive.read(entries["archive_format"]) != b"pt2":
        raise ModelError(
            f"{path} is a zip archive of another format, not an exported program", _HINT
        )
    if "byteorder" in entries and archive.read(entries["byteorder"]) != b"little":
        raise ModelError(f"{path} was written on a big-endian machine", _HINT)
    target = folder / "clean.pt2"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as copy:
        for name, info in entries.items():
            if name.startswith(("extra/", "models/", "executorch/")) and name != MODEL:
                continue
            if name.endswith(".json"):
                copy.writestr(f"{root}/{name}", _json(path, name, archive, info, entries))
                continue
            if name == "data/constants/model.pt" or name == "data/weights/model.pt":
                raise ModelError(f"{path} keeps its weights in the pickle of an old torch", _HINT)
            if name.startswith("data/sample_inputs/"):
                _no_bomb(path, archive, info)
            with archive.open(info) as source, copy.open(f"{root}/{name}", "w") as into:
                while block := source.read(1 << 20):
                    into.write(block)
    return target


def _no_bomb(path: str, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """The example inputs are an archive in the archive."""
    if not info.file_size:
        return
    with archive.open(info) as stream, zipfile.ZipFile(stream) as inner:
        inside = inner.infolist()
        stored = all(entry.compress_type == zipfile.ZIP_STORED for entry in inside)
        if not stored or sum(entry.file_size for entry in inside) > info.file_size:
            raise ModelError(f"{path} has example inputs that unpack to more than is there", _HINT)


def _json(
    path: str,
    name: str,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    entries: dict[str, zipfile.ZipInfo],
) -> bytes:
    if info.file_size > _JSON_BYTES:
        raise ModelError(f"{path} has a graph of {info.file_size} bytes", _HINT)
    content = json.loads(archive.read(info))
    if not isinstance(content, dict):
        raise ModelError(f"{path} is a damaged exported program: {name} is no mapping", _HINT)
    if name == MODEL:
        _check_model(path, content)
        content["guards_code"] = []
    elif name.endswith("_config.json"):
        _check_payloads(path, name, content, entries)
    return json.dumps(content).encode()


def _check_model(path: str, content: dict[str, Any]) -> None:
    for key, value in _fields(content):
        if key == "target" and isinstance(value, str):
            if not _TARGET.fullmatch(value):
                raise ModelError(
                    f"{path} calls {value[:80]!r}, which is no ATen operator", _CODE_HINT
                )
        elif key == "expr_str":
            _check_expression(path, value)
        elif key in ("in_spec", "out_spec", "treespec") and isinstance(value, str):
            _check_tree(path, json.loads(value))
        elif key in ("custom_obj", "as_custom_obj", "class_fqn", "as_operator") and value:
            raise ModelError(f"{path} holds objects that are no tensors", _CODE_HINT)
        elif key == "nodes" and isinstance(value, list):
            for node in value:
                _clean_metadata_(node)
    for symbol in content.get("range_constraints") or {}:
        _check_expression(path, symbol)


def _clean_metadata_(node: Any) -> None:
    """Keep what tells the user's module and line, from Python files."""
    told = node.get("metadata") if isinstance(node, dict) else None
    if not isinstance(told, dict):
        return
    kept = {key: told[key] for key in _METADATA if isinstance(told.get(key), str)}
    files = _FRAME.findall(kept.get("stack_trace", ""))
    if not all(file.endswith(".py") or file.startswith("<") for file in files):
        del kept["stack_trace"]
    node["metadata"] = kept


def _fields(content: Any) -> Iterator[tuple[str, Any]]:
    """Every key with its value, at any depth."""
    todo = [content]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                yield key, item
                todo.append(item)
        elif isinstance(value, list):
            todo += value


def _check_expression(path: str, text: Any) -> None:
    """sympy evaluates it as Python."""
    plain = isinstance(text, str) and len(text) < 10_000 and _EXPRESSION.fullmatch(text)
    words = _WORD.findall(text) if plain else ["?"]
    powers = _POWER.subn("", str(text))
    if (
        "**" in powers[0]
        or powers[1] > 4
        or not all(word in _FUNCTIONS or _SYMBOLS.fullmatch(word) for word in words)
    ):
        raise ModelError(f"{path} has a size {str(text)[:60]!r} that cannot be one", _CODE_HINT)


def _check_tree(path: str, spec: Any) -> None:
    for key, value in _fields(spec):
        if key == "type" and value not in _CONTAINERS:
            raise ModelError(f"{path} takes or gives a {str(value)[:60]!r}", _CODE_HINT)
        if key == "__enum__":
            raise ModelError(f"{path} takes or gives an enum", _CODE_HINT)


def _check_payloads(
    path: str, name: str, content: dict[str, Any], entries: dict[str, zipfile.ZipInfo]
) -> None:
    """Weights and constants: tensors whose data is in the archive, as large as it says."""
    base = name.rpartition("/")[0]
    for fqn, payload in (content.get("config") or {}).items():
        file = payload["path_name"]
        if not file.startswith(("weight_", "tensor_")):
            raise ModelError(f"{path} holds {fqn[:80]!r}, which is no tensor", _CODE_HINT)
        info = entries.get(f"{base}/{file}")
        if info is None:
            raise ModelError(f"{path} is a damaged exported program: no {base}/{file}", _HINT)
        if payload.get("use_pickle"):
            continue
        if not info.file_size and all(
            size.get("as_int") for size in payload["tensor_meta"]["sizes"]
        ):
            raise ModelError(f"{path} is a damaged exported program: {fqn[:80]} has no data", _HINT)
