"""The timing log of one launch: opened here, headed here, and never a reason for a proof to fail."""

from __future__ import annotations

import logging
import os
import socket
import time
from typing import TYPE_CHECKING

from prover.errors import ProverError
from prover.memory.available import rss_and_peak_bytes
from prover.timeline import SCHEMA, TimelineWriter, word

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from prover.timeline import Value

logger = logging.getLogger(__name__)


class TimingLog:
    """Writes events; a full disk costs lines (counted in ``lines_lost``), not jobs.

    Args:
        path: The file; opened for appending with mode 0600.
        launch_id: The run's name in every line.

    Raises:
        ProverError: The file cannot be opened.
    """

    def __init__(self, path: Path, launch_id: str) -> None:
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ProverError("log", f"the timing log cannot be opened: {error}", "check the home folder") from None
        self.path = path
        self.lines_lost = 0
        self._writer = TimelineWriter(self._fd, launch_id)

    def event(self, family: str, event: str, common: Mapping[str, Value] | None = None, **values: Value) -> int:
        """Write one event of ``prover.timeline.EVENTS``; returns its t_ns."""
        try:
            return self._writer.write(family, event, common, **values)
        except OSError as error:
            self._lose(error)
            return time.monotonic_ns()

    def _lose(self, error: OSError) -> None:
        self.lines_lost += 1
        if self.lines_lost == 1:
            logger.warning("the timing log %s loses lines: %s", self.path, error)

    def header(
        self, *, build_id: str, release_id: str, launch_id: str, config_sha256: str, backend: str, threads: int
    ) -> None:
        """Write the first line: all that identifies the run, and the wall clock beside ``t_ns``."""
        gpus, driver = gpus_and_driver()
        self.event(
            "HEADER",
            "run",
            schema=SCHEMA,
            build=word(build_id),
            release=word(release_id),
            launch=word(launch_id),
            config=config_sha256,
            host=word(socket.gethostname()),
            gpus=gpus,
            driver=driver,
            backend=backend,
            threads=threads,
            wall_unix_ns=time.time_ns(),
        )

    def memory_sample(self, budget_bytes: int, reserved_bytes: int, common: Mapping[str, Value] | None = None) -> None:
        """Write what the kernel says of our memory beside what the budget says."""
        try:
            rss, peak = rss_and_peak_bytes()
        except OSError as error:  # such as no free file descriptor: many clients may hold connections
            self._lose(error)
            return
        self.event(
            "MEMORY",
            "sample",
            common,
            rss_bytes=rss,
            peak_rss_bytes=peak,
            budget_bytes=budget_bytes,
            reserved_bytes=reserved_bytes,
        )


def gpus_and_driver() -> tuple[str, str]:
    """Names of the GPUs of this host, joined by ``:``, and the driver; ``("none", "none")`` where there is none."""
    try:
        import pynvml  # noqa: PLC0415 - only a started daemon asks
    except (ImportError, OSError):
        return "none", "none"
    try:
        pynvml.nvmlInit()
    except (OSError, pynvml.NVMLError):
        return "none", "none"
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        names = [word(str(pynvml.nvmlDeviceGetName(handle))) for handle in handles]
        return ":".join(names) or "none", word(str(pynvml.nvmlSystemGetDriverVersion()))
    except pynvml.NVMLError:
        return "none", "none"
    finally:
        pynvml.nvmlShutdown()
