"""Reader of .r1cs version 1, as circom writes it: the constraints A w * B w = C w of a circuit.

Section 1: ``u32 bytes of an element | prime | u32 wires, public outputs, public inputs, private inputs | u64 labels |
u32 constraints``. Section 2: for each constraint three combinations ``u32 terms | terms x (u32 wire | coefficient)``,
coefficients plain and little-endian. Section 3: one u64 label a wire. Sections 4 and 5 are custom gates, which only
PLONK has. https://github.com/iden3/r1csfile/blob/master/doc/r1cs_bin_format.md
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from kernels.interface import FrPlain
from prover.formats.container import Container
from prover.formats.field import R, not_below_r
from prover.formats.prime import Prime, read_prime, require_prime

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from prover.formats.container import Section

VERSION = 1
ELEMENT_BYTES = 32
_TERM_WORDS = 1 + ELEMENT_BYTES // 4
_ZEROS_IN_A_ROW = 64  # after so many empty combinations it pays to count how many more there are


@dataclass(frozen=True)
class R1csHeader:
    """What an .r1cs file says of itself, over any field.

    Args:
        prime: Of the field.
        n_wires: ONE included.
        n_public_outputs: They follow ONE.
        n_public_inputs: They follow the outputs.
        n_private_inputs: They follow the public inputs.
        n_labels: Signals before the compiler dropped some.
        n_constraints: In section 2.
    """

    prime: Prime
    n_wires: int
    n_public_outputs: int
    n_public_inputs: int
    n_private_inputs: int
    n_labels: int
    n_constraints: int

    @property
    def n_public(self) -> int:
        """Public outputs and inputs, without ONE."""
        return self.n_public_outputs + self.n_public_inputs

    @property
    def domain_size(self) -> int:
        """The smallest power of two with a row for each constraint, each public value and ONE."""
        return 1 << (self.n_constraints + self.n_public).bit_length()


@dataclass(frozen=True, eq=False)
class Combinations:
    """One of the matrices A, B and C, entry by entry in the order of the file.

    Args:
        rows: (n,) int64, rising: the constraint of each entry.
        wires: (n,) uint32.
        values: n coefficients.
    """

    rows: NDArray[np.int64]
    wires: NDArray[np.uint32]
    values: FrPlain


@dataclass(frozen=True, eq=False)
class R1cs:
    """The constraints of a circuit over the scalar field of BLS12-381.

    Args:
        name: The file, for messages.
        header: Its counts.
        a: Left factors.
        b: Right factors.
        c: Products.
    """

    name: str
    header: R1csHeader
    a: Combinations
    b: Combinations
    c: Combinations


@dataclass(frozen=True, eq=False)
class _Terms:
    """All terms of section 2: the combination of each (3 row + matrix), its place in words, wire and coefficient."""

    combination: NDArray[np.int64]
    places: NDArray[np.int64]
    wires: NDArray[np.uint32]
    values: NDArray[np.uint64]


def read_r1cs(path: Path) -> R1cs:
    """Read the constraints of a circuit.

    Raises:
        InputError: The file cannot be read, is over another field, a length, count or index does not agree with
            another, a coefficient is not below r, or it has custom gates.
    """
    with Container(path, "r1cs", VERSION) as file:
        header = read_header(file)
        require_prime(file, file.section(1, "header"), header.prime, R, ELEMENT_BYTES)
        section = file.section(2, "constraints")
        if section.n_bytes % 4:
            found = f"{section.n_bytes} bytes"
            file.mismatch("section 2 (constraints)", section.offset, "whole words of 4 bytes", found)
        words = file.read_words(section)
        terms = _terms(words, _starts(file, section, words, 3 * header.n_constraints))
        _check_terms(file, section, header, terms)
        return R1cs(file.name, header, *(_matrix(terms, matrix) for matrix in range(3)))


def read_header(file: Container) -> R1csHeader:
    """Read the header of an open .r1cs file, over any field.

    Raises:
        InputError: A length or count does not agree with another, or the file has custom gates.
    """
    section = file.section(1, "header")
    prime = read_prime(file, section, 0, "header")
    file.section(1, "header", prime.end + 28)
    n_wires, n_outputs, n_public, n_private, low, high, n_constraints = file.read_u32(section, prime.end, 7)
    at = section.offset + prime.end
    if n_outputs + n_public + n_private >= n_wires:
        where = "section 1 (header), outputs and inputs"
        file.mismatch(where, at + 4, f"fewer than the {n_wires} wires", n_outputs + n_public + n_private)
    constraints = file.section(2, "constraints")
    if constraints.n_bytes < 12 * n_constraints:
        where = f"section 2 (constraints, {n_constraints} of them)"
        expected = f"at least {12 * n_constraints} bytes"
        file.mismatch(where, constraints.offset, expected, f"{constraints.n_bytes} bytes")
    if 3 in file.sections:
        file.section(3, f"labels of {n_wires} wires", 8 * n_wires)
    for kind in (4, 5):
        gates = file.sections.get(kind)
        if gates is not None and (gates.n_bytes < 4 or file.read_u32(gates, 0, 1) != (0,)):
            where, hint = (
                f"section {kind} (custom gates)",
                "Groth16 has no custom gates: compile the circuit without them",
            )
            file.mismatch(where, gates.offset, "none", "some", code="custom-gates", hint=hint)
    return R1csHeader(prime, n_wires, n_outputs, n_public, n_private, low | high << 32, n_constraints)


def _starts(file: Container, section: Section, words: NDArray[np.uint32], n: int) -> NDArray[np.int64]:
    """Where each of n combinations starts, in words of the section; the last must end with the section."""
    view, end = words.data, len(words)
    parts: list[NDArray[np.int64]] = []
    starts = array("q")
    n_done = at = zeros = 0
    while n_done < n:
        if at >= end:
            _refuse_end(file, section, at, n_done, n)
        starts.append(at)
        n_done += 1
        n_terms = view[at]
        at += 1 + _TERM_WORDS * n_terms
        zeros = 0 if n_terms else zeros + 1
        if zeros == _ZEROS_IN_A_ROW:
            run = _zeros_from(words[at : at + n - n_done])
            parts += [np.frombuffer(starts, dtype=np.int64), np.arange(at, at + run, dtype=np.int64)]
            starts = array("q")
            n_done += run
            at += run
            zeros = 0
    if at != end:
        _refuse_end(file, section, at, n, n)
    return np.concatenate([*parts, np.array(starts, dtype=np.int64)])


def _zeros_from(words: NDArray[np.uint32]) -> int:
    """How many words are 0 before the first that is not."""
    others = words != 0
    first = int(np.argmax(others)) if len(others) else 0
    return first if len(others) and others[first] else len(others)


def _refuse_end(file: Container, section: Section, at: int, n_done: int, n: int) -> NoReturn:
    where = f"section 2 (constraints), after {n_done} of {n} combinations"
    end = section.offset + section.n_bytes
    found = f"byte {section.offset + 4 * at}"
    expected = f"the end of the section, byte {end}" if n_done == n else f"a place before byte {end}"
    file.mismatch(where, min(end, section.offset + 4 * at), expected, found)


def _terms(words: NDArray[np.uint32], starts: NDArray[np.int64]) -> _Terms:
    """Take all terms out of the words, without a loop over them."""
    counts = words[starts].astype(np.int64)
    combination = np.repeat(np.arange(len(starts), dtype=np.int64), counts)
    first_term = np.cumsum(counts) - counts
    places = np.repeat(starts + 1 - _TERM_WORDS * first_term, counts)
    places += _TERM_WORDS * np.arange(len(places), dtype=np.int64)
    if not len(places):
        return _Terms(combination, places, np.zeros(0, np.uint32), np.zeros((0, 4), np.uint64))
    # Each term is 9 words. The windows are a view; taking those at the places copies the terms alone.
    rows = np.lib.stride_tricks.sliding_window_view(words, _TERM_WORDS)[places]
    return _Terms(combination, places, rows[:, 0].copy(), rows[:, 1:].copy().view(np.uint64))


def _check_terms(file: Container, section: Section, header: R1csHeader, terms: _Terms) -> None:
    checks = (
        ("wire", 0, np.flatnonzero(terms.wires >= header.n_wires), f"a number below {header.n_wires}"),
        ("coefficient", 4, not_below_r(terms.values), "a number below the prime"),
    )
    for what, shift, bad, expected in checks:
        if len(bad):
            term = int(bad[0])
            row, matrix = divmod(int(terms.combination[term]), 3)
            found = int(terms.wires[term]) if what == "wire" else "a larger one, or the prime itself"
            where = f"section 2 (constraints), constraint {row}, {'ABC'[matrix]}, {what}"
            file.mismatch(where, section.offset + 4 * int(terms.places[term]) + shift, expected, found)


def _matrix(terms: _Terms, matrix: int) -> Combinations:
    chosen = terms.combination % 3 == matrix
    return Combinations(terms.combination[chosen] // 3, terms.wires[chosen], FrPlain(terms.values[chosen]))
