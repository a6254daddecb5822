"""Reader of .wtns version 2: the values of all wires of one circuit, plain and little-endian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.interface import FrPlain
from prover.formats.container import Container
from prover.formats.field import R, fr_value, not_below_r
from prover.formats.prime import Prime, read_prime, require_prime

if TYPE_CHECKING:
    from pathlib import Path

    from prover.formats.container import Section

VERSION = 2
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


@dataclass(frozen=True)
class WitnessHeader:
    """What a .wtns file says of itself, over any field.

    Args:
        section: Section 1.
        prime: Of the field.
        n_witness: Number of elements, which section 2 holds.
    """

    section: Section
    prime: Prime
    n_witness: int


def read_header(file: Container) -> WitnessHeader:
    """Read the header of an open .wtns file, over any field.

    Raises:
        InputError: A length does not agree with another.
    """
    section = file.section(1, "header")
    prime = read_prime(file, section, 0, "header")
    file.section(1, "header", prime.end + 4)
    (n_witness,) = file.read_u32(section, prime.end, 1)
    file.section(2, f"values, {n_witness} of them", n_witness * prime.n_bytes)
    return WitnessHeader(section, prime, n_witness)


def read_witness(source: Path | bytes) -> Witness:
    """Read a witness and check every element.

    Args:
        source: A .wtns file, or the bytes of one.

    Raises:
        InputError: It cannot be read, is not over the scalar field of BLS12-381, its lengths do not agree, or an
            element is not below r.
    """
    with Container(source, "wtns", VERSION) as file:
        header = read_header(file)
        require_prime(file, header.section, header.prime, R, ELEMENT_BYTES)
        section = file.section(2, "values")
        values = file.read_limbs(section, 4)
        bad = not_below_r(values)
        if len(bad):
            place = f"section 2 (values), element {bad[0]}"
            # Its value stays unsaid: messages are logged, and witnesses are secret.
            above = fr_value(values[bad[0]]) - R
            found = "the prime itself" if above == 0 else "a larger number"
            at = section.offset + ELEMENT_BYTES * int(bad[0])
            file.mismatch(place, at, "a number below the prime", found, code="not-canonical")
        return Witness(FrPlain(values), file.name)
