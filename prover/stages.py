"""The stages of one partition, each timed, logged and counted: synthesis, device, finish."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from prover.formats.wtns import read_witness
from prover.groth16 import check, finalise, prove_on_device, synthesise
from prover.memory.estimate import FIXED_BYTES
from prover.protocol import ProofRecord

if TYPE_CHECKING:
    from pathlib import Path

    from prover.circuits import LoadedCircuit
    from prover.groth16 import DeviceDurations, DeviceParts, Synthesis
    from prover.job import Job
    from prover.memory.budget import Reservation
    from prover.metrics import Metrics
    from prover.timeline import Value
    from prover.timing_log import TimingLog

_SYNTHESIS_WORKER = 0


@dataclass(eq=False)
class Partition:
    """One witness of a job on its way; each stage puts its result here and takes that of the one before.

    Args:
        job: Its job.
        part: Its number there, from 0.
        circuit: Its circuit, in use until the partition has left.
        reservation: Its memory.
        synthesis: Made by ``synthesise``.
        sums: Made by ``on_device``.
        worker: The thread that took it to the device.
        has_left: Whether its memory and its circuit were given back.
    """

    job: Job
    part: int
    circuit: LoadedCircuit
    reservation: Reservation
    synthesis: Synthesis | None = None
    sums: DeviceParts | None = None
    worker: int = _SYNTHESIS_WORKER
    has_left: bool = False

    @property
    def common(self) -> dict[str, Value]:
        """The common keys of its events."""
        return {"job": self.job.id, "part": self.part, "worker": self.worker}


class Stages:
    """What is done with a partition.

    Args:
        log: Gets the events of every stage.
        metrics: Gets the durations of every stage.
    """

    def __init__(self, log: TimingLog, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def synthesise(self, partition: Partition, witness: Path) -> None:
        """Read the witness, and multiply it into the circuit.

        Raises:
            InputError: The witness is wrong.
        """
        start_ns = self._log.event("TIMELINE", "SYNTH_START", partition.common)
        partition.synthesis = synthesise(partition.circuit.key, read_witness(witness))
        synth_us = _us(start_ns)
        self._log.event("TIMELINE", "SYNTH_END", partition.common, synth_us=synth_us)
        self._metrics.observe("synthesis", synth_us)
        self._log.event("TIMELINE", "GPU_QUEUE", partition.common)

    def on_device(self, partition: Partition) -> None:
        """Run the transforms and the sums; most of the partition's memory is given back.

        Raises:
            KernelError: The backend failed.
        """
        synthesis, partition.synthesis = partition.synthesis, None
        assert synthesis is not None, "a partition reaches the device only with its synthesis"  # noqa: S101 - for mypy
        key = partition.circuit.key
        common: dict[str, Value] = {**partition.common, "dev": key.backend.device}
        self._log.event("TIMELINE", "GPU_PICKUP", common)
        start_ns = self._log.event("TIMELINE", "GPU_START", common)
        partition.sums = prove_on_device(key, synthesis)
        gpu_us = _us(start_ns)
        self._log_phases(partition.sums.durations, common)
        self._log.event("TIMELINE", "GPU_END", common, gpu_us=gpu_us)
        self._metrics.observe("device", gpu_us)
        del synthesis
        partition.reservation.resize(FIXED_BYTES)

    def finish(self, partition: Partition) -> ProofRecord:
        """Blind and assemble the proof, and verify it.

        Raises:
            ProofInvalidError: It does not verify.
        """
        sums, partition.sums = partition.sums, None
        assert sums is not None, "a partition is finished only with its sums"  # noqa: S101 - for mypy
        key = partition.circuit.key
        start_ns = time.monotonic_ns()
        made = finalise(key, sums)
        finish_us = _us(start_ns)
        verify_ns = time.monotonic_ns()
        check(key, made)
        verify_us, total_us = _us(verify_ns), _us(start_ns)
        self._log.event(
            "FIN_TIMING", "partition", partition.common, finish_us=finish_us, verify_us=verify_us, total_us=total_us
        )
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
