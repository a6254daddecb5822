"""Whether a witness satisfies a circuit, constraint by constraint: what a proof that does not verify cannot say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels.host.elements import products, to_montgomery_twice
from kernels.interface import CsrRows
from prover.errors import InputError, ProofInvalidError

if TYPE_CHECKING:
    from pathlib import Path

    from kernels.interface import Backend, FrMont
    from prover.formats.r1cs import Combinations, R1cs
    from prover.formats.wtns import Witness
    from prover.formats.zkey import ZkeyHeader

_WIRES_SHOWN = 8


def check_circuit(circuit: R1cs, zkey: Path, header: ZkeyHeader) -> None:
    """Check that a circuit has the counts of a key: a wrong file should be called that, not an unsatisfied witness.

    Raises:
        InputError: It has other counts.
    """
    ours, theirs = circuit.header, header
    for what, found, expected in (
        ("wires", ours.n_wires, theirs.n_vars),
        ("public values", ours.n_public, theirs.n_public),
        ("rows of the domain", ours.domain_size, theirs.domain_size),
    ):
        if found != expected:
            raise InputError(
                "r1cs-key",
                f"{circuit.name} has {found} {what}, and the circuit of {zkey} has {expected}",
                "the key was made for another circuit, or for another version of it",
            )


def check_witness(circuit: R1cs, witness: Witness, backend: Backend) -> None:
    """Check every constraint A w * B w = C w.

    Args:
        circuit: With as many wires as the witness has elements.
        witness: The values; none of them appears in a message.
        backend: What computes.

    Raises:
        ProofInvalidError: Names the first constraint that does not hold, and the wires in it.
        KernelError: The backend failed.
    """
    a, b, c = (_times(circuit, part, witness, backend) for part in (circuit.a, circuit.b, circuit.c))
    bad = np.flatnonzero((products(a, b).limbs != c.limbs).any(axis=1))
    if not len(bad):
        return
    first, n = int(bad[0]), circuit.header.n_constraints
    parts = ", ".join(f"{name}: {_wires(part, first)}" for name, part in zip("ABC", _parts(circuit), strict=True))
    raise ProofInvalidError(
        "witness-unsatisfied",
        f"{witness.name} does not satisfy constraint {first} of {circuit.name} (counted from 0; {len(bad)} of {n} "
        f"do not hold); its wires are {parts}",
        "the witness was calculated for another circuit, or changed; the .sym file of the circuit names the wires",
        {"constraint": first, "n_unsatisfied": len(bad), "n_constraints": n},
    )


def _parts(circuit: R1cs) -> tuple[Combinations, Combinations, Combinations]:
    return circuit.a, circuit.b, circuit.c


def _times(circuit: R1cs, part: Combinations, witness: Witness, backend: Backend) -> FrMont:
    n_rows = circuit.header.n_constraints
    starts = np.zeros(n_rows + 1, dtype=np.uint64)
    starts[1:] = np.cumsum(np.bincount(part.rows, minlength=n_rows))
    rows = CsrRows(starts, part.wires, to_montgomery_twice(part.values), circuit.header.n_wires)
    return backend.multiply(backend.load_matrix(rows), witness.values)


def _wires(part: Combinations, row: int) -> str:
    begin, end = np.searchsorted(part.rows, (row, row + 1))
    shown = [str(wire) for wire in part.wires[begin : min(end, begin + _WIRES_SHOWN)]]
    return " ".join(shown) + (f" and {end - begin - _WIRES_SHOWN} more" if end - begin > _WIRES_SHOWN else "") or "none"
