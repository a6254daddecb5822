"""How many bytes loading a key and proving with it take, from the counts in the zkey's header alone.

A daemon reserves these before it starts the work, so they are upper bounds; a test holds them against the measured
growth of a process. The terms follow ``prover.formats.zkey``, ``prover.groth16`` and the host backend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.formats.zkey import COEFFICIENT_BYTES, G1_BYTES, G2_BYTES

if TYPE_CHECKING:
    from prover.formats.zkey import ZkeyHeader

FR_BYTES = 32
ENTRY_BYTES = FR_BYTES + 4  # a loaded coefficient: value and column
IC_TEXT_BYTES = 1024  # one point of IC as Python strings in the verification key
# An MSM, a point, see kernels/src/host/msm.hpp: images, digits and their order (6 bytes for each of 2 or 4 parts of a
# scalar and each window, of which there are fewer the more points there are), and the buckets of one window.
MSM_G1_BYTES, MSM_G2_BYTES = 96 + 2 * 6 * 14 + 48, 576 + 4 * 6 * 8 + 96
MAX_MSM_G1, MAX_MSM_G2 = 2**20, 2**18  # more points are taken in pieces
# A point on a device, with its images by the endomorphism: see kernels/cuda/msm_shape.py.
DEVICE_G1_BYTES, DEVICE_G2_BYTES = 144, 768
THREAD_BYTES = 2**20  # touched stack, allocator arena and the points at work of one thread
FIXED_BYTES = 4 * 2**20  # read buffers, small objects, and what the allocator keeps between them


@dataclass(frozen=True)
class MemoryEstimate:
    """Upper bounds, in bytes, of what a circuit takes in this process.

    Args:
        held_bytes: A loaded key, for as long as it stays loaded.
        load_bytes: The most while it is being loaded, ``held_bytes`` included.
        work_bytes: The most for one proof, on top of ``held_bytes``.
    """

    held_bytes: int
    load_bytes: int
    work_bytes: int


@dataclass(frozen=True)
class DeviceNeed:
    """What a circuit takes on an NVIDIA device at least, in bytes: what an MSM needs in between comes on top.

    Args:
        held_bytes: A loaded key.
        work_bytes: The vectors of one proof.
    """

    held_bytes: int
    work_bytes: int


def least_on_device(header: ZkeyHeader) -> DeviceNeed:
    """Count what is on a device for certain, from the counts of a proving key."""
    matrices_bytes = header.n_coefficients * ENTRY_BYTES + 2 * 8 * (header.domain_size + 1)
    points_bytes = (3 * header.n_vars + header.domain_size) * DEVICE_G1_BYTES + header.n_vars * DEVICE_G2_BYTES
    vectors_bytes = (header.n_vars + 5 * header.domain_size) * FR_BYTES  # witness, A w, B w, and the three of H
    return DeviceNeed(points_bytes + matrices_bytes, vectors_bytes)


def estimate_of(header: ZkeyHeader, threads: int) -> MemoryEstimate:
    """Bound the memory of a circuit on the host backend from its counts.

    Args:
        header: Of its proving key.
        threads: Of the backend.
    """
    points_bytes = (
        header.n_vars * (2 * G1_BYTES + G2_BYTES)  # A, B1 and B2
        + (header.n_vars - header.n_public - 1) * G1_BYTES  # C
        + header.domain_size * G1_BYTES  # H
    )
    row_starts_bytes = 2 * 8 * (header.domain_size + 1)
    matrices_bytes = header.n_coefficients * ENTRY_BYTES + row_starts_bytes
    key_text_bytes = (header.n_public + 1) * (G1_BYTES + IC_TEXT_BYTES)
    held_bytes = points_bytes + matrices_bytes + key_text_bytes + FIXED_BYTES
    # While section 4 is split: the section, one matrix' share of it, that share sorted (24 bytes more an entry for
    # masks and the order), and the counts of the rows; the points are read afterwards.
    split_bytes = header.n_coefficients * (3 * COEFFICIENT_BYTES + 24) + row_starts_bytes
    load_bytes = max(held_bytes, matrices_bytes + split_bytes + FIXED_BYTES)
    widest = max(header.n_vars, header.domain_size)
    msm_bytes = max(min(widest, MAX_MSM_G1) * MSM_G1_BYTES, min(header.n_vars, MAX_MSM_G2) * MSM_G2_BYTES)
    h_bytes = header.domain_size * 3 * FR_BYTES  # copies of A w and B w, and the roots of unity
    work_bytes = (
        header.n_vars * 2 * FR_BYTES  # the witness, and the bytes it came from
        + header.domain_size * 3 * FR_BYTES  # A w, B w and the H scalars
        + max(msm_bytes, h_bytes)  # one after the other
        + threads * THREAD_BYTES
        + FIXED_BYTES
    )
    return MemoryEstimate(held_bytes, load_bytes, work_bytes)
