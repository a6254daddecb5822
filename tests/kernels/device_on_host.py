"""The cuda backend's MSM without a device: its launches run the device's kernels, compiled by g++, on the host."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.build import SOURCE_DIR

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

STAGES = ("msm_g1", "msm_g1_accumulate")
SHIM = Path(__file__).with_suffix(".hpp")


def compile_stages(folder: Path) -> dict[str, ctypes.CDLL]:
    """Compile the kernels of G1; g++ does not take static storage for what a launch gives its size to."""
    for path in SOURCE_DIR.glob("cuda/msm_*"):
        text = path.read_text(encoding="utf-8").replace("extern __shared__", "extern")
        (folder / path.name).write_text(text, encoding="utf-8")
    flags = ["-std=c++20", "-O1", "-D__CUDACC__", "-Wno-unknown-pragmas", "-shared", "-fPIC", "-x", "c++"]
    flags += ["-include", str(SHIM), f"-I{SOURCE_DIR / 'include'}"]
    libraries = {}
    for stage in STAGES:
        source, library = folder / f"{stage}.cu", folder / f"{stage}.so"
        subprocess.run([shutil.which("g++") or "g++", *flags, source, "-o", library], check=True, timeout=280)
        libraries[stage] = ctypes.CDLL(str(library))
    return libraries


@dataclass
class Device:
    """As much of ``kernels.cuda.device.Device`` as launches need."""

    libraries: dict[str, ctypes.CDLL]
    n_multiprocessors: int = 1
    total_bytes: int = 1 << 30

    def kernel(self, stage: str, function: str, shared_bytes: int = 0) -> Callable[..., None]:
        """Return a kernel, launched as CuPy's are."""
        library = self.libraries[stage]
        address = ctypes.cast(getattr(library, function), ctypes.c_void_p)

        def launch(grid: Sequence[int], threads: Sequence[int], arguments: Sequence[Any], shared_mem: int = 0) -> None:
            assert shared_mem <= max(shared_bytes, 48 << 10)
            assert max(grid[1:]) < 2**16
            numbers = (ctypes.c_uint64 * 16)(*map(int, arguments))
            library.launch_on_host(address, (ctypes.c_uint * 3)(*grid), threads[0], numbers)

        return launch


class Block:
    """Memory that a workspace gave, filled with what nobody may rely on."""

    def __init__(self, n_bytes: int) -> None:
        self.bytes = np.full(max(1, n_bytes) + 16, 0xA5, dtype=np.uint8)
        self.ptr = -(-self.bytes.ctypes.data // 16) * 16

    def memset_async(self, value: int, n_bytes: int) -> None:
        ctypes.memset(self.ptr, value, n_bytes)


class Workspace:
    """As much of ``kernels.cuda.workspace.Workspace`` as launches need."""

    limit_bytes = None

    def take(self, n_bytes: int, what: str) -> Block:
        assert what
        return Block(n_bytes)
