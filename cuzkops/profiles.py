"""What differs between the daemons that the tool can operate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from prover.protocol import DaemonRecord


@dataclass(frozen=True)
class Profile:
    """One kind of daemon.

    Args:
        kind: Its name in records.
        stop_signals: Sent in this order, each followed by a wait for the exit; SIGKILL comes last, always.
        log_grammar: Which dialect of the timing log it writes.
        has_ctl: Whether its release carries ``prover ctl``.
        grace_s: How long it may take to stop on its own before SIGKILL.
    """

    kind: Literal["cuzkops", "cuzk"]
    stop_signals: tuple[str, ...]
    log_grammar: Literal["cuzkops", "cuzk"]
    has_ctl: bool
    grace_s: float


# SIGTERM drains: running proofs are finished first.
CUZKOPS = Profile("cuzkops", ("TERM",), "cuzkops", has_ctl=True, grace_s=120)

# The Rust daemon catches only SIGINT, and then never exits; SIGTERM ends it at once, as the kernel's default.
CUZK = Profile("cuzk", ("TERM",), "cuzk", has_ctl=False, grace_s=30)


def profile_of(daemon: DaemonRecord | None) -> Profile:
    """Return the profile of a recorded daemon; a process that nobody recorded is treated as a foreign one."""
    return CUZKOPS if daemon is not None and daemon.api else CUZK
