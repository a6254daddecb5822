"""Multi-scalar multiplication on the device against the host, bit for bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.cuda import msm as device_msm
from kernels.cuda import msm_accumulate
from kernels.cuda.msm_shape import Shape
from kernels.host.fixed_base import FixedBase
from kernels.interface import FrPlain, G1Affine, G2Affine, Group
from kernels.moduli import P, R

if TYPE_CHECKING:
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu

KINDS: dict[Group, type[G1Affine | G2Affine]] = {"g1": G1Affine, "g2": G2Affine}
GENERATORS: dict[Group, list[int]] = {  # coordinates as the standard gives them, plain
    "g1": [
        0x17F1D3A73197D7942695638C4FA9AC0FC3688C4F9774B905A14E3A3F171BAC586C55E83FF97A1AEFFB3AF00ADB22C6BB,
        0x08B3F481E3AAA0F1A09E30ED741D8AE4FCF5E095D5D00AF600DB18CB2C04B3EDD03CC744A2888AE40CAA232946C5E7E1,
    ],
    "g2": [
        0x024AA2B2F08F0A91260805272DC51051C6E47AD4FA403B02B4510B647AE3D1770BAC0326A805BBEFD48056C8C121BDB8,
        0x13E02B6052719F607DACD3A088274F65596BD0D09920B61AB5DA61BBDC7F5049334CF11213945D57E5AC7D055D042B7E,
        0x0CE5D527727D6E118CC9CDC6DA2E351AADFD9BAA8CBDD3A76D429A695160D12C923AC9CC3BACA289E193548608B82801,
        0x0606C4A02EA734CC32ACD2B02BC28B99CB3E287E85A763AF267492AB572E99AB3F370D275CEC1DA1AAA9075FF05F79BE,
    ],
}
EDGES = [
    0,
    1,
    2,
    R - 1,
    R - 2,
    R,
    R + 1,
    2 * R + 5,
    2**256 - 1,
    2**254,
    2**64,
    2**127,
    2**128,
    (R - 1) // 2,
    (R + 1) // 2,
]


def limbs(values: list[int], width: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    raw = b"".join(value.to_bytes(8 * width, "little") for value in values)
    return np.frombuffer(raw, dtype=np.uint64).reshape(-1, width).copy()


def scalars(rng: np.random.Generator, n: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    numbers = rng.integers(0, 2**64, (n, 4), dtype=np.uint64)
    numbers[:, 3] %= np.uint64(0x73EDA753299D7D48)
    return numbers


def multiples(group: Group, numbers: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    generator = KINDS[group](limbs([c * 2**384 % P for c in GENERATORS[group]], 6).reshape(1, -1))
    points: G1Affine | G2Affine = FixedBase(generator, len(numbers), 2).multiples(FrPlain(numbers))  # type: ignore[type-var]
    return points.limbs


class Case:
    """Points of one group, some of them infinities, and the comparison."""

    def __init__(self, group: Group, cuda: Any, host: Backend, rng: np.random.Generator) -> None:
        self.group, self.cuda, self.host, self.rng = group, cuda, host, rng
        self.points = multiples(group, scalars(rng, 2**13 + 1))
        self.points[5] = self.points[40:44] = 0

    def check(self, points: Any, numbers: Any, shape: Shape | None = None) -> None:
        kind = KINDS[self.group]
        taken, given = kind(np.ascontiguousarray(points)), FrPlain(np.ascontiguousarray(numbers))
        device, workspace = self.cuda.on, self.cuda.workspace
        bases: Any = device_msm.load_bases(device, workspace, taken, shape=shape)  # type: ignore[type-var]
        found: Any = device_msm.msm(device, workspace, bases, given)
        held: Any = self.host.load_bases(taken)  # type: ignore[type-var]
        assert np.array_equal(found.limbs, self.host.msm(held, given).limbs)


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
        case.check(case.points[:n], scalars(case.rng, n), Shape(case.group, n, *windows, rounds))


@pytest.mark.parametrize("rounds", [2, 5])
@pytest.mark.parametrize("window_bits", [4, 12])
def test_affine_rounds_of_special_points(case: Case, rounds: int, window_bits: int) -> None:
    n = 3000
    shape = Shape(case.group, n, window_bits, 1, rounds)
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
    assert device_msm.first_invalid(device, workspace, kind(case.points)) is None
    wrong = case.points.copy()
    wrong[777, 0] ^= np.uint64(1)
    wrong[900, 3] ^= np.uint64(1)
    assert device_msm.first_invalid(device, workspace, kind(wrong)) == 777
