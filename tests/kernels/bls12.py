"""The same arithmetic with Python integers and py_arkworks, which the kernels are held against."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import py_arkworks_bls12381 as arkworks

from kernels.gen.constants import P, R
from kernels.interface import G1Affine, G2Affine

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

FR_RADIX, FP_RADIX = 2**256, 2**384
EDGES = [0, 1, 2, 3, 2**32, 2**64 - 1, 2**64, 2**128 + 1]


def edge_values(modulus: int, rng: random.Random, n_random: int = 20) -> list[int]:
    near = [modulus - 1, modulus - 2, (modulus + 1) // 2, (modulus - 1) // 2, 2**384 % modulus, 2**256 % modulus]
    return [*EDGES, *near, *(rng.randrange(modulus) for _ in range(n_random))]


def to_limbs(values: Sequence[int], width: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    raw = b"".join(value.to_bytes(8 * width, "little") for value in values)
    return np.frombuffer(raw, dtype="<u8").reshape(-1, width).copy()


def from_limbs(limbs: np.ndarray[Any, np.dtype[np.uint64]]) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in limbs]


def fr_mont(values: Sequence[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    return to_limbs([value * FR_RADIX % R for value in values], 4)


def from_fr_mont(limbs: np.ndarray[Any, np.dtype[np.uint64]]) -> list[int]:
    inverse = pow(FR_RADIX, -1, R)
    return [value * inverse % R for value in from_limbs(limbs)]


def _montgomery(raw: bytes) -> bytes:
    numbers = [int.from_bytes(raw[i : i + 48], "little") for i in range(0, len(raw), 48)]
    return b"".join((number * FP_RADIX % P).to_bytes(48, "little") for number in numbers)


def g1_array(points: Sequence[Any]) -> G1Affine:
    raw = b"".join(
        bytes(96) if point == arkworks.G1Point.identity() else _montgomery(point.to_xy_bytes_le()) for point in points
    )
    return G1Affine(np.frombuffer(raw, dtype="<u8").reshape(-1, 12).copy())


def g2_array(points: Sequence[Any]) -> G2Affine:
    raw = b"".join(
        bytes(192) if point == arkworks.G2Point.identity() else _montgomery(point.to_xy_bytes_le()) for point in points
    )
    return G2Affine(np.frombuffer(raw, dtype="<u8").reshape(-1, 24).copy())


def scalar(value: int) -> Any:
    return arkworks.Scalar.from_le_bytes((value % R).to_bytes(32, "little"))


class Group:
    """G1 or G2 of py_arkworks, with arrays of this library."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind = G1Affine if name == "g1" else G2Affine
        self.point = arkworks.G1Point if name == "g1" else arkworks.G2Point
        self.array: Any = g1_array if name == "g1" else g2_array

    def infinity(self) -> Any:
        return self.point.identity()

    def random(self, rng: random.Random) -> Any:
        return self.point() * scalar(rng.randrange(R))

    def sum(self, points: Sequence[Any], scalars: Sequence[int]) -> Any:
        if not points:
            return self.infinity()
        return self.point.multiexp_unchecked(list(points), [scalar(s) for s in scalars])
