"""What can go wrong in the prover, as one tree.

::

    ProverError            1  a step failed
    ├── InputError         2  a file, witness, request or configuration is wrong
    ├── ProofInvalidError  3  the proof did not verify: nothing was written
    ├── CapacityError      4  does not fit in memory
    └── BusyError          1  refused for now: draining, queue full, another instance holds the lock

Raised early, caught once: ``prover.cli.main`` prints the sentence and sets the exit status, ``prover.api``
turns the same error into a JSON answer.
"""

from __future__ import annotations


class ProverError(Exception):
    """A failure that the user can understand and act on.

    Args:
        code: Short stable word for programs, such as ``"zkey-truncated"``.
        message: One sentence: what is wrong, where, what was found.
        hint: What to do about it, or an empty string.
        details: JSON-able facts behind the sentence.
    """

    exit_status = 1

    def __init__(self, code: str, message: str, hint: str = "", details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details or {}


class InputError(ProverError):
    """A file, a witness, a request or the configuration is wrong."""

    exit_status = 2


class ProofInvalidError(ProverError):
    """The proof that was made does not verify, or the one that was given does not."""

    exit_status = 3


class CapacityError(ProverError):
    """The work does not fit in the memory that it may use."""

    exit_status = 4


class BusyError(ProverError):
    """The daemon refuses for now."""
