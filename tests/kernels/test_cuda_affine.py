"""The affine additions of a device's MSM, run thread by thread on the host with the device's arithmetic."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import FP_RADIX, Group, g1_array, to_limbs

from kernels import build as builder
from kernels.cuda.msm_accumulate import Chunks, choose_chunks
from kernels.cuda.msm_shape import CURVES, Shape, choose_shape
from kernels.moduli import P

if TYPE_CHECKING:
    import random

Emulator = Any
NEGATIVE = 2**31


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    """The bodies of the kernels compiled by g++."""
    library = tmp_path_factory.mktemp("emulator") / "affine.so"
    source = Path(__file__).parent / "emulated_affine.cpp"
    include = f"-I{builder.SOURCE_DIR / 'include'}"
    flags = ["-std=c++17", "-O1", "-Wno-unknown-pragmas", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, include, source, "-o", library], check=True, timeout=280)
    found = ctypes.CDLL(str(library))
    found.affine_faults.restype = ctypes.c_uint64
    return found


def points_of(group: Group, rng: random.Random, n: int) -> Any:
    """Random points, infinity, and in G1 a point with x = 0, which is not in the subgroup."""
    points = group.array([group.random(rng) for _ in range(n)]).limbs
    points[1:2] = 0
    if group.name == "g1" and n > 2:
        points[2] = to_limbs([0, 2 * FP_RADIX % P], 6).reshape(-1)
    return points


def faults(emulator: Emulator, points: Any, entries: list[int], sizes: list[int], cut: tuple[int, int, int]) -> int:
    """Wrong places and wrong sums; cut: chunks, rounds, chains."""
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.uint32)
    words = np.array(entries, dtype=np.uint32)
    given = [ctypes.c_void_p(array.ctypes.data) for array in (points, words, offsets)]
    number = points.shape[1] // 12
    shape = (given[0], ctypes.c_uint64(len(points)), *given[1:], len(sizes), *cut)
    return int(emulator.affine_faults(number, *shape))


def random_entries(rng: random.Random, n: int, n_points: int, images: int) -> list[int]:
    return [rng.randrange(n_points * images) | rng.choice([0, NEGATIVE]) for _ in range(n)]


@pytest.mark.parametrize("n_points", [2, 3, 60])
@pytest.mark.parametrize("cut", [(1, 1, 7), (1, 3, 1), (2, 6, 32), (3, 3, 5), (9, 5, 3)])
def test_sums_of_buckets(
    emulator: Emulator, group: Group, rng: random.Random, n_points: int, cut: tuple[int, int, int]
) -> None:
    sizes = [rng.choice([0, 0, 1, 2, 3, 4, 5, 7, 8, 9, 33]) for _ in range(25)]
    points = points_of(group, rng, n_points)
    entries = random_entries(rng, sum(sizes), n_points, 2 if group.name == "g1" else 4)
    assert faults(emulator, points, entries, sizes, cut) == 0


@pytest.mark.parametrize("sizes", [[300], [0, 0, 0, 200, 0, 1], [1] * 70, [0] * 9 + [1], [0] * 40 + [150] + [0] * 40])
def test_one_bucket_may_hold_everything(emulator: Emulator, group: Group, rng: random.Random, sizes: list[int]) -> None:
    points = points_of(group, rng, 9)
    entries = random_entries(rng, sum(sizes), 9, 2 if group.name == "g1" else 4)
    for cut in [(1, 2, 4), (5, 4, 4), (32, 4, 9)]:
        assert faults(emulator, points, entries, sizes, cut) == 0


def test_equal_and_opposite_points(emulator: Emulator, group: Group, rng: random.Random) -> None:
    points = points_of(group, rng, 1)
    for entries in ([0] * 64, [0, NEGATIVE] * 32, [0] * 32 + [NEGATIVE] * 32, [0, 0, NEGATIVE] * 20):
        assert faults(emulator, points, entries, [len(entries)], (2, 6, 3)) == 0


@pytest.mark.parametrize("group_name", ["g1", "g2"])
def test_memory_is_bounded(group_name: Any) -> None:
    for log2_n in (0, 10, 16, 20, 24, 26):
        found = choose_shape(group_name, 2**log2_n, 0)
        shape = Shape(group_name, found.n_points, found.window_bits, 1, rounds=4)
        for memory_bytes in (8 << 30, 24 << 30, 140 << 30):
            chunks = choose_chunks(shape, memory_bytes)
            if chunks is None:
                assert Chunks(shape, 64).scratch_bytes * 8 > memory_bytes
                continue
            assert chunks.n_chunks * chunks.n_entries >= shape.max_entries
            assert chunks.n_entries % 2**shape.rounds == 0
            assert chunks.scratch_bytes * 8 <= memory_bytes
    large = Chunks(Shape(group_name, 2**26, 22, 1, rounds=5), 8)
    assert large.final_points * 2 * CURVES[group_name].coordinate_bytes < 8 << 30


def test_rounds_leave_what_fits(emulator: Emulator) -> None:
    """A point that is alone is only copied, whatever it is."""
    points = g1_array([]).limbs
    assert faults(emulator, points, [], [0, 0, 0], (2, 2, 2)) == 0
