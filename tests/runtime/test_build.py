"""Finding the runtime and the compiler, and building the runner once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graphcheck.errors import DeviceError
from graphcheck.process import run_command
from graphcheck.runtime import build
from graphcheck.runtime.build import build_runner, runner_key, runner_sources
from graphcheck.runtime.errors_table import ERRORS, describe_code
from graphcheck.runtime.libraries import build_id, find_libraries
from graphcheck.runtime.toolchain import Compiler, compile_program, find_compiler

HINT = (
    "Install one, for instance: apt install g++ (Debian, Ubuntu), dnf install gcc-c++ (Fedora), "
    "conda install gxx; or set CXX."
)


def test_the_sources_compile_without_a_warning(compiler, tmp_path):
    sources = [path for path in runner_sources() if path.suffix == ".cpp"]
    flags = ["-Wall", "-Wextra", "-Werror", "-O0"]
    compile_program(compiler, sources, tmp_path / "runner", find_libraries(), flags)
    result = run_command([str(tmp_path / "runner")], timeout=30)
    assert (result.code, result.output) == (2, "usage: runner REQUEST TRACE\n")


def test_the_sources_are_formatted():
    formatter = Path(sys.executable).parent / "clang-format"
    if not formatter.is_file():
        pytest.skip("clang-format is not installed")
    command = [str(formatter), "--dry-run", "-Werror", *map(str, runner_sources())]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_sources_need_nothing_but_executorch_and_the_standard_library():
    for source in runner_sources():
        for line in source.read_text().splitlines():
            if line.startswith("#include"):
                name = line.split()[1].strip('<>"')
                own = (source.parent / name).is_file()
                assert own or name.startswith("executorch/") or "/" not in name or "sys/" in name


@pytest.fixture
def fake_build(monkeypatch, tmp_path):
    """A build that takes no time and counts itself, in a cache of its own."""
    monkeypatch.setenv("GRAPHCHECK_CACHE_DIR", str(tmp_path))
    built = []

    def compile_fake(compiler, sources, output, libraries, extra=(), link=()):
        built.append(output)
        output.write_text("#!/bin/sh\nexit 2\n")
        output.chmod(0o755)

    monkeypatch.setattr(build, "compile_program", compile_fake)
    return built


def test_the_runner_is_built_once(compiler, fake_build):
    first = build_runner()
    assert first.is_file()
    assert build_runner() == first
    assert len(fake_build) == 1
    # What a build that was killed left is gone with the next one.
    first.unlink()
    (first.parent / ".build.killed").mkdir()
    (first.parent / ".build.killed" / "runner.o").touch()
    assert build_runner() == first
    assert not list(first.parent.glob(".build.*"))
    assert [path.name for path in first.parent.iterdir() if path.name[0] != "."] == ["runner"]


def test_a_read_only_cache_serves_what_it_holds_and_no_more(compiler, fake_build, monkeypatch):
    def refuse(folder):
        raise DeviceError(f"{folder} is read-only")

    monkeypatch.setattr(build, "check_cache", refuse)
    with pytest.raises(DeviceError, match="is read-only"):
        build_runner()
    assert fake_build == []
    monkeypatch.setattr(build, "check_cache", lambda folder: None)
    runner = build_runner()
    monkeypatch.setattr(build, "check_cache", refuse)
    assert build_runner() == runner


def test_a_runner_that_does_not_start_is_not_kept(compiler, fake_build, monkeypatch):
    def compile_broken(compiler, sources, output, libraries, extra=(), link=()):
        output.write_text("#!/bin/sh\necho no libexecutorch.so\nexit 127\n")
        output.chmod(0o755)

    monkeypatch.setattr(build, "compile_program", compile_broken)
    with pytest.raises(DeviceError) as caught:
        build_runner()
    assert caught.value.message == (
        "the native runner exited with code 127 at its first start: no libexecutorch.so"
    )
    assert not list(Path(build.cache_dir("runner")).glob("*/runner"))


def test_two_processes_build_it_once(compiler, tmp_path):
    code = (
        "from graphcheck.runtime import build\n"
        "def fake(compiler, sources, output, libraries, extra=(), link=()):\n"
        "    import time; time.sleep(0.5)\n"
        "    output.write_text('#!/bin/sh\\nexit 2\\n'); output.chmod(0o755); print('built')\n"
        "build.compile_program = fake\n"
        "build.build_runner()\n"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            text=True,
            env={"PATH": "/usr/bin:/bin", "GRAPHCHECK_CACHE_DIR": str(tmp_path)},
        )
        for _ in range(2)
    ]
    outputs = sorted(child.communicate(timeout=60)[0] for child in children)
    assert [child.returncode for child in children] == [0, 0]
    assert outputs == ["", "built\n"]


def test_another_compiler_or_runtime_is_another_build(compiler, tmp_path):
    libraries = find_libraries()
    key = runner_key(compiler, libraries)
    assert key == runner_key(compiler, libraries)
    assert key != runner_key(Compiler(compiler.command, "other 1.0"), libraries)


def test_no_compiler_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError) as caught:
        find_compiler()
    assert caught.value.message == "no C++ compiler found (looked for c++, g++, clang++)"
    assert caught.value.hint == HINT
    assert caught.value.exit_code == 4


def test_a_wrong_cxx_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -m64")
    with pytest.raises(DeviceError) as caught:
        find_compiler()
    assert caught.value.message == "the C++ compiler CXX=no-such-compiler -m64 cannot be run"
    assert caught.value.hint == HINT


def test_cxx_is_preferred(monkeypatch, tmp_path):
    script = tmp_path / "mycxx"
    script.write_text("#!/bin/sh\necho mycxx 7.0\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", f"{script} -m64")
    assert find_compiler() == Compiler((str(script), "-m64"), "mycxx 7.0")


def test_a_source_that_does_not_compile_gives_the_first_error(compiler, tmp_path):
    source = tmp_path / "broken.cpp"
    source.write_text("int main() { return nothing; }\n")
    with pytest.raises(DeviceError) as caught:
        compile_program(compiler, [source], tmp_path / "broken", find_libraries())
    assert "on broken.cpp: " in caught.value.message
    assert "nothing" in caught.value.message


def test_the_build_id_is_of_the_files(tmp_path):
    libraries = find_libraries()
    assert build_id(libraries) == build_id()
    assert len(build_id()) == 16
    folder = tmp_path / "lib"
    folder.mkdir()
    shared = folder / "libexecutorch.so"
    shared.write_bytes(b"no ELF file")
    copy = type(libraries)(tmp_path, "1", (), folder, (shared,))
    first = build_id(copy)
    shared.write_bytes(b"another file")
    assert build_id(copy) != first


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ((), "executorch in {} has no lib/libexecutorch.so"),
        (("libexecutorch.so",), "executorch in {} has no lib/libexecutorch_kernels_optimized.so"),
        (
            ("libexecutorch.so", "libexecutorch_kernels_optimized.so"),
            "executorch in {} has no C++ headers",
        ),
    ],
)
def test_what_a_wheel_lacks_is_named(tmp_path, present, message):
    (tmp_path / "lib").mkdir()
    for name in present:
        (tmp_path / "lib" / name).touch()
    with pytest.raises(DeviceError) as caught:
        find_libraries(tmp_path)
    assert caught.value.message == message.format(tmp_path)


def test_no_executorch_is_told(monkeypatch):
    monkeypatch.setattr("graphcheck.runtime.libraries.find_package", lambda: None)
    with pytest.raises(DeviceError) as caught:
        find_libraries()
    assert caught.value.message == "executorch is not installed"
    assert caught.value.hint == "pip install 'executorch>=1.5.1,<1.6'"


def test_error_numbers_are_those_of_the_header():
    header = find_libraries().include[0] / "executorch" / "runtime" / "core" / "error.h"
    text = header.read_text()
    enum = text[text.index("enum class Error") : text.index("};")]
    found = {}
    for line in enum.splitlines():
        name, _, number = line.strip().rstrip(",").partition(" = ")
        if number.startswith("0x"):
            found[int(number, 16)] = name
    assert found.pop(0) == "Ok"
    assert {code: entry.name for code, entry in ERRORS.items()} == found


def test_error_numbers_become_sentences():
    assert describe_code(0x12) == "an argument is not valid (error 0x12, InvalidArgument)"
    assert describe_code(0x99) == "the runtime answered with error 0x99, which is unknown"
