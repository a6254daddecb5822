"""Vectors element by element: launches of the kernels of vector.cu."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from kernels.cuda.device import Device
    from kernels.interface import VectorOperation

OPERATIONS: dict[VectorOperation, int] = {"add": 0, "subtract": 1, "multiply": 2}
_THREADS = 128
_MAX_BLOCKS = 1 << 20


def blocks_for(n: int) -> tuple[int]:
    """Blocks of 128 threads for n elements; each thread goes on by their number."""
    return (max(1, min(_MAX_BLOCKS, -(-n // _THREADS))),)


def combine(device: Device, operation: VectorOperation, operands: tuple[int, int], target: int, n: int) -> None:
    """Add, subtract or multiply the n elements at two addresses into a third, on the current stream."""
    if n:
        pointers = (np.uint64(pointer) for pointer in (*operands, target))
        arguments = (np.uint32(OPERATIONS[operation]), *pointers, np.uint64(n))
        device.kernel("vector", "cuzkops_combine")(blocks_for(n), (_THREADS,), arguments)


def h_scalars(device: Device, vectors: tuple[int, int, int], factor: int, target: int, log2_n: int) -> None:
    """Write (a b / n - c) times a plain factor for vectors at three addresses, on the current stream."""
    pointers = (np.uint64(pointer) for pointer in (*vectors, factor, target))
    kernel = device.kernel("vector", "cuzkops_h_scalars")
    kernel(blocks_for(1 << log2_n), (_THREADS,), (*pointers, np.uint32(log2_n)))
