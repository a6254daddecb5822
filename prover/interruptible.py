"""Long calls into the kernels, which no signal stops, on a thread that an interrupted process does not wait for."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

ResultT = TypeVar("ResultT")
THREAD_NAME = "kernels"
"""Of every thread that may be in the middle of a kernel when its process is interrupted."""


def interruptibly(work: Callable[[], ResultT]) -> ResultT:
    """Run work that writes nothing, so that a signal to the main thread ends the wait for it at once.

    Args:
        work: What to do. After an interruption it goes on until the process ends, see ``is_abandoned``.

    Returns:
        What it returns.

    Raises:
        KeyboardInterrupt: A signal came.
        BaseException: Whatever the work raised.
    """
    results: list[ResultT] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as failure:  # noqa: BLE001 - it is raised again below
            failures.append(failure)

    thread = threading.Thread(target=run, name=THREAD_NAME, daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return results[0]


def is_abandoned() -> bool:
    """Whether such work still runs: then the interpreter must not be taken down beneath it, only the process ended."""
    return any(thread.name == THREAD_NAME for thread in threading.enumerate())
