"""This machine as a host: the same scripts through the same shell, without SSH."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from cuzkops.errors import UsageError
from cuzkops.remote.shell import ShellHost
from cuzkops.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psutil

_GRACE_S = 4
"""The guard in the envelope kills after 2 s; what is left after this is killed here."""
_PIPE_BYTES = 1 << 16


class LocalHost(ShellHost):
    """This machine, reached without SSH.

    Raises:
        UsageError: This machine is not Linux: the scripts read /proc.
    """

    def __init__(self) -> None:
        if not sys.platform.startswith("linux"):
            raise UsageError("not-linux", f"the target local needs Linux, and this machine runs {sys.platform}")
        super().__init__(Target("local"))

    def _start(self, command: str) -> LocalChannel:
        return LocalChannel(command.split())


class LocalChannel:
    """A shell of this machine in a session of its own: a Ctrl-C of the terminal does not reach it, ``end`` does."""

    def __init__(self, argv: list[str]) -> None:
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self._stdin = _pipe(self._process.stdin)
        self._out = _pipe(self._process.stdout)
        self._err = _pipe(self._process.stderr)
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)
        self._poll.register(self._err, select.POLLIN)
        self._reading = {self._out, self._err}
        os.set_blocking(self._stdin, False)

    def send(self, data: bytes, *, timeout_s: float) -> None:
        """See ``Channel.send``."""
        rest = memoryview(data)
        poll = select.poll()
        poll.register(self._stdin, select.POLLOUT)
        while rest:
            if not poll.poll(timeout_s * 1000):
                raise TimeoutError
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(self._stdin, rest[:_PIPE_BYTES]) :]

    def end_input(self) -> None:
        """See ``Channel.end_input``."""
        if self._process.stdin:
            self._process.stdin.close()

    def receive(self, *, timeout_s: float) -> tuple[bytes, bytes] | None:
        """See ``Channel.receive``."""
        if not self._reading:
            return None
        got = {self._out: b"", self._err: b""}
        for descriptor, _ in self._poll.poll(timeout_s * 1000):
            got[descriptor] = os.read(descriptor, _PIPE_BYTES)
            if not got[descriptor]:
                self._poll.unregister(descriptor)
                self._reading.discard(descriptor)
        return got[self._out], got[self._err]

    def status(self, *, timeout_s: float) -> int:
        """See ``Channel.status``."""
        try:
            return max(-1, self._process.wait(timeout_s))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None

    def end(self) -> bool:
        """See ``Channel.end``."""
        self.end_input()
        try:
            ended = self._has_ended(_GRACE_S) or self._kill()
        finally:
            for stream in (self._process.stdout, self._process.stderr):
                if stream:
                    stream.close()
        return ended

    def _has_ended(self, timeout_s: float) -> bool:
        try:
            self.status(timeout_s=timeout_s)
        except TimeoutError:
            return False
        return True

    def _kill(self) -> bool:
        for process in _session(self._process.pid):
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)
        return self._has_ended(_GRACE_S)


def _session(session_id: int) -> Iterator[psutil.Process]:
    """Processes of one session: not those that detached themselves into another one."""
    import psutil  # noqa: PLC0415 - only a script that does not end needs it

    for process in psutil.process_iter():
        with contextlib.suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getsid(process.pid) == session_id:
                yield process


def _pipe(stream: object) -> int:
    fileno: int = stream.fileno()  # type: ignore[attr-defined] # Popen types its pipes as optional
    return fileno
