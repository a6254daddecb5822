"""Setup on the device: the same keys as on the host, bit for bit, and whole proofs with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from vectors import random_limbs

from kernels.cuda.device import cupy
from kernels.cuda.table_budget import split_limit
from kernels.interface import FrPlain, Group
from prover.curve import generators
from prover.formats.wtns import Witness
from prover.formats.zkey import read_zkey
from prover.groth16 import TableLimits, check, finalise, hold_key, prove_on_device, synthesise
from prover.memory.estimate import least_on_device
from prover.setup import Trapdoor, fresh_trapdoor, make_zkey, write_key
from prover.synthetic import constraints, witness

if TYPE_CHECKING:
    from kernels.cuda.backend import CudaBackend
    from kernels.interface import Backend

pytestmark = pytest.mark.gpu
TRAPDOOR = Trapdoor(3, 5, 7, 11)


def quiet(_what: str, _share: float | None) -> None:
    pass


@pytest.mark.parametrize("group", ["g1", "g2"])
def test_multiples(cuda: CudaBackend, host: Backend, rng: np.random.Generator, group: Group) -> None:
    point: Any = generators()[group == "g2"]
    for n_expected in (1, 5000, 2**24):
        there, here = cuda.fixed_base(point, n_expected), host.fixed_base(point, n_expected)
        for n in (0, 1, 3, 4, 513, 5000):
            scalars = FrPlain(random_limbs(rng, n) if n else np.zeros((0, 4), dtype=np.uint64))
            expected = here.multiples(scalars).limbs
            assert np.array_equal(there.multiples(scalars).limbs, expected)
            assert np.array_equal(cuda.get(there.multiples(cuda.put(scalars))).limbs, expected)


@pytest.mark.parametrize("n_constraints", [1, 30, 1000])
def test_keys_are_those_of_the_host(cuda: CudaBackend, host: Backend, tmp_path: Path, n_constraints: int) -> None:
    circuit = constraints(n_constraints)
    for backend in (cuda, host):
        with (tmp_path / backend.name).open("wb") as file:
            write_key(file, circuit, TRAPDOOR, backend, quiet)
    assert (tmp_path / "cuda").read_bytes() == (tmp_path / "host").read_bytes()
    made, read = make_zkey(circuit, TRAPDOOR, cuda, quiet), read_zkey(tmp_path / "host")
    for name in ("ic", "a", "b1", "b2", "c", "h"):
        assert np.array_equal(cuda.get(getattr(made, name)).limbs, getattr(read, name).limbs), name


def test_a_second_proof_takes_nothing_from_the_device(cuda: CudaBackend) -> None:
    n = 2**12 - 2
    circuit = constraints(n)
    zkey = make_zkey(circuit, fresh_trapdoor(circuit.header.domain_size), cuda, quiet)
    limits = TableLimits(*split_limit(TableLimits.sets(zkey.header), 64 << 20))
    key = hold_key(zkey, Path("synthetic"), cuda, limits)
    raw = b"".join(value.to_bytes(32, "little") for value in witness(n))
    memory = cupy().cuda.alloc_pinned_memory(len(raw))
    pinned = np.frombuffer(memory, dtype=np.uint64, count=len(raw) // 8).reshape(-1, 4)
    pinned[:] = np.frombuffer(raw, dtype="<u8").reshape(-1, 4)
    wires = Witness(FrPlain(pinned), "witness")
    held = []
    for _ in range(3):
        parts = prove_on_device(key, synthesise(key, wires))
        held.append((cuda.workspace.n_bytes, cuda.workspace.used_bytes))
        check(key, finalise(key, parts))
        assert min(vars(parts.durations).values()) > 0
    assert held[0] == held[1] == held[2]


def test_a_key_holds_what_a_check_foresees(cuda: CudaBackend) -> None:
    circuit = constraints(1000)
    zkey = make_zkey(circuit, fresh_trapdoor(circuit.header.domain_size), cuda, quiet)
    need = least_on_device(zkey.header)
    used_bytes = cuda.workspace.used_bytes
    key = hold_key(zkey, Path("synthetic"), cuda)
    assert key.held_bytes == need.held_bytes
    assert cuda.workspace.used_bytes - used_bytes >= need.held_bytes
    raw = np.frombuffer(b"".join(value.to_bytes(32, "little") for value in witness(1000)), dtype="<u8").reshape(-1, 4)
    prove_on_device(key, synthesise(key, Witness(FrPlain(raw), "witness")))
    assert cuda.workspace.n_bytes >= need.held_bytes + need.work_bytes
