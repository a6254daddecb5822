"""Vectors of Fr for the tests on a device, and slow ways to the same results that share no code with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.host.elements import products
from kernels.interface import FrMont
from kernels.moduli import R

if TYPE_CHECKING:
    from kernels.interface import Backend

RADIX = 2**256
EDGES = [0, 1, 2, R - 1, R - 2, 2**254, (R + 1) // 2, 2**32, 2**64 - 1]


def limbs(numbers: list[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    raw = b"".join(number.to_bytes(32, "little") for number in numbers)
    return np.frombuffer(raw, dtype="<u8").reshape(-1, 4).copy()


def numbers(array: np.ndarray[Any, np.dtype[np.uint64]]) -> list[int]:
    return [int.from_bytes(row.tobytes(), "little") for row in array]


def random_limbs(rng: np.random.Generator, n: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """n elements below r, the edges among them."""
    out = rng.integers(0, 2**64, (n, 4), dtype=np.uint64)
    out[:, 3] %= np.uint64(0x73EDA753299D7D48)
    places = rng.integers(0, n, min(n, len(EDGES)))
    out[places] = limbs(EDGES)[: len(places)]
    return out


def evaluate(host: Backend, coefficients: FrMont, point: int) -> int:
    """The value of a polynomial at one point, by powers and a sum."""
    powers, square = FrMont(limbs([RADIX % R])), point
    while len(powers) < len(coefficients):
        factor = FrMont(np.repeat(limbs([square * RADIX % R]), len(powers), axis=0))
        powers = FrMont(np.concatenate([powers.limbs, products(powers, factor).limbs]))
        square = square * square % R
    terms = host.combine("multiply", coefficients, powers)
    while len(terms) > 1:
        half = len(terms) // 2
        terms = host.combine("add", FrMont(terms.limbs[:half].copy()), FrMont(terms.limbs[half:].copy()))
    return numbers(terms.limbs)[0] * pow(RADIX, -1, R) % R
