"""Whose proofs were at work when native code took the process down.

A crash (SIGSEGV, SIGBUS, SIGFPE, SIGILL or SIGABRT, in whatever thread) leaves a trace: Python's fault handler writes
it to ``state/crash`` before the process dies. SIGKILL and a lost machine leave none. The next process reads the trace
beside ``state/at_work``, the jobs that had a partition at work, and the journal counts.

Neither file needs to reach the disk: where the machine goes down with them, there was no crash to tell of.
"""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
from typing import TYPE_CHECKING

from prover.errors import ProverError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

logger = logging.getLogger(__name__)
CRASHES_BEFORE_FAILURE = 2
"""A job fails at its second crash: the first may have been that of another job, or of the machine."""
_TRACE_BYTES = 16_384
_BLOCK_BYTES = 4096
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


class CrashRecord:
    """The two files of this process, made anew; what the process before left in them is ``blamed``.

    Until the first job is at work a crash is told on standard error, as in any other program: whoever launched us looks
    there.

    Args:
        folder: ``state`` of the daemon's home, whose lock this process holds.

    Raises:
        ProverError: The files cannot be read or made.
    """

    def __init__(self, folder: Path) -> None:
        trace, at_work = folder / "crash", folder / "at_work"
        try:
            self.blamed = _read(trace, at_work)
            # Erased before anybody counts: whoever is killed in between forgets a crash, and never counts it twice.
            self._trace_fd = os.open(trace, _ANEW | os.O_APPEND, 0o600)
            self._at_work_fd = os.open(at_work, _ANEW, 0o600)
            os.pwrite(self._at_work_fd, bytes(_BLOCK_BYTES), 0)  # a disk that fills later has this block already
        except OSError as error:
            where = error.filename or at_work
            raise ProverError("state", f"{where} cannot be used: {error.strerror}", "look at its disk") from None
        self._watches = False

    def at_work(self, job_ids: Iterable[str]) -> None:
        """Write down which jobs have a partition at work, before it is; the caller holds a lock around all calls."""
        block = " ".join(job_ids).encode("ascii").ljust(_BLOCK_BYTES, b"\0")
        try:
            os.pwrite(self._at_work_fd, block[:_BLOCK_BYTES], 0)
        except OSError:
            os.ftruncate(self._at_work_fd, 0)  # nobody is blamed rather than somebody else
        if not self._watches:
            faulthandler.enable(self._trace_fd)
            self._watches = True

    def close(self) -> None:
        """Close the files; a crash from here on is told on standard error again."""
        if self._watches:
            with contextlib.suppress(ValueError, OSError):  # there may be no standard error
                faulthandler.enable()
        os.close(self._trace_fd)
        os.close(self._at_work_fd)


def _read(trace: Path, at_work: Path) -> list[str]:
    """The jobs that were at work when the process before this one crashed, and none where it did not crash."""
    try:
        text = trace.read_bytes()[:_TRACE_BYTES].decode(errors="replace").rstrip()
        job_ids = at_work.read_bytes().strip(b"\0").decode("ascii", "replace").split()
    except FileNotFoundError:
        return []
    if not text:
        return []
    proved = f"proved {', '.join(job_ids)}" if job_ids else "had no job at work"
    logger.error("the process before this one crashed while it %s:\n%s", proved, text)
    return job_ids
