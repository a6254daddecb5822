"""The way of a proof: reserve memory, read the witness, synthesise, queue, device, finalise and verify, journal.

Three kinds of threads, so that the device never waits for the host: one takes partitions, reserves their memory and
synthesises; the device workers run the transforms and sums; one finishes. What lies between them is bounded, by
``lookahead`` and by the memory budget. A failure ends its job and nothing else.
"""

from __future__ import annotations

import logging
import threading
from queue import Queue
from typing import TYPE_CHECKING

from kernels.interface import KernelError
from prover.check import PROCESS_BYTES
from prover.errors import CapacityError, ProverError
from prover.job import error_body
from prover.journal import JournalError
from prover.stages import Partition, Stages

if TYPE_CHECKING:
    from collections.abc import Callable

    from prover.circuits import Circuits, LoadedCircuit
    from prover.job import Job
    from prover.jobs import JobStore
    from prover.memory.budget import MemoryBudget
    from prover.metrics import Metrics
    from prover.protocol import JobRequest
    from prover.timing_log import TimingLog
    from prover.witness_store import WitnessStore

logger = logging.getLogger(__name__)
_JOURNAL_PAUSE_S = 1.0


class Engine:
    """Loads the circuits and proves, in threads of its own.

    Args:
        circuits: The keys.
        budget: Where all memory is reserved.
        jobs: Where work comes from and results go.
        witnesses: Where witnesses lie that were put.
        log: Gets the events of every stage.
        metrics: Gets the durations of every stage.
        n_workers: Threads that take partitions to the device.
        lookahead: Partitions that wait for the device, synthesised, at most.
        memory_wait_s: How long a partition waits for memory before its job fails.
    """

    def __init__(
        self,
        circuits: Circuits,
        *,
        budget: MemoryBudget,
        jobs: JobStore,
        witnesses: WitnessStore,
        log: TimingLog,
        metrics: Metrics,
        n_workers: int = 1,
        lookahead: int = 1,
        memory_wait_s: float = 600,
    ) -> None:
        self._circuits = circuits
        self._budget = budget
        self._jobs = jobs
        self._witnesses = witnesses
        self._log = log
        self._stages = Stages(log, metrics)
        self._memory_wait_s = memory_wait_s
        self._to_device: Queue[Partition | None] = Queue(lookahead)
        self._to_finish: Queue[Partition | None] = Queue(n_workers)
        self._workers = [
            threading.Thread(target=self._guarded, args=(self._device_worker, i), name=f"device-{i}", daemon=True)
            for i in range(n_workers)
        ]
        self._finisher = threading.Thread(target=self._guarded, args=(self._finish_all,), name="finish", daemon=True)
        self.loaded = threading.Event()
        self.fatal: Exception | None = None

    def run(self) -> None:
        """Body of the first thread: load circuits, then prove until the jobs are closed and done."""
        self._guarded(self._run)

    def admit(self, request: JobRequest) -> None:
        """Refuse what can never be proved here.

        Raises:
            InputError: There is no such circuit, or a witness cannot be read.
            CapacityError: The circuit does not fit the budget.
        """
        self._circuits.check_fits(request.circuit)
        self._witnesses.claim(request)

    def _run(self) -> None:
        self._budget.reserve(PROCESS_BYTES, "the process itself", deadline_s=0)
        self._circuits.preload(lambda: self._jobs.closed)
        self.loaded.set()
        for thread in (*self._workers, self._finisher):
            thread.start()
        while (taken := self._jobs.take()) is not None:
            self._start(*taken)
        for _ in self._workers:
            self._to_device.put(None)
        for thread in self._workers:
            thread.join()
        self._to_finish.put(None)
        self._finisher.join()

    def _guarded(self, body: Callable[..., None], *arguments: object) -> None:
        """Run the body of a thread: its end by a fault must reach the main thread, whatever it is."""
        try:
            body(*arguments)
        except Exception as error:  # noqa: BLE001 - the main thread raises it again
            self.fatal = error

    def _start(self, job: Job, part: int) -> None:
        """Reserve, synthesise, and hand over to the device."""
        circuit: LoadedCircuit | None = None
        try:
            circuit = self._circuits.use(job.request.circuit, self._memory_wait_s)
            holder = f"partition {part} of job {job.id}"
            reservation = self._budget.reserve(circuit.plan.work_bytes, holder, deadline_s=self._memory_wait_s)
        except Exception as failure:  # noqa: BLE001 - every failure ends the job with its reason
            if circuit is not None:
                self._circuits.let_go(circuit)
            self._fail(job, failure)
            return
        partition = Partition(job, part, circuit, reservation)
        if self._advance(partition, self._synthesise):
            self._to_device.put(partition)

    def _device_worker(self, number: int) -> None:
        while (partition := self._to_device.get()) is not None:
            partition.worker = number
            if self._advance(partition, self._stages.on_device):
                self._to_finish.put(partition)

    def _finish_all(self) -> None:
        while (partition := self._to_finish.get()) is not None:
            self._advance(partition, self._finish)

    def _synthesise(self, partition: Partition) -> None:
        witness = partition.job.request.witnesses[partition.part]
        self._stages.synthesise(partition, self._witnesses.path_of(witness))

    def _finish(self, partition: Partition) -> None:
        job, part = partition.job, partition.part
        proof = self._stages.finish(partition)
        self._release(partition)
        if len(job.proofs) + 1 == len(job.request.witnesses):
            self._sample(job)
        self._record(lambda: self._jobs.add_proof(job, part, proof))

    def _advance(self, partition: Partition, stage: Callable[[Partition], None]) -> bool:
        """Run one stage; where it fails, or the job is over, the partition leaves. Returns whether it goes on."""
        if partition.job.is_over:
            self._release(partition)
            self._record(lambda: self._jobs.drop(partition.job))
            return False
        try:
            stage(partition)
        except Exception as failure:  # noqa: BLE001 - every failure ends the job with its reason
            self._release(partition)
            self._fail(partition.job, failure)
            return False
        return True

    def _release(self, partition: Partition) -> None:
        if not partition.has_left:
            partition.has_left = True
            partition.synthesis = partition.sums = None
            partition.reservation.drop()
            self._circuits.let_go(partition.circuit)

    def _fail(self, job: Job, failure: Exception) -> None:
        error = _explained(job, failure)
        if not job.is_over:
            logger.warning("job %s failed: %s", job.id, error.message)
            self._sample(job)
        self._record(lambda: self._jobs.drop(job, error_body(error)))

    def _sample(self, job: Job) -> None:
        self._log.memory_sample(self._budget.total_bytes, self._budget.reserved_bytes, {"job": job.id})

    def _record(self, change: Callable[[], None]) -> None:
        """Make a change that the journal must hold first: while it cannot be written, everything waits for the disk.

        A daemon that ends meanwhile leaves the job unfinished in its journal, and the next one proves it again.
        """
        said = False
        while True:
            try:
                change()
            except JournalError as error:
                if not said:
                    logger.error("%s: its results wait until it can", error.message)  # noqa: TRY400 - no traceback
                    said = True
                if self._jobs.wait_stopped(_JOURNAL_PAUSE_S):
                    return
            else:
                return


def _explained(job: Job, failure: Exception) -> ProverError:
    if isinstance(failure, ProverError):
        return failure
    if isinstance(failure, KernelError):
        return ProverError("kernel", f"a computation failed: {failure}")
    if isinstance(failure, MemoryError):
        return CapacityError("out-of-memory", "the machine gave no more memory")
    logger.error("job %s failed by a fault of this program", job.id, exc_info=failure)
    message = f"a fault of this program: {type(failure).__name__}; the daemon's standard error has the details"
    return ProverError("internal", message)
