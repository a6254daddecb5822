"""Sparse matrices on the device, and their products with a vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.cuda.arrays import copy_in
from kernels.interface import CsrRows, Matrix

if TYPE_CHECKING:
    from kernels.cuda.workspace import Workspace

LONGEST_ROW = 64
"""Entries that one thread adds up; a longer row gets a block of threads."""


@dataclass(frozen=True, eq=False)
class CudaMatrix(Matrix):
    """A sparse matrix in the memory of a device.

    Args:
        row_starts: Block of (n_rows + 1) uint64.
        columns: Block of uint32, one for each entry.
        values: Block of (entries, 4) uint64.
        long_rows: Block of uint64: the rows of more than ``LONGEST_ROW`` entries.
        n_long_rows: How many there are.
    """

    row_starts: Any
    columns: Any
    values: Any
    long_rows: Any
    n_long_rows: int


def load(workspace: Workspace, rows: CsrRows) -> CudaMatrix:
    """Copy a matrix to the device; inside ``Device.running``, whose stream has to be waited for."""
    lengths = np.diff(rows.row_starts)
    long_rows = np.flatnonzero(lengths > LONGEST_ROW).astype(np.uint64)
    parts = (rows.row_starts, rows.columns, rows.values.limbs, long_rows)
    blocks = []
    for part in parts:
        blocks.append(workspace.take(max(1, part.nbytes), f"a matrix of {rows.n_rows} rows"))
        copy_in(int(blocks[-1].ptr), part)
    held_bytes = sum(part.nbytes for part in parts)
    starts, columns, values, long = blocks
    return CudaMatrix(
        rows.n_rows,
        rows.n_columns,
        int(held_bytes),
        starts,
        columns,
        values,
        long_rows=long,
        n_long_rows=len(long_rows),
    )


def multiply(workspace: Workspace, matrix: CudaMatrix, vector: int, target: int) -> None:
    """Multiply: addresses of n_columns plain elements and of n_rows Montgomery elements, on the current stream."""
    pointers = [np.uint64(p) for p in (matrix.row_starts.ptr, matrix.columns.ptr, matrix.values.ptr, vector, target)]
    if matrix.n_rows:
        kernel = workspace.device.kernel("vector", "cuzkops_multiply_rows")
        blocks = min(1 << 20, -(-matrix.n_rows // 128))
        kernel((blocks,), (128,), (*pointers, np.uint64(matrix.n_rows), np.uint64(LONGEST_ROW)))
    if matrix.n_long_rows:
        kernel = workspace.device.kernel("vector", "cuzkops_multiply_long_rows")
        kernel((matrix.n_long_rows,), (128,), (*pointers, np.uint64(matrix.long_rows.ptr)))
