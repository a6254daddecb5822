"""Multi-scalar multiplication against py_arkworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import Group, scalar, to_limbs

from kernels.gen.constants import R, Z
from kernels.interface import Backend, FrPlain, KernelError

if TYPE_CHECKING:
    import random


def msm(backend: Backend, group: Group, points: list[Any], scalars: list[int]) -> np.ndarray:
    result = backend.msm(backend.load_bases(group.array(points)), FrPlain(to_limbs(scalars, 4)))
    assert isinstance(result, group.kind)
    return result.limbs


def some_points(group: Group, n: int, rng: random.Random) -> list[Any]:
    """n points from a short cycle of different ones, with infinities among them."""
    cycle = [group.random(rng) for _ in range(min(n, 37))]
    cycle[::9] = [group.infinity()] * len(cycle[::9])
    return [cycle[i % len(cycle)] for i in range(n)]


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 127, 128, 129, 1023, 1025])
def test_sizes(threaded: Backend, group: Group, n: int, rng: random.Random) -> None:
    points = some_points(group, n, rng)
    scalars = [rng.randrange(R) for _ in range(n)]
    assert np.array_equal(msm(threaded, group, points, scalars), group.array([group.sum(points, scalars)]).limbs)


def test_edge_scalars(host: Backend, group: Group, rng: random.Random) -> None:
    scalars = [0, 1, 2, R - 1, R - 2, (R - 1) // 2, (R + 1) // 2, 2**254, 2**255 % R, 2**64 - 1, 2**64, 2**128, 2**192]
    points = [group.random(rng) for _ in scalars]
    assert np.array_equal(msm(host, group, points, scalars), group.array([group.sum(points, scalars)]).limbs)
    for point, k in zip(points, scalars, strict=True):
        assert np.array_equal(msm(host, group, [point], [k]), group.array([group.sum([point], [k])]).limbs)


@pytest.mark.parametrize("n", [2, 64, 300])
def test_one_point_many_times(threaded: Backend, group: Group, n: int, rng: random.Random) -> None:
    point = group.random(rng)
    scalars = [rng.randrange(R)] * n  # every bucket doubles, then adds equal points
    expected = group.sum([point], [scalars[0] * n % R])
    assert np.array_equal(msm(threaded, group, [point] * n, scalars), group.array([expected]).limbs)


def test_opposite_points_cancel(threaded: Backend, group: Group, rng: random.Random) -> None:
    point = group.random(rng)
    scalars = [rng.randrange(R)] * 100
    assert not msm(threaded, group, [point, -point] * 50, scalars).any()
    assert not msm(threaded, group, [point] * 2, [1, R - 1]).any()


def test_all_infinities_and_all_zero_scalars(host: Backend, group: Group, rng: random.Random) -> None:
    assert not msm(host, group, [group.infinity()] * 70, [rng.randrange(R) for _ in range(70)]).any()
    assert not msm(host, group, [group.random(rng)] * 70, [0] * 70).any()


def test_zero_one_witness(host: Backend, rng: random.Random) -> None:
    group = Group("g1")
    points, scalars = some_points(group, 500, rng), [rng.randrange(2) for _ in range(500)]
    assert np.array_equal(msm(host, group, points, scalars), group.array([group.sum(points, scalars)]).limbs)


def test_scalars_near_the_places_where_they_are_split(host: Backend, group: Group, rng: random.Random) -> None:
    squares = [Z * Z, Z * Z // 2, (R // (Z * Z)) * Z * Z, Z**3, Z**3 // 2, Z // 2, Z, 2**127, 2**126, 2**63]
    scalars = [k + step for k in squares for step in (-2, -1, 0, 1, 2)] + [R - Z * Z, R - Z, R // 2 + 1]
    points = [group.random(rng) for _ in scalars]
    assert np.array_equal(msm(host, group, points, scalars), group.array([group.sum(points, scalars)]).limbs)
    for i in range(0, len(scalars), 4):
        expected = group.array([points[i] * scalar(scalars[i])]).limbs
        assert np.array_equal(msm(host, group, [points[i]], [scalars[i]]), expected)


@pytest.mark.parametrize("k", [R, R + 1, 2 * R, 2 * R + 5, 2**256 - 1])
def test_scalars_count_modulo_r(host: Backend, group: Group, k: int, rng: random.Random) -> None:
    point = group.random(rng)
    assert np.array_equal(msm(host, group, [point], [k]), group.array([point * scalar(k % R)]).limbs)


@pytest.mark.parametrize("values", ["one", "two", "small", "zero-one", "any"])
def test_thousands_of_points_with_few_or_many_different_digits(
    threaded: Backend, group: Group, values: str, rng: random.Random
) -> None:
    n = 2**12 + 1 if group.name == "g1" else 2**10 + 1
    pool = {"one": [1], "two": [rng.randrange(R), rng.randrange(R)], "small": list(range(2**16)), "zero-one": [0, 0, 1]}
    points = some_points(group, n, rng)
    scalars = [rng.choice(pool[values]) if values in pool else rng.randrange(R) for _ in range(n)]
    assert np.array_equal(msm(threaded, group, points, scalars), group.array([group.sum(points, scalars)]).limbs)


def test_out_and_timer(host: Backend, group: Group, rng: random.Random) -> None:
    bases = host.load_bases(group.array([group.random(rng)] * 3))
    assert (bases.n, bases.group, bases.held_bytes) == (3, group.name, 3 * 8 * group.kind.width)
    out = group.array([group.infinity()])
    timer: dict[str, int] = {}
    scalars = FrPlain(to_limbs([1, 2, 3], 4))
    assert host.msm(bases, scalars, out=out, timer=timer) is out
    assert timer["msm"] > 0
    assert np.array_equal(out.limbs, host.msm(bases, scalars).limbs)


def test_vectors_one_after_the_other(host: Backend, group: Group, rng: random.Random) -> None:
    points = some_points(group, 40, rng)
    bases = host.load_bases(group.array(points))
    vectors = [[rng.randrange(R) for _ in points] for _ in range(3)]
    expected = group.array([group.sum(points, vector) for vector in vectors])
    together = FrPlain(to_limbs([number for vector in vectors for number in vector], 4))
    out = group.array([group.infinity()] * 3)
    assert host.msm(bases, together, n_vectors=3, out=out) is out
    assert np.array_equal(out.limbs, expected.limbs)
    with pytest.raises(ValueError, match="120 scalars for 2 vectors of 40 bases"):
        host.msm(bases, together, n_vectors=2)


def test_several_sets_of_bases(host: Backend, rng: random.Random) -> None:
    n, n_before = 50, 7
    g1, g2 = Group("g1"), Group("g2")
    sets = [(g1, some_points(g1, n, rng)), (g2, some_points(g2, n, rng)), (g1, some_points(g1, n - n_before, rng))]
    loaded = [host.load_bases(group.array(points), n_before=n - len(points)) for group, points in sets]
    assert [bases.n for bases in loaded] == [n, n, n]
    vector = [rng.randrange(R) for _ in range(n)]
    timer: dict[str, int] = {}
    found = host.msm_sets(loaded, FrPlain(to_limbs(vector, 4)), timer=timer)
    for (group, points), result in zip(sets, found, strict=True):
        assert isinstance(result, group.kind)
        expected = group.array([group.sum(points, vector[n - len(points) :])])
        assert np.array_equal(result.limbs, expected.limbs)
    assert set(timer) == {"msm_g1", "msm_g2"}
    with pytest.raises(ValueError, match="2 scalars for 50 bases"):
        host.msm_sets(loaded, FrPlain(to_limbs([1, 2], 4)))


def test_misfits_are_refused(host: Backend, group: Group) -> None:
    bases = host.load_bases(group.array([group.point()] * 3))
    scalars = FrPlain(to_limbs([1, 2, 3], 4))
    with pytest.raises(ValueError, match="2 scalars for 3 bases"):
        host.msm(bases, FrPlain(to_limbs([1, 2], 4)))
    with pytest.raises(ValueError, match="out must be"):
        host.msm(bases, scalars, out=group.array([group.point()] * 2))
    with pytest.raises(ValueError, match="no stream"):
        host.msm(bases, scalars, stream=object())


def test_closed_backend_refuses() -> None:
    import kernels

    backend = kernels.backend("host", threads=1)
    bases = backend.load_bases(Group("g1").array([Group("g1").point()]))
    backend.close()
    with pytest.raises(KernelError, match="closed"):
        backend.msm(bases, FrPlain(to_limbs([1], 4)))
