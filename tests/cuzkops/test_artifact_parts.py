"""What an artifact is made of: the right wheels, modules and revision, and a cache that can be trusted."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cuzkops.artifact import runtime_bundled
from cuzkops.artifact.distributions import closure, compile_tree, copy_distributions, project_requirements, wheels_of
from cuzkops.artifact.layer_cache import KEPT, CachedLayer, prune
from cuzkops.artifact.listing import list_archive
from cuzkops.artifact.runtime import choose, gpu_layer, runtime_layer
from cuzkops.artifact.source import Revision, revision
from cuzkops.errors import TimeoutExpired, UsageError

ROOT = Path(__file__).parents[2]
# One in C and one in Python. That all of the daemon's come out the same is test_bundle_made_anew_is_the_same.
FEW_WHEELS = """
[project]
optional-dependencies.prover = ["py-arkworks-bls12381", "annotated-types"]
optional-dependencies.gpu = ["annotated-types", "idna"]
"""


def test_cache_is_used_and_a_damaged_entry_is_made_anew_and_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pyproject.toml").write_text(FEW_WHEELS)
    lines: list[str] = []

    def layer() -> CachedLayer:
        lines.clear()
        return runtime_layer("host-python", tmp_path, lines.append, time.monotonic() + 250)

    first = layer()
    assert "from the cache" not in lines[0]
    assert layer() == first
    assert lines == ["runtime: host-python, from the cache"]
    first.archive.write_bytes(b"half")
    assert layer() == first
    assert "from the cache" not in lines[0]
    assert first.archive.stat().st_size == first.layer.n_bytes
    assert [path.name for path in (tmp_path / "cache" / "cuzkops" / "runtime").iterdir()] == [first.archive.parent.name]


def test_layer_for_a_gpu_holds_what_the_runtime_has_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pyproject.toml").write_text(FEW_WHEELS)
    lines: list[str] = []
    found = gpu_layer(tmp_path, lines.append, time.monotonic() + 250)
    assert found.layer.name == "gpu"
    assert found.glibc == (0, 0)  # nothing of it is in machine code
    listed = [line.split()[-1] for line in list_archive(found.archive).decode().splitlines()]
    assert "gpu/idna/core.py" in listed
    assert {path.split("/")[0] for path in listed} == {"gpu"}
    assert {path.split("/")[1].partition("-")[0] for path in listed if path.count("/") > 1} == {"idna"}
    assert gpu_layer(tmp_path, lines.append, time.monotonic() + 250) == found
    assert lines[-1] == "gpu: CuPy, from the cache"


def test_cache_entry_that_says_something_odd_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "pyproject.toml").write_text(FEW_WHEELS)
    found = gpu_layer(tmp_path, lambda _: None, time.monotonic() + 250)
    layer = found.layer.model_dump_json(by_alias=True)
    other, longer = layer.replace('"gpu"', '"app"'), layer.replace('"bytes":', '"bytes":1')
    odd = ["[]", f'{{"layer": {layer}}}', f'{{"layer": {layer}, "glibc": [2, "x"]}}']
    odd += [f'{{"layer": {text}, "glibc": [0, 0]}}' for text in (other, longer)]
    for facts in odd:
        (found.archive.parent / "facts.json").write_text(facts)
        assert gpu_layer(tmp_path, lambda _: None, time.monotonic() + 250) == found
    shutil.rmtree(found.archive.parent)
    found.archive.parent.write_text("a file in its place")
    assert gpu_layer(tmp_path, lambda _: None, time.monotonic() + 250) == found


def test_cache_keeps_what_was_used_last(tmp_path: Path) -> None:
    for number in range(KEPT + 2):
        (tmp_path / f"key{number}").mkdir()
        os.utime(tmp_path / f"key{number}", (number, number))
    (tmp_path / ".making-x").mkdir()  # another build at work
    (tmp_path / ".making-y").mkdir()  # left by one that was killed
    os.utime(tmp_path / ".making-y", (0, 0))
    prune(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".making-x", *(f"key{n}" for n in range(2, KEPT + 2))}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.delenv("GIT_REVISION", raising=False)
    project = tmp_path / "project"
    (project / "prover").mkdir(parents=True)
    (project / "pyproject.toml").write_text('[project]\nversion = "1.2"\n')
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        identity = ["-c", "user.name=n", "-c", "user.email=e"]
        subprocess.run(["git", *identity, *words], cwd=project, check=True)
    return project


def test_revision_of_a_checkout(checkout: Path) -> None:
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=checkout, check=True, capture_output=True, text=True)
    assert revision(checkout) == Revision("1.2", head.stdout.strip(), dirty=False)
    (checkout / "notes.txt").write_text("does not enter the artifact")
    assert not revision(checkout).dirty
    (checkout / "prover" / "new.py").write_text("does")
    assert revision(checkout).dirty


def test_revision_without_a_checkout_is_empty_or_told(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(checkout / ".git")
    assert revision(checkout) == Revision("1.2", "", dirty=False)
    monkeypatch.setenv("GIT_REVISION", "abc")
    monkeypatch.setenv("GIT_DIRTY", "true")
    assert revision(checkout) == Revision("1.2", "abc", dirty=True)


def test_wheels_of_the_daemon_and_nothing_else() -> None:
    names = {found.name.lower().replace("_", "-") for found in wheels_of(ROOT, "prover")}
    assert {"fastapi", "starlette", "pydantic-core", "numpy", "nvidia-ml-py", "py-arkworks-bls12381"} <= names
    assert names.isdisjoint({"typer", "paramiko", "pytest", "asyncssh", "pip", "httpx"})


def test_missing_wheels_are_all_named() -> None:
    with pytest.raises(UsageError, match="lacks what the daemon needs: no-such-one, no-such-two") as caught:
        closure(
            ["numpy>=2", "no_such.one>=1", 'optional; extra == "x"', "absent ; os_name == 'nt'", "no-such-two[y]"],
            "x.lock",
        )
    assert caught.value.hint == "install it there: pip install --require-hashes -r x.lock"


def test_copied_wheels_are_compiled_without_times_and_hold_no_traces_of_the_machine(tmp_path: Path) -> None:
    copy_distributions(closure(["annotated-types", "idna"]), tmp_path / "site-packages", time.monotonic() + 60)
    names = {
        path.relative_to(tmp_path / "site-packages").as_posix() for path in (tmp_path / "site-packages").rglob("*")
    }
    tag = sys.implementation.cache_tag
    assert {"idna/core.py", f"idna/__pycache__/core.{tag}.pyc"} <= names
    assert any(name.endswith("dist-info/METADATA") for name in names)
    assert not any(Path(name).name in ("RECORD", "INSTALLER", "direct_url.json") for name in names)
    code = (tmp_path / "site-packages" / "idna" / "__pycache__" / f"core.{tag}.pyc").read_bytes()
    assert code[4:8] == b"\x01\0\0\0"  # hash-based and unchecked (PEP 552)
    assert str(tmp_path).encode() not in code


@pytest.fixture
def stuck(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a git and an ldd on PATH that never end, as on a file system that hangs."""
    (tmp_path / "bin").mkdir()
    for name in ("git", "ldd"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexec sleep 30\n")
        (tmp_path / "bin" / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")


@pytest.mark.timeout(20)
def test_every_command_of_a_build_has_a_deadline(
    checkout: Path, stuck: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del stuck
    monkeypatch.setattr("cuzkops.artifact.source.GIT_TIMEOUT_S", 0.2)
    with pytest.raises(TimeoutExpired, match=r"git rev-parse did not end within 0\.2 s"):
        revision(checkout)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "lib.so").touch()
    with pytest.raises(TimeoutExpired, match=r"ldd lib\.so did not end"):
        runtime_bundled.foreign_libraries(tmp_path / "wheels", time.monotonic() + 0.2)
    with pytest.raises(TimeoutExpired, match="the compilation of the wheels did not end"):
        compile_tree(tmp_path / "wheels", time.monotonic())


def test_folder_that_is_no_source_tree_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a source tree of this project"):
        project_requirements(tmp_path, "prover")


def test_standard_library_is_collected_as_far_as_a_daemon_needs_it() -> None:
    names = runtime_bundled.stdlib_modules()
    assert {"graphlib", "json.decoder", "email.mime.text", "asyncio.base_events", "multiprocessing", "ctypes"} <= set(
        names
    )
    assert not any(
        name.split(".")[0] in ("test", "tkinter", "idlelib", "turtle", "ensurepip", "lib2to3") for name in names
    )


def test_bundle_that_cannot_be_made_is_refused_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime_bundled, "why_not", lambda: "objcopy is not on PATH (binutils)")
    with pytest.raises(UsageError, match="the interpreter cannot be bundled: objcopy is not on PATH"):
        choose("bundled", lambda _: None)
    lines: list[str] = []
    assert choose("auto", lines.append) == "host-python"
    assert lines == ["runtime: reuses the host's Python, because objcopy is not on PATH (binutils)"]
