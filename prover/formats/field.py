"""The two fields of BLS12-381 as the readers need them: moduli, and checks over arrays of limbs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kernels import moduli

if TYPE_CHECKING:
    from numpy.typing import NDArray

P, R = moduli.P, moduli.R
_R_LIMBS = [(R >> (64 * i)) & (2**64 - 1) for i in range(4)]
_FP_RADIX_INVERSE = pow(2**384, -1, P)

# What other files may hold, so that a message can name it.
KNOWN_PRIMES = {
    21888242871839275222246405745257275088548364400416034343698204186575808495617: "the scalar field of BN254 (bn128)",
    21888242871839275222246405745257275088696311157297823662689037894645226208583: "the base field of BN254 (bn128)",
    R: "the scalar field of BLS12-381",
    P: "the base field of BLS12-381",
    8444461749428370424248824938781546531375899335154063827935233455917409239041: "the scalar field of BLS12-377",
    2**64 - 2**32 + 1: "the Goldilocks field",
    0x40000000000000000000000000000000224698FC0994A8DD8C46EB2100000001: "a field of Pallas and Vesta",
    0x40000000000000000000000000000000224698FC094CF91B992D30ED00000001: "a field of Pallas and Vesta",
}
CURVES = {R: "BLS12-381", P: "BLS12-381", **dict.fromkeys(list(KNOWN_PRIMES)[:2], "BN254")}


def prime_name(prime: int) -> str:
    """Name a prime for a message."""
    return KNOWN_PRIMES.get(prime, f"an unknown prime of {prime.bit_length()} bits")


def curve_name(prime: int) -> str:
    """Name the curve that a prime belongs to, as far as it is one of a pairing that files are made for."""
    return CURVES.get(prime, prime_name(prime))


def not_below_r(limbs: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Indices of the rows of (n, 4) limbs that are not below r, in order."""
    # The top limb decides nearly always: all limbs are compared only where it does not.
    suspects = np.flatnonzero(limbs[:, 3] >= np.uint64(_R_LIMBS[3]))
    rows = limbs[suspects]
    below = np.zeros(len(rows), dtype=bool)
    equal = np.ones(len(rows), dtype=bool)
    for j in (3, 2, 1, 0):
        modulus = np.uint64(_R_LIMBS[j])
        below |= equal & (rows[:, j] < modulus)
        equal &= rows[:, j] == modulus
    return suspects[~below]


def reduce_mod_r(limbs: NDArray[np.uint64]) -> None:
    """Bring each row of (n, 4) limbs below r, in place, by taking r away up to twice (2^256 < 3 r)."""
    while len(high := not_below_r(limbs)):
        borrow = np.zeros(len(high), dtype=np.uint64)
        for j in range(4):
            digit, modulus = limbs[high, j], np.uint64(_R_LIMBS[j])
            limbs[high, j] = digit - modulus - borrow
            borrow = ((digit < modulus) | ((digit == modulus) & (borrow > 0))).astype(np.uint64)


def fp_from_montgomery(limbs: NDArray[np.uint64]) -> int:
    """Value of one base-field element from its 6 Montgomery limbs."""
    return int.from_bytes(limbs.astype("<u8").tobytes(), "little") * _FP_RADIX_INVERSE % P


def fr_value(limbs: NDArray[np.uint64]) -> int:
    """Value of one scalar-field element from its 4 plain limbs."""
    return int.from_bytes(limbs.astype("<u8").tobytes(), "little")
