"""Reader of the header of .ptau version 1, powers of tau as snarkjs keeps them. Nothing here computes with the points.

Section 1: ``u32 bytes of an element | prime | u32 power | u32 power of the ceremony``. With n = 2^power, section 2
holds 2n - 1 points of G1, 3 n of G2, 4 and 5 n of G1, 6 one of G2, 7 the contributions. ``prepare phase2`` adds
sections 12 to 15: the Lagrange bases of all domains up to 2n (12) and up to n, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.formats.prime import Prime, read_prime

if TYPE_CHECKING:
    from prover.formats.container import Container

VERSION = 1
MAX_POWER = 28  # of all ceremonies that there were, and of what snarkjs makes
TITLES = {
    1: "header",
    2: "tau in G1",
    3: "tau in G2",
    4: "alpha tau in G1",
    5: "beta tau in G1",
    6: "beta in G2",
    7: "contributions",
    12: "Lagrange tau in G1",
    13: "Lagrange tau in G2",
    14: "Lagrange alpha tau in G1",
    15: "Lagrange beta tau in G1",
}


@dataclass(frozen=True)
class PtauHeader:
    """What a .ptau file says of itself, over any curve; the sections' lengths agree with it.

    Args:
        prime: Of the coordinates.
        power: It serves circuits of up to 2^power rows.
        ceremony_power: Of the ceremony that it was cut from.
        n_contributions: Recorded in section 7.
        prepared: Whether the Lagrange bases are there.
    """

    prime: Prime
    power: int
    ceremony_power: int
    n_contributions: int
    prepared: bool


def read_header(file: Container) -> PtauHeader:
    """Read the header of an open .ptau file, and hold the length of every section against it.

    Raises:
        InputError: A length or count does not agree with another.
    """
    section = file.section(1, "header")
    prime = read_prime(file, section, 0, "header")
    file.section(1, "header", prime.end + 8)
    power, ceremony_power = file.read_u32(section, prime.end, 2)
    if power > MAX_POWER:
        file.mismatch("section 1 (header), power", section.offset + prime.end, f"at most {MAX_POWER}", power)
    n, g1_bytes, g2_bytes = 1 << power, 2 * prime.n_bytes, 4 * prime.n_bytes
    lengths = {2: (2 * n - 1) * g1_bytes, 3: n * g2_bytes, 4: n * g1_bytes, 5: n * g1_bytes, 6: g2_bytes}
    prepared = 12 in file.sections
    if prepared:
        shorter = (2 * n - 1) * g1_bytes
        lengths |= {12: (4 * n - 1) * g1_bytes, 13: (2 * n - 1) * g2_bytes, 14: shorter, 15: shorter}
    for kind, n_bytes in lengths.items():
        file.section(kind, TITLES[kind], n_bytes)
    contributions = file.section(7, TITLES[7])
    if contributions.n_bytes < 4:
        file.mismatch("section 7 (contributions)", contributions.offset, "4 bytes", f"{contributions.n_bytes} bytes")
    return PtauHeader(prime, power, ceremony_power, file.read_u32(contributions, 0, 1)[0], prepared)
