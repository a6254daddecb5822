"""Writer of .zkey version 1 for Groth16 over BLS12-381, in the form that ``prover.formats.zkey`` describes."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from prover.formats.field import P, R
from prover.formats.zkey import COEFFICIENT_BYTES, G1_BYTES, G2_BYTES, POINTS_OFFSET, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kernels.interface import G1Affine, G2Affine
    from prover.formats.zkey import ZkeyHeader

ORDER = (1, 2, 4, 3, 9, 8, 5, 6, 7, 10)  # as snarkjs groth16 setup writes them
_CONTRIBUTIONS = bytes(64) + struct.pack("<I", 0)  # section 10: no digest of a circuit, nobody contributed


def section_bytes(header: ZkeyHeader) -> dict[int, int]:
    """Length of every section of a key, from its counts."""
    return {
        1: 4,
        2: POINTS_OFFSET + 3 * G1_BYTES + 3 * G2_BYTES,
        3: (header.n_public + 1) * G1_BYTES,
        4: 4 + header.n_coefficients * COEFFICIENT_BYTES,
        5: header.n_vars * G1_BYTES,
        6: header.n_vars * G1_BYTES,
        7: header.n_vars * G2_BYTES,
        8: (header.n_vars - header.n_public - 1) * G1_BYTES,
        9: header.domain_size * G1_BYTES,
        10: len(_CONTRIBUTIONS),
    }


def write_zkey(
    file: BinaryIO,
    header: ZkeyHeader,
    coefficients: np.ndarray[tuple[int], np.dtype[np.void]],
    points: dict[int, Iterable[G1Affine | G2Affine]],
) -> None:
    """Write a proving key.

    Args:
        file: Open for writing, empty.
        header: Counts and single points; ``file_bytes`` and ``offsets`` are not looked at.
        coefficients: Section 4, of type ``COEFFICIENT``.
        points: Sections 3 and 5 to 9 in slices, taken one after the other in ``ORDER``.

    Raises:
        ValueError: The slices of a section do not add up to its length (a fault of the caller).
        OSError: The file cannot be written.
    """
    file.write(b"zkey" + struct.pack("<II", VERSION, len(ORDER)))
    for kind in ORDER:
        expected = section_bytes(header)[kind]
        file.write(struct.pack("<IQ", kind, expected))
        written = sum(file.write(part) for part in _parts(kind, header, coefficients, points))
        if written != expected:
            raise ValueError(f"section {kind} has {written} bytes, and its counts say {expected}")


def _parts(
    kind: int,
    header: ZkeyHeader,
    coefficients: np.ndarray[tuple[int], np.dtype[np.void]],
    points: dict[int, Iterable[G1Affine | G2Affine]],
) -> Iterator[bytes | memoryview]:
    if kind == 1:
        yield struct.pack("<I", 1)
    elif kind == 2:
        yield struct.pack("<I", 48) + P.to_bytes(48, "little") + struct.pack("<I", 32) + R.to_bytes(32, "little")
        yield struct.pack("<III", header.n_vars, header.n_public, header.domain_size)
        singles = (header.alpha1, header.beta1, header.beta2, header.gamma2, header.delta1, header.delta2)
        yield b"".join(single.limbs.tobytes() for single in singles)
    elif kind == 4:
        yield struct.pack("<I", header.n_coefficients)
        yield coefficients.view(np.uint8).data
    elif kind == 10:
        yield _CONTRIBUTIONS
    else:
        for part in points[kind]:
            yield part.limbs.reshape(-1).view(np.uint8).data
