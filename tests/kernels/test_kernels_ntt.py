"""Transforms against the defining sum, and the H scalars against polynomials evaluated one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from bls12 import edge_values, fr_mont, from_fr_mont, from_limbs

from kernels.gen.constants import R
from kernels.interface import Backend, FrMont, FrPlain

if TYPE_CHECKING:
    import random


def root(n: int) -> int:
    return pow(5, (R - 1) // n, R)


def dft(values: list[int], w: int) -> list[int]:
    return [sum(v * pow(w, i * j, R) for j, v in enumerate(values)) % R for i in range(len(values))]


def interpolate(values: list[int]) -> list[int]:
    n = len(values)
    return [c * pow(n, -1, R) % R for c in dft(values, pow(root(n), -1, R))]


def test_root_is_the_one_of_zkey_files() -> None:
    assert root(2**32) == 0x212D79E5B416B6F0FD56DC8D168D6C0C4024FF270B3E0941B788F500B912F1F


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 64])
def test_transforms_are_the_defining_sums(threaded: Backend, n: int, rng: random.Random) -> None:
    for values in ([0] * n, [1] + [0] * (n - 1), [R - 1] * n, (edge_values(R, rng, 60) * 2)[:n]):
        forward = threaded.ntt(FrMont(fr_mont(values)))
        assert from_fr_mont(forward.limbs) == dft(values, root(n))
        assert from_fr_mont(threaded.ntt(FrMont(fr_mont(values)), inverse=True).limbs) == interpolate(values)


@pytest.mark.parametrize("log2_n", [9, 13, 15])
def test_there_and_back_is_the_same_with_any_number_of_threads(
    host: Backend, threaded: Backend, log2_n: int, rng: random.Random
) -> None:
    n = 2**log2_n
    values = FrMont(fr_mont([rng.randrange(R) for _ in range(n)]))
    before = values.limbs.copy()
    forward = threaded.ntt(values)
    assert np.array_equal(values.limbs, before)
    assert np.array_equal(forward.limbs, host.ntt(values).limbs)
    # one entry against the defining sum, by Horner
    point, total = pow(root(n), 3, R), 0
    for value in reversed(from_fr_mont(values.limbs)):
        total = (total * point + value) % R
    assert from_fr_mont(forward.limbs[3:4]) == [total]
    assert threaded.ntt(forward, inverse=True, out=forward) is forward
    assert np.array_equal(forward.limbs, before)


@pytest.mark.parametrize("n", [1, 2, 8, 32])
def test_h_is_ab_minus_c_on_the_odd_points(threaded: Backend, n: int, rng: random.Random) -> None:
    a = (edge_values(R, rng, 40))[:n]
    b = [rng.randrange(R) for _ in range(n)]
    coefficients = [interpolate(v) for v in (a, b, [x * y % R for x, y in zip(a, b, strict=True)])]
    expected = []
    for i in range(n):
        point = pow(root(2 * n), 2 * i + 1, R)
        at = [sum(c * pow(point, j, R) for j, c in enumerate(poly)) for poly in coefficients]
        expected.append((at[0] * at[1] - at[2]) % R)
    timer: dict[str, int] = {}
    result = threaded.h(FrMont(fr_mont(a)), FrMont(fr_mont(b)), timer=timer)
    assert isinstance(result, FrPlain)
    assert from_limbs(result.limbs) == expected
    assert set(timer) == {"ntt", "pointwise"}
    assert timer["ntt"] > 0


def test_h_leaves_its_operands_and_does_not_depend_on_threads(
    host: Backend, threaded: Backend, rng: random.Random
) -> None:
    a, b = (FrMont(fr_mont([rng.randrange(R) for _ in range(2**14)])) for _ in range(2))
    copies = a.limbs.copy(), b.limbs.copy()
    assert np.array_equal(threaded.h(a, b).limbs, host.h(a, b).limbs)
    assert np.array_equal(a.limbs, copies[0])
    assert np.array_equal(b.limbs, copies[1])


@pytest.mark.parametrize("n", [0, 3, 6, 1000])
def test_other_lengths_are_refused(host: Backend, n: int) -> None:
    values = FrMont(fr_mont([1] * n).reshape(-1, 4))
    with pytest.raises(ValueError, match="power of two"):
        host.ntt(values)
    with pytest.raises(ValueError, match="power of two"):
        host.h(values, values)


def test_overlapping_results_are_refused(host: Backend) -> None:
    limbs = fr_mont([1, 2, 3, 4])
    whole = FrMont(limbs)
    with pytest.raises(ValueError, match="shares memory"):
        host.h(whole, whole, out=FrPlain(limbs))
    with pytest.raises(ValueError, match="overlaps"):
        host.ntt(FrMont(limbs[:2]), out=FrMont(limbs[1:3]))
    with pytest.raises(ValueError, match="4 values of A and 2 of B"):
        host.h(whole, FrMont(limbs[:2]))
