"""The jobs of a daemon: a bounded queue by priority, idempotency keys, and results that are kept for a while.

Every change is in the journal before anybody hears of it; what an earlier process left unfinished runs again. A job
that was at work when the daemon crashed runs with no other job beside it, so that a second crash is its own.
"""

from __future__ import annotations

import heapq
import logging
import secrets
import threading
import time
from typing import TYPE_CHECKING

from prover.crashes import CRASHES_BEFORE_FAILURE
from prover.errors import BusyError, InputError, ProverError
from prover.job import TRANSITIONS, Job, crashed_body, revived
from prover.protocol import JobState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prover.journal import Journal, StoredJob
    from prover.protocol import ErrorBody, JobAnswer, JobRequest, ProofRecord
    from prover.timing_log import TimingLog

logger = logging.getLogger(__name__)


class JobStore:
    """All jobs of this daemon; threads may share it.

    Args:
        log: Gets every JOB event, in the order in which the states change.
        journal: Keeps them; those that it holds are taken up.
        queue_limit: Unfinished jobs that are held at most.
        on_finished: Called with each job that ends, under the lock of this store.
        on_work: Called with the names of all jobs that have partitions at work, before one begins, under the same lock.
        kept_proofs: Proofs of finished jobs that are remembered at most (some 7 KiB each; a job without counts as one).
        kept_s: How long they are remembered at most.
    """

    def __init__(
        self,
        log: TimingLog,
        journal: Journal,
        *,
        queue_limit: int,
        on_finished: Callable[[Job], None] = lambda _job: None,
        on_work: Callable[[Iterable[str]], None] = lambda _ids: None,
        kept_proofs: int = 4096,
        kept_s: float = 3600,
    ) -> None:
        self._log = log
        self._journal = journal
        self._queue_limit = queue_limit
        self._on_finished = on_finished
        self._on_work = on_work
        self._kept_proofs = kept_proofs
        self._kept_s = kept_s
        self._changed = threading.Condition()
        self._jobs: dict[str, Job] = {}  # in order of submission
        self._by_key: dict[str, Job] = {}
        self._at_work: dict[str, Job] = {}
        self._ready: list[tuple[int, int, Job]] = []  # a heap: jobs with partitions that nobody took
        self._totals = dict.fromkeys((state for state in JobState if state.is_final), 0)
        self._closed = False
        self._stopped = False

    def recover(self, stored: list[StoredJob]) -> None:
        """Take up the jobs of earlier processes: results that are still kept, and what has not ended.

        Raises:
            JournalError: A job that has to end cannot be ended.
        """
        with self._changed:
            for entry in stored:
                job = revived(entry)
                self._add(job)
                if job.state.is_final:
                    _end_waits(job)
                    continue
                parts, done = len(job.request.witnesses), len(job.proofs)
                common = {"job": job.id}
                self._log.event("JOB", "recovered", common, circuit=job.request.circuit, parts=parts, parts_done=done)
                if job.cancel_asked:
                    self._end(job, JobState.CANCELLED)
                elif job.n_crashes >= CRASHES_BEFORE_FAILURE:
                    self._end(job, JobState.FAILED, crashed_body(job))
                else:
                    heapq.heappush(self._ready, (-job.request.priority, job.seq, job))
            self._forget_old()

    def submit(self, request: JobRequest, admit: Callable[[JobRequest], None] = lambda _request: None) -> JobAnswer:
        """Accept a request, or find the job that the same request with the same key made before.

        Args:
            request: What to prove.
            admit: Raises where the request cannot be served; called under the lock, last before acceptance.

        Raises:
            InputError: The idempotency key belongs to another request, or ``admit`` refuses.
            BusyError: The queue is full, or no jobs are taken any more.
            JournalError: It cannot be written down, and is not accepted.
        """
        with self._changed:
            self._forget_old()
            known = self._by_key.get(request.idempotency_key or "")
            if known is not None:
                return _same_request(known, request)
            self._refuse_if_busy()
            admit(request)
            job = Job(secrets.token_hex(8), 0, request, time.time_ns(), time.monotonic_ns())
            job.todo.extend(range(len(request.witnesses)))
            try:
                job.seq = self._journal.accept(job.id, request, job.submitted_unix_ns)
            except BaseException:
                self._on_finished(job)  # what was admitted is let go
                raise
            self._add(job)
            self._log.event("JOB", "accepted", {"job": job.id}, circuit=request.circuit, parts=len(request.witnesses))
            heapq.heappush(self._ready, (-request.priority, job.seq, job))
            self._changed.notify_all()
            return job.answer()

    def take(self) -> tuple[Job, int] | None:
        """Wait for the next partition, of the oldest job of the highest priority; None once closed and empty.

        A job that was at work in a crash waits until no other is, and none is given out beside it.

        Its job is marked running. Whoever takes a partition ends it with ``add_proof`` or ``drop``.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._may_begin() or (self._closed and not self._front()))
            job = self._front()
            if job is None or self._stopped:
                return None
            self._on_work({**self._at_work, job.id: job})
            self._at_work[job.id] = job
            if job.state is JobState.QUEUED:
                job.started_ns, job.started_unix_ns = time.monotonic_ns(), time.time_ns()
                self._move(job, JobState.RUNNING)
            job.n_in_work += 1
            return job, job.todo.popleft()

    def add_proof(self, job: Job, part: int, proof: ProofRecord) -> None:
        """Record the proof of a partition that was taken; the last one ends its job.

        Raises:
            JournalError: It could not be written down; call it again.
        """
        with self._changed:
            if not job.is_over and part not in job.proofs:
                if len(job.proofs) + 1 == len(job.request.witnesses):
                    self._end(job, JobState.DONE, last=(part, proof))
                else:
                    self._journal.add_proof(job.id, part, proof)
                    job.proofs[part] = proof
            self._leave(job)

    def drop(self, job: Job, error: ErrorBody | None = None) -> None:
        """End a partition that was taken without a proof.

        Args:
            job: Its job.
            error: Why; the job fails. None where the job is over.

        Raises:
            JournalError: The end could not be written down; call it again.
        """
        with self._changed:
            if error is not None and not job.is_over:
                self._end(job, JobState.FAILED, error)
            self._leave(job)

    def cancel(self, job_id: str) -> JobAnswer:
        """Cancel a job now, or where partitions of it are at work, after these.

        Raises:
            InputError: There is no such job, or it is done or failed.
            JournalError: It cannot be written down, and nothing is cancelled.
        """
        job = self.get(job_id)
        with self._changed:
            if job.state in (JobState.DONE, JobState.FAILED):
                raise InputError("job-finished", f"job {job_id} is already {job.state}", "there is nothing to cancel")
            if not job.is_over:
                if job.n_in_work:
                    self._journal.ask_cancel(job.id)
                    job.cancel_asked = True
                else:
                    self._end(job, JobState.CANCELLED)
            return job.answer()

    def get(self, job_id: str) -> Job:
        """Find a job; never waits for the disk.

        Raises:
            InputError: There is no such job, or it ended too long ago.
        """
        job = self._jobs.get(job_id)
        if job is None:
            hint = f"the last {self._kept_proofs} results are kept, for {self._kept_s:g} s"
            raise InputError("no-such-job", f"there is no job {job_id[:64]!r}", hint)
        return job

    def close(self) -> None:
        """Take no more jobs; those that are here still run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def stop(self) -> None:
        """Give out no more partitions, and end every wait: what has not ended stays in the journal."""
        with self._changed:
            self._closed = self._stopped = True
            for job in self._jobs.values():
                _end_waits(job)
            self._changed.notify_all()

    def wait_stopped(self, timeout_s: float) -> bool:
        """Wait for ``stop``, or for some time; returns whether it was called."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopped, timeout_s)

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
        now = [job.state for job in list(self._jobs.values())]
        return {s: self._totals[s] if s.is_final else now.count(s) for s in JobState}

    def _add(self, job: Job) -> None:
        self._jobs[job.id] = job
        if job.request.idempotency_key:
            self._by_key[job.request.idempotency_key] = job

    def _front(self) -> Job | None:
        while self._ready and (self._ready[0][2].is_over or not self._ready[0][2].todo):
            heapq.heappop(self._ready)
        return self._ready[0][2] if self._ready else None

    def _may_begin(self) -> bool:
        """Whether the front job may run beside those that are at work."""
        job = self._front()
        others = [other for other in self._at_work.values() if other is not job]
        return job is not None and not (others and any(one.n_crashes for one in (job, *others)))

    def _leave(self, job: Job) -> None:
        """A partition is no longer at work; raises before anything is counted where the end cannot be written."""
        if job.n_in_work == 1 and job.cancel_asked and not job.state.is_final:
            self._end(job, JobState.CANCELLED)
        job.n_in_work -= 1
        if not job.n_in_work:
            del self._at_work[job.id]
            self._on_work(self._at_work)
            self._changed.notify_all()

    def _end(
        self, job: Job, state: JobState, error: ErrorBody | None = None, last: tuple[int, ProofRecord] | None = None
    ) -> None:
        finished_ns, finished_unix_ns = time.monotonic_ns(), time.time_ns()
        self._journal.finish(
            job.id,
            state,
            started_unix_ns=job.started_unix_ns,
            finished_unix_ns=finished_unix_ns,
            error=error,
            last=last,
        )
        if last is not None:
            job.proofs[last[0]] = last[1]
        job.error, job.finished_ns, job.finished_unix_ns = error, finished_ns, finished_unix_ns
        self._totals[state] += 1
        self._move(job, state)
        self._on_finished(job)
        _end_waits(job)
        self._changed.notify_all()

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
        n_kept = 0
        old: list[Job] = []
        for job in sorted(finished, key=lambda job: (job.finished_ns or 0, job.finished_unix_ns or 0), reverse=True):
            n_kept += max(1, len(job.proofs))
            if n_kept > self._kept_proofs or job.ended_s_ago > self._kept_s:
                old.append(job)
        if not old:
            return
        try:
            self._journal.forget(job.id for job in old)
        except ProverError as error:  # they are forgotten another time
            logger.warning("%s", error.message)
            return
        for job in old:
            del self._jobs[job.id]
            if job.request.idempotency_key:
                del self._by_key[job.request.idempotency_key]


def _end_waits(job: Job) -> None:
    if not job.ended.done():
        job.ended.set_result(None)


def _same_request(known: Job, request: JobRequest) -> JobAnswer:
    if known.request != request:
        raise InputError(
            "idempotency-conflict",
            f"the idempotency key {request.idempotency_key!r} belongs to job {known.id}, which asks for something else",
            "use a new key for a new request",
            {"job": known.id},
        )
    return known.answer()
