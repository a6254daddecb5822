"""Finding and judging the library, and opening a backend."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import kernels
from kernels.host import library as module
from kernels.host.library import LIBRARY_NAME, HostLibrary, library_path, load_library
from kernels.interface import KernelError

if TYPE_CHECKING:
    from pathlib import Path


def compile_abi(folder: Path, number: int) -> Path:
    """A real shared library that carries another interface number."""
    path = folder / LIBRARY_NAME
    source = folder / "other.cpp"
    names = [*module._FUNCTIONS, "cuzkops_sources_sha256"]
    bodies = "".join(f"int {name}() {{ return 0; }}\n" for name in names)
    source.write_text(f'extern "C" {{ int cuzkops_abi() {{ return {number}; }}\n{bodies} }}')
    subprocess.run(["g++", "-shared", "-fPIC", "-o", path, source], check=True, timeout=60)
    return path


def test_named_folder_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUZKOPS_NATIVE_DIR", str(tmp_path))
    with pytest.raises(KernelError, match=rf"not in {tmp_path}: build it with: python -m kernels\.build"):
        library_path()
    (tmp_path / LIBRARY_NAME).touch()
    assert library_path() == tmp_path / LIBRARY_NAME


def test_shipped_layout_comes_before_the_source_tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUZKOPS_NATIVE_DIR", raising=False)
    monkeypatch.setattr(module, "_PACKAGE", tmp_path / "app" / "kernels")
    monkeypatch.setattr(module, "_OWN_NATIVE", tmp_path / "app" / "kernels" / "_native")
    with pytest.raises(KernelError, match="native nor in "):
        library_path()
    for folder in (tmp_path / "app" / "kernels" / "_native", tmp_path / "native"):
        folder.mkdir(parents=True)
        (folder / LIBRARY_NAME).touch()
        assert library_path() == folder / LIBRARY_NAME


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / LIBRARY_NAME).write_text("no library")
    with pytest.raises(KernelError, match="is not a host library of this version"):
        HostLibrary(tmp_path / LIBRARY_NAME)


def test_another_interface_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=rf"has the interface number 99, this version needs {module.ABI}"):
        HostLibrary(compile_abi(tmp_path, 99))


def test_stale_library_of_a_source_tree_is_refused(library: HostLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels import build

    if library.path.parent != module._OWN_NATIVE:
        monkeypatch.setattr(module, "_OWN_NATIVE", library.path.parent)
    assert library.sources_sha256 == build.sources_sha256()
    monkeypatch.setattr(build, "sources_sha256", lambda: "0" * 64)
    with pytest.raises(KernelError, match="compiled from other sources"):
        load_library.__wrapped__()


def test_backends(library: HostLibrary) -> None:
    del library
    backend = kernels.backend("host")
    assert (backend.name, backend.device, backend.threads) == ("host", "host", len(os.sched_getaffinity(0)))
    assert kernels.backend("host", threads=3).threads == 3
    with pytest.raises(KernelError, match="at least 1 thread, not 0"):
        kernels.backend("host", threads=0)
    with pytest.raises(KernelError, match="there is no backend 'tpu'"):
        kernels.backend("tpu")


def test_package_is_light_until_a_backend_is_wanted() -> None:
    code = "import sys, kernels, kernels.build; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
