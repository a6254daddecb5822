"""H, sparse products and vectors on the device, and whole proofs of the demo's circuits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from vectors import random_limbs

from kernels.cuda.device import cupy
from kernels.interface import CsrRows, FrMont, FrMontTwice, FrPlain

if TYPE_CHECKING:
    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu
CIRCUITS = Path(__file__).parents[2] / "cuzkops" / "demo_data"


@pytest.mark.parametrize("log2_n", [*range(13), 17, 20])
def test_h(cuda: CudaBackend, host: Backend, log2_n: int, rng: np.random.Generator) -> None:
    cp = cupy()
    a, b = (FrMont(random_limbs(rng, 1 << log2_n)) for _ in range(2))
    expected = host.h(a, b).limbs
    assert np.array_equal(cuda.h(a, b).limbs, expected)
    there_a, there_b = (FrMont(cp.asarray(x.limbs)) for x in (a, b))
    out = FrPlain(cp.zeros((1 << log2_n, 4), dtype=np.uint64))
    timer: dict[str, int] = {}
    assert cuda.h(there_a, there_b, out=out, timer=timer) is out
    assert {"ntt", "pointwise"} <= set(timer)
    assert np.array_equal(cuda.get(out).limbs, expected)
    assert np.array_equal(cuda.get(there_a).limbs, a.limbs)
    assert np.array_equal(cuda.get(there_b).limbs, b.limbs)
    assert np.array_equal(cuda.get(cuda.h(a, there_b, out=out)).limbs, expected)


@pytest.mark.parametrize("n", [1, 31, 32, 33, 1000, 2**17 + 1])
def test_vectors(cuda: CudaBackend, host: Backend, n: int, rng: np.random.Generator) -> None:
    a, b = (FrMont(random_limbs(rng, n)) for _ in range(2))
    for operation in ("add", "subtract", "multiply"):
        expected = host.combine(operation, a, b).limbs  # type: ignore[arg-type]
        there = cuda.put(a)
        assert cuda.combine(operation, there, cuda.put(b), out=there) is there  # type: ignore[arg-type]
        assert np.array_equal(cuda.get(there).limbs, expected)


def test_sparse_products(cuda: CudaBackend, host: Backend, rng: np.random.Generator) -> None:
    n_rows, n_columns = 5000, 3000
    lengths = rng.integers(0, 6, n_rows)
    lengths[[0, 77, n_rows - 1]] = 64, 65, 5000  # the longest of one thread, and rows of a block of threads
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.uint64)
    n_entries = int(starts[-1])
    columns = rng.integers(0, n_columns, n_entries, dtype=np.uint32)
    rows = CsrRows(starts, columns, FrMontTwice(random_limbs(rng, n_entries)), n_columns)
    vector = FrPlain(random_limbs(rng, n_columns))
    expected = host.multiply(host.load_matrix(rows), vector).limbs
    matrix = cuda.load_matrix(rows)
    assert matrix.n_long_rows == 2
    assert np.array_equal(cuda.multiply(matrix, vector).limbs, expected)
    assert np.array_equal(cuda.get(cuda.multiply(matrix, cuda.put(vector))).limbs, expected)


@pytest.mark.parametrize("name", ["mul60", "cube500"])
def test_whole_proofs(name: str, cuda: CudaBackend, tmp_path: Path) -> None:
    from prover.cli import main

    circuit = CIRCUITS / name
    files: list[Any] = [circuit / "circuit.zkey", circuit / "witness.wtns", tmp_path / "proof", tmp_path / "public"]
    assert main(["prove", *map(str, files), "--backend", "cuda"]) == 0
    verified = main(["verify", str(circuit / "verification_key.json"), str(files[3]), str(files[2])])
    assert verified == 0
    assert json.loads(files[2].read_text())["protocol"] == "groth16"
    assert cuda.device == "cuda:0"
