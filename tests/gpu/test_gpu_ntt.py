"""Transforms on the device, bit for bit against the host backend and against direct evaluation."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from vectors import RADIX, evaluate, limbs, numbers, random_limbs

from kernels.cuda.device import cupy
from kernels.interface import FrMont
from kernels.moduli import R

if TYPE_CHECKING:
    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu
ORDERS = ("natural", "reversed")


def on_device(array: Any) -> FrMont:
    return FrMont(cupy().asarray(array))


@pytest.mark.parametrize("log2_n", [*range(14), 16, 18, 19, 21])
def test_every_order_root_and_coset(cuda: CudaBackend, host: Backend, log2_n: int, rng: np.random.Generator) -> None:
    values = random_limbs(rng, 1 << log2_n)
    small = log2_n < 14
    shifts = [1, 7, R - 2, pow(5, (R - 1) >> (log2_n + 1), R)] if small else [1, 11]
    for generator, inverse, shift in itertools.product((5, 7) if small else (5,), (False, True), shifts):
        for orders in itertools.product(ORDERS, repeat=2):
            options: Any = {
                "inverse": inverse,
                "input_order": orders[0],
                "output_order": orders[1],
                "root_generator": generator,
                "coset_shift": shift,
            }
            expected = host.ntt(FrMont(values), **options).limbs
            apart = cuda.ntt(on_device(values), **options)
            assert np.array_equal(cuda.get(apart).limbs, expected), options
            place = on_device(values)
            assert cuda.ntt(place, out=place, **options) is place
            assert np.array_equal(cuda.get(place).limbs, expected), options


@pytest.mark.parametrize("log2_n", [4, 10, 12, 20, 22])
def test_values_are_the_polynomial_s(cuda: CudaBackend, host: Backend, log2_n: int, rng: np.random.Generator) -> None:
    n, shift = 1 << log2_n, 5
    coefficients = FrMont(random_limbs(rng, n))
    values = cuda.get(cuda.ntt(on_device(coefficients.limbs), coset_shift=shift))
    w = pow(5, (R - 1) // n, R)
    indices = range(n) if n <= 1024 else rng.integers(0, n, 64 if n <= 1 << 20 else 8)
    for i in map(int, indices):
        expected = evaluate(host, coefficients, shift * pow(w, i, R) % R)
        assert numbers(values.limbs[i : i + 1]) == [expected * RADIX % R]


@pytest.mark.parametrize("log2_n", [2, 9, 12])
def test_vectors_one_after_the_other(cuda: CudaBackend, host: Backend, log2_n: int, rng: np.random.Generator) -> None:
    n, n_vectors = 1 << log2_n, 5
    values = random_limbs(rng, n_vectors * n)
    for output_order, shift in itertools.product(ORDERS, (1, 3)):
        options: Any = {"output_order": output_order, "coset_shift": shift}
        together = cuda.get(cuda.ntt(on_device(values), n_vectors=n_vectors, **options)).limbs
        for i in range(n_vectors):
            one = FrMont(values[i * n : (i + 1) * n].copy())
            assert np.array_equal(together[i * n : (i + 1) * n], host.ntt(one, **options).limbs)


def test_arrays_of_the_host(cuda: CudaBackend, host: Backend, rng: np.random.Generator) -> None:
    values = FrMont(random_limbs(rng, 1 << 12))
    expected = host.ntt(values).limbs
    timer: dict[str, int] = {}
    found = cuda.ntt(values, timer=timer)
    assert isinstance(found.limbs, np.ndarray)
    assert np.array_equal(found.limbs, expected)
    assert timer["ntt"] > 0
    there = FrMont(cupy().empty((1 << 12, 4), dtype=np.uint64))
    assert cuda.ntt(values, out=there) is there
    assert np.array_equal(cuda.get(there).limbs, expected)


@pytest.mark.parametrize("log2_n", [26, 27, 28])
def test_large_sizes_go_there_and_back(cuda: CudaBackend, log2_n: int, rng: np.random.Generator) -> None:
    cp = cupy()
    part = random_limbs(rng, 1 << 16)
    values = FrMont(cp.tile(cp.asarray(part), (1 << (log2_n - 16), 1)))
    there = cuda.ntt(values, output_order="reversed")
    w = pow(5, (R - 1) >> 16, R)
    spot = cuda.get(FrMont(there.limbs[:1])).limbs  # the value at 1: the sum of all
    total = sum(numbers(part)) * (1 << (log2_n - 16)) % R
    assert numbers(spot) == [total], w
    back = cuda.ntt(there, inverse=True, input_order="reversed", out=there)
    assert bool((back.limbs == values.limbs).all())
    del there, back, values
    cp.get_default_memory_pool().free_all_blocks()
    cuda.workspace.trim()


def test_wrong_calls_are_sentences(cuda: CudaBackend) -> None:
    values = FrMont(limbs([1, 2, 3, 4]))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"coset_shift": 0}, "in \\[1, r\\)"),
        ({"root_generator": 3}, "made from 5 or 7, not 3"),
        ({"input_order": "bits"}, "natural or reversed, not 'bits'"),
        ({"n_vectors": 3}, "a power of two up to 2\\^28 elements, not 4 in 3 vectors"),
        ({"out": FrMont(limbs([1]))}, "out must be a writable FrMont of 4"),
        ({"workspace": object()}, "takes a Workspace of cuda:0"),
    ]
    for options, match in cases:
        with pytest.raises(ValueError, match=match):
            cuda.ntt(values, **options)
    memory = cupy().empty(17, dtype=np.uint64)
    with pytest.raises(ValueError, match="at no multiple of 16 bytes"):
        cuda.ntt(FrMont(memory[1:].reshape(4, 4)))
    both = limbs([1, 2, 3, 4, 5])
    with pytest.raises(ValueError, match="overlaps"):
        cuda.ntt(FrMont(both[:4]), out=FrMont(both[1:]))
