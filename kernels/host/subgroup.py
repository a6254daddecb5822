"""Whether points of the curves lie in the subgroups of order r, one by one or many at once.

One point: Scott, https://eprint.iacr.org/2021/1130. With the curve's parameter z, p = (z-1)^2 (z^4-z^2+1) / 3 + z and
r = z^4 - z^2 + 1. G1: phi(P) = -z^2 P gives 0 = (phi^2 + phi + 1) P = (z^4 - z^2 + 1) P = r P. G2: psi(P) = z P gives
0 = (psi^2 - (z+1) psi + p) P = (p - z) P = (z-1)^2/3 r P, and the order of the twist shares no factor with (z-1)^2/3.
Neither has an error.

Many points: each is thrown into one of B buckets at random, and the B sums are looked at instead. Take one point
outside the subgroup, and let the others be thrown first: with this one every sum is a member in at most one of its B
places, where it must cancel, up to members, what lies there, while the other buckets hold members. So a round misses
with a probability of at most 1/B, whatever the points are, and k rounds with B^-k. The buckets come from the system's
generator. (One sum with random coefficients would miss with 1/3 however long they are: 3 divides the cofactor of G1.)
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

from kernels.host.library import load_library
from kernels.interface import G1Affine, G2Affine

if TYPE_CHECKING:
    from numpy.typing import NDArray

SOUNDNESS_BITS = 64  # rounds of buckets together miss with a probability of at most 2^-64
ROUNDS = 8
N_BUCKETS = 2 ** (SOUNDNESS_BITS // ROUNDS)
DIRECT_BELOW = 2 * ROUNDS * N_BUCKETS  # fewer points are cheaper one by one
SLICE = 2**19  # points that share their buckets: memory for these, and nothing for the others

_P = 0x1A0111EA397FE69A4B1BA7B6434BACD764774B84F38512BF6730D2A0F6B0F6241EABFFFEB153FFFFB9FEFFFFFFFFAAAB
_Z = -0xD201000000010000


def first_outside_subgroup(points: G1Affine | G2Affine, threads: int) -> int | None:
    """Find a point outside the subgroup of order r.

    Args:
        points: On their curve, which ``Backend.first_invalid`` checks. Infinity is a member.
        threads: CPU threads.

    Returns:
        Index of such a point, the first one where there are fewer than ``DIRECT_BELOW``; None where all are members, up
        to an error of 2^-64 for ``DIRECT_BELOW`` points and more, and without error for fewer.

    Raises:
        KernelError: The library is missing, or there is not enough memory or threads.
    """
    for begin in range(0, len(points), SLICE):
        part = type(points)(points.limbs[begin : begin + SLICE])
        index = _first_outside(part, threads) if len(part) < DIRECT_BELOW else _outside_by_buckets(part, threads)
        if index is not None:
            return begin + index
    return None


def _outside_by_buckets(points: G1Affine | G2Affine, threads: int) -> int | None:
    for _ in range(ROUNDS):
        buckets = np.frombuffer(secrets.token_bytes(len(points)), dtype=np.uint8).astype(np.uint16)
        sums = type(points)(np.empty((N_BUCKETS, points.width), dtype=np.uint64))
        arguments = (points.limbs, buckets, len(points), N_BUCKETS, threads, sums.limbs)
        load_library().call_with_best_leaf(f"cuzkops_bucket_sums_{_group(points)}", *arguments)
        bucket = _first_outside(sums, threads)
        if bucket is not None:
            members = np.flatnonzero(buckets == bucket)
            inside = _first_outside(type(points)(points.limbs[members]), threads)
            return int(members[inside or 0])  # there is one: members add up to a member
    return None


def _first_outside(points: G1Affine | G2Affine, threads: int) -> int | None:
    index = np.zeros(1, dtype=np.uint64)
    constants = _BETA if isinstance(points, G1Affine) else _PSI
    arguments = (points.limbs, constants, len(points), threads, index)
    load_library().call_with_best_leaf(f"cuzkops_first_outside_{_group(points)}", *arguments)
    return None if int(index[0]) == len(points) else int(index[0])


def _group(points: G1Affine | G2Affine) -> str:
    return "g1" if isinstance(points, G1Affine) else "g2"


def _limbs(*numbers: int) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join((n * 2**384 % _P).to_bytes(48, "little") for n in numbers), dtype="<u8").copy()


def _fp2_power(base: tuple[int, int], exponent: int) -> tuple[int, int]:
    """Power in Fp[u] / (u^2 + 1)."""
    result = (1, 0)
    for bit in f"{exponent:b}":
        result = _fp2_product(result, result)
        if bit == "1":
            result = _fp2_product(result, base)
    return result


def _fp2_product(a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
    return (a[0] * b[0] - a[1] * b[1]) % _P, (a[0] * b[1] + a[1] * b[0]) % _P


def _fp2_inverse(a: tuple[int, int]) -> tuple[int, int]:
    scale = pow(a[0] ** 2 + a[1] ** 2, -1, _P)
    return a[0] * scale % _P, -a[1] * scale % _P


# Of the two cube roots of 1 the one for which phi multiplies G1 by -z^2 (a test holds it against the generator).
_BETA = _limbs(pow(2, (_P - 1) // 3, _P))
# (1 + u)^(-(p-1)/3) and (1 + u)^(-(p-1)/2): Frobenius between the twist and its image.
_PSI = _limbs(
    *_fp2_inverse(_fp2_power((1, 1), (_P - 1) // 3)),
    *_fp2_inverse(_fp2_power((1, 1), (_P - 1) // 2)),
)
