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
__global__ void fp2(std::uint64_t* x) { (Fp2<Fp>::load(x) * Fp2<Fp>::load(x).square()).store(x); }
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
        "-Xcicc",  # a seventh of the time: whether it compiles is asked here, not how fast it is
        "-O1",
        "-Xptxas",
        "-O1",
        f"-I{include}",
        "-c",
        source,
    ]
    done = subprocess.run(
        [*command, "-o", tmp_path / "device.o"], capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def digest_here(folder: Path) -> Path:
    """The host library with a program that runs all of it on the same inputs and prints a digest."""
    library, program = builder.build(), folder / "digest-here"
    command: list[str | Path] = ["g++", "-std=c++17", DIGEST, library, f"-Wl,-rpath,{library.parent}", "-o", program]
    subprocess.run(command, check=True, timeout=120)
    return program


def digest_for_arm(folder: Path) -> Path:
    """The same from the sources, for another processor."""
    program = folder / "digest-arm"
    sources = sorted((builder.SOURCE_DIR / "host").glob("*.cpp"))
    flags = ["-std=c++17", "-O1", "-static", f"-I{builder.SOURCE_DIR / 'include'}", "-pthread"]
    subprocess.run(["aarch64-linux-gnu-g++", *flags, *sources, DIGEST, "-o", program], check=True, timeout=280)
    return program


def test_arm_computes_the_same(tmp_path: Path) -> None:
    for needed in ("aarch64-linux-gnu-g++", "qemu-aarch64"):
        if shutil.which(needed) is None:
            pytest.skip(f"{needed} is not on PATH")
    generators = tmp_path / "generators"
    groups = Group("g1"), Group("g2")
    generators.write_bytes(b"".join(group.array([group.point()]).limbs.tobytes() for group in groups))
    here, arm = digest_here(tmp_path), digest_for_arm(tmp_path)

    def digest(*command: str | Path) -> str:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout

    expected = digest(here, generators, "0")
    assert digest("qemu-aarch64", arm, generators, "0") == expected
    assert len(expected) == 17
