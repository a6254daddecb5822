"""Orders, roots and cosets of transforms, large sizes, and vector operations."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import edge_values, fr_mont, from_fr_mont

from kernels.gen.constants import R
from kernels.interface import Backend, FrMont

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ORDERS = ("natural", "reversed")


def values_on_coset(coefficients: list[int], generator: int, shift: int) -> list[int]:
    w = pow(generator, (R - 1) // len(coefficients), R)
    points = [shift * pow(w, i, R) % R for i in range(len(coefficients))]
    return [sum(c * pow(x, j, R) for j, c in enumerate(coefficients)) % R for x in points]


def ordered(values: list[int], order: str) -> list[int]:
    bits = len(values).bit_length() - 1
    if order == "natural" or bits == 0:
        return values
    return [values[int(f"{i:0{bits}b}"[::-1], 2)] for i in range(len(values))]


@pytest.mark.parametrize("generator", [5, 7])
@pytest.mark.parametrize("orders", list(itertools.product(ORDERS, repeat=2)))
@pytest.mark.parametrize("n", [1, 2, 8, 32])
def test_every_order_root_and_coset(threaded: Backend, n: int, orders: Any, generator: Any, rng: random.Random) -> None:
    coefficients = (edge_values(R, rng) * 2)[:n]
    for shift in (1, 7, R - 1, rng.randrange(1, R)):
        values = values_on_coset(coefficients, generator, shift)
        options: dict[str, Any] = {
            "input_order": orders[0],
            "output_order": orders[1],
            "root_generator": generator,
            "coset_shift": shift,
        }
        forward = threaded.ntt(FrMont(fr_mont(ordered(coefficients, orders[0]))), **options)
        assert from_fr_mont(forward.limbs) == ordered(values, orders[1])
        back = threaded.ntt(FrMont(fr_mont(ordered(values, orders[0]))), inverse=True, **options)
        assert from_fr_mont(back.limbs) == ordered(coefficients, orders[1])


@pytest.mark.parametrize("log2_n", [13, 14, 15, 16, 17])
def test_sizes_beyond_a_cache(threaded: Backend, log2_n: int, rng: random.Random) -> None:
    n, shift = 2**log2_n, 7
    sparse = {rng.randrange(n): rng.randrange(R) for _ in range(5)}
    limbs = np.zeros((n, 4), dtype=np.uint64)
    for j, c in sparse.items():
        limbs[j] = fr_mont([c])[0]
    values = threaded.ntt(FrMont(limbs), coset_shift=shift)
    w = pow(5, (R - 1) // n, R)
    for i in (0, 1, n // 2 + 3, n - 1, rng.randrange(n)):
        x = shift * pow(w, i, R) % R
        assert from_fr_mont(values.limbs[i : i + 1]) == [sum(c * pow(x, j, R) for j, c in sparse.items()) % R]
    reversed_values = threaded.ntt(FrMont(limbs), coset_shift=shift, output_order="reversed")
    assert np.array_equal(np.sort(reversed_values.limbs[:, 0]), np.sort(values.limbs[:, 0]))
    back = threaded.ntt(reversed_values, inverse=True, input_order="reversed", coset_shift=shift)
    assert np.array_equal(back.limbs, limbs)
    assert np.array_equal(threaded.ntt(values, inverse=True, coset_shift=shift).limbs, limbs)


@pytest.mark.parametrize(
    ("operation", "reference"),
    [("add", lambda x, y: x + y), ("subtract", lambda x, y: x - y), ("multiply", lambda x, y: x * y)],
)
def test_vectors(threaded: Backend, operation: Any, reference: Callable[[int, int], int], rng: random.Random) -> None:
    pairs = list(itertools.product(edge_values(R, rng, 60), repeat=2))
    a, b = (FrMont(fr_mont([pair[i] for pair in pairs])) for i in (0, 1))
    expected = [reference(x, y) % R for x, y in pairs]
    assert from_fr_mont(threaded.combine(operation, a, b).limbs) == expected
    assert threaded.combine(operation, a, b, out=a) is a
    assert from_fr_mont(a.limbs) == expected


def test_wrong_options_are_sentences(host: Backend) -> None:
    values = FrMont(fr_mont([1, 2, 3, 4]))
    options: list[tuple[dict[str, Any], str]] = [
        ({"coset_shift": 0}, "in \\[1, r\\)"),
        ({"coset_shift": R}, "in \\[1, r\\)"),
        ({"root_generator": 3}, "made from 5 or 7, not 3"),
        ({"input_order": "bits"}, "natural or reversed, not 'bits'"),
    ]
    for option, match in options:
        with pytest.raises(ValueError, match=match):
            host.ntt(values, **option)
    with pytest.raises(ValueError, match="no vector operation 'divide'"):
        host.combine("divide", values, values)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="vectors of 4 and 2"):
        host.combine("add", values, FrMont(fr_mont([1, 2])))
