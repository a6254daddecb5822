"""``prover prove``, ``verify``, ``vkey`` and ``setup``: files in, files out."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import kernels
from kernels.interface import KernelError
from prover.errors import CapacityError, InputError, ProverError
from prover.formats.r1cs import read_r1cs
from prover.formats.snarkjs import dump_document, load_document
from prover.formats.wtns import read_witness
from prover.formats.zkey import check_on_curve, check_subgroups, public_points, read_header, read_public_part
from prover.groth16 import (
    check,
    check_witness_shape,
    finalise,
    load_key,
    prove_on_device,
    synthesise,
    verification_key,
)
from prover.interruptible import interruptibly
from prover.output import check_outputs, replacing, write_documents
from prover.progress import Progress
from prover.setup import fresh_trapdoor, key_bytes, write_key
from prover.synthetic import SyntheticFiles, make, parse_size
from prover.verify import verify
from prover.witness_check import check_circuit, check_witness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kernels.interface import Backend


def prove_files(
    zkey: Path,
    wtns: Path,
    proof: Path,
    public: Path,
    threads: int | None,
    *,
    r1cs: Path | None = None,
    backend_name: str = "host",
) -> None:
    """Prove one witness. The proof is verified before anything is written, and both files appear or neither does.

    Args:
        zkey: The proving key.
        wtns: The witness.
        proof: Where proof.json goes; replaced where it exists.
        public: Where public.json goes; replaced where it exists.
        threads: CPU threads; None is one for each CPU that this process may run on.
        r1cs: The circuit, to name the constraint that a witness does not satisfy; None does without.
        backend_name: What computes: ``"host"`` or ``"cuda"``.

    Raises:
        InputError: An input is wrong, or an output cannot be written there.
        ProofInvalidError: The witness does not satisfy the circuit, or the proof does not verify.
        CapacityError: There is not enough memory.
        ProverError: The host library is missing or failed.
    """
    inputs = [zkey, wtns, *([r1cs] if r1cs else [])]
    targets = check_outputs(inputs, [proof, public])
    with (
        _computing(threads, f"prove with {zkey}", backend_name) as backend,
        Progress("reading the witness") as progress,
    ):
        # Small files first, and headers before arrays: a wrong file is named before the key is loaded.
        witness, header = read_witness(wtns), read_header(zkey)
        check_witness_shape(zkey, header.n_vars, witness)
        if r1cs is not None:
            progress.stage("checking the constraints")
            circuit = read_r1cs(r1cs)
            check_circuit(circuit, zkey, header)
            check_witness(circuit, witness, backend)
            del circuit
        progress.stage("loading the key")
        key = interruptibly(lambda: load_key(zkey, backend))
        progress.stage("proving")
        record = interruptibly(lambda: finalise(key, prove_on_device(key, synthesise(key, witness))))
        progress.stage("verifying")
        check(key, record)
        write_documents([(targets[0], dump_document(record.proof)), (targets[1], dump_document(record.public))])


def verify_files(vkey: Path, public: Path, proof: Path) -> None:
    """Verify one proof.

    Args:
        vkey: verification_key.json.
        public: public.json.
        proof: proof.json.

    Raises:
        InputError: A file is missing or malformed.
        ProofInvalidError: The proof does not hold.
    """
    with Progress("verifying"):
        verify(load_document(vkey), load_document(public), load_document(proof))


def export_verification_key(zkey: Path, out: Path | None) -> str:
    """Write the verification key of a proving key, as ``snarkjs zkey export verificationkey`` does.

    Args:
        zkey: The proving key; its arrays but IC are not read.
        out: Where verification_key.json goes; replaced where it exists. None writes nothing.

    Returns:
        The document.

    Raises:
        InputError: The key is wrong, one of the points of the verification key is not in its subgroup, or the output
            cannot be written there.
        CapacityError: There is not enough memory.
        ProverError: The host library is missing or failed.
    """
    targets = check_outputs([zkey], [out] if out else [])
    with _computing(None, f"read {zkey}") as backend, Progress("reading the key"):
        header, ic = read_public_part(zkey)
        points = public_points(header, ic)
        check_on_curve(str(zkey), points, backend)
        check_subgroups(str(zkey), points, backend.threads)
        text = dump_document(verification_key(header, ic))
        if targets:
            write_documents([(targets[0], text)])
    return text


def setup_files(r1cs: Path, zkey: Path, threads: int | None, backend_name: str = "host") -> None:
    """Make a proving key for tests: whoever runs this could keep the trapdoor and forge proofs.

    Args:
        r1cs: The circuit.
        zkey: Where the key goes; replaced where it exists.
        threads: CPU threads; None is one for each CPU that this process may run on.
        backend_name: What computes: ``"host"`` or ``"cuda"``.

    Raises:
        InputError: The circuit is wrong, or the output cannot be written there.
        CapacityError: There is not enough memory.
        ProverError: The host library is missing or failed.
    """
    (target,) = check_outputs([r1cs], [zkey])
    with (
        _computing(threads, f"make a key for {r1cs}", backend_name) as backend,
        Progress("reading the circuit") as progress,
    ):
        circuit = read_r1cs(r1cs)
        need_bytes, free_bytes = key_bytes(circuit.header), shutil.disk_usage(target.parent).free
        if need_bytes > free_bytes:
            raise InputError("output", f"{zkey} needs at least {need_bytes} bytes, and {free_bytes} are free there")
        trapdoor = fresh_trapdoor(circuit.header.domain_size)
        with replacing(target) as file:
            write_key(file, circuit, trapdoor, backend, progress.stage)


def synthetic_files(size: str, folder: Path, threads: int | None) -> None:
    """Make ``circuit.zkey`` and ``witness.wtns`` of a synthetic circuit; insecure as ``setup_files``.

    Args:
        size: See ``prover.synthetic.parse_size``.
        folder: Where they go; made where it is missing.
        threads: CPU threads; None is one for each CPU that this process may run on.

    Raises:
        InputError: The size is none, or the files cannot be written there.
        CapacityError: There is not enough memory.
        ProverError: The host library is missing or failed.
    """
    n_constraints = parse_size(size)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("output", f"{folder} cannot be made: {error.strerror}") from None
    zkey, wtns = check_outputs([], [folder / "circuit.zkey", folder / "witness.wtns"])
    with _computing(threads, f"make a circuit of {size}") as backend, Progress("making the circuit") as progress:
        make(n_constraints, SyntheticFiles(zkey, wtns), backend, progress.stage)


@contextmanager
def _computing(threads: int | None, work: str, name: str = "host") -> Iterator[Backend]:
    """Open a backend, and turn what fails in it into errors of the prover."""
    if threads is not None and threads < 1:
        raise InputError("threads", f"the number of threads must be at least 1, not {threads}")
    try:
        yield kernels.backend(name, threads=threads)
    except KernelError as error:
        raise ProverError("kernel", str(error)) from error
    except MemoryError:
        raise CapacityError("out-of-memory", f"there is not enough memory to {work}") from None
