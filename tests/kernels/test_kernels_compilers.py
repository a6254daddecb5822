"""The shared headers under other compilers: nvcc for a device, g++ for 64-bit ARM."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from kernels import build as builder

if TYPE_CHECKING:
    from pathlib import Path

DEVICE_SOURCE = """
#include "curve.hpp"
using namespace cuzkops;
using Fp = FpOf<Carry32>;
template <class F> __device__ void add(const std::uint64_t* points, std::uint64_t* out) {
    Xyzz<F> sum = Xyzz<F>::from(Affine<F>::load(points));
    sum.add(Affine<F>::load(points + Affine<F>::LIMBS));
    sum.add(sum.doubled());
    sum.to_affine().store(out);
}
__global__ void g1(const std::uint64_t* points, std::uint64_t* out) { add<Fp>(points, out); }
__global__ void g2(const std::uint64_t* points, std::uint64_t* out) { add<Fp2<Fp>>(points, out); }
__global__ void fr(std::uint64_t* x) { FrOf<Carry32>::load(x).square().inverse().store(x); }
"""


def test_headers_compile_for_a_device(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("nvcc is not on PATH")
    source = tmp_path / "device.cu"
    source.write_text(DEVICE_SOURCE, encoding="ascii")
    include = builder.SOURCE_DIR / "include"
    command: list[str | Path] = [
        nvcc,
        "-std=c++17",
        "-arch=sm_90",
        "-Werror",
        "all-warnings",
        f"-I{include}",
        "-c",
        source,
    ]
    done = subprocess.run(
        [*command, "-o", tmp_path / "device.o"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_library_builds_for_arm(tmp_path: Path) -> None:
    if shutil.which("aarch64-linux-gnu-g++") is None:
        pytest.skip("aarch64-linux-gnu-g++ is not on PATH")
    library = builder.build(tmp_path, "aarch64-linux-gnu-g++")
    assert library.read_bytes()[18:20] == b"\xb7\x00"  # e_machine: EM_AARCH64
