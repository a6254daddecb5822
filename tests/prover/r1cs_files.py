"""Files of circuits that tests make themselves: .r1cs, .wtns and a .ptau that only its header and lengths make one."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from groth16_files import join
from trapdoor_setup import wtns_sections

from prover.formats.field import P, R

if TYPE_CHECKING:
    from pathlib import Path

    from groth16_files import Sections
    from trapdoor_setup import Circuit


def r1cs_sections(circuit: Circuit, prime: int = R) -> Sections:
    """All public wires are outputs; all others private."""
    body = bytearray()
    for constraint in circuit.constraints:
        for terms in constraint:
            body += struct.pack("<I", len(terms))
            for wire, value in terms:
                body += struct.pack("<I", wire) + (value % prime).to_bytes(32, "little")
    header = struct.pack("<I", 32) + prime.to_bytes(32, "little")
    header += struct.pack("<IIIIQI", circuit.n_vars, circuit.n_public, 0, 0, circuit.n_vars, len(circuit.constraints))
    labels = b"".join(struct.pack("<Q", i) for i in range(circuit.n_vars))
    return {2: body, 1: bytearray(header), 3: bytearray(labels)}


def write_circuit(folder: Path, circuit: Circuit) -> tuple[Path, Path]:
    """Write circuit.r1cs and witness.wtns."""
    r1cs, wtns = folder / "circuit.r1cs", folder / "witness.wtns"
    r1cs.write_bytes(join("r1cs", 1, r1cs_sections(circuit)))
    wtns.write_bytes(join("wtns", 2, wtns_sections(circuit)))
    return r1cs, wtns


def ptau(power: int, *, prepared: bool) -> bytes:
    """A .ptau file full of infinities."""
    n = 1 << power
    sections: Sections = {
        1: bytearray(struct.pack("<I", 48) + P.to_bytes(48, "little") + struct.pack("<II", power, power)),
        2: bytearray((2 * n - 1) * 96),
        3: bytearray(n * 192),
        4: bytearray(n * 96),
        5: bytearray(n * 96),
        6: bytearray(192),
        7: bytearray(4),
    }
    if prepared:
        sections |= {12: bytearray((4 * n - 1) * 96), 13: bytearray((2 * n - 1) * 192)}
        sections |= {kind: bytearray((2 * n - 1) * 96) for kind in (14, 15)}
    return join("ptau", 1, sections)
