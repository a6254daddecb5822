"""The way of a proof: reserve memory, read the witness, synthesise, device, finalise, verify.

One thread, one job at a time, one partition after the other. A failure ends its job and nothing else.
"""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.interface import KernelError
from prover.check import PROCESS_BYTES
from prover.errors import CapacityError, InputError, ProverError
from prover.formats.wtns import read_witness
from prover.groth16 import check, finalise, load_key, prove_on_device, synthesise
from prover.jobs import error_body
from prover.protocol import CircuitStatus, JobState, ProofRecord

if TYPE_CHECKING:
    from pathlib import Path

    from kernels.interface import Backend
    from prover.check import CircuitPlan
    from prover.checked_keys import CheckedKeys
    from prover.groth16 import DeviceDurations, LoadedKey, Synthesis
    from prover.jobs import Job, JobStore
    from prover.memory.budget import MemoryBudget
    from prover.metrics import Metrics
    from prover.protocol import JobRequest
    from prover.timeline import Value
    from prover.timing_log import TimingLog
    from prover.witness_store import WitnessStore

logger = logging.getLogger(__name__)
_WORKER = 0


@dataclass(frozen=True)
class LoadedCircuit:
    """A circuit that is ready to prove."""

    plan: CircuitPlan
    key: LoadedKey


class Engine:
    """Loads the circuits and proves, in one thread of its own.

    Args:
        plans: The circuits, checked, with what they will take.
        backend: What computes.
        budget: Where all memory is reserved.
        jobs: Where work comes from and results go.
        witnesses: Where witnesses lie that were put.
        checked_keys: The keys that need no check of their subgroups any more.
        log: Gets the events of every stage.
        metrics: Gets the durations of every stage.
    """

    def __init__(
        self,
        plans: list[CircuitPlan],
        *,
        backend: Backend,
        budget: MemoryBudget,
        jobs: JobStore,
        witnesses: WitnessStore,
        checked_keys: CheckedKeys,
        log: TimingLog,
        metrics: Metrics,
    ) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._backend = backend
        self._budget = budget
        self._jobs = jobs
        self._witnesses = witnesses
        self._checked_keys = checked_keys
        self._log = log
        self._metrics = metrics
        self._loaded: dict[str, LoadedCircuit] = {}
        self.loaded = threading.Event()
        self.fatal: Exception | None = None

    def run(self) -> None:
        """Body of the thread: load every circuit, then prove until the jobs are closed and done."""
        try:
            self._budget.reserve(PROCESS_BYTES, "the process itself", deadline_s=0)
            for plan in self._plans.values():
                if self._jobs.closed:
                    break
                self._load(plan)
            self.loaded.set()
            while (job := self._jobs.take()) is not None:
                self._prove(job)
        except Exception as error:  # noqa: BLE001 - the thread's end must reach the main thread, whatever it is
            self.fatal = error

    def admit(self, request: JobRequest) -> None:
        """Refuse what can never be proved here.

        Raises:
            InputError: There is no such circuit, or a witness cannot be read.
        """
        if request.circuit not in self._plans:
            known = ", ".join(self._plans) or "none is configured"
            raise InputError("no-such-circuit", f"there is no circuit {request.circuit!r}", f"circuits here: {known}")
        self._witnesses.claim(request)

    def circuits(self) -> list[CircuitStatus]:
        """Every circuit that is loaded."""
        return [
            CircuitStatus(
                name=name,
                sha256=circuit.key.sha256,
                n_constraints_domain=circuit.key.domain_size,
                n_public=circuit.key.n_public,
                loaded_bytes=circuit.key.held_bytes,
            )
            for name, circuit in list(self._loaded.items())
        ]

    def _load(self, plan: CircuitPlan) -> None:
        reservation = self._budget.reserve(plan.load_bytes, f"key {plan.name}", deadline_s=0)
        start_ns = time.monotonic_ns()
        try:
            key = load_key(plan.path, self._backend, self._checked_keys)
        except KernelError as error:
            raise ProverError("kernel", f"the key of {plan.name} cannot be loaded: {error}") from error
        if plan.sha256 not in (None, key.sha256):
            raise InputError(
                "circuit-digest",
                f"{plan.path} has the digest {key.sha256}, not {plan.sha256}",
                "remove this damaged file, and ship the circuit again",
            )
        reservation.resize(plan.held_bytes)
        self._loaded[plan.name] = LoadedCircuit(plan, key)
        self._log.event(
            "CIRCUIT",
            "loaded",
            circuit=plan.name,
            sha256=key.sha256,
            load_us=_us(start_ns),
            held_bytes=key.held_bytes,
        )

    def _prove(self, job: Job) -> None:
        state, error = JobState.DONE, None
        try:
            for part in range(len(job.request.witnesses)):
                if job.cancel_asked:
                    state = JobState.CANCELLED
                    break
                self._jobs.add_proof(job, self._prove_partition(job, part))
        except ProverError as failure:
            state, error = JobState.FAILED, failure
        except KernelError as failure:
            state, error = JobState.FAILED, ProverError("kernel", f"a computation failed: {failure}")
        except MemoryError:
            state, error = JobState.FAILED, CapacityError("out-of-memory", "the machine gave no more memory")
        except Exception as failure:
            logger.exception("job %s failed by a fault of this program", job.id)
            message = f"a fault of this program: {type(failure).__name__}; the daemon's standard error has the details"
            state, error = JobState.FAILED, ProverError("internal", message)
        if error is not None:
            logger.warning("job %s failed: %s", job.id, error.message)
        self._log.memory_sample(self._budget.total_bytes, self._budget.reserved_bytes, {"job": job.id})
        self._jobs.finish(job, state, error_body(error) if error else None)

    def _prove_partition(self, job: Job, part: int) -> ProofRecord:
        circuit = self._loaded.get(job.request.circuit)
        if circuit is None:  # a drain stopped the loading
            raise ProverError("draining", "the daemon was stopped before this circuit was loaded")
        common: dict[str, Value] = {"job": job.id, "part": part, "worker": _WORKER}
        holder = f"partition {part} of job {job.id}"
        # one partition at a time beside the keys: that it fits was checked before the start, so nobody waits
        with self._budget.reserve(circuit.plan.work_bytes, holder, deadline_s=0):
            path = self._witnesses.path_of(job.request.witnesses[part])
            synthesis = self._synthesise(circuit.key, path, common)
            self._log.event("TIMELINE", "GPU_QUEUE", common)
            return self._on_device(circuit.key, synthesis, common)

    def _synthesise(self, key: LoadedKey, path: Path, common: dict[str, Value]) -> Synthesis:
        start_ns = self._log.event("TIMELINE", "SYNTH_START", common)
        synthesis = synthesise(key, read_witness(path))
        synth_us = _us(start_ns)
        self._log.event("TIMELINE", "SYNTH_END", common, synth_us=synth_us)
        self._metrics.observe("synthesis", synth_us)
        return synthesis

    def _on_device(self, key: LoadedKey, synthesis: Synthesis, common: dict[str, Value]) -> ProofRecord:
        on_device: dict[str, Value] = {**common, "dev": self._backend.device}
        self._log.event("TIMELINE", "GPU_PICKUP", on_device)
        start_ns = self._log.event("TIMELINE", "GPU_START", on_device)
        parts = prove_on_device(key, synthesis)
        gpu_us = _us(start_ns)
        self._log_phases(parts.durations, on_device)
        self._log.event("TIMELINE", "GPU_END", on_device, gpu_us=gpu_us)
        self._metrics.observe("device", gpu_us)
        start_ns = time.monotonic_ns()
        made = finalise(key, parts)
        finish_us = _us(start_ns)
        verify_ns = time.monotonic_ns()
        check(key, made)
        verify_us, total_us = _us(verify_ns), _us(start_ns)
        self._log.event("FIN_TIMING", "partition", common, finish_us=finish_us, verify_us=verify_us, total_us=total_us)
        self._metrics.observe("finish", total_us)
        return ProofRecord(proof=made.proof, public=made.public)

    def _log_phases(self, durations: DeviceDurations, common: dict[str, Value]) -> None:
        ntt_h_us = (durations.ntt_ns + durations.h_msm_ns) // 1000
        self._log.event(
            "CUZK_NTT_H",
            "phases",
            common,
            ntt_kernels_us=durations.ntt_ns // 1000,
            msm_invoke_us=durations.h_msm_ns // 1000,
            total_us=ntt_h_us,
        )
        self._log.event(
            "CUZK_TIMING",
            "phases",
            common,
            ntt_msm_h_us=ntt_h_us,
            tail_msm_us=durations.tail_msm_ns // 1000,
            b_g2_msm_us=durations.b_g2_msm_ns // 1000,
            gpu_total_us=durations.total_ns // 1000,
        )


def _us(since_ns: int) -> int:
    return (time.monotonic_ns() - since_ns) // 1000
