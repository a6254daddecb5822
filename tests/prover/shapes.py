"""Circuits of every shape that the formats allow, each with a witness."""

from __future__ import annotations

import random

from trapdoor_setup import Circuit, Terms

from prover.formats.field import R

SQUARE: tuple[Terms, Terms, Terms] = ([(2, 1)], [(2, 1)], [(1, 1)])  # w2 * w2 = w1


def powers(n_constraints: int, n_public: int = 1, first: int = 3) -> Circuit:
    """w_(i+1) = w_i ^ 2, the first wires public."""
    witness = [1, first]
    for _ in range(n_constraints):
        witness.append(witness[-1] ** 2 % R)
    constraints = [([(i, 1)], [(i, 1)], [(i + 1, 1)]) for i in range(1, n_constraints + 1)]
    return Circuit(n_constraints + 2, n_public, constraints, witness)


def long_rows(n_terms: int, n_constraints: int) -> Circuit:
    """Each constraint multiplies two combinations of hundreds of wires."""
    rng = random.Random(n_terms)
    witness = [1, *(rng.randrange(R) for _ in range(n_terms))]
    constraints = []
    for _ in range(n_constraints):
        sides: list[Terms] = [[(wire, rng.randrange(1, R)) for wire in range(n_terms)] for _ in range(2)]
        left, right = (sum(witness[wire] * value for wire, value in side) for side in sides)
        constraints.append((sides[0], sides[1], [(len(witness), 1)]))
        witness.append(left * right % R)
    return Circuit(len(witness), 1, constraints, witness)


def bits(n: int) -> Circuit:
    """w * (w - 1) = 0 for n wires, of which most are 0, the others 1."""
    rng = random.Random(n)
    witness = [1, *(int(rng.random() < 0.2) for _ in range(n))]
    return Circuit(n + 1, 1, [([(i, 1)], [(i, 1), (0, R - 1)], []) for i in range(1, n + 1)], witness)


SHAPES: dict[str, Circuit] = {
    "nothing but one": Circuit(1, 0, [], [1]),
    "no constraints": Circuit(3, 2, [], [1, 5, 6]),
    "no public values": Circuit(3, 0, [SQUARE], [1, 49, 7]),
    "all public": Circuit(3, 2, [SQUARE], [1, 49, 7]),
    "unused wires": Circuit(9, 1, [SQUARE], [1, 49, 7, 1, 2, 3, 4, 5, 6]),  # infinities in A, B1, B2 and C
    "linear": Circuit(4, 1, [([(2, 1), (3, 5)], [(0, 1)], [(1, 1)])], [1, 37, 2, 7]),
    "no linear part": powers(5),  # nothing is added anywhere
    "empty rows": Circuit(3, 1, [([], [], []), SQUARE, ([(1, 4)], [], []), ([], [(2, 1)], [])], [1, 49, 7]),
    "same place twice": Circuit(3, 1, [([(2, 3), (2, R - 2)], [(2, 1)], [(1, 1)])], [1, 49, 7]),
    "terms that cancel": Circuit(3, 1, [([(2, 1), (2, R - 1)], [(1, 1)], []), SQUARE], [1, 49, 7]),
    "zeros": Circuit(3, 1, [SQUARE], [1, 0, 0]),
    "domain just full": powers(14),
    "domain just over": powers(15),
    "300 public values": powers(310, n_public=300),
    "only public values": powers(20, n_public=21),
    "rows of 300 terms": long_rows(300, 3),
    "bits": bits(200),
    "powers of one": powers(40, first=1),
}
