"""Groth16 over BLS12-381 with zkey files: what is computed, stage by stage.

The stages are functions of their own, so that a caller can time, queue and log them: ``synthesise`` (host),
``prove_on_device`` (the backend), ``finalise`` (host), ``check`` (an independent library). ``prove`` is all of them.

References: Groth, "On the Size of Pairing-based Non-interactive Arguments", EUROCRYPT 2016, section 3.2; the zkey
conventions (odd coset, no division by Z, the root of unity made from 5) are those of snarkjs 0.7.6.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prover.curve import (
    g1,
    g1_coordinates,
    g1_from_limbs,
    g2,
    g2_coordinates,
    g2_from_limbs,
    pairing_document,
    scalar,
)
from prover.errors import InputError, ProofInvalidError
from prover.formats.field import R, fr_value
from prover.formats.snarkjs import CURVE, PROTOCOL, Proof, g1_document, g2_document, proof_document
from prover.formats.zkey import all_points, check_on_curve, check_subgroups, read_zkey
from prover.verify import verify

if TYPE_CHECKING:
    from pathlib import Path

    from kernels.interface import Backend, Bases, FrMont, FrPlain, G1Affine, G2Affine, Group, Matrix
    from prover.checked_keys import CheckedKeys
    from prover.formats.wtns import Witness
    from prover.formats.zkey import Zkey, ZkeyHeader


@dataclass(frozen=True, eq=False)
class LoadedKey:
    """A proving key, checked and held by a backend.

    Args:
        sha256: Of the zkey file, lower-case hex; empty where no list of checked keys asked for it.
        path: The file that it was read from.
        n_vars: Wires, the constant ONE included: the length of a witness.
        n_public: Public outputs and inputs, without ONE.
        domain_size: Of the evaluation domain, a power of two.
        held_bytes: Memory that the key holds on the backend.
        verification_key: As snarkjs writes verification_key.json.
        header: The counts and single points of the file.
        backend: What holds the following handles.
        matrix_a: domain_size rows over n_vars columns.
        matrix_b: See matrix_a.
        bases_a: Section 5.
        bases_b1: Section 6.
        bases_b2: Section 7.
        bases_c: Section 8, behind infinities for ONE and the public wires, so that it takes the whole witness.
        bases_h: Section 9.
    """

    sha256: str
    path: Path
    n_vars: int
    n_public: int
    domain_size: int
    held_bytes: int
    verification_key: dict[str, Any]
    header: ZkeyHeader
    backend: Backend
    matrix_a: Matrix
    matrix_b: Matrix
    bases_a: Bases[G1Affine]
    bases_b1: Bases[G1Affine]
    bases_b2: Bases[G2Affine]
    bases_c: Bases[G1Affine]
    bases_h: Bases[G1Affine]


@dataclass(frozen=True)
class TableLimits:
    """Bytes that tables of multiples may take: what ``kernels.cuda.table_budget.split_limit`` gives for ``sets``.

    Args:
        witness_g1: For each of A, B1 and C, which are cut alike.
        b2: For B2.
        h: For H.
    """

    witness_g1: int = 0
    b2: int = 0
    h: int = 0

    @staticmethod
    def sets(header: ZkeyHeader) -> list[tuple[Group, int, int]]:
        """The sets of points of a key: group, number of points, and how many such sets there are."""
        return [("g1", header.n_vars, 3), ("g2", header.n_vars, 1), ("g1", header.domain_size, 1)]


@dataclass(frozen=True, eq=False)
class Synthesis:
    """A witness multiplied into the circuit.

    Args:
        witness: n_vars plain elements, the first of them 1; where the backend computes, as the following.
        a: domain_size values of A, Montgomery.
        b: domain_size values of B, Montgomery.
        public: w[1..n_public] as decimal strings.
    """

    witness: FrPlain
    a: FrMont
    b: FrMont
    public: list[str]


@dataclass(frozen=True)
class DeviceDurations:
    """Time of the phases of ``prove_on_device``, on a device by its events; all but ``total_ns`` are parts of it.

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
        c: MSM(C, w): of its private part, as C has infinities before.
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


@dataclass(frozen=True)
class MadeProof:
    """What snarkjs keeps in ``proof.json`` and ``public.json``.

    Args:
        proof: The three points and the names of protocol and curve.
        public: The public values, decimal.
    """

    proof: dict[str, Any]
    public: list[str]


def load_key(path: Path, backend: Backend, checked: CheckedKeys | None = None) -> LoadedKey:
    """Read a zkey file, check all of it, and give it to a backend.

    Args:
        path: The file.
        backend: What will hold it.
        checked: The keys whose points were found in their subgroups before; another one is looked at, and added. None
            does without: a proof of a key of wrong points does not verify, and none leaves without being verified.

    Raises:
        InputError: The file cannot be read or is not a sound Groth16 zkey over BLS12-381.
        KernelError: The backend cannot hold it.
    """
    zkey = read_zkey(path, with_digest=checked is not None)
    check_on_curve(zkey.name, all_points(zkey), backend)
    if checked is not None and zkey.sha256 not in checked:
        check_subgroups(zkey.name, all_points(zkey), backend.threads)
        checked.add(zkey.sha256)
    return hold_key(zkey, path, backend)


def hold_key(zkey: Zkey, path: Path, backend: Backend, table_limits: TableLimits | None = None) -> LoadedKey:
    """Give a key to a backend.

    Args:
        zkey: Its arrays, checked or made here; on the host or where the backend computes.
        path: Where it comes from, for messages.
        backend: What will hold it.
        table_limits: Memory that tables of multiples may take; None is none.

    Raises:
        KernelError: The backend cannot hold it.
    """
    limits = table_limits or TableLimits()
    matrices = [backend.load_matrix(rows) for rows in (zkey.matrix_a, zkey.matrix_b)]
    bases_a, bases_b1 = (backend.load_bases(points, limits.witness_g1) for points in (zkey.a, zkey.b1))
    bases_c = backend.load_bases(zkey.c, limits.witness_g1, n_before=zkey.header.n_public + 1)
    bases_h = backend.load_bases(zkey.h, limits.h)
    bases_b2 = backend.load_bases(zkey.b2, limits.b2)
    held: list[Matrix | Bases[Any]] = [*matrices, bases_a, bases_b1, bases_b2, bases_c, bases_h]
    return LoadedKey(
        sha256=zkey.sha256,
        path=path,
        n_vars=zkey.header.n_vars,
        n_public=zkey.header.n_public,
        domain_size=zkey.header.domain_size,
        held_bytes=sum(handle.held_bytes for handle in held),
        verification_key=verification_key(zkey.header, zkey.ic),
        header=zkey.header,
        backend=backend,
        matrix_a=matrices[0],
        matrix_b=matrices[1],
        bases_a=bases_a,
        bases_b1=bases_b1,
        bases_b2=bases_b2,
        bases_c=bases_c,
        bases_h=bases_h,
    )


def verification_key(header: ZkeyHeader, ic: G1Affine) -> dict[str, Any]:
    """Write verification_key.json, as snarkjs does from the same key."""
    alpha1, beta2 = g1_from_limbs(header.alpha1), g2_from_limbs(header.beta2)
    return {
        "protocol": PROTOCOL,
        "curve": CURVE,
        "nPublic": header.n_public,
        "vk_alpha_1": g1_document(alpha1),
        "vk_beta_2": g2_document(beta2),
        "vk_gamma_2": g2_document(g2_from_limbs(header.gamma2)),
        "vk_delta_2": g2_document(g2_from_limbs(header.delta2)),
        "vk_alphabeta_12": pairing_document(alpha1, beta2),
        "IC": [g1_document(g1_from_limbs(ic, i)) for i in range(len(ic))],
    }


def check_witness_shape(path: Path, n_vars: int, witness: Witness) -> None:
    """Check what a witness has to fulfil for any circuit of its size.

    Args:
        path: The key, for messages.
        n_vars: Wires of the key's circuit.
        witness: The values.

    Raises:
        InputError: It has another length than the circuit, or does not start with 1.
    """
    values = witness.values
    if len(values) != n_vars:
        raise InputError(
            "witness-length",
            f"{witness.name} has {len(values)} elements, and the circuit of {path} has {n_vars} wires",
            "the witness was calculated for another circuit, or for another version of it",
        )
    if fr_value(values.limbs[0]) != 1:
        raise InputError("witness-one", f"{witness.name}: element 0 must be 1 and is {fr_value(values.limbs[0])}")


def synthesise(key: LoadedKey, witness: Witness) -> Synthesis:
    """Multiply the witness into the matrices A and B.

    Raises:
        InputError: The witness has another length than the key's circuit, or does not start with 1.
    """
    check_witness_shape(key.path, key.n_vars, witness)
    public = [str(fr_value(row)) for row in witness.values.limbs[1 : key.n_public + 1]]
    values = key.backend.put(witness.values)
    a, b = (key.backend.multiply(matrix, values) for matrix in (key.matrix_a, key.matrix_b))
    return Synthesis(values, a, b, public)


def prove_on_device(key: LoadedKey, synthesis: Synthesis) -> DeviceParts:
    """Run the transforms and the MSMs on the key's backend.

    Raises:
        KernelError: The backend failed.
    """
    backend = key.backend
    ntt_ns, h_ns, witness_ns = (backend.timer() for _ in range(3))
    start_ns = time.monotonic_ns()
    scalars = backend.h(synthesis.a, synthesis.b, timer=ntt_ns)
    h = backend.msm(key.bases_h, scalars, timer=h_ns)
    sets = (key.bases_a, key.bases_b1, key.bases_c, key.bases_b2)
    sums = backend.msm_sets(sets, synthesis.witness, timer=witness_ns)
    a, b1, c, b2, h = (backend.get(point) for point in (*sums, h))
    durations = DeviceDurations(
        ntt_ns=sum(ntt_ns.values()),
        h_msm_ns=sum(h_ns.values()),
        tail_msm_ns=witness_ns["msm_g1"],
        b_g2_msm_ns=witness_ns["msm_g2"],
        total_ns=time.monotonic_ns() - start_ns,
    )
    return DeviceParts(a, b1, b2, c, h, synthesis.public, durations)


def finalise(key: LoadedKey, parts: DeviceParts) -> MadeProof:
    """Blind the sums with fresh secret r and s and write them as snarkjs does.

    pi_a = alpha + A + r delta, pi_b = beta + B2 + s delta, and with b1 = beta + B1 + s delta in G1
    pi_c = C + H + s pi_a + r b1 - r s delta. Who learns r and s of a proof learns about its witness: they stay here.
    """
    header = key.header
    r, s = secrets.randbelow(R), secrets.randbelow(R)
    delta1 = g1(g1_from_limbs(header.delta1))
    pi_a = g1(g1_from_limbs(header.alpha1)) + g1(g1_from_limbs(parts.a)) + delta1 * scalar(r)
    pi_b = g2(g2_from_limbs(header.beta2)) + g2(g2_from_limbs(parts.b2)) + g2(g2_from_limbs(header.delta2)) * scalar(s)
    b1 = g1(g1_from_limbs(header.beta1)) + g1(g1_from_limbs(parts.b1)) + delta1 * scalar(s)
    sums = g1(g1_from_limbs(parts.c)) + g1(g1_from_limbs(parts.h))
    pi_c = sums + pi_a * scalar(s) + b1 * scalar(r) - delta1 * scalar(r * s % R)
    proof = Proof(g1_coordinates(pi_a), g2_coordinates(pi_b), g1_coordinates(pi_c))
    return MadeProof(proof=proof_document(proof), public=parts.public)


def check(key: LoadedKey, record: MadeProof) -> None:
    """Verify a proof against the key with py_arkworks_bls12381.

    Raises:
        ProofInvalidError: It does not verify.
        InputError: The key itself is wrong: one of its points is not in the subgroup.
    """
    try:
        verify(key.verification_key, record.public, record.proof)
    except ProofInvalidError:
        raise ProofInvalidError(
            "proof-invalid",
            f"the proof that was made with {key.path} does not verify, and is thrown away",
            "most often the witness does not satisfy the circuit; else the key is damaged",
        ) from None


def prove(key: LoadedKey, witness: Witness) -> MadeProof:
    """Prove, and verify before anything leaves: all stages in order.

    Raises:
        InputError: The witness does not fit the key.
        ProofInvalidError: The proof does not verify: most often the witness does not satisfy the circuit.
        KernelError: The backend failed.
    """
    record = finalise(key, prove_on_device(key, synthesise(key, witness)))
    check(key, record)
    return record
