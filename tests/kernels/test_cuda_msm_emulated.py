"""Whole MSMs of the cuda backend in G1, block by block on the host with the device's arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import Group, to_limbs
from device_on_host import Block, Device, Workspace, compile_stages

from kernels.cuda.device import Phases
from kernels.cuda.msm import Kernels, Run
from kernels.cuda.msm_shape import Shape
from kernels.gen.constants import R
from kernels.interface import Backend, FrPlain, G1Affine

if TYPE_CHECKING:
    import random


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return Device(compile_stages(tmp_path_factory.mktemp("device")))


def some_points(n: int, rng: random.Random) -> G1Affine:
    group = Group("g1")
    cycle = [group.random(rng) for _ in range(min(n, 29))]
    cycle[::9] = [group.infinity()] * len(cycle[::9])
    return G1Affine(group.array([cycle[i % len(cycle)] for i in range(n)]).limbs)


def records(device: Any, shape: Shape, points: G1Affine) -> Block:
    held = Block(shape.n_records * shape.curve.record_bytes)
    cut = (len(points), np.uint32(shape.tables), np.uint32(shape.table_spacing), held.ptr)
    Kernels(device, "g1").launch("records", len(points), 128, points.limbs.ctypes.data, *cut)
    return held


def sums(device: Any, shape: Shape, sets: list[Block], scalars: np.ndarray) -> np.ndarray:
    workspace: Any = Workspace()
    results = np.zeros((len(sets) * shape.n_vectors, 12), dtype=np.uint64)
    given = np.ascontiguousarray(scalars)
    run = Run(device, workspace, shape)
    run.sum([held.ptr for held in sets], given.ctypes.data, results.ctypes.data, Phases(None))
    return results


def some_scalars(n: int, rng: random.Random) -> list[int]:
    edges = [0, 1, R - 1, R, 2**254, 2**256 - 1]
    return [rng.choice([rng.choice(edges), rng.randrange(R), 1]) for _ in range(n)]


@pytest.mark.parametrize(
    "shape",
    [Shape("g1", 1, 4, 1), Shape("g1", 33, 5, 1, 3), Shape("g1", 33, 6, 3, 2), Shape("g1", 130, 8, 1)],
    ids=["one", "vectors", "vectors-tables", "wide"],
)
def test_vectors_of_scalars(device: Any, host: Backend, rng: random.Random, shape: Shape) -> None:
    n, n_vectors = shape.n_points, shape.n_vectors
    points, scalars = some_points(n, rng), to_limbs(some_scalars(n * n_vectors, rng), 4)
    found = sums(device, shape, [records(device, shape, points)], scalars)
    expected = host.msm(host.load_bases(points), FrPlain(scalars), n_vectors=n_vectors)
    assert np.array_equal(found, expected.limbs)


def test_a_witness_of_zeros_ones_and_few_others(device: Any, host: Backend, rng: random.Random) -> None:
    n, n_vectors = 700, 2  # several blocks of the kernel that makes the lists of wide and of narrow scalars
    points = some_points(n, rng)
    kinds = [0, 0, 1, 1, 1, R - 1, 15, 16, 17, R - 16, R - 17]
    rare = [rng.randrange(R) if rng.random() < 0.05 else rng.choice(kinds) for _ in range(n)]
    scalars = to_limbs(rare + [0] * n, 4)
    shape = Shape("g1", n, 5, 1, n_vectors)
    found = sums(device, shape, [records(device, shape, points)], scalars)
    assert np.array_equal(found[:1], host.msm(host.load_bases(points), FrPlain(scalars[:n])).limbs)
    assert not found[1].any()


def test_wide_scalars_are_counted(device: Any, rng: random.Random) -> None:
    numbers = [0, 1, 2**15, 2**15 + 1, R - 2**15, R - 2**15 - 1, *(rng.randrange(2**20, R) for _ in range(300))]
    scalars, count = to_limbs(numbers, 4), np.zeros(1, dtype=np.uint32)
    places = (scalars.ctypes.data, count.ctypes.data)
    Kernels(device, "g1").launch("count_wide", len(numbers), 256, len(numbers), np.uint32(16), *places)
    assert count[0] == 302


def test_several_sets_of_bases(device: Any, host: Backend, rng: random.Random) -> None:
    n = 40
    sets = [some_points(n, rng) for _ in range(3)]
    scalars = to_limbs(some_scalars(n, rng), 4)
    shape = Shape("g1", n, 5, 1)
    found = sums(device, shape, [records(device, shape, points) for points in sets], scalars)
    for i, points in enumerate(sets):
        assert np.array_equal(found[i : i + 1], host.msm(host.load_bases(points), FrPlain(scalars)).limbs)


@pytest.mark.parametrize("third", [0, 5])
@pytest.mark.parametrize("second", [16, R - 16], ids=["equal", "opposite"])
def test_the_sum_of_the_upper_windows_meets_the_next_one(
    device: Any, host: Backend, rng: random.Random, second: int, third: int
) -> None:
    group = Group("g1")
    points = group.array([group.random(rng), group.infinity(), group.random(rng)])
    points.limbs[1:2] = host.msm(host.load_bases(G1Affine(points.limbs[:1])), FrPlain(to_limbs([16], 4))).limbs
    scalars = to_limbs([256, second, third], 4)  # four doublings of the first point are the second, or its negative
    found = sums(device, shape := Shape("g1", 3, 4, 1), [records(device, shape, points)], scalars)
    assert np.array_equal(found, host.msm(host.load_bases(points), FrPlain(scalars)).limbs)


@pytest.mark.parametrize("kind", ["random", "few"])
def test_one_point_in_all_buckets(device: Any, host: Backend, rng: random.Random, kind: str) -> None:
    n = 120
    points = G1Affine(np.tile(some_points(2, rng).limbs[1:], (n, 1)))
    numbers = [rng.randrange(R) if kind == "random" else rng.choice([i % 8 + 1, R - 3]) for i in range(n)]
    shape, scalars = Shape("g1", n, 4, 1), to_limbs(numbers, 4)
    found = sums(device, shape, [records(device, shape, points)], scalars)
    assert np.array_equal(found, host.msm(host.load_bases(points), FrPlain(scalars)).limbs)
