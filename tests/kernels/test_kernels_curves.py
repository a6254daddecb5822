"""Point formulas and point checks against py_arkworks."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import FP_RADIX, Group, to_limbs

from kernels.interface import Backend, G1Affine
from kernels.moduli import P

if TYPE_CHECKING:
    import random

    from kernels.host.library import HostLibrary

FORMULAS = {"add_mixed": 0, "add_full": 1, "double_affine": 2, "double_full": 3}


@pytest.mark.parametrize("formula", FORMULAS)
def test_formula_on_every_pair_of_special_points(
    library: HostLibrary, leaf: int, group: Group, formula: str, rng: random.Random
) -> None:
    p, q = group.random(rng), group.random(rng)
    special: list[Any] = [group.infinity(), p, -p, p + p, q, -q, p + q, group.point()]
    pairs = list(itertools.product(special, repeat=2))
    a, b = (group.array([pair[i] for pair in pairs]).limbs for i in (0, 1))
    out = np.empty_like(a)
    library.call("cuzkops_points", leaf, 1 if group.name == "g1" else 2, FORMULAS[formula], a, b, len(a), out)
    expected = [x + y if formula.startswith("add") else x + x for x, y in pairs]
    assert np.array_equal(out, group.array(expected).limbs)


def test_sound_points_are_accepted(host: Backend, group: Group, rng: random.Random) -> None:
    points = group.array([group.infinity(), *(group.random(rng) for _ in range(40)), group.infinity()])
    assert host.first_invalid(points) is None
    assert host.first_invalid(group.kind(points.limbs[:0])) is None


@pytest.mark.parametrize("at", [0, 1, 2500, 4999])
def test_first_of_several_bad_points_is_named(threaded: Backend, group: Group, at: int) -> None:
    points = group.kind(np.repeat(group.array([group.point()]).limbs, 5000, axis=0))
    points.limbs[at:, 0] ^= np.uint64(1)
    assert threaded.first_invalid(points) == at


@pytest.mark.parametrize("coordinate", [0, 6])
def test_coordinate_of_p_or_above_is_refused(host: Backend, coordinate: int) -> None:
    points = Group("g1").array([Group("g1").point()])
    value = int.from_bytes(points.limbs[0, coordinate : coordinate + 6].tobytes(), "little")
    points.limbs[0, coordinate : coordinate + 6] = to_limbs([value + P], 6)[0]
    assert host.first_invalid(points) == 0


def test_infinity_with_a_coordinate_is_refused(host: Backend) -> None:
    for coordinates in ((0, 1), (1, 0), (0, P)):
        limbs = to_limbs([c * FP_RADIX % P if c < P else c for c in coordinates], 6).reshape(1, 12)
        assert host.first_invalid(G1Affine(limbs)) == 0
