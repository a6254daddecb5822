"""Jobs in memory: one transition table, a bounded queue, idempotency keys, and results that are kept for a while."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prover.errors import BusyError, InputError, ProverError
from prover.protocol import ErrorBody, JobAnswer, JobRequest, JobState, ProofRecord

if TYPE_CHECKING:
    from collections.abc import Callable

    from prover.timing_log import TimingLog

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
        request: What was asked.
        submitted_unix_ns: Wall clock.
        submitted_ns: Monotonic clock.
    """

    id: str
    request: JobRequest
    submitted_unix_ns: int
    submitted_ns: int
    state: JobState = JobState.QUEUED
    started_ns: int | None = None
    started_unix_ns: int | None = None
    finished_ns: int | None = None
    finished_unix_ns: int | None = None
    proofs: list[ProofRecord] = field(default_factory=list)
    error: ErrorBody | None = None
    cancel_asked: bool = False
    ended: Future[None] = field(default_factory=Future)

    def answer(self) -> JobAnswer:
        """The job as it stands; proofs only once all of them are there."""
        return JobAnswer(
            id=self.id,
            circuit=self.request.circuit,
            state=self.state,
            n_partitions=len(self.request.witnesses),
            n_partitions_done=len(self.proofs),
            submitted_unix_ns=self.submitted_unix_ns,
            started_unix_ns=self.started_unix_ns,
            finished_unix_ns=self.finished_unix_ns,
            proofs=list(self.proofs) if self.state is JobState.DONE else [],
            error=self.error,
        )


class JobStore:
    """All jobs of this process; threads may share it.

    Args:
        log: Gets every JOB event, in the order in which the states change.
        queue_limit: Unfinished jobs that are held at most.
        on_finished: Called with each job that ends, under the lock of this store.
        kept_proofs: Proofs of finished jobs that are remembered at most (some 4 KiB each; a job without counts as one).
        kept_s: How long they are remembered at most.
    """

    def __init__(
        self,
        log: TimingLog,
        *,
        queue_limit: int,
        on_finished: Callable[[Job], None] = lambda _job: None,
        kept_proofs: int = 4096,
        kept_s: float = 3600,
    ) -> None:
        self._log = log
        self._queue_limit = queue_limit
        self._on_finished = on_finished
        self._kept_proofs = kept_proofs
        self._kept_s = kept_s
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}  # in order of submission
        self._by_key: dict[str, Job] = {}
        self._queue: deque[Job] = deque()
        self._totals = dict.fromkeys((state for state in JobState if state.is_final), 0)
        self._closed = False

    def submit(self, request: JobRequest, admit: Callable[[JobRequest], None] = lambda _request: None) -> JobAnswer:
        """Accept a request, or find the job that the same request with the same key made before.

        Args:
            request: What to prove.
            admit: Raises where the request cannot be served; called under the lock, last before acceptance.

        Raises:
            InputError: The idempotency key belongs to another request, or ``admit`` refuses.
            BusyError: The queue is full, or no jobs are taken any more.
        """
        with self._changed:
            self._forget_old()
            known = self._by_key.get(request.idempotency_key or "")
            if known is not None:
                return _same_request(known, request)
            self._refuse_if_busy()
            admit(request)
            job = Job(secrets.token_hex(8), request, time.time_ns(), time.monotonic_ns())
            self._jobs[job.id] = job
            if request.idempotency_key:
                self._by_key[request.idempotency_key] = job
            self._log.event("JOB", "accepted", {"job": job.id}, circuit=request.circuit, parts=len(request.witnesses))
            self._queue.append(job)
            self._changed.notify_all()
            return job.answer()

    def take(self) -> Job | None:
        """Wait for the oldest queued job and mark it running; None once the store is closed and empty."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed)
            if not self._queue:
                return None
            job = self._queue.popleft()
            job.started_ns, job.started_unix_ns = time.monotonic_ns(), time.time_ns()
            self._move(job, JobState.RUNNING)
            return job

    def add_proof(self, job: Job, proof: ProofRecord) -> None:
        """Record one finished partition."""
        with self._changed:
            job.proofs.append(proof)

    def finish(self, job: Job, state: JobState, error: ErrorBody | None = None) -> bool:
        """End a job; False where it had ended before (a drain that timed out fails what still runs).

        Args:
            job: The job.
            state: A final one.
            error: Why, where the state is failed.
        """
        with self._changed:
            if job.state.is_final:
                return False
            if job in self._queue:
                self._queue.remove(job)
            job.error = error
            job.finished_ns, job.finished_unix_ns = time.monotonic_ns(), time.time_ns()
            self._totals[state] += 1
            self._move(job, state)
            self._on_finished(job)
            job.ended.set_result(None)
            return True

    def cancel(self, job_id: str) -> JobAnswer:
        """Cancel a queued job now, and a running one after the partition at hand.

        Raises:
            InputError: There is no such job, or it is done or failed.
        """
        with self._changed:
            job = self.get(job_id)
            if job.state in (JobState.DONE, JobState.FAILED):
                raise InputError("job-finished", f"job {job_id} is already {job.state}", "there is nothing to cancel")
            job.cancel_asked = True
            if job.state is JobState.QUEUED:
                self.finish(job, JobState.CANCELLED)
            return job.answer()

    def get(self, job_id: str) -> Job:
        """Find a job.

        Raises:
            InputError: There is no such job, or it ended too long ago.
        """
        with self._changed:
            job = self._jobs.get(job_id)
        if job is None:
            raise InputError(
                "no-such-job",
                f"there is no job {job_id[:64]!r}",
                f"the last {self._kept_proofs} results are kept, for {self._kept_s:g} s, while the daemon lives",
            )
        return job

    def close(self) -> None:
        """Take no more jobs; those that are here still run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def closed(self) -> bool:
        """Whether no more jobs are taken."""
        return self._closed

    def unfinished(self) -> list[Job]:
        """Jobs that are queued or running, oldest first."""
        with self._changed:
            return [job for job in self._jobs.values() if not job.state.is_final]

    def counts(self) -> dict[JobState, int]:
        """Queued and running jobs now, and how many ended in each of the other states since the start."""
        with self._changed:
            now = [job.state for job in self._jobs.values()]
            return {s: self._totals[s] if s.is_final else now.count(s) for s in JobState}

    def _refuse_if_busy(self) -> None:
        if self._closed:
            raise BusyError("draining", "the daemon is draining: it takes no new jobs", "wait for the next daemon")
        n_unfinished = sum(not job.state.is_final for job in self._jobs.values())
        if n_unfinished >= self._queue_limit:
            raise BusyError(
                "queue-full",
                f"{n_unfinished} jobs are unfinished, which is the limit",
                "wait for some to finish, or raise daemon.queue_limit",
                {"queue_limit": self._queue_limit},
            )

    def _move(self, job: Job, state: JobState) -> None:
        """The one place where a state changes, and where the log hears of it."""
        if state not in TRANSITIONS[job.state]:
            raise ValueError(f"job {job.id} cannot go from {job.state} to {state}")
        job.state = state
        common = {"job": job.id}
        queue_us = ((job.started_ns or job.finished_ns or 0) - job.submitted_ns) // 1000
        total_us = ((job.finished_ns or 0) - job.submitted_ns) // 1000
        if state is JobState.RUNNING:
            self._log.event("JOB", "started", common, queue_us=queue_us)
        elif state is JobState.DONE:
            self._log.event("JOB", "done", common, queue_us=queue_us, total_us=total_us)
        elif state is JobState.FAILED:
            code = job.error.code if job.error else "unknown"
            self._log.event("JOB", "failed", common, queue_us=queue_us, total_us=total_us, code=code)
        else:
            self._log.event("JOB", "cancelled", common, queue_us=queue_us)

    def _forget_old(self) -> None:
        finished = [job for job in self._jobs.values() if job.state.is_final]
        oldest_ns = time.monotonic_ns() - int(self._kept_s * 1e9)
        n_kept = 0
        for job in sorted(finished, key=lambda job: job.finished_ns or 0, reverse=True):
            n_kept += max(1, len(job.proofs))
            if n_kept > self._kept_proofs or (job.finished_ns or 0) < oldest_ns:
                del self._jobs[job.id]
                if job.request.idempotency_key:
                    del self._by_key[job.request.idempotency_key]


def _same_request(known: Job, request: JobRequest) -> JobAnswer:
    if known.request != request:
        raise InputError(
            "idempotency-conflict",
            f"the idempotency key {request.idempotency_key!r} belongs to job {known.id}, which asks for something else",
            "use a new key for a new request",
            {"job": known.id},
        )
    return known.answer()
