"""Fr, Fp and Fp2 against Python integers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pytest
from bls12 import FP_RADIX, FR_RADIX, edge_values, from_limbs, to_limbs

from kernels.moduli import P, R

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from kernels.host.library import HostLibrary

ADD, SUBTRACT, MULTIPLY, SQUARE, NEGATE, INVERT, TO_MONTGOMERY, TO_PLAIN = range(8)
FERMAT = 8
FIELDS = {"fr": (0, R, 4, FR_RADIX), "fp": (1, P, 6, FP_RADIX)}
OPERATIONS: dict[str, tuple[int, Callable[[int, int, int], int]]] = {
    "add": (ADD, lambda a, b, m: (a + b) % m),
    "subtract": (SUBTRACT, lambda a, b, m: (a - b) % m),
    "multiply": (MULTIPLY, lambda a, b, m: a * b % m),
    "square": (SQUARE, lambda a, _, m: a * a % m),
    "negate": (NEGATE, lambda a, _, m: -a % m),
    "invert": (INVERT, lambda a, _, m: pow(a, m - 2, m)),
    "fermat": (FERMAT, lambda a, _, m: pow(a, m - 2, m)),
}


def run(library: HostLibrary, leaf: int, field: int, operation: int, *operands: np.ndarray) -> np.ndarray:
    out = np.empty_like(operands[0])
    library.call("cuzkops_field", leaf, field, operation, *operands, len(out), out)
    return out


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_operation_on_every_pair_of_edge_values(
    library: HostLibrary, leaf: int, field: str, operation: str, rng: random.Random
) -> None:
    number, modulus, width, radix = FIELDS[field]
    code, reference = OPERATIONS[operation]
    pairs = list(itertools.product(edge_values(modulus, rng), repeat=2))
    pairs = pairs[::13] if operation == "fermat" else pairs  # slow, and what it is compared with is the same
    a, b = (to_limbs([pair[i] * radix % modulus for pair in pairs], width) for i in (0, 1))
    found = from_limbs(run(library, leaf, number, code, a, b))
    assert found == [reference(x, y, modulus) * radix % modulus for x, y in pairs]


@pytest.mark.parametrize("field", FIELDS)
def test_montgomery_form_and_back(library: HostLibrary, leaf: int, field: str, rng: random.Random) -> None:
    number, modulus, width, radix = FIELDS[field]
    values = edge_values(modulus, rng, 100)
    plain = to_limbs(values, width)
    montgomery = run(library, leaf, number, TO_MONTGOMERY, plain, plain)
    assert from_limbs(montgomery) == [value * radix % modulus for value in values]
    assert from_limbs(run(library, leaf, number, TO_PLAIN, montgomery, montgomery)) == values


def test_fp2_products_and_inverses(library: HostLibrary, leaf: int, rng: random.Random) -> None:
    values = [0, 1, P - 1, rng.randrange(P), rng.randrange(P)]
    elements = list(itertools.product(values, repeat=2))
    pairs = list(itertools.product(elements, repeat=2))
    a, b = (to_limbs([c * FP_RADIX % P for pair in pairs for c in pair[i]], 6).reshape(-1, 12) for i in (0, 1))

    def numbers(limbs: np.ndarray) -> list[int]:
        return [x * pow(FP_RADIX, -1, P) % P for x in from_limbs(limbs.reshape(-1, 6))]

    product = [c for (x, y) in pairs for c in ((x[0] * y[0] - x[1] * y[1]) % P, (x[0] * y[1] + x[1] * y[0]) % P)]
    assert numbers(run(library, leaf, 2, MULTIPLY, a, b)) == product
    squares = run(library, leaf, 2, SQUARE, a, a)
    assert np.array_equal(squares, run(library, leaf, 2, MULTIPLY, a, a))
    ones = numbers(run(library, leaf, 2, MULTIPLY, a, run(library, leaf, 2, INVERT, a, a)))
    assert ones == [c for x, _ in pairs for c in ((0, 0) if x == (0, 0) else (1, 0))]


def test_unknown_operation_is_refused(library: HostLibrary) -> None:
    from kernels.interface import KernelError

    with pytest.raises(KernelError, match="refuses these arguments"):
        run(library, 0, 0, 99, to_limbs([1], 4), to_limbs([1], 4))


def test_unknown_arithmetic_is_refused(library: HostLibrary) -> None:
    from kernels.host.backend import HostBackend
    from kernels.interface import KernelError

    with pytest.raises(KernelError, match="refuses these arguments"):
        run(library, 7, 0, ADD, to_limbs([1], 4), to_limbs([1], 4))
    for name in ("carry32", "other"):
        with pytest.raises(KernelError, match="does not run the arithmetic"):
            HostBackend(1, name)
