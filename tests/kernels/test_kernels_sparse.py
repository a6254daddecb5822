"""Sparse products against Python integers, and what the typed arrays refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from bls12 import FR_RADIX, edge_values, from_fr_mont, to_limbs

from kernels.gen.constants import R
from kernels.interface import Backend, CsrRows, FrMontTwice, FrPlain, G1Affine

if TYPE_CHECKING:
    import random

Entry = tuple[int, int, int]  # row, column, value


def csr(entries: list[Entry], n_rows: int, n_columns: int) -> CsrRows:
    entries = sorted(entries, key=lambda entry: entry[0])
    starts = np.searchsorted([entry[0] for entry in entries], np.arange(n_rows + 1)).astype(np.uint64)
    values = to_limbs([entry[2] * FR_RADIX * FR_RADIX % R for entry in entries], 4).reshape(-1, 4)
    return CsrRows(starts, np.array([e[1] for e in entries], dtype=np.uint32), FrMontTwice(values), n_columns)


@pytest.mark.parametrize(("n_rows", "n_columns", "n_entries"), [(1, 1, 1), (8, 5, 40), (5000, 700, 9000), (4, 3, 0)])
def test_product(threaded: Backend, n_rows: int, n_columns: int, n_entries: int, rng: random.Random) -> None:
    pool = edge_values(R, rng)
    entries = [(rng.randrange(n_rows), rng.randrange(n_columns), rng.choice(pool)) for _ in range(n_entries)]
    x = [rng.choice(pool) for _ in range(n_columns)]
    expected = [0] * n_rows
    for row, column, value in entries:
        expected[row] = (expected[row] + value * x[column]) % R
    matrix = threaded.load_matrix(csr(entries, n_rows, n_columns))
    assert (matrix.n_rows, matrix.n_columns) == (n_rows, n_columns)
    assert matrix.held_bytes == 36 * n_entries + 8 * (n_rows + 1)
    timer: dict[str, int] = {}
    assert from_fr_mont(threaded.multiply(matrix, FrPlain(to_limbs(x, 4)), timer=timer).limbs) == expected
    assert timer["multiply"] > 0


def test_vector_of_another_length_is_refused(host: Backend) -> None:
    matrix = host.load_matrix(csr([(0, 2, 1)], 1, 3))
    with pytest.raises(ValueError, match="a vector of 2 for a matrix of 3 columns"):
        host.multiply(matrix, FrPlain(to_limbs([1, 2], 4)))


@pytest.mark.parametrize(
    ("starts", "columns", "n_columns", "match"),
    [
        ([0, 2, 1, 2], [0, 1], 3, "falls"),
        ([0, 1], [0, 1], 3, "ends at 1"),
        ([1, 2], [0, 1], 3, "ends at 2"),
        ([0, 2], [0, 3], 3, "column 3 is out of range"),
        ([], [], 3, "row_starts takes"),
    ],
)
def test_rows_that_do_not_fit_are_refused(starts: list[int], columns: list[int], n_columns: int, match: str) -> None:
    values = FrMontTwice(np.zeros((len(columns), 4), dtype=np.uint64))
    with pytest.raises(ValueError, match=match):
        CsrRows(np.array(starts, dtype=np.uint64), np.array(columns, dtype=np.uint32), values, n_columns)


@pytest.mark.parametrize(
    "limbs",
    [
        np.zeros((2, 4), dtype=np.uint64),
        np.zeros(12, dtype=np.uint64),
        np.zeros((2, 12), dtype=np.int64),
        np.zeros((2, 24), dtype=np.uint64)[:, ::2],
    ],
)
def test_typed_arrays_refuse_other_layouts(limbs: np.ndarray) -> None:
    with pytest.raises(ValueError, match="G1Affine takes a C-contiguous"):
        G1Affine(limbs)
