"""``prover bench``: the daemon's engine in this process, without a daemon, and the load of ``prover.bench`` on it."""

from __future__ import annotations

import concurrent.futures
import re
import tempfile
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kernels
from kernels.interface import KernelError
from prover import bench, synthetic
from prover.check import PROCESS_BYTES, CircuitPlan, auto_budget_bytes, plan_circuit
from prover.checked_keys import CheckedKeys
from prover.circuits import Circuits
from prover.config import CircuitFile
from prover.errors import CapacityError, InputError, ProverError
from prover.interruptible import THREAD_NAME
from prover.jobs import JobStore
from prover.journal import Journal
from prover.memory.budget import MemoryBudget
from prover.metrics import Metrics
from prover.output import show
from prover.pipeline import Engine
from prover.progress import Progress
from prover.protocol import NAME_PATTERN, CircuitStatus, JobRequest, WitnessRef
from prover.timing_log import TimingLog
from prover.witness_store import WitnessStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kernels.interface import Backend
    from prover.protocol import BenchAnswer, DaemonRecord, JobAnswer

_RUN = "bench"


@dataclass(frozen=True)
class Setting:
    """How this process proves.

    Args:
        circuit: ``synthetic:SIZE``, or a name for ``zkey``.
        zkey: The key, or None for a synthetic circuit.
        wtns: Its witness, the same.
        threads: CPU threads of one operation; None is one for each CPU.
        workers: Threads that take partitions to the device.
        lookahead: Partitions that are synthesised ahead.
        log: Where the timing log goes; None throws it away.
    """

    circuit: str
    zkey: Path | None
    wtns: Path | None
    threads: int | None
    workers: int
    lookahead: int
    log: Path | None


class Here:
    """The engine of a daemon, in this process.

    Args:
        plan: The one circuit.
        request: Every job of the load.
        jobs: The stores and threads behind it.
        circuits: The same.
        engine: The same.
    """

    def __init__(
        self, plan: CircuitPlan, request: JobRequest, *, jobs: JobStore, circuits: Circuits, engine: Engine
    ) -> None:
        self._plan = plan
        self._request = request
        self._jobs = jobs
        self._circuits = circuits
        self._engine = engine

    def submit(self) -> JobAnswer:
        """Submit one job."""
        return self._jobs.submit(self._request, self._engine.admit)

    def wait(self, job_id: str, wait_s: float) -> JobAnswer:
        """Wait for its end."""
        if self._engine.fatal is not None:
            raise self._engine.fatal
        job = self._jobs.get(job_id)
        concurrent.futures.wait([job.ended], timeout=wait_s)
        return job.answer()

    def cancel(self, job_id: str) -> None:
        """Cancel it."""
        with suppress(ProverError):  # it has ended meanwhile
            self._jobs.cancel(job_id)

    def circuit(self) -> CircuitStatus:
        """The circuit."""
        return next(iter(self._circuits.status()))

    def verification_key(self) -> dict[str, Any]:
        """Its verification key."""
        return self._circuits.verification_key(self._plan.name)

    def daemon(self) -> DaemonRecord | None:
        """There is none."""
        return None


def run(setting: Setting, load: bench.Load) -> BenchAnswer:
    """Measure in this process.

    Args:
        setting: How it proves.
        load: How much.

    Raises:
        InputError: A file is wrong.
        BenchFailedError: A job failed.
        CapacityError: The circuit does not fit in memory.
        ProverError: The host library is missing or failed.
    """
    if (setting.zkey is None) != (setting.wtns is None):
        raise InputError("usage", "a key and a witness belong together", "give both --zkey and --wtns, or neither")
    try:
        backend = kernels.backend("host", threads=setting.threads)
        with Progress("starting") as progress:
            files = _files(setting, backend, progress)
            with _engine(setting, load, files, backend) as target:
                return bench.run(target, load, progress.stage)
    except KernelError as error:
        raise ProverError("kernel", str(error)) from error
    except MemoryError:
        raise CapacityError("out-of-memory", "there is not enough memory for this load") from None


def _files(setting: Setting, backend: Backend, progress: Progress) -> synthetic.SyntheticFiles:
    if setting.zkey is not None and setting.wtns is not None:
        return synthetic.SyntheticFiles(setting.zkey.absolute(), setting.wtns.absolute())
    return synthetic.cached(synthetic.parse_size(setting.circuit), backend, progress.stage)


@contextmanager
def _engine(setting: Setting, load: bench.Load, files: synthetic.SyntheticFiles, backend: Backend) -> Iterator[Here]:
    name = re.sub("[:^]", "-", setting.circuit)
    if not re.fullmatch(NAME_PATTERN, name):
        raise InputError("usage", f"--circuit {name[:80]!r} is not a name", "use letters, digits, '.', '_' and '-'")
    plan = plan_circuit(CircuitFile(name, files.zkey, None), backend.threads)
    request = JobRequest(circuit=name, witnesses=[WitnessRef(path=str(files.wtns))] * load.n_partitions)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prover-bench-")))
        log = TimingLog(setting.log or folder / "timing.log", _RUN)
        log.header(
            build_id="source",
            release_id="none",
            config_sha256="none",
            backend=backend.name,
            threads=backend.threads,
            options=f"gpus.workers:{setting.workers}/pipeline.lookahead:{setting.lookahead}",
        )
        budget = MemoryBudget(auto_budget_bytes(), auto_budget_bytes)
        journal = Journal()
        jobs = JobStore(log, journal, queue_limit=load.concurrency)
        (folder / "witnesses").mkdir()
        checked = CheckedKeys(synthetic.cache_folder().parent / "checked_keys")
        circuits = Circuits([plan], backend=backend, budget=budget, checked_keys=checked, log=log)
        engine = Engine(
            circuits,
            budget=budget,
            jobs=jobs,
            witnesses=WitnessStore(folder / "witnesses", plan.witness_bytes),
            log=log,
            metrics=Metrics(jobs, budget, log),
            n_workers=setting.workers,
            lookahead=setting.lookahead,
        )
        if plan.load_bytes + plan.work_bytes + PROCESS_BYTES > budget.total_bytes:
            raise budget.refusal(plan.load_bytes + plan.work_bytes, name, "does not fit")
        thread = threading.Thread(target=engine.run, name=THREAD_NAME, daemon=True)
        thread.start()
        is_interrupted = False
        try:
            yield Here(plan, request, jobs=jobs, circuits=circuits, engine=engine)
        except KeyboardInterrupt:
            is_interrupted = True
            raise
        finally:
            jobs.stop()
            if not is_interrupted:  # else nobody waits for the kernel that is at work, which may still log
                thread.join()
                journal.close()
                log.close()


def bench_command(setting: Setting, load: bench.Load, *, as_json: bool) -> int:
    """Print what was measured; returns the exit status."""
    answer = run(setting, load)
    show((answer.model_dump_json(by_alias=True) if as_json else bench.render(answer)) + "\n")
    return 0
