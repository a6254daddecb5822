"""Proving keys of any shape for tests, made with a known trapdoor: whoever knows it can forge, so for tests only.

The formulas are those of Groth, EUROCRYPT 2016, section 3.2, with gamma = 1 and the bases of section 9 as snarkjs makes
them: L_(2i+1)(tau) / delta, with the Lagrange basis of the double domain and roots made from 5.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import py_arkworks_bls12381 as arkworks

from prover.curve import scalar
from prover.formats.field import P, R

if TYPE_CHECKING:
    from groth16_files import Sections

TAU, ALPHA, BETA, DELTA = (pow(7, k, R) for k in (1001, 1002, 1003, 1004))
Terms = list[tuple[int, int]]  # wire, coefficient


@dataclass(frozen=True)
class Circuit:
    """Constraints A w * B w = C w over n_vars wires, of which ONE and n_public more are public; and a witness."""

    n_vars: int
    n_public: int
    constraints: list[tuple[Terms, Terms, Terms]]
    witness: list[int]

    @property
    def domain_size(self) -> int:
        return 1 << (len(self.constraints) + self.n_public).bit_length()


def lagrange(n: int) -> list[int]:
    """L_0(tau) .. L_(n-1)(tau) over the n-th roots of unity."""
    w = pow(5, (R - 1) // n, R)
    scale = (pow(TAU, n, R) - 1) * pow(n, -1, R)
    return [scale * pow(w, j, R) * pow(TAU - pow(w, j, R), -1, R) % R for j in range(n)]


def g1(value: int) -> bytes:
    return _encode(arkworks.G1Point(), value, 96)


def g2(value: int) -> bytes:
    return _encode(arkworks.G2Point(), value, 192)


def _encode(generator: Any, value: int, n_bytes: int) -> bytes:
    if value % R == 0:
        return bytes(n_bytes)
    raw = (generator * scalar(value % R)).to_xy_bytes_le()
    numbers = [int.from_bytes(raw[i : i + 48], "little") for i in range(0, n_bytes, 48)]
    return b"".join((number * 2**384 % P).to_bytes(48, "little") for number in numbers)


def zkey_sections(circuit: Circuit) -> Sections:
    """The sections of the zkey file of a circuit."""
    n, n_public = circuit.domain_size, circuit.n_public
    rows = [*circuit.constraints, *(([(wire, 1)], [], []) for wire in range(n_public + 1))]
    at_tau = lagrange(n)
    columns = [[0] * circuit.n_vars for _ in range(3)]
    entries = []
    for row, matrices in enumerate(rows):
        for matrix, terms in enumerate(matrices):
            for wire, coefficient in terms:
                columns[matrix][wire] += coefficient * at_tau[row]
                if matrix < 2:
                    value = coefficient * 2**512 % R
                    entries.append(struct.pack("<III", matrix, row, wire) + value.to_bytes(32, "little"))
    a, b, c = columns
    mixed = [BETA * a[i] + ALPHA * b[i] + c[i] for i in range(circuit.n_vars)]
    over_delta = pow(DELTA, -1, R)
    header = struct.pack("<I", 48) + P.to_bytes(48, "little") + struct.pack("<I", 32) + R.to_bytes(32, "little")
    header += struct.pack("<III", circuit.n_vars, n_public, n)
    header += g1(ALPHA) + g1(BETA) + g2(BETA) + g2(1) + g1(DELTA) + g2(DELTA)
    parts = {
        1: struct.pack("<I", 1),
        2: header,
        3: b"".join(map(g1, mixed[: n_public + 1])),
        4: struct.pack("<I", len(entries)) + b"".join(entries),
        5: b"".join(map(g1, a)),
        6: b"".join(map(g1, b)),
        7: b"".join(map(g2, b)),
        8: b"".join(g1(value * over_delta) for value in mixed[n_public + 1 :]),
        9: b"".join(g1(value * over_delta) for value in lagrange(2 * n)[1::2]),
    }
    return {kind: bytearray(part) for kind, part in parts.items()}


def wtns_sections(circuit: Circuit) -> Sections:
    """The sections of the .wtns file of a circuit's witness."""
    header = struct.pack("<I", 32) + R.to_bytes(32, "little") + struct.pack("<I", len(circuit.witness))
    values = b"".join((value % R).to_bytes(32, "little") for value in circuit.witness)
    return {1: bytearray(header), 2: bytearray(values)}
