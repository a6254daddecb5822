"""What can go wrong in the tool, as one tree.

::

    OpsError               1  the step failed
    ├── UsageError         2  usage, configuration or preflight: nothing was touched
    ├── UnreachableError   3  the host cannot be reached, or its key is not trusted
    ├── TimeoutExpired     4  timed out, or memory did not come back
    ├── UnreadableError    5  a log or run that cannot be read or compared
    ├── LockedError        6  another deploy holds the lock
    └── RegressionError    7  kept for regression gates: nothing raises it yet

Raised early, caught once, in ``cuzkops.cli``, which prints the sentence and sets the exit status. Two statuses belong
to no class: 70 (our own fault: the traceback goes to a file) and 130 (interrupted).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class OpsError(Exception):
    """A failure that the operator can understand and act on.

    Args:
        code: Short stable word for programs, such as ``"host-key-changed"``.
        message: One sentence: what is wrong and where.
        hint: What to do about it, or an empty string.
        details: JSON-able facts behind the sentence (findings, command, status, last lines).
    """

    exit_status = 1

    def __init__(self, code: str, message: str, hint: str = "", details: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details or {}


class UsageError(OpsError):
    """Usage, configuration or preflight: nothing was touched."""

    exit_status = 2


class UnreachableError(OpsError):
    """The host cannot be reached, or its key is not trusted."""

    exit_status = 3


class TimeoutExpired(OpsError):  # noqa: N818 - the field's own word, as in subprocess
    """A deadline passed, or the memory did not come back."""

    exit_status = 4


class UnreadableError(OpsError):
    """A log or a run that cannot be read or compared."""

    exit_status = 5


class LockedError(OpsError):
    """Another deploy holds the lock of this host."""

    exit_status = 6


class RegressionError(OpsError):
    """A regression gate tripped."""

    exit_status = 7


def listed(problems: Iterable[tuple[str, str]]) -> str:
    """Several problems in one message, numbered, what to do about each behind it.

    Args:
        problems: What is wrong, and the hint or an empty string.
    """
    return "\n".join(
        f"({number}) {message}" + (f"\n    hint: {hint}" if hint else "")
        for number, (message, hint) in enumerate(problems, 1)
    )
