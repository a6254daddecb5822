"""Points and scalars for the tests of MSMs on a device, and the comparison with the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda import msm_bases, msm_calls
from kernels.host.fixed_base import FixedBase
from kernels.interface import FrPlain, G1Affine, G2Affine, Group
from kernels.moduli import P, R

if TYPE_CHECKING:
    from kernels.cuda.msm_shape import Shape
    from kernels.interface import Backend

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
        bases: Any = msm_bases.load_bases(device, workspace, taken, shape=shape)  # type: ignore[type-var]
        found: Any = msm_calls.msm(device, workspace, bases, given)
        held: Any = self.host.load_bases(taken)  # type: ignore[type-var]
        assert np.array_equal(found.limbs, self.host.msm(held, given).limbs)
