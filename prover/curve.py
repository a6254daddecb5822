"""Points between our forms and py_arkworks_bls12381, the independent library that assembles and verifies proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import py_arkworks_bls12381 as arkworks

from kernels.interface import G1Affine, G2Affine
from prover.formats.field import P, fp_from_montgomery

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from prover.formats.snarkjs import G1Point, G2Point

FP_BYTES = 48


def scalar(value: int) -> Any:
    """Make an element of Fr from a number below r."""
    return arkworks.Scalar.from_le_bytes(value.to_bytes(32, "little"))


def g1(point: G1Point) -> Any:
    """Make a point of G1 that is known to be on the curve; its subgroup is not checked."""
    x, y = point or (0, 0)
    return arkworks.G1Point.from_xy_bytes_unchecked_le(_bytes(x, y))


def g2(point: G2Point) -> Any:
    """Make a point of G2 that is known to be on the curve; its subgroup is not checked."""
    x, y = point or ((0, 0), (0, 0))
    return arkworks.G2Point.from_xy_bytes_unchecked_le(_bytes(*x, *y))


def g1_coordinates(point: Any) -> G1Point:
    """Take the affine coordinates of a point of G1."""
    x, y = _numbers(point.to_xy_bytes_le())
    return (x, y) if point != arkworks.G1Point.identity() else None


def g2_coordinates(point: Any) -> G2Point:
    """Take the affine coordinates of a point of G2."""
    x0, x1, y0, y1 = _numbers(point.to_xy_bytes_le())
    return ((x0, x1), (y0, y1)) if point != arkworks.G2Point.identity() else None


def g1_from_limbs(points: G1Affine, index: int = 0) -> G1Point:
    """Take the affine coordinates of one point of an array."""
    x, y = (fp_from_montgomery(points.limbs[index, j : j + 6]) for j in (0, 6))
    return (x, y) if x or y else None


def g2_from_limbs(points: G2Affine) -> G2Point:
    """Take the affine coordinates of the first point of an array."""
    x0, x1, y0, y1 = (fp_from_montgomery(points.limbs[0, j : j + 6]) for j in (0, 6, 12, 18))
    return ((x0, x1), (y0, y1)) if x0 or x1 or y0 or y1 else None


def generators() -> tuple[G1Affine, G2Affine]:
    """The generators of G1 and G2, one point each."""
    points = (arkworks.G1Point().to_xy_bytes_le(), arkworks.G2Point().to_xy_bytes_le())
    limbs = [_montgomery_limbs(_numbers(raw)) for raw in points]
    return G1Affine(limbs[0]), G2Affine(limbs[1])


def pairing_document(point1: G1Point, point2: G2Point) -> list[list[list[str]]]:
    """Write e(point1, point2) as snarkjs writes ``vk_alphabeta_12``: Fp12 over Fp6 over Fp2, lowest part first."""
    pairing = _numbers(bytes.fromhex(str(arkworks.GT.pairing(g1(point1), g2(point2)))))
    pairs = [[str(c0), str(c1)] for c0, c1 in zip(pairing[::2], pairing[1::2], strict=True)]
    return [pairs[:3], pairs[3:]]


def _montgomery_limbs(coordinates: list[int]) -> NDArray[np.uint64]:
    raw = _bytes(*(c * 2 ** (8 * FP_BYTES) % P for c in coordinates))
    return np.frombuffer(raw, dtype="<u8").reshape(1, -1).copy()


def _bytes(*coordinates: int) -> bytes:
    return b"".join(c.to_bytes(FP_BYTES, "little") for c in coordinates)


def _numbers(raw: bytes) -> list[int]:
    return [int.from_bytes(raw[i : i + FP_BYTES], "little") for i in range(0, len(raw), FP_BYTES)]
