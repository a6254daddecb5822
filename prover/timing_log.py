"""The timing log of one launch: opened here, headed here, and never a reason for a proof to fail."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
import time
from typing import TYPE_CHECKING

from prover.errors import ProverError
from prover.memory.available import rss_and_peak_bytes
from prover.timeline import SCHEMA, TimelineWriter, word

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from prover.timeline import Value

logger = logging.getLogger(__name__)


class TimingLog:
    """Writes events; a full disk costs lines (counted in ``lines_lost``), not jobs.

    Past ``max_bytes`` the file becomes ``NAME.1``, what was that ``NAME.2``, and a new one begins with the header
    again: no line is lost but those of the files that are too old to be kept. Threads may share it.

    Args:
        path: The file; opened for appending with mode 0600.
        launch_id: The run's name in every line.
        max_bytes: Size past which another file begins; None never does.
        keep_files: Full files that are kept.

    Raises:
        ProverError: The file cannot be opened.
    """

    def __init__(self, path: Path, launch_id: str, *, max_bytes: int | None = None, keep_files: int = 1) -> None:
        try:
            self._fd = _open(path)
        except OSError as error:
            raise ProverError("log", f"the timing log cannot be opened: {error}", "check the home folder") from None
        self.path = path
        self.lines_lost = 0
        self._launch_id = launch_id
        self._max_bytes = max_bytes
        self._keep_files = keep_files
        self._rotate_at_bytes = max_bytes
        self._header: Callable[[TimelineWriter], None] | None = None
        self._ended = False
        self._lock = threading.Lock()
        self._writer = TimelineWriter(self._fd, launch_id)

    def event(self, family: str, event: str, common: Mapping[str, Value] | None = None, **values: Value) -> int:
        """Write one event of ``prover.timeline.EVENTS``; returns its t_ns."""
        with self._lock:
            return time.monotonic_ns() if self._ended else self._write(family, event, common, **values)

    def end(self, family: str, event: str, **values: Value) -> None:
        """Write the last event: what a thread that works on says after it is not kept."""
        with self._lock:
            self._write(family, event, None, **values)
            self._ended = True

    def _write(self, family: str, event: str, common: Mapping[str, Value] | None, **values: Value) -> int:
        try:
            t_ns = self._writer.write(family, event, common, **values)
            self._rotate_if_full()
        except OSError as error:
            self._lose(error)
            return time.monotonic_ns()
        return t_ns

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            os.close(self._fd)

    def _lose(self, error: OSError) -> None:
        self.lines_lost += 1
        if self.lines_lost == 1:
            logger.warning("the timing log %s loses lines: %s", self.path, error)

    def header(
        self,
        *,
        build_id: str,
        release_id: str,
        config_sha256: str,
        backend: str,
        threads: int,
        options: str,
    ) -> None:
        """Write the first lines, now and in each further file: all that identifies the run, and the wall clock.

        Args:
            build_id: What was built.
            release_id: The release on the host.
            config_sha256: Digest of the configuration.
            backend: What computes.
            threads: Threads of the host backend.
            options: The effective configuration as one word.
        """
        gpus, driver = gpus_and_driver()

        def write(writer: TimelineWriter) -> None:
            writer.write(
                "HEADER",
                "run",
                schema=SCHEMA,
                build=word(build_id),
                release=word(release_id),
                launch=word(self._launch_id),
                config=config_sha256,
                host=word(socket.gethostname()),
                gpus=gpus,
                driver=driver,
                backend=backend,
                threads=threads,
                wall_unix_ns=time.time_ns(),
            )
            writer.write("CONFIG", "effective", options=options)

        with self._lock:
            self._header = write
            try:
                write(self._writer)
            except OSError as error:
                self._lose(error)

    def _rotate_if_full(self) -> None:
        if self._rotate_at_bytes is None or self._max_bytes is None:
            return
        if (n_bytes := os.fstat(self._fd).st_size) < self._rotate_at_bytes:
            return
        following = self.path.with_name(f".{self.path.name}.next")
        fd: int | None = None
        try:
            following.unlink(missing_ok=True)
            fd = _open(following)
            writer = TimelineWriter(fd, self._launch_id)
            if self._header is not None:
                self._header(writer)
            for number in range(self._keep_files - 1, 0, -1):
                with contextlib.suppress(FileNotFoundError):
                    self._full(number).replace(self._full(number + 1))
            self.path.replace(self._full(1))
            following.replace(self.path)
        except OSError as error:  # a full disk, or somebody removed the folder: this file goes on
            logger.warning("the timing log %s cannot go on in a new file: %s", self.path, error)
            self._rotate_at_bytes = n_bytes + self._max_bytes // 4
            if fd is not None:
                os.close(fd)
            return
        os.close(self._fd)
        self._fd, self._writer, self._rotate_at_bytes = fd, writer, self._max_bytes

    def _full(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

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


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


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
