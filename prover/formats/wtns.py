"""Reader of .wtns version 2: the values of all wires of one circuit, plain and little-endian."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.interface import FrPlain
from prover.formats.container import Container
from prover.formats.field import R, not_below_r, prime_name

if TYPE_CHECKING:
    from pathlib import Path

ELEMENT_BYTES = 32


@dataclass(frozen=True, eq=False)
class Witness:
    """A witness whose elements are all below r.

    Args:
        values: (n, 4) plain elements: ONE, public outputs, public inputs, private wires.
        name: Where it came from, for messages.
    """

    values: FrPlain
    name: str


def read_witness(source: Path | bytes) -> Witness:
    """Read a witness and check every element.

    Args:
        source: A .wtns file, or the bytes of one.

    Raises:
        InputError: It cannot be read, is not over the scalar field of BLS12-381, its lengths do not agree, or an
            element is not below r.
    """
    with Container(source, "wtns", 2) as file:
        header = file.section(1, "header", 40)
        raw = file.read_bytes(header, 0, 40)
        (element_bytes,) = struct.unpack_from("<I", raw, 0)
        prime = int.from_bytes(raw[4:36], "little")
        (n_witness,) = struct.unpack_from("<I", raw, 36)
        if element_bytes != ELEMENT_BYTES:
            file.fail(f"section 1 (header) says {element_bytes} bytes an element; {ELEMENT_BYTES} are understood")
        if prime != R:
            file.fail(
                f"it is over {prime_name(prime)}, and this prover takes BLS12-381",
                "curve",
                "compile the circuit with --prime bls12381",
            )
        values = file.read_limbs(file.section(2, "values", n_witness * ELEMENT_BYTES), 4)
        bad = not_below_r(values)
        if len(bad):
            file.fail(f"section 2 (values): element {bad[0]} is not below the prime", "not-canonical")
        return Witness(FrPlain(values), file.name)
