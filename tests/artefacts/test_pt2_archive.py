"""`.pt2` archives: what is read, and what would run code, unpack to too much, or is damaged."""

from __future__ import annotations

import collections
import io
import json
import pickle
import random
import struct
import zipfile
from pathlib import Path

import pytest

from graphcheck.errors import ModelError
from graphcheck.workload.archive import MODEL, clean_archive


@pytest.fixture
def entries(files) -> dict[str, bytes]:
    with zipfile.ZipFile(files / "forward.pt2") as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def refusal(path: Path, folder: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        clean_archive(str(path), folder)
    assert "\n" not in caught.value.message
    return caught.value


def changed(entries: dict[str, bytes], change) -> dict[str, bytes]:
    """The entries with the graph changed in place by `change`."""
    name = f"forward/{MODEL}"
    content = json.loads(entries[name])
    change(content)
    return {**entries, name: json.dumps(content).encode()}


def test_a_sound_archive_is_written_again_without_guards(files, entries, tmp_path):
    with_guards = changed(entries, lambda content: content.update(guards_code=["L['x'] == 1"]))
    with_guards["forward/extra/notes.txt"] = b"more"
    clean = clean_archive(str(write(tmp_path / "model.pt2", with_guards)), tmp_path)
    with zipfile.ZipFile(clean) as archive:
        names = set(archive.namelist())
        content = json.loads(archive.read(f"forward/{MODEL}"))
    assert content["guards_code"] == []
    assert names == set(entries)
    nodes = content["graph_module"]["graph"]["nodes"]
    assert any("build_artefacts.py" in node["metadata"].get("stack_trace", "") for node in nodes)
    assert all(set(n["metadata"]) <= {"stack_trace", "nn_module_stack", "torch_fn"} for n in nodes)


@pytest.mark.parametrize("target", [
    "torch.hub.load", "torch.serialization.os.system", "torch.ops.export.f.default",
    "math.__loader__.load_module", "_operator.__builtins__", "torch.ops.aten.add.default.x",
    "#Extension", "torch.sym_max.__globals__",
])  # fmt: skip
def test_only_operators_are_called(entries, tmp_path, target):
    def change(content):
        content["graph_module"]["graph"]["nodes"][0]["target"] = target

    error = refusal(write(tmp_path / "m.pt2", changed(entries, change)), tmp_path)
    assert error.message == f"{tmp_path}/m.pt2 calls {target!r}, which is no ATen operator"
    assert error.hint.startswith("Only plain tensors and ATen operators are read from a file.")


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "exec", "s0.__class__", "9**9**9", "9**99", "s0**s0",
    "lambda: 0", "'a'", "s0; s1", "print(1)", "((((2**9)**9)**9)**9)**9", 7,
])  # fmt: skip
def test_sizes_are_no_code(entries, tmp_path, text):
    def change(content):
        values = content["graph_module"]["graph"]["tensor_values"]
        values["x"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}

    error = refusal(write(tmp_path / "m.pt2", changed(entries, change)), tmp_path)
    assert "has a size" in error.message


@pytest.mark.parametrize("text", ["s0", "s77 + 3", "Max(1, s0//2)", "s0**2", "Mod(s0*u1, 4)"])
def test_sizes_that_are_sizes_pass(entries, tmp_path, text):
    def change(content):
        values = content["graph_module"]["graph"]["tensor_values"]
        values["x"]["sizes"][0] = {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}

    source = write(tmp_path / "m.pt2", changed(entries, change))
    (tmp_path / "out").mkdir()
    assert clean_archive(str(source), tmp_path / "out").is_file()


@pytest.mark.parametrize("spec", [
    {"type": "collections.defaultdict", "context": {"default_factory_module": "antigravity"}},
    {"type": "builtins.dict", "context": [{"__enum__": True, "fqn": "antigravity:x"}]},
])  # fmt: skip
def test_containers_import_nothing(entries, tmp_path, spec):
    def change(content):
        call = content["graph_module"]["module_call_graph"][0]["signature"]
        call["in_spec"] = json.dumps([1, spec])

    assert (
        "takes or gives"
        in refusal(write(tmp_path / "m.pt2", changed(entries, change)), tmp_path).message
    )


def test_libraries_and_objects_are_refused(entries, tmp_path):
    library = {**entries, "forward/data/aotinductor/model/x.so": b"\x7fELF"}
    assert (
        "brings compiled libraries" in refusal(write(tmp_path / "a.pt2", library), tmp_path).message
    )
    config = {"config": {"x": {"path_name": "opaque_obj_0", "use_pickle": True}}}
    held = {
        **entries,
        "forward/data/constants/model_constants_config.json": json.dumps(config).encode(),
        "forward/data/constants/opaque_obj_0": pickle.dumps(print),
    }
    error = refusal(write(tmp_path / "b.pt2", held), tmp_path)
    assert error.message == f"{tmp_path}/b.pt2 holds 'x', which is no tensor"


@pytest.mark.parametrize(
    "name",
    ["../evil", "/etc/passwd", "forward/../../evil", "other/models/x", "forward//x", "forward/a\\b",
     "forward/\x1b[2J", "forward/data/weights/../../../x", "forward"],
)  # fmt: skip
def test_names_that_torch_would_not_write(entries, tmp_path, name):
    error = refusal(write(tmp_path / "m.pt2", {**entries, name: b"x"}), tmp_path)
    assert "which torch would not write" in error.message
    assert "\x1b" not in error.message


def test_bombs(entries, tmp_path):
    bomb = {**entries, "forward/data/weights/weight_0": bytes(30_000_000)}
    path = write(tmp_path / "deflated.pt2", bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    assert "are larger than the file" in refusal(path, tmp_path).message
    small = write(tmp_path / "small.pt2", entries, zipfile.ZIP_DEFLATED)
    message = refusal(small, tmp_path).message
    assert "has a compressed entry" in message or "are larger than the file" in message
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(50_000_000))
    nested = {**entries, "forward/data/sample_inputs/model.pt": inner.getvalue()}
    assert (
        "unpack to more than is there"
        in refusal(write(tmp_path / "nested.pt2", nested), tmp_path).message
    )


def test_entries_that_share_their_bytes(files, tmp_path):
    """Many entries of the directory that all point at one: larger than the file in sum."""
    data = (files / "forward.pt2").read_bytes()
    end = data.rindex(b"PK\x05\x06")
    size, start = struct.unpack_from("<II", data, end + 12)
    directory = data[start : start + size]
    many = directory * 200
    tail = bytearray(data[end : end + 22])
    struct.pack_into("<HHII", tail, 8, 200, 200, len(many), start)
    path = tmp_path / "m.pt2"
    path.write_bytes(data[:start] + many + bytes(tail))
    assert refusal(path, tmp_path).message.startswith(str(path))


def test_a_weight_without_data(entries, tmp_path):
    empty = {**entries, "forward/data/weights/weight_0": b""}
    assert "has no data" in refusal(write(tmp_path / "m.pt2", empty), tmp_path).message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty, not an exported program"),
        (b"x" * 100, "is no zip archive, or a damaged one, not an exported program"),
        (b"PK\x05\x06" + bytes(18), "is a zip archive without models/model.json, not an"),
    ],
)
def test_files_that_are_no_archive(tmp_path, data, message):
    path = tmp_path / "m.pt2"
    path.write_bytes(data)
    assert message in refusal(path, tmp_path).message


def test_a_folder_is_no_archive(tmp_path):
    path = tmp_path / "m.pt2"
    path.mkdir()
    assert refusal(path, tmp_path).message == f"{path} is no regular file, not an exported program"


def test_mutations_of_the_archive(files, tmp_path):
    original = (files / "forward.pt2").read_bytes()
    rng = random.Random(3)
    path, out = tmp_path / "m.pt2", tmp_path / "out"
    out.mkdir()
    seen = collections.Counter[str]()
    for _ in range(800):
        data = bytearray(original)
        for _ in range(rng.choice((1, 1, 2, 8))):
            at = rng.randrange(len(data) - 4)
            if rng.random() < 0.5:
                data[at] ^= 1 << rng.randrange(8)
            else:
                struct.pack_into("<I", data, at, rng.choice((0, 1, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)))
        # Central directory and end of it are a small part of the file, and what is read first.
        if rng.random() < 0.5:
            at = rng.randrange(len(data) - 1500, len(data))
            data[at] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
        try:
            clean_archive(str(path), out)
            seen["clean"] += 1
        except ModelError as error:
            seen["refused" if "\n" not in error.message else "refused in many lines"] += 1
    # Checksums leave little that passes.
    assert set(seen) == {"clean", "refused"}
    assert min(seen.values()) > 10
