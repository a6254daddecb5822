"""Verification of Groth16 proofs with py_arkworks_bls12381, which shares no code with the prover.

A proof (A, B, C) of public values x holds where e(A, B) = e(alpha, beta) e(IC(x), gamma) e(C, delta), with
IC(x) = IC[0] + sum x_i IC[i+1] (Groth, EUROCRYPT 2016, section 3.2). Groth16 proofs are malleable: (-A, -B, C) and
others made from a valid proof are valid proofs of the same public values.
"""

from __future__ import annotations

from typing import Any

import py_arkworks_bls12381 as arkworks

from prover.curve import g1, g2, scalar
from prover.errors import InputError, ProofInvalidError
from prover.formats.snarkjs import read_proof, read_public, read_verification_key


def verify(vkey: Any, public: Any, proof: Any) -> None:
    """Verify one proof.

    Args:
        vkey: The parsed verification_key.json.
        public: The parsed public.json.
        proof: The parsed proof.json.

    Raises:
        InputError: A document is malformed, a number is not canonical, a point is not on its curve, the number of
            public values is wrong, or a point of the verification key is not in its subgroup.
        ProofInvalidError: The proof does not hold, or one of its points is not in its subgroup.
    """
    key = read_verification_key(vkey, "verification key")
    values = read_public(public, "public values")
    points = read_proof(proof, "proof")
    if len(values) != key.n_public:
        raise InputError(
            "public-count", f"the verification key takes {key.n_public} public values, and {len(values)} were given"
        )
    alpha, beta, gamma, delta = g1(key.alpha1), g2(key.beta2), g2(key.gamma2), g2(key.delta2)
    ic = [g1(point) for point in key.ic]
    public_sum = arkworks.G1Point.multiexp_unchecked(ic, [scalar(1), *map(scalar, values)])
    if not all(point.is_in_subgroup() for point in (alpha, beta, gamma, delta, public_sum)):
        raise InputError("vkey-subgroup", "verification key: a point is not in the subgroup of order r")
    a, b, c = g1(points.a), g2(points.b), g1(points.c)
    if not all(point.is_in_subgroup() for point in (a, b, c)):
        raise ProofInvalidError("proof-subgroup", "the proof is not valid: a point is not in the subgroup of order r")
    if not arkworks.GT.pairing_check([-a, alpha, public_sum, c], [b, beta, gamma, delta]):
        raise ProofInvalidError("proof-invalid", "the proof is not valid for these public values and this key")
