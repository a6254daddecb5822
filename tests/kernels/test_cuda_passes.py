"""The passes of a device's transforms, run thread by thread on the host with the device's arithmetic."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import edge_values, fr_mont, to_limbs

from kernels import build as builder
from kernels.cuda.passes import LAST, LOG2_EACH, MAX_LAYERS, ODD_POINTS, PassShape, layers_of_passes, passes
from kernels.interface import Backend, FrMont
from kernels.moduli import R

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

    from kernels.interface import Order

Emulator = Any


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    """The bodies of the kernels compiled by g++."""
    library = tmp_path_factory.mktemp("emulator") / "passes.so"
    source = Path(__file__).parent / "emulated_passes.cpp"
    include = f"-I{builder.SOURCE_DIR / 'include'}"
    flags = ["-std=c++17", "-O2", "-Wno-unknown-pragmas", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, include, source, "-o", library], check=True, timeout=280)
    return ctypes.CDLL(str(library))


def powers(base: int, log2_n: int) -> list[int]:
    out = [1]
    while len(out) < 2**log2_n:
        out.append(out[-1] * base % R)
    return out


def reversed_order(values: list[int]) -> list[int]:
    bits = len(values).bit_length() - 1
    return [values[int(f"{i:0{bits}b}"[::-1], 2)] for i in range(len(values))] if bits else values


def factors(log2_n: int, *, inverse: bool) -> Any:
    """Factors of transforms of up to 2^(log2_n + 1) elements."""
    root = pow(5, (R - 1) >> (log2_n + 1), R)
    return fr_mont(reversed_order(powers(pow(root, -1, R) if inverse else root, log2_n)))


def address(array: Any) -> int | None:
    return None if array is None else int(array.ctypes.data)


def run(
    emulator: Emulator,
    shapes: Sequence[PassShape],
    values: Any,
    table: Any,
    *,
    up: bool,
    scale: Any = None,
    scaling: int = 0,
) -> Any:
    source, out = values, np.empty_like(values)
    for i, shape in enumerate(shapes):
        scaled = scaling if (scaling == 1 and i == 0) or (scaling == 2 and i == len(shapes) - 1) else 0
        words = [ctypes.c_void_p(address(a)) for a in (source, out, table, scale if scaled else None)]
        emulator.emulate_pass(int(up), scaled, *words, shape.packed, shape.flags, shape.log2_tile)
        source, out = out, (out if not (i + 2 == len(shapes) and shapes[-1].flags & 1) else np.empty_like(values))
    return source


@pytest.mark.parametrize("log2_n", [*range(2, 12), 14])
@pytest.mark.parametrize("inverse", [False, True])
def test_every_order(emulator: Emulator, host: Backend, log2_n: int, inverse: bool) -> None:
    values = np.random.default_rng(log2_n).integers(0, 2**62, (2**log2_n, 4), dtype=np.uint64)
    table = factors(log2_n, inverse=inverse)
    halvings = log2_n if inverse else 0
    orders: list[tuple[Order, Order, bool, bool]] = [
        ("natural", "reversed", False, False),
        ("reversed", "natural", True, False),
        ("natural", "natural", False, True),
    ]
    for input_order, output_order, up, permuted in orders:
        expected = host.ntt(FrMont(values), inverse=inverse, input_order=input_order, output_order=output_order)
        shapes = passes(log2_n, up=up, permuted=permuted, halvings=halvings)
        found = run(emulator, shapes, values, table, up=up)
        assert np.array_equal(found, expected.limbs), (input_order, output_order)


@pytest.mark.parametrize("log2_n", [3, 7, 11])
def test_scaling_and_odd_points(emulator: Emulator, host: Backend, log2_n: int, rng: random.Random) -> None:
    values = fr_mont([rng.randrange(R) for _ in range(2**log2_n)])
    shift = pow(5, (R - 1) >> (log2_n + 1), R)
    powers_of_shift = powers(shift, log2_n)
    forward, back = factors(log2_n, inverse=False), factors(log2_n, inverse=True)
    expected = host.ntt(FrMont(values), output_order="reversed", coset_shift=shift).limbs
    found = run(
        emulator, passes(log2_n, up=False), values, forward, up=False, scale=fr_mont(powers_of_shift), scaling=1
    )
    assert np.array_equal(found, expected)
    assert np.array_equal(run(emulator, passes(log2_n, up=False, odd=True), values, forward, up=False), expected)
    scale = fr_mont(reversed_order(powers_of_shift))
    up = run(emulator, passes(log2_n, up=True), values, forward, up=True, scale=scale, scaling=1)
    assert np.array_equal(up, host.ntt(FrMont(values), input_order="reversed", coset_shift=shift).limbs)
    once = [pow(shift, -i, R) * pow(2**log2_n, -1, R) % R for i in range(2**log2_n)]
    for permuted in (False, True):
        order = "natural" if permuted else "reversed"
        expected = host.ntt(FrMont(values), inverse=True, output_order=order, coset_shift=shift).limbs  # type: ignore[arg-type]
        scale = fr_mont(once if permuted else reversed_order(once))
        shapes = passes(log2_n, up=False, permuted=permuted)
        assert np.array_equal(run(emulator, shapes, values, back, up=False, scale=scale, scaling=2), expected)


def test_division_by_powers_of_two(emulator: Emulator, rng: random.Random) -> None:
    numbers = edge_values(R, rng, 100)
    limbs = to_limbs([number % R for number in numbers], 4)
    for count in range(33):
        out = np.empty_like(limbs)
        emulator.emulate_division(
            ctypes.c_void_p(address(limbs)), ctypes.c_void_p(address(out)), ctypes.c_size_t(len(limbs)), count
        )
        half = pow(2, -count, R)
        assert [int.from_bytes(row.tobytes(), "little") for row in out] == [number * half % R for number in numbers]


def test_passes_cover_every_layer_once() -> None:
    for log2_n in range(2, 29):
        layers = layers_of_passes(log2_n)
        assert sum(layers) == log2_n
        assert all(LOG2_EACH <= some <= MAX_LAYERS for some in layers)
        for up in (False, True):
            shapes = passes(log2_n, up=up, odd=True, halvings=log2_n)
            assert sorted((shape.above, shape.layers) for shape in shapes) == sorted(
                (sum(layers[:i]), layers[i]) for i in range(len(layers))
            )
            assert [shape.halvings for shape in shapes] == [0] * (len(shapes) - 1) + [log2_n]
            assert [shape.flags for shape in shapes] == [ODD_POINTS] * (len(shapes) - 1) + [ODD_POINTS | LAST]
