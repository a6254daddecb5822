"""Run one command of a build: its lines as they come, a deadline, and nothing left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cuzkops.errors import OpsError, TimeoutExpired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path
    from types import FrameType

GRACE_S = 10.0
"""How long a command may take to end after SIGTERM before it is killed."""
_KEPT_LINES = 400
QUIET_S = 5.0
"""A command that prints nothing for so long is said to go on."""


@dataclass(frozen=True)
class Ended:
    """A command that ended by itself.

    Args:
        title: What it did, for people.
        status: Its exit status; negative for a signal.
        lines: The last lines that it printed, both streams together.
    """

    title: str
    status: int
    lines: list[str]

    def check(self) -> Ended:
        """Return itself, or raise OpsError with the status and the last lines."""
        if self.status == 0:
            return self
        tail = self.lines[-20:]
        raise OpsError(
            "build-failed",
            f"{self.title} ended with status {self.status}" + (f": {tail[-1]}" if tail else ""),
            details={"status": self.status, "last_lines": tail},
        )


def run_command(
    argv: Sequence[str | Path],
    *,
    title: str,
    progress: Callable[[str], None],
    deadline: float,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Ended:
    """Run a command to its end and hand on each line that it prints.

    It gets a process group of its own, which is ended with it: when the deadline passes, and when this process is
    interrupted.

    Args:
        argv: The command, never through a shell.
        title: What it does, for messages: ``"the native build"``.
        progress: Called with each line that is not blank, without its newline, and every few seconds where none comes.
        deadline: When it must have ended, on the clock of ``time.monotonic`` in seconds.
        cwd: Where it runs, or None for here.
        env: Its whole environment, or None for ours.

    Raises:
        TimeoutExpired: The deadline passed.
    """
    lines: deque[str] = deque(maxlen=_KEPT_LINES)
    teller = _Teller(title, progress)
    expired = threading.Event()
    with contextlib.ExitStack() as ending:
        with _interrupted_later():  # not before it is certain that the command is ended
            process = _start(argv, cwd, env)
            ending.callback(_end, process)

        def expire() -> None:
            expired.set()
            _end_group(process)

        timer = threading.Timer(min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX), expire)
        timer.daemon = True
        ending.callback(timer.cancel)
        timer.start()
        with teller:
            for raw in process.stdout or ():
                line = raw.decode(errors="replace").rstrip("\r\n")
                lines.append(line)
                if line.strip():
                    teller.tell(line)
            status = process.wait()
    if expired.is_set():
        raise TimeoutExpired(
            "build-timeout",
            f"{title} did not end within its deadline and was stopped",
            details={"last_lines": list(lines)[-20:]},
        )
    return Ended(title, status, list(lines))


class _Teller:
    """Hands on what a command prints, and says that it goes on while it prints nothing; a context manager."""

    def __init__(self, title: str, progress: Callable[[str], None]) -> None:
        self._title = title
        self._progress = progress
        self._guard = threading.Lock()
        self._over = threading.Event()
        self._begin_s = self._last_s = time.monotonic()
        self._thread = threading.Thread(target=self._goes_on, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def tell(self, text: str) -> None:
        """Hand on one line."""
        with self._guard:
            self._last_s = time.monotonic()
            self._progress(text)

    def _goes_on(self) -> None:
        while not self._over.wait(max(0.0, self._last_s + QUIET_S - time.monotonic())):
            if time.monotonic() - self._last_s >= QUIET_S:
                self.tell(f"{self._title} goes on, {time.monotonic() - self._begin_s:.0f} s so far")


def _start(argv: Sequence[str | Path], cwd: Path | None, env: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(word) for word in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=cwd,
        env=env,
        start_new_session=True,
    )


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Keep what would end this process until the block is over."""
    came: list[int] = []
    kept: dict[int, Callable[[int, FrameType | None], Any]] = {}
    if threading.current_thread() is threading.main_thread():
        for caught in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if callable(handler := signal.getsignal(caught)):
                kept[caught] = handler
                signal.signal(caught, lambda number, _: came.append(number))
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
        for number in came[:1]:
            kept[number](number, None)


def _end(process: subprocess.Popen[bytes]) -> None:
    _end_group(process)
    if process.stdout is not None:
        process.stdout.close()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the command's whole process group: SIGTERM, then SIGKILL after ``GRACE_S``."""
    if process.poll() is not None:
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            return
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            continue
        return
