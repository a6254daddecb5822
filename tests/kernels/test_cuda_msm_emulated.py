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


def test_several_sets_of_bases(device: Any, host: Backend, rng: random.Random) -> None:
    n = 40
    sets = [some_points(n, rng) for _ in range(3)]
    scalars = to_limbs(some_scalars(n, rng), 4)
    shape = Shape("g1", n, 5, 1)
    found = sums(device, shape, [records(device, shape, points) for points in sets], scalars)
    for i, points in enumerate(sets):
        assert np.array_equal(found[i : i + 1], host.msm(host.load_bases(points), FrPlain(scalars)).limbs)
