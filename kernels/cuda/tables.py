"""Powers of roots of unity and of coset shifts on the device, made when they are first wanted."""

from __future__ import annotations

import threading
from collections import OrderedDict
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.arrays import copy_in
from kernels.cuda.device import cupy
from kernels.moduli import R

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels.cuda.workspace import Workspace

RADIX = 2**256
KEPT_SCALES = 4
"""Tables of coset shifts that are kept: each takes as much memory as a vector of its size."""


@lru_cache(maxsize=256)
def root_of_unity(generator: int, log2_order: int) -> int:
    """Return generator^((r-1)/2^log2_order)."""
    return pow(generator, (R - 1) >> log2_order, R)


def limbs_of(numbers: list[int]) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Write plain numbers below 2^256 as (n, 4) limbs."""
    raw = b"".join(number.to_bytes(32, "little") for number in numbers)
    return np.frombuffer(raw, dtype="<u8").reshape(-1, 4)


class Tables:
    """Tables of factors, shared by all calls on a device.

    An address holds until ``lock`` is given up: who takes one launches what reads it before that. What a table replaces
    is free for others only after the device has done all its work.

    Args:
        workspace: Where their memory comes from.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._factors: dict[tuple[int, bool], Any] = {}
        self._scales: OrderedDict[tuple[int, int, bool, bool], Any] = OrderedDict()
        self._numbers: dict[int, Any] = {}
        self.lock = threading.RLock()

    def factors(self, generator: int, log2_n: int, *, inverse: bool) -> int:
        """Address of the powers of roots in bit-reversed order for transforms of up to 2^(log2_n + 1) elements.

        Element i is w^(bits of i read backwards), w the root of order 2^(log2_n + 1) made from ``generator``, or its
        inverse: the same for every log2_n.
        """
        key = (generator, inverse)
        found = self._factors.get(key)
        if found is None or len(found) < 1 << log2_n:
            self._factors.pop(key, None)
            del found
            self._factors[key] = found = self._make(log2_n, 1, self._roots(generator, log2_n, inverse=inverse))
        return int(found.data.ptr)

    def scale(self, log2_n: int, shift: int, *, inverse: bool, reversed_order: bool) -> int:
        """Address of the 2^log2_n powers of a coset shift; for the inverse those of 1 / shift, divided by 2^log2_n.

        In bit-reversed order the powers of the root of order 2^(log2_n + 1) are the factors of transforms themselves.
        """
        if not inverse and reversed_order and shift == root_of_unity(5, log2_n + 1):
            return self.factors(5, log2_n, inverse=False)
        key = (log2_n, shift, inverse, reversed_order)
        found = self._scales.pop(key, None)
        if found is None:
            first = pow(2, -log2_n, R) if inverse else 1
            base = pow(shift, -1, R) if inverse else shift
            while len(self._scales) >= KEPT_SCALES:
                self._scales.popitem(last=False)
            levels = range(log2_n)
            steps = [pow(base, 1 << (log2_n - 1 - i if reversed_order else i), R) for i in levels]
            found = self._make(log2_n, first, steps)
        self._scales[key] = found
        return int(found.data.ptr)

    def powers_of_root(self, generator: int, log2_n: int, *, inverse: bool) -> int:
        """Address of w^i for i < n, w the root of order n = 2^log2_n made from ``generator`` or its inverse."""
        root = root_of_unity(generator, log2_n)
        return self.scale(log2_n, pow(root, -1, R) if inverse else root, inverse=False, reversed_order=False)

    def number(self, value: int) -> int:
        """Address of one plain number below r, as it is."""
        found = self._numbers.get(value)
        if found is None:
            self._numbers[value] = found = self._workspace.array(1, 4, "a number")
            copy_in(found.data.ptr, limbs_of([value]))
            cupy().cuda.get_current_stream().synchronize()
        return int(found.data.ptr)

    def clear(self) -> None:
        """Give all memory back to the workspace."""
        with self.lock:
            self._numbers.clear()
            self._factors.clear()
            self._scales.clear()

    @staticmethod
    def _roots(generator: int, log2_n: int, *, inverse: bool) -> Iterator[int]:
        for level in range(log2_n):
            root = root_of_unity(generator, level + 2)
            yield pow(root, -1, R) if inverse else root

    def _make(self, log2_n: int, first: int, steps: Any) -> Any:
        """Double a table log2_n times, each time by one factor, and wait for it: others use it on their streams."""
        cupy().cuda.runtime.deviceSynchronize()
        numbers = limbs_of([number * RADIX % R for number in [first, *steps]])
        table = self._workspace.array(1 << log2_n, 4, f"a table of 2^{log2_n} factors")
        factors = self._workspace.array(len(numbers), 4, "steps of a table")
        copy_in(factors.data.ptr, numbers)
        copy_in(table.data.ptr, numbers[:1])
        extend = self._workspace.device.kernel("vector", "cuzkops_extend")
        for level in range(log2_n):
            half = 1 << level
            blocks = min(1 << 16, -(-half // 128))
            step = np.uint64(factors.data.ptr + 32 * (level + 1))
            extend((blocks,), (128,), (np.uint64(table.data.ptr), step, np.uint64(half)))
        cupy().cuda.get_current_stream().synchronize()
        return table
