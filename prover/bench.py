"""A load of equal jobs against a prover, and what it came to: the same for a daemon and for this process itself."""

from __future__ import annotations

import math
import queue
import statistics
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from prover.errors import ProverError
from prover.protocol import BenchAnswer, BenchSample, ErrorBody, JobState, Percentiles

if TYPE_CHECKING:
    from collections.abc import Callable

    from prover.protocol import CircuitStatus, DaemonRecord, JobAnswer, ProofRecord

_POLL_S = 0.2
_WAIT_S = 2.0  # so long may an interrupt be unheard


class Target(Protocol):
    """What proves; several threads use it."""

    def submit(self) -> JobAnswer:
        """Submit one job of the load."""

    def wait(self, job_id: str, wait_s: float) -> JobAnswer:
        """Wait for the end of a job, at most so long; returns it as it stands."""

    def cancel(self, job_id: str) -> None:
        """Cancel a job, as far as that is possible."""

    def circuit(self) -> CircuitStatus:
        """The circuit of the load, once something was proved with it."""

    def verification_key(self) -> dict[str, Any]:
        """What its proofs are verified with."""

    def daemon(self) -> DaemonRecord | None:
        """Who proves, or None for this process itself."""


@dataclass(frozen=True)
class Load:
    """What is asked of the target.

    Args:
        n_jobs: Measured jobs.
        concurrency: Jobs in flight at most.
        n_warmup: Jobs before them, in no figure.
        n_partitions: Proofs of one job.
        timeout_s: Deadline of everything together.
    """

    n_jobs: int
    concurrency: int
    n_warmup: int
    n_partitions: int
    timeout_s: float


@dataclass(frozen=True)
class _Wall:
    """When the measured jobs were proved; the clock that may be set gives the instants, the other one the length."""

    started_unix_ns: int
    finished_unix_ns: int
    us: int


class BenchFailedError(ProverError):
    """A job failed; ``details.bench`` holds what was measured nevertheless."""


@dataclass
class _Round:
    """Jobs that are done by several threads, each keeping one in flight."""

    target: Target
    end_s: float
    todo: queue.SimpleQueue[int] = field(default_factory=queue.SimpleQueue)
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    samples: list[BenchSample] = field(default_factory=list)
    proofs: list[ProofRecord] = field(default_factory=list)
    errors: list[ErrorBody] = field(default_factory=list)
    broken: Exception | None = None

    def run(self, n_jobs: int, concurrency: int, progress: Callable[[int], None]) -> None:
        """Prove so many jobs.

        Raises:
            ProverError: The target refuses or is gone, or the time is over; what was in flight is cancelled.
            KeyboardInterrupt: The same, because the user wants it.
        """
        for i in range(n_jobs):
            self.todo.put(i)
        threads = [threading.Thread(target=self._keep_one_in_flight) for _ in range(min(concurrency, n_jobs))]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                while thread.is_alive():
                    thread.join(_POLL_S)
                    progress(len(self.samples) + len(self.errors))
                    if time.monotonic() > self.end_s and self.broken is None:
                        self.broken = ProverError("timeout", "the load did not end in time", "raise --timeout-s")
                    if self.broken is not None:
                        self.stop.set()
        finally:
            self.stop.set()
            for thread in threads:
                thread.join()
        if self.broken is not None:
            raise self.broken

    def _keep_one_in_flight(self) -> None:
        try:
            while not self.stop.is_set():
                self.todo.get_nowait()
                self._prove_one()
        except queue.Empty:
            return
        except Exception as error:  # noqa: BLE001 - raised again by the thread that waits
            self.broken = error

    def _prove_one(self) -> None:
        start_ns = time.monotonic_ns()
        job = self.target.submit()
        try:
            while not job.state.is_final and not self.stop.is_set():
                job = self.target.wait(job.id, _WAIT_S)
        finally:
            if not job.state.is_final:
                self.target.cancel(job.id)
        latency_us = (time.monotonic_ns() - start_ns) // 1000
        with self.lock:
            if job.state is JobState.DONE:
                self.samples.append(_sample(job, latency_us))
                self.proofs += job.proofs
            elif job.state.is_final:
                self.errors.append(job.error or ErrorBody(code="job-cancelled", message=f"job {job.id} was cancelled"))


def run(target: Target, load: Load, stage: Callable[[str, float | None], None]) -> BenchAnswer:
    """Put the load on, measure, and verify every proof once more.

    Args:
        target: What proves.
        load: How much.
        stage: Is told what is done, and which share of it.

    Raises:
        BenchFailedError: A job failed; the measurement is in its details.
        ProverError: The target refuses, is gone, too slow, or a proof does not verify.
        KeyboardInterrupt: What was in flight is cancelled.
    """
    end_s = time.monotonic() + load.timeout_s
    warmup = _Round(target, end_s)
    warmup.run(load.n_warmup, 1, lambda n: stage("warming up", n / load.n_warmup))
    measured = _Round(target, end_s)
    started_unix_ns, start_ns = time.time_ns(), time.monotonic_ns()
    measured.run(load.n_jobs, load.concurrency, lambda n: stage("proving", n / load.n_jobs))
    wall_us, finished_unix_ns = (time.monotonic_ns() - start_ns) // 1000, time.time_ns()
    proofs = warmup.proofs + measured.proofs
    if proofs:
        _verify_all(target.verification_key(), proofs, stage)
    wall = _Wall(started_unix_ns, finished_unix_ns, wall_us)
    answer = _answer(target, load, measured, wall, n_verified=len(proofs))
    failed = warmup.errors + measured.errors
    if failed:
        n_jobs = load.n_jobs + load.n_warmup
        error = BenchFailedError(
            failed[0].code,
            f"{len(failed)} of {n_jobs} jobs failed, the first one: {failed[0].message}",
            failed[0].hint,
            {"bench": answer.model_dump(mode="json", by_alias=True)},
        )
        status = failed[0].details.get("exit_status")
        error.exit_status = status if isinstance(status, int) else 1
        raise error
    return answer


def percentiles(durations_us: list[int]) -> Percentiles | None:
    """Describe durations, the median as everybody does it and the rest by nearest ranks; None for none."""
    if not durations_us:
        return None
    ranked = sorted(durations_us)
    n = len(ranked)

    def rank(share: float) -> int:
        return ranked[math.ceil(share * n) - 1]

    return Percentiles(
        n=n,
        min_us=ranked[0],
        mean_us=sum(ranked) // n,
        p50_us=int(statistics.median(ranked)),
        p95_us=rank(0.95) if n >= 20 else None,
        p99_us=rank(0.99) if n >= 100 else None,
        max_us=ranked[-1],
    )


def render(answer: BenchAnswer) -> str:
    """Say it in a few lines."""
    jobs = f"{answer.n_done} jobs of {answer.n_partitions} proofs in {answer.wall_us / 1e6:.3f} s"
    rate = f"{answer.concurrency} in flight: {answer.proofs_per_s:.3f} proofs/s"
    lines = [
        f"{answer.circuit}, domain {answer.domain_size}: {jobs}, {rate}",
        f"{answer.n_verified} proofs verified, {answer.n_failed} jobs failed, {answer.n_warmup} before for warm-up",
    ]
    for name, found in (("latency", answer.latency), ("queue", answer.queue), ("run", answer.run)):
        if found is not None:
            figures = [("min", found.min_us), ("median", found.p50_us), ("p95", found.p95_us), ("p99", found.p99_us)]
            shown = [f"{label} {value / 1e3:.1f}" for label, value in figures if value is not None]
            lines.append(f"{name:8}{', '.join(shown)}, max {found.max_us / 1e3:.1f} ms (n = {found.n})")
    return "\n".join(lines)


def _answer(target: Target, load: Load, measured: _Round, wall: _Wall, *, n_verified: int) -> BenchAnswer:
    circuit, samples = target.circuit(), measured.samples
    return BenchAnswer(
        circuit=circuit.name,
        circuit_sha256=circuit.sha256,
        domain_size=circuit.n_constraints_domain,
        n_public=circuit.n_public,
        n_jobs=load.n_jobs,
        n_partitions=load.n_partitions,
        concurrency=load.concurrency,
        n_warmup=load.n_warmup,
        n_done=len(samples),
        n_failed=len(measured.errors),
        n_proofs=len(measured.proofs),
        n_verified=n_verified,
        wall_us=wall.us,
        proofs_per_s=len(measured.proofs) / (wall.us / 1e6) if wall.us else 0.0,
        latency=percentiles([sample.latency_us for sample in samples]),
        queue=percentiles([sample.queue_us for sample in samples]),
        run=percentiles([sample.run_us for sample in samples]),
        samples=samples,
        errors=measured.errors,
        started_unix_ns=wall.started_unix_ns,
        finished_unix_ns=wall.finished_unix_ns,
        daemon=target.daemon(),
    )


def _sample(job: JobAnswer, latency_us: int) -> BenchSample:
    started, finished = job.started_unix_ns or 0, job.finished_unix_ns or 0
    queue_us, run_us = (started - job.submitted_unix_ns) // 1000, (finished - started) // 1000
    return BenchSample(job=job.id, latency_us=latency_us, queue_us=max(0, queue_us), run_us=max(0, run_us))


def _verify_all(vkey: dict[str, Any], proofs: list[ProofRecord], stage: Callable[[str, float | None], None]) -> None:
    from prover.verify import verify  # noqa: PLC0415 - numpy is loaded only to compute

    for i, record in enumerate(proofs):
        stage("verifying every proof", i / len(proofs))
        verify(vkey, record.public, record.proof)
