"""``prover prove`` and ``prover verify``: files in, files out."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import kernels
from kernels.interface import KernelError
from prover.errors import CapacityError, InputError, ProverError
from prover.formats.snarkjs import dump_document, load_document
from prover.formats.wtns import read_witness
from prover.groth16 import load_key, prove
from prover.verify import verify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def prove_files(zkey: Path, wtns: Path, proof: Path, public: Path, threads: int | None) -> None:
    """Prove one witness. The proof is verified before anything is written, and both files appear or neither does.

    Args:
        zkey: The proving key.
        wtns: The witness.
        proof: Where proof.json goes; replaced where it exists.
        public: Where public.json goes; replaced where it exists.
        threads: CPU threads; None is one for each CPU that this process may run on.

    Raises:
        InputError: An input is wrong, or an output cannot be written there.
        ProofInvalidError: The proof does not verify.
        CapacityError: There is not enough memory.
        ProverError: The host library is missing or failed.
    """
    targets = _check_outputs([zkey, wtns], [proof, public])
    if threads is not None and threads < 1:
        raise InputError("threads", f"the number of threads must be at least 1, not {threads}")
    try:
        backend = kernels.backend("host", threads=threads)
        key = load_key(zkey, backend)
        record = prove(key, read_witness(wtns))
    except KernelError as error:
        raise ProverError("kernel", str(error)) from error
    except MemoryError:
        raise CapacityError("out-of-memory", f"there is not enough memory to prove with {zkey}") from None
    _write_all([(targets[0], dump_document(record.proof)), (targets[1], dump_document(record.public))])


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
    verify(load_document(vkey), load_document(public), load_document(proof))


def _check_outputs(inputs: list[Path], outputs: list[Path]) -> list[Path]:
    """Find early what would fail after minutes of work, and return where the outputs really go."""
    resolved = [path.resolve() for path in outputs]
    if resolved[0] == resolved[1]:
        raise InputError("output", f"proof and public values cannot both go to {outputs[0]}")
    for path, target in zip(outputs, resolved, strict=True):
        if target in [path.resolve() for path in inputs]:
            raise InputError("output", f"{path} is an input, and would be overwritten")
        if target.exists() and not target.is_file():
            raise InputError("output", f"{path} exists and is not a regular file")
        if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
            raise InputError("output", f"{path} cannot be written: {target.parent} is not a folder to write into")
    return resolved


def _write_all(documents: list[tuple[Path, str]]) -> None:
    """Write every document beside its place first, then move all of them; on a failure none stays."""
    parts = [(target, target.with_name(f".{target.name}.{os.getpid()}.part"), text) for target, text in documents]
    moved: list[Path] = []
    try:
        for _, part, text in parts:
            with part.open("x", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
        with _interrupts_held():
            try:
                for target, part, _ in parts:
                    part.replace(target)
                    moved.append(target)
            except OSError:
                for target in moved:
                    target.unlink()
                raise
    except OSError as error:
        raise InputError("output", f"{error.filename or documents[0][0]} cannot be written: {error.strerror}") from None
    finally:
        for _, part, _ in parts:
            part.unlink(missing_ok=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the block is done: it is two renames long."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python raises KeyboardInterrupt in the main thread only
        return
    held: list[int] = []
    # Not a signal mask: a thread of numpy's would take the signal, and Python would still tell the main thread.
    before = {number: signal.signal(number, lambda n, _: held.append(n)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for late in held:
            signal.raise_signal(late)
