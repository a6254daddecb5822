"""The journal: what it keeps, what it refuses to read, and jobs that outlive their process."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
from typing import TYPE_CHECKING

import pytest

from prover.errors import BusyError, CapacityError, InputError, ProverError
from prover.job import error_body
from prover.jobs import JobStore
from prover.journal import SCHEMA, Journal, JournalError
from prover.protocol import JobRequest, JobState, ProofRecord, WitnessRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from prover.job import Job
    from prover.timeline import Event
    from prover.timing_log import TimingLog

REQUEST = JobRequest(circuit="mul60", witnesses=[WitnessRef(path="/w")] * 2, idempotency_key="k", priority=3)


def proof(number: int) -> ProofRecord:
    return ProofRecord(proof={"pi_a": [str(number)]}, public=[str(number)])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


class Process:
    """One process' view of the journal; a crash is simply the next one."""

    def __init__(self, path: Path, log: TimingLog) -> None:
        self.ended: list[Job] = []
        self.journal = Journal(path)
        self.store = JobStore(log, self.journal, queue_limit=3, on_finished=self.ended.append)
        self.store.recover(self.journal.jobs())


@pytest.fixture
def restart(path: Path, log: TimingLog) -> Iterator[Callable[[], Process]]:
    made: list[Process] = []

    def make() -> Process:
        made.append(Process(path, log))
        return made[-1]

    yield make
    for process in made:
        process.journal.close()


def take(store: JobStore) -> tuple[Job, int]:
    taken = store.take()
    assert taken is not None
    return taken


def test_the_file_is_its_owners_alone(path: Path) -> None:
    journal = Journal(path)
    journal.accept("a", REQUEST, 1)
    assert {p.stat().st_mode & 0o777 for p in path.parent.glob("journal.db*")} == {0o600}
    assert journal._db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._db.execute("PRAGMA synchronous").fetchone() == (2,), "FULL"
    journal.close()


def test_accepted_jobs_run_again_with_what_was_not_proved(
    restart: Callable[[], Process], logged: Callable[[], list[Event]]
) -> None:
    first = restart().store
    job_id = first.submit(REQUEST).id
    later = first.submit(REQUEST.model_copy(update={"idempotency_key": None, "priority": 0})).id
    job, part = take(first)
    first.add_proof(job, part, proof(part))
    take(first)
    second = restart().store
    assert [job.id for job in second.unfinished()] == [job_id, later]
    answer = second.get(job_id).answer()
    assert (answer.state, answer.n_partitions_done, answer.proofs) == (JobState.QUEUED, 1, [])
    assert second.submit(REQUEST).id == job_id, "its key is known"
    job, part = take(second)
    assert (job.id, part) == (job_id, 1)
    second.add_proof(job, part, proof(part))
    assert job.answer().proofs == [proof(0), proof(1)]
    assert take(second)[0].id == later
    recovered = [event for event in logged() if event.event == "recovered"]
    assert [event.values["parts_done"] for event in recovered] == [1, 0]


def test_results_outlive_the_process_and_never_change(restart: Callable[[], Process]) -> None:
    first = restart().store
    done = first.submit(REQUEST).id
    failed = first.submit(REQUEST.model_copy(update={"idempotency_key": "f", "priority": 0})).id
    for _ in range(2):
        job, part = take(first)
        first.add_proof(job, part, proof(part))
    job, _ = take(first)
    first.drop(job, error_body(CapacityError("budget", "does not fit")))
    answers = [first.get(job_id).answer() for job_id in (done, failed)]
    again = restart()
    assert [again.store.get(job_id).answer() for job_id in (done, failed)] == answers
    assert again.store.unfinished() == []
    assert again.store.get(done).ended.done()
    assert again.store.submit(REQUEST).id == done
    assert again.ended == []


def test_a_cancelled_job_does_not_run_again(restart: Callable[[], Process]) -> None:
    first = restart().store
    running = first.submit(REQUEST).id
    queued = first.submit(REQUEST.model_copy(update={"idempotency_key": "q"})).id
    assert take(first)[0].id == running
    assert first.cancel(running).state is JobState.RUNNING
    assert first.cancel(queued).state is JobState.CANCELLED
    second = restart()
    assert {second.store.get(job_id).state for job_id in (running, queued)} == {JobState.CANCELLED}
    assert [job.id for job in second.ended] == [running], "its witnesses go now, those of the other went before"


def test_the_queue_limit_counts_what_was_recovered(restart: Callable[[], Process]) -> None:
    first = restart().store
    for i in range(3):
        first.submit(REQUEST.model_copy(update={"idempotency_key": str(i)}))
    with pytest.raises(BusyError):
        restart().store.submit(REQUEST)


def test_only_a_job_that_was_at_work_alone_comes_to_a_second_crash(path: Path) -> None:
    journal = Journal(path)
    for job_id in ("a", "b", "c"):
        journal.accept(job_id, REQUEST, 1)

    def counted(*job_ids: str) -> list[int]:
        journal.count_crash(job_ids)
        return [job.n_crashes for job in journal.jobs()]

    assert counted() == [0, 0, 0]
    assert counted("a", "b") == [1, 1, 0]
    assert counted("a", "b", "gone") == [1, 1, 0]
    assert counted("b") == [1, 2, 0]
    assert counted("c") == [1, 2, 1]
    journal.forget(["b"])
    assert [job.n_crashes for job in journal.jobs()] == [1, 1]
    journal.close()


def test_a_job_that_took_the_daemon_down_twice_is_not_tried_again(restart: Callable[[], Process]) -> None:
    first = restart()
    job_id = first.store.submit(REQUEST).id
    for _ in range(2):
        assert restart().store.get(job_id).state is JobState.QUEUED
        first.journal.count_crash([job_id])
    last = restart()
    answer = last.store.get(job_id).answer()
    assert answer.state is JobState.FAILED
    assert answer.error is not None
    assert (answer.error.code, answer.error.details["exit_status"]) == ("crashed-daemon", 1)
    assert "crashed 2 times while it proved this job" in answer.error.message
    assert "another idempotency key" in answer.error.hint
    assert [job.id for job in last.ended] == [job_id], "its witnesses are let go"


def test_what_aged_out_leaves_the_file(path: Path, log: TimingLog) -> None:
    journal = Journal(path)
    store = JobStore(log, journal, queue_limit=3, kept_s=0)
    store.submit(REQUEST)
    for _ in range(2):
        store.add_proof(*take(store), proof(0))
    store.submit(REQUEST.model_copy(update={"idempotency_key": "next"}))
    assert len(journal.jobs()) == 1
    assert journal._db.execute("SELECT COUNT(*) FROM proofs").fetchone() == (0,)
    journal.close()


def test_a_full_disk_refuses_the_job_and_lets_its_witness_go(restart: Callable[[], Process]) -> None:
    process = restart()
    process.store.submit(REQUEST)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with pytest.raises(JournalError, match="the journal cannot be written"):
            process.store.submit(REQUEST.model_copy(update={"idempotency_key": "other"}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert len(process.ended) == 1
    assert len(process.store.unfinished()) == 1
    process.store.submit(REQUEST.model_copy(update={"idempotency_key": "other"}))
    assert len(restart().store.unfinished()) == 2


def test_a_later_schema_is_not_touched(path: Path) -> None:
    Journal(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
    db.close()
    with pytest.raises(InputError, match=f"its schema is {SCHEMA + 1}, and {SCHEMA} is known"):
        Journal(path)


def test_what_is_no_journal(path: Path, tmp_path: Path) -> None:
    path.write_bytes(os.urandom(8192))
    with pytest.raises(InputError, match="is not a journal of this daemon"):
        Journal(path)
    with pytest.raises(ProverError, match="cannot be opened"):
        Journal(tmp_path / "missing" / "journal.db")
    damaged = Journal(tmp_path / "other.db")
    damaged._db.execute("INSERT INTO jobs (id, request, state, submitted_unix_ns) VALUES ('a', '{}', 'queued', 1)")
    with pytest.raises(InputError, match="is not a journal of this daemon"):
        damaged.jobs()
    damaged.close()
