"""Multiples of one point, and membership in the subgroups, against py_arkworks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import py_arkworks_bls12381 as arkworks
import pytest
from bls12 import EDGES, Group, scalar, to_limbs

from kernels.host import fixed_base, subgroup
from kernels.host.fixed_base import FixedBase, best_bits
from kernels.host.subgroup import DIRECT_BELOW, first_outside_subgroup
from kernels.interface import FrPlain
from kernels.moduli import P, R

if TYPE_CHECKING:
    import random

    from kernels.host.library import HostLibrary

Z = -0xD201000000010000
COFACTOR_G1 = (Z - 1) ** 2 // 3


@pytest.mark.parametrize("bits", [1, 5, 8, 13])
@pytest.mark.usefixtures("library")
def test_multiples(group: Group, rng: random.Random, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed_base, "best_bits", lambda *_: bits)
    base = group.random(rng)
    scalars = [*EDGES, R - 1, R - 2, (R - 1) // 2, *(rng.randrange(R) for _ in range(520))]
    points = FixedBase(group.array([base]), len(scalars), 3).multiples(FrPlain(to_limbs(scalars, 4)))
    shown = [*range(20), 254, 255, 256, 257, 511, 512, len(scalars) - 1]  # blocks of 256 share an inversion
    expected = group.array([base * scalar(scalars[i]) for i in shown])
    assert np.array_equal(points.limbs[shown], expected.limbs)


def test_no_multiples_and_only_infinities(library: HostLibrary, group: Group) -> None:
    del library
    base = FixedBase(group.array([group.point()]), 1, 2)
    assert len(base.multiples(FrPlain(np.zeros((0, 4), np.uint64)))) == 0
    assert not base.multiples(FrPlain(np.zeros((300, 4), np.uint64))).limbs.any()
    with pytest.raises(ValueError, match="not infinity"):
        FixedBase(group.array([group.infinity()]), 1, 1)


def test_tables_grow_with_the_work_and_stay_bounded() -> None:
    sizes = [best_bits(n, 192) for n in (1, 100, 10_000, 2**20, 2**28)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]
    assert fixed_base.n_windows(sizes[-1]) * 2 ** sizes[-1] * 192 <= fixed_base.MAX_TABLE_BYTES


def times(point: Any, factor: int) -> Any:
    """By doublings and additions alone: a library may treat factors modulo r, which is wrong outside the subgroup."""
    total = point - point
    for bit in f"{factor:b}":
        total = total + total
        if bit == "1":
            total = total + point
    return total


def on_curve(group: Group, rng: random.Random) -> Any:
    """A random point of the curve: it lies in the subgroup with a probability of nearly 0."""
    while True:
        x, x1 = rng.randrange(P), rng.randrange(P) if group.name == "g2" else 0
        y = square_root((x**3 - 3 * x * x1**2 + 4) % P, (3 * x**2 * x1 - x1**3 + 4) % P if group.name == "g2" else 0)
        if y is not None:
            numbers = [x, y[0]] if group.name == "g1" else [x, x1, *y]
            return group.point.from_xy_bytes_unchecked_le(b"".join(n.to_bytes(48, "little") for n in numbers))


def square_root(c0: int, c1: int) -> tuple[int, int] | None:
    """Root of c0 + c1 u in Fp2 (in Fp where c1 is 0), or None; p is 3 mod 4."""
    norm = pow(c0 * c0 + c1 * c1, (P + 1) // 4, P) if c1 else c0
    for sign in (1, -1):
        half = (c0 + sign * norm) * pow(2, -1, P) % P if c1 else c0
        root = pow(half, (P + 1) // 4, P)
        if root * root % P == half % P:
            y1 = c1 * pow(2 * root, -1, P) % P if c1 else 0
            if (root * root - y1 * y1 - c0) % P == 0:
                return root, y1
    return None


def test_members_and_others(library: HostLibrary, group: Group, rng: random.Random) -> None:
    del library
    members = [group.infinity(), group.point(), *(group.random(rng) for _ in range(30))]
    assert first_outside_subgroup(group.array(members), 2) is None
    for _ in range(10):
        other = on_curve(group, rng)
        assert not other.is_in_subgroup()
        assert first_outside_subgroup(group.array([other]), 1) == 0
        assert first_outside_subgroup(group.array([*members, other, group.point(), other]), 2) == len(members)
        # a member and an outsider make an outsider
        assert first_outside_subgroup(group.array([group.random(rng) + other]), 2) == 0


def test_points_of_small_order_are_outside(library: HostLibrary, rng: random.Random) -> None:
    del library
    group = Group("g1")
    found = 0
    while found < 4:
        small = times(on_curve(group, rng), R * COFACTOR_G1 // 3)
        if small != arkworks.G1Point.identity():
            assert times(small, 3) == arkworks.G1Point.identity()
            assert first_outside_subgroup(group.array([small]), 1) == 0
            found += 1


@pytest.mark.parametrize("threads", [1, 3])
def test_one_outsider_among_many(library: HostLibrary, group: Group, rng: random.Random, threads: int) -> None:
    del library
    points = group.kind(np.repeat(group.array([group.random(rng)]).limbs, DIRECT_BELOW + 7, axis=0))
    points.limbs[::5] = 0
    assert first_outside_subgroup(points, threads) is None
    at = rng.randrange(len(points))
    points.limbs[at] = group.array([on_curve(group, rng)]).limbs[0]
    assert first_outside_subgroup(points, threads) == at


def test_outsiders_that_cancel_each_other_are_found(library: HostLibrary, group: Group, rng: random.Random) -> None:
    del library
    other = on_curve(group, rng)
    points = group.kind(np.repeat(group.array([other, -other]).limbs, DIRECT_BELOW, axis=0))
    found = first_outside_subgroup(points, 2)
    assert found is not None
    assert found < len(points)


def test_constants_are_those_of_the_curve() -> None:
    r = Z**4 - Z**2 + 1
    assert r == R
    assert (Z - 1) ** 2 * r // 3 + Z == P
    assert len(subgroup._BETA) == 6
    assert len(subgroup._PSI) == 24
