"""The engine in this process: what it refuses before it starts, and what a failure of a stage becomes."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kernels
import prover.pipeline
from kernels.interface import KernelError
from prover.check import PROCESS_BYTES, CircuitPlan
from prover.checked_keys import CheckedKeys
from prover.errors import CapacityError, InputError
from prover.jobs import JobStore
from prover.memory.budget import MemoryBudget
from prover.metrics import Metrics
from prover.pipeline import Engine
from prover.protocol import JobRequest, JobState, WitnessRef
from prover.witness_store import WitnessStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.interface import Backend
    from prover.protocol import JobAnswer
    from prover.timing_log import TimingLog

MUL60 = Path(__file__).parents[1] / "data" / "groth16" / "mul60"
REQUEST = JobRequest(circuit="mul60", witnesses=[WitnessRef(path=str(MUL60 / "witness.wtns"))] * 2)
PLAN = CircuitPlan("mul60", MUL60 / "circuit.zkey", None, 10 << 20, 5 << 20, 30 << 20, 1 << 20)


@pytest.fixture(scope="module")
def backend() -> Backend:
    try:
        return kernels.backend("host", threads=2)
    except KernelError as error:
        pytest.skip(f"no host backend: {error}")


class Bench:
    """An engine with its stores, whose thread a test runs to its end."""

    def __init__(self, backend: Backend, folder: Path, log: TimingLog, plan: CircuitPlan, budget_bytes: int) -> None:
        folder.mkdir()
        self.budget = MemoryBudget(budget_bytes)
        self.jobs = JobStore(log, queue_limit=5)
        self.engine = Engine(
            [plan],
            backend=backend,
            budget=self.budget,
            jobs=self.jobs,
            witnesses=WitnessStore(folder, 1 << 20),
            checked_keys=CheckedKeys(folder / "checked_keys"),
            log=log,
            metrics=Metrics(self.jobs, self.budget, log),
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
    def make(plan: CircuitPlan = PLAN, budget_bytes: int = 1 << 30) -> Bench:
        return Bench(backend, tmp_path / "w", log, plan, budget_bytes)

    return make


def test_memory_is_given_back_after_a_job(make: Callable[..., Bench]) -> None:
    bench = make()
    assert bench.prove().state is JobState.DONE
    (circuit,) = bench.engine.circuits()
    assert bench.budget.reserved_bytes == PROCESS_BYTES + PLAN.held_bytes
    assert 0 < circuit.loaded_bytes < PLAN.held_bytes


def test_a_key_that_does_not_fit_ends_the_daemon(make: Callable[..., Bench]) -> None:
    bench = make(budget_bytes=PROCESS_BYTES + (5 << 20))
    bench.run()
    assert isinstance(bench.engine.fatal, CapacityError)
    assert "key mul60 needs 10485760 bytes" in bench.engine.fatal.message
    assert "the process itself holds" in bench.engine.fatal.message


def test_a_key_of_another_digest_ends_the_daemon(make: Callable[..., Bench]) -> None:
    bench = make(CircuitPlan("mul60", PLAN.path, "ab" * 32, 10 << 20, 5 << 20, 30 << 20, 1 << 20))
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

    monkeypatch.setattr(prover.pipeline, "prove_on_device", fail)
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
