"""Multiples of a point as the device makes them, run thread by thread on the host with the device's arithmetic."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from bls12 import EDGES, Group, to_limbs

from kernels import build as builder
from kernels.cuda.table_budget import split_limit
from kernels.host.fixed_base import FixedBase
from kernels.interface import FrPlain
from kernels.moduli import R

if TYPE_CHECKING:
    import random

    from kernels.host.library import HostLibrary


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The bodies of the kernels compiled by g++."""
    library = tmp_path_factory.mktemp("emulator") / "multiples.so"
    source = Path(__file__).parent / "emulated_multiples.cpp"
    include = f"-I{builder.SOURCE_DIR / 'include'}"
    flags = ["-std=c++17", "-O1", "-Wno-unknown-pragmas", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["g++", *flags, include, source, "-o", library], check=True, timeout=280)
    return ctypes.CDLL(str(library))


@pytest.mark.parametrize("n", [1, 3, 4, 5, 31])
def test_multiples(emulator: Any, library: HostLibrary, group: Group, rng: random.Random, n: int) -> None:
    del library
    numbers = [*EDGES, R - 1, (R - 1) // 2, 2**254, *(rng.randrange(R) for _ in range(31))]
    rng.shuffle(numbers)
    numbers[n // 2] = 0  # infinity in the middle of those that share an inversion
    scalars = to_limbs(numbers[:n], 4)
    base = FixedBase(group.array([group.random(rng)]), 40, 2)
    out = np.empty((n, group.kind.width), dtype=np.uint64)
    table, numbers_there, there = (ctypes.c_void_p(array.ctypes.data) for array in (base.table, scalars, out))
    function = getattr(emulator, f"emulate_{group.name}")
    function(table, ctypes.c_uint(base.bits), numbers_there, ctypes.c_uint64(n), there, 3, 3)
    assert np.array_equal(out, base.multiples(FrPlain(scalars)).limbs)


def test_a_limit_is_shared_by_what_it_saves() -> None:
    sets: Any = [("g1", 2**20, 2), ("g2", 2**20, 1)]
    held_bytes = 2**20 * (144 + 144 + 768)
    assert split_limit(sets, held_bytes) == [0, 0]
    small, large = (split_limit(sets, held_bytes + extra) for extra in (2**30, 48 * 2**30))
    assert 2 * small[0] + small[1] <= 2**30
    assert 2 * large[0] + large[1] <= 48 * 2**30
    assert any(small)
    assert all(large)
    assert split_limit([], 2**30) == []
