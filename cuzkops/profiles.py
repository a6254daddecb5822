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
        stop_signal: Sent where no drain can be asked for; SIGKILL comes after the grace time, always.
        log_grammar: Which dialect of the timing log it writes.
        has_ctl: Whether its release carries ``prover ctl``.
        grace_s: How long it may take to stop on its own before SIGKILL, where it does not say so itself.
    """

    kind: Literal["cuzkops", "cuzk"]
    stop_signal: str
    log_grammar: Literal["cuzkops", "cuzk"]
    has_ctl: bool
    grace_s: float


# SIGTERM drains, too: accepted jobs are finished first, within `daemon.drain_timeout_s`, which is 600 by default.
CUZKOPS = Profile("cuzkops", "TERM", "cuzkops", has_ctl=True, grace_s=630)

# The Rust daemon catches only SIGINT, and then never exits; SIGTERM ends it at once, as the kernel's default.
CUZK = Profile("cuzk", "TERM", "cuzk", has_ctl=False, grace_s=30)


def profile_of(daemon: DaemonRecord | None) -> Profile:
    """Return the profile of a recorded daemon; a process that nobody recorded is treated as a foreign one."""
    return CUZKOPS if daemon is not None and daemon.is_ours else CUZK
