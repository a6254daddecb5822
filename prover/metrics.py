"""What ``/metrics`` answers, in the text format of Prometheus, from a registry of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from prover.memory.available import rss_and_peak_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from prover.circuits import Circuits
    from prover.connections import Connections
    from prover.jobs import JobStore
    from prover.memory.budget import MemoryBudget
    from prover.timing_log import TimingLog

_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)


class Metrics(Collector):
    """Numbers of one daemon.

    Args:
        jobs: Its jobs.
        budget: Its memory.
        log: Its timing log.
        connections: Its clients.
        circuits: Its keys.
    """

    def __init__(
        self,
        jobs: JobStore,
        budget: MemoryBudget,
        log: TimingLog,
        connections: Connections | None = None,
        circuits: Circuits | None = None,
    ) -> None:
        self._jobs = jobs
        self._connections = connections
        self._circuits = circuits
        self._budget = budget
        self._log = log
        self._registry = CollectorRegistry()
        self._registry.register(self)
        self._stages = Histogram(
            "prover_stage_seconds",
            "Time of one stage of a partition",
            ["stage"],
            registry=self._registry,
            buckets=_SECONDS,
        )

    def observe(self, stage: str, duration_us: int) -> None:
        """Count one run of a stage: ``synthesis``, ``device`` or ``finish``."""
        self._stages.labels(stage).observe(duration_us / 1e6)

    def text(self) -> bytes:
        """All numbers as they are now."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Read what others count (called by the registry)."""
        counts = self._jobs.counts()
        unfinished = GaugeMetricFamily("prover_jobs", "Jobs that have not ended", labels=["state"])
        ended = CounterMetricFamily("prover_jobs_ended", "Jobs that ended since the start", labels=["state"])
        for state, n in counts.items():
            (ended if state.is_final else unfinished).add_metric([state.value], n)
        yield unfinished
        yield ended
        rss, peak = rss_and_peak_bytes()
        yield GaugeMetricFamily("prover_budget_bytes", "Memory budget", self._budget.total_bytes)
        yield GaugeMetricFamily("prover_reserved_bytes", "Memory reserved from it", self._budget.reserved_bytes)
        yield GaugeMetricFamily("prover_rss_bytes", "Resident memory", rss)
        yield GaugeMetricFamily("prover_peak_rss_bytes", "Highest resident memory (VmHWM)", peak)
        yield CounterMetricFamily("prover_log_lines_lost", "Lines that the timing log refused", self._log.lines_lost)
        if (clients := self._connections) is not None:
            yield GaugeMetricFamily("prover_connections", "Clients that are connected", len(clients.open))
            yield CounterMetricFamily("prover_connections_refused", "Clients beyond the limit", clients.n_refused)
            yield CounterMetricFamily("prover_connections_timed_out", "Clients that were silent", clients.n_timed_out)
        if (circuits := self._circuits) is not None:
            loaded = sum(status.loaded_bytes > 0 for status in circuits.status())
            yield GaugeMetricFamily("prover_circuits_loaded", "Keys in memory", loaded)
            yield CounterMetricFamily("prover_circuits_evicted", "Keys that gave way to others", circuits.n_evicted)
