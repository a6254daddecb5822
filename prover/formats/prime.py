"""The prime that a header starts with: which curve a file is for, said before anything else is said about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.formats.field import prime_name

if TYPE_CHECKING:
    from prover.formats.container import Container, Section

MAX_PRIME_BYTES = 128


@dataclass(frozen=True)
class Prime:
    """A prime of a header.

    Args:
        value: The number itself.
        n_bytes: Bytes of an element of its field.
        offset: Of the prime in its section, its length in front included.
    """

    value: int
    n_bytes: int
    offset: int

    @property
    def end(self) -> int:
        """Where in its section the next field starts."""
        return self.offset + 4 + self.n_bytes


def read_prime(file: Container, section: Section, offset: int, title: str) -> Prime:
    """Read ``u32 length | prime``.

    Args:
        file: An open file.
        section: Its header.
        offset: In the section.
        title: Of the section, for messages.

    Raises:
        InputError: It does not fit into the section, or its length is not a whole number of 64-bit limbs.
    """
    where = f"section {section.kind} ({title}), length of a field element"
    at = section.offset + offset
    if offset + 4 > section.n_bytes:
        file.mismatch(where, at, "4 bytes", f"{max(0, section.n_bytes - offset)} bytes")
    (n_bytes,) = file.read_u32(section, offset, 1)
    if n_bytes % 8 or not 0 < n_bytes <= MAX_PRIME_BYTES:
        file.mismatch(where, at, f"a multiple of 8 up to {MAX_PRIME_BYTES}", n_bytes)
    if n_bytes > section.n_bytes - offset - 4:
        file.mismatch(where, at, f"at most the {section.n_bytes - offset - 4} bytes that follow", n_bytes)
    return Prime(int.from_bytes(file.read_bytes(section, offset + 4, n_bytes), "little"), n_bytes, offset)


def require_prime(file: Container, section: Section, prime: Prime, expected: int, n_bytes: int) -> None:
    """Refuse a file over another field, by the name of that field.

    Raises:
        InputError: The prime is not the expected one, or its elements have another length.
    """
    at = section.offset + prime.offset
    if prime.value != expected:
        place, hint = f"section {section.kind}, prime", "this prover takes BLS12-381: circom --prime bls12381"
        found = prime_name(prime.value)
        file.mismatch(place, at + 4, prime_name(expected), found, code="curve", hint=hint)
    if prime.n_bytes != n_bytes:
        file.mismatch(f"section {section.kind}, length of a field element", at, n_bytes, prime.n_bytes)
