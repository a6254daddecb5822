"""Groth16 over BLS12-381 with zkey files: what is computed, stage by stage.

The stages are functions of their own, so that a caller can time, queue and log them: ``synthesise`` (host),
``prove_on_device`` (the backend), ``finalise`` (host), ``check`` (an independent library). ``prove`` is all of them.

References: Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016, section 3.2; the zkey
conventions (odd coset, no division by Z, the root of unity made from 5) are those of snarkjs 0.7.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from kernels.interface import Backend, Bases, FrMont, FrPlain, G1Affine, G2Affine, Matrix
    from prover.formats.wtns import Witness
    from prover.protocol import ProofRecord


@dataclass(frozen=True, eq=False)
class LoadedKey:
    """A proving key, checked and held by a backend.

    Args:
        sha256: Of the zkey file, lower-case hex.
        path: The file that it was read from.
        n_vars: Wires, the constant ONE included: the length of a witness.
        n_public: Public outputs and inputs, without ONE.
        domain_size: Of the evaluation domain, a power of two.
        held_bytes: Memory that the key holds on the backend.
        verification_key: As snarkjs writes verification_key.json.
    """

    sha256: str
    path: Path
    n_vars: int
    n_public: int
    domain_size: int
    held_bytes: int
    verification_key: dict[str, Any]
    backend: Backend
    matrix_a: Matrix
    matrix_b: Matrix
    bases_a: Bases[G1Affine]
    bases_b1: Bases[G1Affine]
    bases_b2: Bases[G2Affine]
    bases_c: Bases[G1Affine]
    bases_h: Bases[G1Affine]


@dataclass(frozen=True, eq=False)
class Synthesis:
    """A witness multiplied into the circuit.

    Args:
        witness: n_vars plain elements, the first of them 1.
        a: domain_size values of A, Montgomery.
        b: domain_size values of B, Montgomery.
    """

    witness: FrPlain
    a: FrMont
    b: FrMont


@dataclass(frozen=True)
class DeviceDurations:
    """Wall time of the phases of ``prove_on_device``; all but ``total_ns`` are parts of it.

    Args:
        ntt_ns: The six transforms and the pointwise products between them.
        h_msm_ns: The MSM against section 9.
        tail_msm_ns: The MSMs A, B1 and C.
        b_g2_msm_ns: The MSM B2 in G2.
        total_ns: From the first to the last.
    """

    ntt_ns: int
    h_msm_ns: int
    tail_msm_ns: int
    b_g2_msm_ns: int
    total_ns: int


@dataclass(frozen=True, eq=False)
class DeviceParts:
    """The five sums of a proof, one point each, and how long they took.

    Args:
        a: MSM(A, w).
        b1: MSM(B1, w).
        b2: MSM(B2, w).
        c: MSM(C, private part of w).
        h: MSM(H, values of A*B - C on the odd coset).
        public: w[1..n_public] as decimal strings.
        durations: Nanoseconds of each phase.
    """

    a: G1Affine
    b1: G1Affine
    b2: G2Affine
    c: G1Affine
    h: G1Affine
    public: list[str]
    durations: DeviceDurations


def load_key(path: Path, backend: Backend) -> LoadedKey:
    """Read a zkey file, check all of it, and give it to a backend.

    Raises:
        InputError: The file cannot be read or is not a sound Groth16 zkey over BLS12-381.
        KernelError: The backend cannot hold it.
    """
    raise NotImplementedError


def synthesise(key: LoadedKey, witness: Witness) -> Synthesis:
    """Multiply the witness into the matrices A and B.

    Raises:
        InputError: The witness has another length than the key's circuit, or does not start with 1.
    """
    raise NotImplementedError


def prove_on_device(key: LoadedKey, synthesis: Synthesis) -> DeviceParts:
    """Run the transforms and the MSMs on the key's backend."""
    raise NotImplementedError


def finalise(key: LoadedKey, parts: DeviceParts) -> ProofRecord:
    """Blind the sums with fresh secret r and s and write them as snarkjs does."""
    raise NotImplementedError


def check(key: LoadedKey, record: ProofRecord) -> None:
    """Verify a proof against the key with py_arkworks_bls12381.

    Raises:
        ProofInvalidError: It does not verify.
    """
    raise NotImplementedError


def prove(key: LoadedKey, witness: Witness) -> ProofRecord:
    """Prove, and verify before anything leaves: all stages in order.

    Raises:
        InputError: The witness does not fit the key.
        ProofInvalidError: The proof does not verify: most often the witness does not satisfy the circuit.
    """
    raise NotImplementedError
