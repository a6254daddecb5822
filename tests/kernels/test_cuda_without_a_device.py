"""What the cuda backend says where something is missing."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

import kernels
from kernels.cuda import device
from kernels.interface import KernelError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh_cupy() -> None:
    device.cupy.cache_clear()


def test_without_cupy_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # an import of it fails
    with pytest.raises(KernelError, match=r"needs CuPy .* pip install 'cuzkops\[gpu\]'"):
        kernels.backend("cuda")


def test_without_its_kernels_it_says_how_to_make_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUZKOPS_NATIVE_DIR", str(tmp_path))
    with pytest.raises(KernelError, match=r"cuzkops_ntt.fatbin is not in .* python -m kernels.build_cuda"):
        device.fatbin("ntt")


def test_kernels_of_other_sources_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "_OWN_NATIVE", tmp_path / "_native")
    monkeypatch.setenv("CUZKOPS_NATIVE_DIR", str(tmp_path / "_native"))
    (tmp_path / "_native").mkdir()
    (tmp_path / "src").mkdir()
    path = tmp_path / "_native" / "cuzkops_ntt.fatbin"
    path.write_bytes(b"")
    path.with_suffix(".stamp").write_text("0" * 64 + "\n")
    with pytest.raises(KernelError, match="compiled from other sources"):
        device.fatbin("ntt")
