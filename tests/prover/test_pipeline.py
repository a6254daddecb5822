"""The engine in this process: what it refuses before it starts, and what a failure of a stage becomes."""

from __future__ import annotations

import shutil
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kernels
import prover.pipeline
import prover.stages
from kernels.interface import KernelError
from prover.check import PROCESS_BYTES, CircuitPlan
from prover.checked_keys import CheckedKeys
from prover.circuits import Circuits
from prover.errors import CapacityError, InputError
from prover.jobs import JobStore
from prover.journal import Journal, JournalError
from prover.memory.budget import MemoryBudget
from prover.memory.estimate import DeviceNeed
from prover.metrics import Metrics
from prover.pipeline import Engine
from prover.protocol import JobRequest, JobState, WitnessRef
from prover.witness_store import WitnessStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.interface import Backend
    from prover.protocol import JobAnswer
    from prover.timeline import Event
    from prover.timing_log import TimingLog

MUL60 = Path(__file__).parents[1] / "data" / "groth16" / "mul60"
REQUEST = JobRequest(circuit="mul60", witnesses=[WitnessRef(path=str(MUL60 / "witness.wtns"))] * 2)
PLAN = CircuitPlan("mul60", MUL60 / "circuit.zkey", None, 10 << 20, 5 << 20, 30 << 20, 1 << 20, DeviceNeed(0, 0))


@pytest.fixture(scope="module")
def backend() -> Backend:
    try:
        return kernels.backend("host", threads=2)
    except KernelError as error:
        pytest.skip(f"no host backend: {error}")


class Bench:
    """An engine with its stores, whose thread a test runs to its end."""

    def __init__(
        self, backend: Backend, folder: Path, log: TimingLog, plans: list[CircuitPlan], budget_bytes: int, **more: int
    ) -> None:
        folder.mkdir()
        self.budget = MemoryBudget(budget_bytes)
        self.journal = Journal()
        self.jobs = JobStore(log, self.journal, queue_limit=5)
        checked = CheckedKeys(folder / "checked_keys")
        self.circuits = Circuits(plans, backend=backend, budget=self.budget, checked_keys=checked, log=log)
        self.engine = Engine(
            self.circuits,
            budget=self.budget,
            jobs=self.jobs,
            witnesses=WitnessStore(folder, 1 << 20),
            log=log,
            metrics=Metrics(self.jobs, self.budget, log),
            **more,
        )

    def prove(self, request: JobRequest = REQUEST) -> JobAnswer:
        job_id = self.jobs.submit(request, self.engine.admit).id
        self.run()
        return self.jobs.get(job_id).answer()

    def run(self) -> None:
        thread = threading.Thread(target=self.engine.run)
        thread.start()
        while thread.is_alive() and not self.engine.loaded.wait(0.05):
            pass
        self.jobs.close()
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def make(backend: Backend, tmp_path: Path, log: TimingLog) -> Callable[..., Bench]:
    def make(*plans: CircuitPlan, budget_bytes: int = 1 << 30, **more: int) -> Bench:
        return Bench(backend, tmp_path / "w", log, list(plans or [PLAN]), budget_bytes, **more)

    return make


def test_memory_is_given_back_after_a_job(make: Callable[..., Bench]) -> None:
    bench = make()
    assert bench.prove().state is JobState.DONE
    (circuit,) = bench.circuits.status()
    assert bench.budget.reserved_bytes == PROCESS_BYTES + PLAN.held_bytes
    assert 0 < circuit.loaded_bytes < PLAN.held_bytes


def test_a_circuit_that_never_fits_is_refused_at_submit(make: Callable[..., Bench]) -> None:
    bench = make(budget_bytes=PROCESS_BYTES + (20 << 20))
    with pytest.raises(
        CapacityError, match=r"circuit mul60 with the process needs \d+ bytes and can never fit"
    ) as refused:
        bench.prove()
    assert refused.value.details["budget_bytes"] == PROCESS_BYTES + (20 << 20)
    assert bench.jobs.unfinished() == []
    bench.run()
    assert bench.engine.fatal is None


def test_circuits_that_do_not_fit_beside_each_other_take_turns(
    make: Callable[..., Bench], logged: Callable[[], list[Event]]
) -> None:
    other = replace(PLAN, name="other")
    bench = make(PLAN, other, budget_bytes=PROCESS_BYTES + PLAN.held_bytes + PLAN.work_bytes)
    names = ["mul60", "other", "mul60"]
    ids = [bench.jobs.submit(REQUEST.model_copy(update={"circuit": name}), bench.engine.admit).id for name in names]
    bench.run()
    assert [bench.jobs.get(job_id).state for job_id in ids] == [JobState.DONE] * 3
    turns = [(event.event, event.values["circuit"]) for event in logged() if event.family == "CIRCUIT"]
    assert turns == [
        ("loaded", "mul60"),
        ("loaded", "other"),  # the keys fit beside each other, but no work fits beside both
        ("evicted", "mul60"),
        ("loaded", "mul60"),
        ("evicted", "other"),
    ]
    assert bench.budget.reserved_bytes == PROCESS_BYTES + PLAN.held_bytes


def test_a_job_of_an_earlier_process_whose_circuit_is_gone_fails(make: Callable[..., Bench]) -> None:
    bench = make()
    job_id = bench.jobs.submit(REQUEST.model_copy(update={"circuit": "gone"})).id
    bench.run()
    error = bench.jobs.get(job_id).error
    assert error is not None
    assert error.code == "no-such-circuit"
    assert bench.engine.fatal is None


def test_memory_that_does_not_come_back_in_time_fails_the_job(make: Callable[..., Bench]) -> None:
    bench = make(budget_bytes=PROCESS_BYTES + PLAN.held_bytes + PLAN.work_bytes, memory_wait_s=0)
    bench.budget.reserve(1, "somebody else", deadline_s=0)
    answer = bench.prove()
    assert answer.error is not None
    assert answer.error.code == "budget"
    assert "somebody else holds 1 bytes" in answer.error.message


@pytest.mark.parametrize(("workers", "lookahead"), [(1, 1), (3, 4)])
def test_stages_of_many_partitions_overlap_and_every_proof_is_kept_in_order(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, workers: int, lookahead: int
) -> None:
    """The device waits for the next synthesis, which therefore happens beside it."""
    next_synthesis = [threading.Event() for _ in range(6)]
    real, calls = prover.stages.synthesise, iter(next_synthesis)

    def synthesise(*arguments: Any) -> Any:
        next(calls).set()
        return real(*arguments)

    waits = iter(next_synthesis[1:])
    real_prove = prover.stages.prove_on_device

    def prove_on_device(*arguments: Any) -> Any:
        if (following := next(waits, None)) is not None:
            assert following.wait(30), "the next partition was not synthesised while this one was on the device"
        return real_prove(*arguments)

    monkeypatch.setattr(prover.stages, "synthesise", synthesise)
    monkeypatch.setattr(prover.stages, "prove_on_device", prove_on_device)
    bench = make(n_workers=workers, lookahead=lookahead)
    answer = bench.prove(REQUEST.model_copy(update={"witnesses": REQUEST.witnesses * 3}))
    assert answer.state is JobState.DONE
    assert len(answer.proofs) == 6
    assert [stored.proofs.keys() for stored in bench.journal.jobs()] == [{*range(6)}]


def test_a_journal_that_cannot_be_written_holds_results_back(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make()
    failures = iter([JournalError("journal", "the journal cannot be written: disk I/O error")] * 2)
    real = bench.journal.finish

    def finish(*arguments: Any, **more: Any) -> None:
        if (failure := next(failures, None)) is not None:
            assert bench.jobs.get(arguments[0]).answer().proofs == []
            raise failure
        real(*arguments, **more)

    monkeypatch.setattr(bench.journal, "finish", finish)
    monkeypatch.setattr(prover.pipeline, "_JOURNAL_PAUSE_S", 0.01)
    assert bench.prove().state is JobState.DONE


def test_a_key_of_another_digest_ends_the_daemon(make: Callable[..., Bench]) -> None:
    bench = make(CircuitPlan("mul60", PLAN.path, "ab" * 32, 10 << 20, 5 << 20, 30 << 20, 1 << 20, DeviceNeed(0, 0)))
    bench.run()
    assert isinstance(bench.engine.fatal, InputError)


@pytest.mark.parametrize(
    ("raised", "code", "exit_status"),
    [
        (KernelError("no threads"), "kernel", 1),
        (MemoryError(), "out-of-memory", 4),
        (ZeroDivisionError("inside"), "internal", 1),
        (CapacityError("budget", "full"), "budget", 4),
    ],
)
def test_a_failing_stage_fails_the_job_and_gives_memory_back(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch, raised: Exception, code: str, exit_status: int
) -> None:
    def fail(*_arguments: object) -> None:
        raise raised

    monkeypatch.setattr(prover.stages, "prove_on_device", fail)
    bench = make()
    answer = bench.prove()
    assert answer.state is JobState.FAILED
    assert answer.error is not None
    assert (answer.error.code, answer.error.details["exit_status"]) == (code, exit_status)
    assert "inside" not in answer.error.message
    assert bench.budget.reserved_bytes == PROCESS_BYTES + PLAN.held_bytes


def test_a_witness_that_vanishes_fails_its_job(make: Callable[..., Bench], tmp_path: Path) -> None:
    bench = make()
    path = tmp_path / "w.wtns"
    shutil.copy(MUL60 / "witness.wtns", path)
    request = JobRequest(circuit="mul60", witnesses=[WitnessRef(path=str(path))])
    job_id = bench.jobs.submit(request, bench.engine.admit).id
    path.unlink()
    bench.run()
    answer = bench.jobs.get(job_id).answer()
    assert answer.error is not None
    assert answer.error.details["exit_status"] == 2
