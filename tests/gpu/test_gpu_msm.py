"""Multi-scalar multiplication on the device against the host, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from points import EDGES, KINDS, Case, limbs, multiples, scalars

from kernels.cuda import msm_accumulate, msm_bases
from kernels.cuda.msm_shape import Shape
from kernels.gen.constants import Z
from kernels.moduli import R

if TYPE_CHECKING:
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["g1", "g2"])
def case(request: pytest.FixtureRequest, cuda: Any, host: Backend, rng: np.random.Generator) -> Case:
    return Case(request.param, cuda, host, rng)


@pytest.mark.parametrize("n", [0, 1, 2, 31, 32, 33, 127, 129, 1023, 1024, 1025, 4095, 4097, 2**13, 2**13 + 1])
def test_sizes(case: Case, n: int) -> None:
    case.check(case.points[:n], scalars(case.rng, n))


def test_edge_scalars(case: Case) -> None:
    case.check(case.points[100 : 100 + len(EDGES)], limbs(EDGES, 4))
    for i, number in enumerate(EDGES):
        case.check(case.points[200 + i : 201 + i], limbs([number], 4))


@pytest.mark.parametrize("window_bits", [3, 5, 8, 11, 13, 16, 19, 22])
def test_windows(case: Case, window_bits: int) -> None:
    case.check(case.points[:4097], scalars(case.rng, 4097), Shape(case.group, 4097, window_bits, 1))


@pytest.mark.parametrize(
    "window_bits", [4, 8, 16, 11, 22]
)  # the first three divide the bits of a part: no digit is left
def test_edge_scalars_in_windows(case: Case, window_bits: int) -> None:
    places = [2**k + step for k in (63, 64, 126, 127, 128, 191, 254) for step in (-1, 0, 1)]
    numbers = [*EDGES, *places, *(k * Z**power + step for power in (1, 2, 3) for k in (1, 2) for step in (-1, 0, 1))]
    n = len(numbers)
    for tables in (1, 3):
        case.check(case.points[300 : 300 + n], limbs(numbers, 4), Shape(case.group, n, window_bits, tables))


@pytest.mark.parametrize(("window_bits", "tables"), [(8, 2), (8, 3), (8, 16), (16, 4), (16, 8), (13, 5)])
def test_tables(case: Case, window_bits: int, tables: int) -> None:
    case.check(case.points[:1025], scalars(case.rng, 1025), Shape(case.group, 1025, window_bits, tables))


@pytest.mark.parametrize("windows", [(3, 1), (8, 1), (8, 3), (13, 1), (16, 8)])
@pytest.mark.parametrize(("rounds", "n_chunks"), [(1, 2), (3, 2), (6, 4), (4, 12)])
def test_affine_rounds(
    case: Case, monkeypatch: pytest.MonkeyPatch, windows: tuple[int, int], rounds: int, n_chunks: int
) -> None:
    monkeypatch.setattr(msm_accumulate, "FEWEST_CHUNKS", n_chunks)
    for n in (1, 31, 32, 33, 127, 129, 2049):
        case.check(case.points[:n], scalars(case.rng, n), Shape(case.group, n, *windows, rounds=rounds))


@pytest.mark.parametrize("rounds", [2, 5])
@pytest.mark.parametrize("window_bits", [4, 12])
def test_affine_rounds_of_special_points(case: Case, rounds: int, window_bits: int) -> None:
    n = 3000
    shape = Shape(case.group, n, window_bits, 1, rounds=rounds)
    one_point, one_scalar = np.tile(case.points[100:101], (n, 1)), np.tile(scalars(case.rng, 1), (n, 1))
    ones, few = np.tile(limbs([1], 4), (n, 1)), limbs([1, R - 1, 0, 2], 4)[case.rng.integers(0, 4, n)]
    progression = multiples(case.group, limbs(list(range(1, n + 1)), 4))
    skewed = scalars(case.rng, n)
    skewed[case.rng.random(n) < 0.9] = limbs([1], 4)[0]
    for points in (case.points[:n], one_point, progression, np.zeros_like(one_point)):
        for numbers in (scalars(case.rng, n), one_scalar, ones, few, skewed, np.zeros_like(ones)):
            case.check(points, numbers, shape)


def test_equal_points_and_equal_scalars(case: Case) -> None:
    one_point, one_scalar = np.tile(case.points[100:101], (3000, 1)), np.tile(scalars(case.rng, 1), (3000, 1))
    case.check(one_point, one_scalar)
    case.check(one_point, scalars(case.rng, 3000))
    case.check(case.points[:3000], one_scalar)


def test_opposite_points(case: Case) -> None:
    points, minus_one = case.points[:500], limbs([R - 1], 4)
    numbers = scalars(case.rng, 500)
    negatives = multiples(case.group, minus_one)  # -G, and G beside it
    both = np.concatenate([multiples(case.group, limbs([1], 4)), negatives] * 500)
    case.check(both, np.repeat(numbers, 2, axis=0))
    case.check(np.concatenate([points, points]), np.concatenate([numbers, np.tile(minus_one, (500, 1))]))


@pytest.mark.parametrize("window_bits", [3, 8, 13])
@pytest.mark.parametrize("step", [1, -1])
def test_the_sum_of_the_upper_windows_meets_the_next_one(case: Case, window_bits: int, step: int) -> None:
    shift = 1 << window_bits
    points = np.concatenate([multiples(case.group, limbs([1, shift], 4)), case.points[100:101]])
    for third in (0, 3, shift + 1):
        numbers = limbs([shift**2, step * shift % R, third], 4)
        case.check(points, numbers, Shape(case.group, 3, window_bits, 1))


@pytest.mark.parametrize("share_of_ones", [0.5, 0.9, 1.0])
def test_many_ones_and_zeros(case: Case, share_of_ones: float) -> None:
    numbers = scalars(case.rng, 2**13)
    draw = case.rng.random(2**13)
    numbers[draw < share_of_ones] = limbs([1], 4)[0]
    case.check(case.points[: 2**13], numbers)
    numbers[draw < share_of_ones / 2] = 0
    case.check(case.points[: 2**13], numbers)


def test_nothing_to_add(case: Case) -> None:
    case.check(case.points[:1000], np.zeros((1000, 4), dtype=np.uint64))
    case.check(np.zeros_like(case.points[:1000]), scalars(case.rng, 1000))


def test_arithmetic_progression(case: Case) -> None:
    numbers = limbs(list(range(1, 2001)), 4)
    points = multiples(case.group, numbers)
    case.check(points, numbers)
    case.check(points, scalars(case.rng, 2000))


def test_first_invalid_point(case: Case) -> None:
    kind, device, workspace = KINDS[case.group], case.cuda.on, case.cuda.workspace
    assert msm_bases.first_invalid(device, workspace, kind(case.points)) is None
    wrong = case.points.copy()
    wrong[777, 0] ^= np.uint64(1)
    wrong[900, 3] ^= np.uint64(1)
    assert msm_bases.first_invalid(device, workspace, kind(wrong)) == 777
