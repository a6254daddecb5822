"""What a command is doing, on standard error, once it takes longer than a second."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

SILENT_S = 1.0  # shorter commands say nothing
TERMINAL_EVERY_S, FILE_EVERY_S = 0.5, 10.0


class Progress:
    """A context manager with a thread of its own, because a computation holds the others for seconds.

    On a terminal one line is overwritten and removed at the end; elsewhere a line is written where the stage is another
    one, and every ten seconds.

    Args:
        stage: What is done first.
    """

    def __init__(self, stage: str) -> None:
        self._stage = stage
        self._share: float | None = None
        self._start_s = time.monotonic()
        self._done = threading.Event()
        self._on_terminal = sys.stderr.isatty()
        self._thread = threading.Thread(target=self._show, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def stage(self, stage: str, share: float | None = None) -> None:
        """Say what is done now.

        Args:
            stage: In a few words.
            share: How much of it is done, from 0 to 1, where that is known.
        """
        self._share, self._stage = share, stage

    def _show(self) -> None:
        said, said_s = "", 0.0
        wait_s = SILENT_S
        while not self._done.wait(wait_s):
            wait_s = TERMINAL_EVERY_S
            now_s = time.monotonic()
            stage, share = self._stage, self._share
            text = f"{stage}{'' if share is None else f' {share:.0%}'} ({now_s - self._start_s:.0f} s)"
            if self._on_terminal:
                sys.stderr.write(f"\r\x1b[K{text}")
                sys.stderr.flush()
            elif stage != said or now_s - said_s >= FILE_EVERY_S:
                sys.stderr.write(f"{text}\n")
                sys.stderr.flush()
                said_s = now_s
            said = stage
        if self._on_terminal and said:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
