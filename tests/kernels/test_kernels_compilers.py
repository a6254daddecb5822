"""The shared headers under other compilers: nvcc for a device, g++ for 64-bit ARM."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from bls12 import Group

from kernels import build as builder

DIGEST = Path(__file__).parent / "digest.cpp"

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


def build_digest(compiler: str, folder: Path, *flags: str) -> Path:
    """The host library's sources with a program that runs them all on the same inputs and prints a digest."""
    program = folder / f"digest-{compiler}"
    sources = sorted((builder.SOURCE_DIR / "host").glob("*.cpp"))
    include = f"-I{builder.SOURCE_DIR / 'include'}"
    command: list[str | Path] = [compiler, "-std=c++17", "-O1", *flags, include, *sources, DIGEST, "-pthread"]
    subprocess.run([*command, "-o", program], check=True, timeout=280)
    return program


def test_arm_computes_the_same(tmp_path: Path) -> None:
    for needed in ("aarch64-linux-gnu-g++", "qemu-aarch64"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not on PATH")
    generators = tmp_path / "generators"
    groups = Group("g1"), Group("g2")
    generators.write_bytes(b"".join(group.array([group.point()]).limbs.tobytes() for group in groups))
    here, arm = (
        build_digest("g++", tmp_path),
        build_digest("aarch64-linux-gnu-g++", tmp_path, "-static"),
    )

    def digest(*command: str | Path) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    expected = digest(here, generators, "0")
    assert digest("qemu-aarch64", arm, generators, "0") == expected
    assert len(expected) == 17
