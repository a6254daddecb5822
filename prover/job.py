"""One job: its states in one transition table, and what is known of it."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prover.errors import ProverError
from prover.protocol import ErrorBody, JobAnswer, JobRequest, JobState, ProofRecord

if TYPE_CHECKING:
    from prover.journal import StoredJob

TRANSITIONS: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.FAILED, JobState.CANCELLED}),
    JobState.RUNNING: frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED}),
    JobState.DONE: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


def error_body(error: ProverError) -> ErrorBody:
    """Write an error for the wire; ``details.exit_status`` keeps what the class of the error means."""
    details = {**error.details, "exit_status": error.exit_status}
    return ErrorBody(code=error.code, message=error.message, hint=error.hint, details=details)


@dataclass(eq=False)
class Job:
    """One accepted request and how far it is. Changed only by ``JobStore``.

    Args:
        id: Sixteen hex digits.
        seq: Rises from job to job.
        request: What was asked.
        submitted_unix_ns: Wall clock.
        submitted_ns: Monotonic clock; of the recovery for a job of an earlier process.
        n_crashes: How often it was at work when the daemon crashed: from one on it has the daemon for itself.
        ended: Done once nobody needs to wait any more: the job has ended, or the daemon ends before it.
    """

    id: str
    seq: int
    request: JobRequest
    submitted_unix_ns: int
    submitted_ns: int
    state: JobState = JobState.QUEUED
    started_ns: int | None = None
    started_unix_ns: int | None = None
    finished_ns: int | None = None
    finished_unix_ns: int | None = None
    proofs: dict[int, ProofRecord] = field(default_factory=dict)
    todo: deque[int] = field(default_factory=deque)
    n_in_work: int = 0
    error: ErrorBody | None = None
    cancel_asked: bool = False
    n_crashes: int = 0
    ended: Future[None] = field(default_factory=Future)

    @property
    def is_over(self) -> bool:
        """Whether further work on it would be thrown away."""
        return self.cancel_asked or self.state.is_final

    @property
    def ended_s_ago(self) -> float:
        """Seconds since the end: the wall clock, which may be set, counts only for jobs of earlier processes."""
        if self.finished_ns is not None:
            return (time.monotonic_ns() - self.finished_ns) / 1e9
        return (time.time_ns() - (self.finished_unix_ns or 0)) / 1e9

    def answer(self) -> JobAnswer:
        """The job as it stands; proofs only once all of them are there."""
        state = self.state  # read first: everything else of a final state was set before it
        return JobAnswer(
            id=self.id,
            circuit=self.request.circuit,
            state=state,
            priority=self.request.priority,
            n_partitions=len(self.request.witnesses),
            n_partitions_done=len(self.proofs),
            submitted_unix_ns=self.submitted_unix_ns,
            started_unix_ns=self.started_unix_ns,
            finished_unix_ns=self.finished_unix_ns,
            proofs=[self.proofs[part] for part in sorted(self.proofs)] if state is JobState.DONE else [],
            error=self.error,
        )


def crashed_body(job: Job) -> ErrorBody:
    """Why a job is not tried again after it took the daemon down."""
    message = (
        f"the daemon crashed {job.n_crashes} times while it proved this job, the last time with no other job at work"
    )
    hint = "the trace is in the daemon's standard error; to try it again, submit it with another idempotency key"
    return error_body(ProverError("crashed-daemon", message, hint))


def revived(entry: StoredJob) -> Job:
    """Take up a job from the journal: as it ended, or queued with the partitions that have no proof yet."""
    job = Job(entry.id, entry.seq, entry.request, entry.submitted_unix_ns, time.monotonic_ns())
    if entry.state.is_final:
        job.state, job.error = entry.state, entry.error
        job.started_unix_ns, job.finished_unix_ns = entry.started_unix_ns, entry.finished_unix_ns
    job.proofs.update(entry.proofs)
    job.todo.extend(part for part in range(len(entry.request.witnesses)) if part not in entry.proofs)
    job.cancel_asked, job.n_crashes = entry.cancel_asked, entry.n_crashes
    return job
