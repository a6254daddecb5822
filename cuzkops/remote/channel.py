"""One running ``/bin/sh -s``: what goes in, what comes out, and its end. Over SSH or on this machine."""

from __future__ import annotations

from typing import Protocol


class Channel(Protocol):
    """The standard streams of one running shell."""

    def send(self, data: bytes, *, timeout_s: float) -> None:
        """Write all of ``data`` to its standard input.

        Raises:
            TimeoutError: Nothing was taken for ``timeout_s``.
            BrokenPipeError: It does not read any more.
        """

    def end_input(self) -> None:
        """Close its standard input; harmless when that is closed already."""

    def receive(self, *, timeout_s: float) -> tuple[bytes, bytes] | None:
        """Wait for output: (standard output, standard error), both empty when the time passed, None at the end of both.

        Raises:
            UnreachableError: The connection was lost.
        """

    def status(self, *, timeout_s: float) -> int:
        """Exit status, or -1 for an end by a signal.

        Raises:
            TimeoutError: It still runs after ``timeout_s``.
            UnreachableError: The connection was lost before the status came.
        """

    def end(self) -> bool:
        """End it with everything in its process group and release the channel; whether that was confirmed."""
