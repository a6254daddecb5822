"""Jobs: the transition table, the queue, keys, and what is forgotten."""

from __future__ import annotations

import itertools
import threading
import time
from typing import TYPE_CHECKING

import pytest

from prover.errors import BusyError, CapacityError, InputError, ProverError
from prover.job import TRANSITIONS, error_body
from prover.jobs import JobStore
from prover.journal import Journal
from prover.protocol import JobRequest, JobState, ProofRecord, WitnessRef

if TYPE_CHECKING:
    from collections.abc import Callable

    from prover.job import Job
    from prover.timeline import Event
    from prover.timing_log import TimingLog

PROOF = ProofRecord(proof={"pi_a": ["1", "2", "1"]}, public=["7"])


def request(circuit: str = "mul60", key: str | None = None, n_witnesses: int = 1, priority: int = 0) -> JobRequest:
    witnesses = [WitnessRef(path="/w.wtns")] * n_witnesses
    return JobRequest(circuit=circuit, witnesses=witnesses, idempotency_key=key, priority=priority)


@pytest.fixture
def store(log: TimingLog) -> JobStore:
    return JobStore(log, Journal(), queue_limit=3)


def take(store: JobStore) -> Job:
    taken = store.take()
    assert taken is not None
    return taken[0]


def prove(store: JobStore) -> Job:
    """Finish the next job, whatever its number of partitions."""
    while True:
        taken = store.take()
        assert taken is not None
        store.add_proof(*taken, PROOF)
        if taken[0].state.is_final:
            return taken[0]


def test_a_job_from_submission_to_proof(store: JobStore, logged: Callable[[], list[Event]]) -> None:
    answer = store.submit(request(n_witnesses=2))
    assert (answer.state, answer.n_partitions, answer.n_partitions_done) == (JobState.QUEUED, 2, 0)
    job = take(store)
    assert job.answer().state is JobState.RUNNING
    store.add_proof(job, 0, PROOF)
    assert job.answer().n_partitions_done == 1
    assert job.answer().proofs == []
    assert store.take() == (job, 1)
    store.add_proof(job, 1, PROOF)
    answer = store.get(job.id).answer()
    assert answer.proofs == [PROOF, PROOF]
    assert answer.started_unix_ns is not None
    assert answer.finished_unix_ns is not None
    assert answer.submitted_unix_ns <= answer.started_unix_ns <= answer.finished_unix_ns
    assert job.ended.done()
    assert [event.event for event in logged()] == ["accepted", "started", "done"]
    assert {event.common["job"] for event in logged()} == {job.id}
    done = logged()[-1].values
    assert 0 <= int(done["queue_us"]) <= int(done["total_us"])


@pytest.mark.parametrize(("before", "after"), list(itertools.product(JobState, JobState)))
def test_only_the_transitions_of_the_table_happen(store: JobStore, before: JobState, after: JobState) -> None:
    store.submit(request())
    job = take(store)
    job.state = before
    if after in TRANSITIONS[before]:
        store._move(job, after)
        assert job.state is after
    else:
        with pytest.raises(ValueError, match="cannot go"):
            store._move(job, after)
        assert job.state is before


def test_finished_states_end_everything() -> None:
    assert {state for state in JobState if state.is_final} == {state for state, then in TRANSITIONS.items() if not then}
    assert set(TRANSITIONS) == set(JobState)


def test_a_failure_is_kept_with_its_meaning(store: JobStore, logged: Callable[[], list[Event]]) -> None:
    store.submit(request())
    job = take(store)
    store.drop(job, error_body(CapacityError("budget", "does not fit", details={"asked_bytes": 9})))
    error = job.answer().error
    assert error is not None
    assert error.code == "budget"
    assert error.details == {"asked_bytes": 9, "exit_status": 4}
    assert logged()[-1].event == "failed"
    assert logged()[-1].values["code"] == "budget"


def test_a_job_ends_only_once(store: JobStore) -> None:
    store.submit(request(n_witnesses=2))
    job = take(store)
    assert take(store) is job
    store.drop(job, error_body(ProverError("x", "y")))
    store.add_proof(job, 1, PROOF)
    assert job.state is JobState.FAILED
    assert job.answer().n_partitions_done == 0
    assert job.error is not None
    assert job.error.code == "x"


def test_the_queue_is_bounded_and_counts_what_runs(store: JobStore) -> None:
    for _ in range(3):
        store.submit(request())
    job = take(store)
    with pytest.raises(BusyError, match="3 jobs are unfinished"):
        store.submit(request())
    store.add_proof(job, 0, PROOF)
    store.submit(request())


def test_jobs_come_out_in_order(store: JobStore) -> None:
    ids = [store.submit(request()).id for _ in range(3)]
    assert [take(store).id for _ in range(3)] == ids


def test_same_key_and_request_is_the_same_job(store: JobStore) -> None:
    first = store.submit(request(key="k"))
    assert store.submit(request(key="k")).id == first.id
    assert store.submit(request(key="other")).id != first.id
    assert store.submit(request()).id != first.id


def test_same_key_and_other_request_is_refused(store: JobStore) -> None:
    store.submit(request(key="k"))
    with pytest.raises(InputError, match="asks for something else"):
        store.submit(request(circuit="cube500", key="k"))


def test_a_known_key_is_answered_while_draining(store: JobStore) -> None:
    first = store.submit(request(key="k"))
    store.close()
    assert store.submit(request(key="k")).id == first.id
    with pytest.raises(BusyError, match="draining"):
        store.submit(request(key="new"))


def test_a_refused_request_leaves_nothing(store: JobStore) -> None:
    def refuse(_request: JobRequest) -> None:
        raise InputError("no-such-circuit", "no")

    with pytest.raises(InputError):
        store.submit(request(key="k"), refuse)
    assert store.unfinished() == []
    assert store.submit(request(circuit="cube500", key="k")).circuit == "cube500"


def test_a_queued_job_is_cancelled_at_once(store: JobStore, logged: Callable[[], list[Event]]) -> None:
    first, second = store.submit(request()).id, store.submit(request()).id
    assert store.cancel(first).state is JobState.CANCELLED
    assert store.cancel(first).state is JobState.CANCELLED
    assert take(store).id == second
    assert logged()[2].event == "cancelled"


def test_a_running_job_is_asked_to_stop(store: JobStore) -> None:
    store.submit(request(n_witnesses=2))
    job = take(store)
    assert store.cancel(job.id).state is JobState.RUNNING
    assert job.cancel_asked
    store.add_proof(job, 0, PROOF)
    assert store.get(job.id).answer().state is JobState.CANCELLED


def test_a_finished_job_cannot_be_cancelled(store: JobStore) -> None:
    store.submit(request())
    job = prove(store)
    with pytest.raises(InputError, match="already done"):
        store.cancel(job.id)


def test_unknown_jobs(store: JobStore) -> None:
    with pytest.raises(InputError, match="there is no job 'zzz'"):
        store.get("zzz")
    with pytest.raises(InputError, match="there is no job"):
        store.cancel("zzz")


@pytest.mark.parametrize(
    ("kept_proofs", "kept_s", "left"), [(4, 3600.0, 2), (5, 3600.0, 2), (100, 0.0, 0), (10, 3600.0, 5)]
)
def test_results_are_forgotten_by_number_and_age(log: TimingLog, kept_proofs: int, kept_s: float, left: int) -> None:
    journal = Journal()
    store = JobStore(log, journal, queue_limit=10, kept_proofs=kept_proofs, kept_s=kept_s)
    ids = []
    for i in range(5):
        ids.append(store.submit(request(key=f"k{i}", n_witnesses=2)).id)
        prove(store)
    store.submit(request(key="last"))  # looks for what is old
    known = []
    for job_id in ids:
        try:
            known.append(store.get(job_id).id)
        except InputError:
            continue
    assert known == ids[len(ids) - left :]
    assert store.counts()[JobState.DONE] == 5
    assert [job.id for job in journal.jobs()[:-1]] == known


def test_take_wakes_when_the_store_closes(store: JobStore) -> None:
    taken: list[object] = []
    thread = threading.Thread(target=lambda: taken.append(store.take()))
    thread.start()
    store.close()
    thread.join(5)
    assert taken == [None]


def test_a_closed_store_still_gives_its_jobs(store: JobStore) -> None:
    job_id = store.submit(request()).id
    store.close()
    assert take(store).id == job_id
    assert store.take() is None


def test_counts(store: JobStore) -> None:
    store.submit(request())
    store.submit(request())
    prove(store)
    assert store.counts() == {
        JobState.QUEUED: 1,
        JobState.RUNNING: 0,
        JobState.DONE: 1,
        JobState.FAILED: 0,
        JobState.CANCELLED: 0,
    }


def test_higher_priorities_go_first_between_partitions_too(store: JobStore) -> None:
    low = store.submit(request(n_witnesses=2, priority=-1)).id
    assert take(store).id == low
    high = store.submit(request(priority=5)).id
    middle = store.submit(request()).id
    assert [take(store).id for _ in range(3)] == [high, middle, low]


def test_a_job_between_two_partitions_is_cancelled_at_once(store: JobStore) -> None:
    store.submit(request(n_witnesses=2))
    job = take(store)
    store.add_proof(job, 0, PROOF)
    assert store.cancel(job.id).state is JobState.CANCELLED
    store.close()
    assert store.take() is None


def test_a_stopped_store_gives_nothing_and_ends_waits(store: JobStore) -> None:
    job = store.get(store.submit(request()).id)
    store.stop()
    assert store.take() is None
    assert job.ended.done()
    assert job.answer().state is JobState.QUEUED


def test_a_job_that_was_at_work_in_a_crash_has_the_daemon_for_itself(log: TimingLog) -> None:
    journal, at_work = Journal(), list[list[str]]()
    for i, priority in enumerate((0, 5, 0)):
        journal.accept(str(i), request(n_witnesses=2, priority=priority), i)
    journal.count_crash(["1"])
    store = JobStore(log, journal, queue_limit=9, on_work=lambda ids: at_work.append(sorted(ids)))
    store.recover(journal.jobs())

    suspect = take(store)
    assert (suspect.id, take(store)) == ("1", suspect), "its own partitions may run beside each other"
    got: list[str] = []
    waiting = threading.Thread(target=lambda: got.append(take(store).id))
    waiting.start()
    store.add_proof(suspect, 0, PROOF)
    waiting.join(0.2)
    assert got == [], "nothing is given out beside it"
    store.add_proof(suspect, 1, PROOF)
    waiting.join(10)
    assert (got, take(store).id, take(store).id) == (["0"], "0", "2"), "the others share the daemon"
    assert at_work == [["1"], ["1"], [], ["0"], ["0"], ["0", "2"]]


def test_a_job_that_was_at_work_in_a_crash_waits_for_the_others(log: TimingLog) -> None:
    journal = Journal()
    journal.accept("suspect", request(), 1)
    journal.accept("other", request(priority=1), 2)
    journal.count_crash(["suspect"])
    store = JobStore(log, journal, queue_limit=9)
    store.recover(journal.jobs())
    other = take(store)
    store.close()
    got: list[Job | None] = []
    waiting = threading.Thread(target=lambda: got.append(take(store)))
    waiting.start()
    waiting.join(0.2)
    assert got == []
    store.drop(other, error_body(ProverError("x", "it failed")))
    waiting.join(10)
    assert [job.id for job in got if job] == ["suspect"]
    store.add_proof(store.get("suspect"), 0, PROOF)
    assert store.take() is None


@pytest.mark.parametrize("jump_s", [-86400, 86400])
def test_a_wall_clock_that_is_set_makes_no_result_old(
    log: TimingLog, monkeypatch: pytest.MonkeyPatch, jump_s: int
) -> None:
    store = JobStore(log, Journal(), queue_limit=10, kept_proofs=2, kept_s=3600)
    ids = []
    for i in range(3):
        ids.append(store.submit(request(key=f"k{i}")).id)
        prove(store)
        now_ns = time.time_ns() + jump_s * 10**9
        monkeypatch.setattr("prover.jobs.time.time_ns", lambda now_ns=now_ns: now_ns)
    store.submit(request(key="last"))  # looks for what is old
    assert [store.get(job_id).id for job_id in ids[1:]] == ids[1:], "the two that ended last"
    with pytest.raises(InputError, match="there is no job"):
        store.get(ids[0])
