"""Running scripts and moving files through ``/bin/sh -s``: the same for every host, whatever carries the bytes."""

from __future__ import annotations

import contextlib
import math
import secrets
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

from cuzkops.errors import OpsError, TimeoutExpired, UnreachableError
from cuzkops.remote import envelope, transfer
from cuzkops.remote.host import Completed, Script
from cuzkops.remote.lines import LineSplitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.remote.channel import Channel
    from cuzkops.target import Target

STALL_S = 60
"""A transfer that does not move for so long is given up."""
_HOST_MARGIN_S = 5
"""The host's own bound comes this much after the client's, which ends the script in an orderly way."""
_STOOD_STILL = f"stood still for {STALL_S} s"
_KEPT_STDERR_BYTES = 1 << 16
_BLOCK_BYTES = 1 << 18


class Conversation:
    """One script in its envelope: output without what came before the marker."""

    def __init__(self, channel: Channel, target: Target, marker: str) -> None:
        self.channel = channel
        self._target = target
        self._out = envelope.AfterMarker(marker)
        self._err = envelope.AfterMarker(marker)

    def receive(self, timeout_s: float) -> tuple[bytes, bytes] | None:
        """Wait for output of the script; see ``Channel.receive``.

        Raises:
            UnreachableError: The login shell ended without starting the script.
        """
        chunk = self.channel.receive(timeout_s=timeout_s)
        if chunk is not None:
            return self._out.feed(chunk[0]), self._err.feed(chunk[1])
        if self._out.before is not None:
            said = (self._out.before + (self._err.before or b"")).decode(errors="replace").split()
            raise UnreachableError(
                "no-shell",
                f"the login shell of {self._target} did not start /bin/sh"
                + (f": {' '.join(said)[-300:]}" if said else ""),
                "log in by hand and see why; the account needs a shell that runs commands",
            )
        return None


class ShellHost(ABC):
    """A Host whose scripts run in channels that a subclass opens. A context manager; ``close`` may be called twice."""

    target: Target

    def __init__(self, target: Target) -> None:
        self.target = target
        self._open: set[Channel] = set()

    @abstractmethod
    def _start(self, command: str) -> Channel:
        """Start a command of simple words and give its streams."""

    def _bound(self, timeout_s: float) -> str:  # noqa: ARG002 - a subclass uses it
        """Words before ``/bin/sh -s`` that make the host itself end it; none by default."""
        return ""

    def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
        """See ``Host.run``."""
        deadline = time.monotonic() + timeout_s
        bound = self._bound(timeout_s + _HOST_MARGIN_S)
        with self._running(script, envelope.guarded, f"took more than {timeout_s:g} s", bound) as talk:
            out, err = bytearray(), bytearray()
            while chunk := self._next(talk, deadline):
                out += chunk[0]
                err += chunk[1]
            status = talk.channel.status(timeout_s=max(0, deadline - time.monotonic()))
        return Completed(script, status, bytes(out), bytes(err))

    def stream(self, script: Script, *, idle_timeout_s: float = 60) -> Iterator[bytes]:
        """See ``Host.stream``."""
        with self._running(script, envelope.guarded, f"said nothing for {idle_timeout_s:g} s") as talk:
            splitter, err = LineSplitter(), b""
            while chunk := self._next(talk, time.monotonic() + idle_timeout_s):
                err = (err + chunk[1])[-_KEPT_STDERR_BYTES:]
                yield from splitter.feed(chunk[0])
            yield from splitter.rest()
            status = talk.channel.status(timeout_s=idle_timeout_s)
        Completed(script, status, b"", err).check()

    def put(
        self, source: Path, destination: str, *, mode: int, progress: Callable[[int, int], None] | None = None
    ) -> None:
        """See ``Host.put``."""
        with transfer.reading(source) as (_, n_bytes, read):
            script = transfer.put_script(destination, n_bytes=n_bytes, mode=mode, part=secrets.token_hex(4))
            self._upload(script, source, read, n_bytes=n_bytes, progress=progress, where=destination)

    def resume(self, source: Path, part: str, *, progress: Callable[[int, int], None] | None = None) -> int:
        """See ``Host.resume``."""
        with transfer.reading(source) as (file, n_bytes, read):
            script = transfer.resume_script(part, n_bytes=n_bytes)
            begin = self._upload(script, source, read, n_bytes=n_bytes, progress=progress, where=part, skip=file.seek)
        return n_bytes - begin

    def _upload(
        self,
        script: Script,
        source: Path,
        read: Callable[[int], bytes],
        *,
        n_bytes: int,
        progress: Callable[[int, int], None] | None,
        where: str,
        skip: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Feed a file to a script that asks for it; returns the offset from which the host wanted it."""
        with self._running(script, envelope.fed, _STOOD_STILL) as talk:
            out, err = self._ready(talk)
            begin = transfer.begins_at(out)
            if begin is not None:
                skip(begin)
                self._feed(talk, read, begin, n_bytes, progress)
            talk.channel.end_input()
            while chunk := self._next(talk, time.monotonic() + STALL_S):
                err += chunk[1]
            status = talk.channel.status(timeout_s=STALL_S)
        if status != 0:
            raise transfer.put_failed(source, where, self.target, n_bytes, err)
        return begin or 0

    def get(
        self, source: str, destination: Path, *, offset: int = 0, progress: Callable[[int], None] | None = None
    ) -> int:
        """See ``Host.get``."""
        script = transfer.get_script(source, offset)
        n_bytes, err = 0, b""
        with self._running(script, envelope.guarded, _STOOD_STILL) as talk, transfer.appending(destination) as file:
            while chunk := self._next(talk, time.monotonic() + STALL_S):
                n_bytes += file.write(chunk[0])
                err += chunk[1]
                if progress:
                    progress(n_bytes)
            status = talk.channel.status(timeout_s=STALL_S)
        if status != 0:
            raise transfer.get_failed(source, self.target, err)
        return n_bytes

    def close(self) -> None:
        """End every script that still runs here; processes that were started detached live on."""
        for channel in list(self._open):
            channel.end()
            self._open.discard(channel)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _running(
        self, script: Script, wrap: Callable[[str, str], bytes], overdue: str, bound: str = ""
    ) -> Iterator[Conversation]:
        """Run a script for a block and end it with the block.

        Args:
            script: What to run.
            wrap: Its envelope.
            overdue: What is said of it when the block raises TimeoutError.
            bound: See ``_bound``.
        """
        talk = self._say(script, wrap, bound)
        try:
            yield talk
        except TimeoutError:
            raise self._overdue(talk, f"{script.title} {overdue}", script) from None
        finally:
            self._end(talk)

    def _say(self, script: Script, wrap: Callable[[str, str], bytes], bound: str) -> Conversation:
        marker = f"cuzkops{secrets.token_hex(8)}"
        channel = self._start(f"{bound}/bin/sh -s")
        self._open.add(channel)
        talk = Conversation(channel, self.target, marker)
        try:
            channel.send(wrap(script.text, marker), timeout_s=STALL_S)
        except BrokenPipeError:
            pass  # what it said before it ended is the reason: the first receive tells
        except TimeoutError:
            raise self._overdue(talk, f"{script.title} could not be sent for {STALL_S} s", script) from None
        except BaseException:
            self._end(talk)
            raise
        return talk

    def _next(self, talk: Conversation, deadline: float) -> tuple[bytes, bytes] | None:
        """Output that came before ``deadline`` on the monotonic clock, or None at the end."""
        while (left_s := deadline - time.monotonic()) > 0:
            chunk = talk.receive(left_s)
            if chunk is None or any(chunk):
                return chunk
        raise TimeoutError

    def _ready(self, talk: Conversation) -> tuple[bytes, bytes]:
        """Wait until a fed script asks for its data or ends."""
        out, err = b"", b""
        deadline = time.monotonic() + STALL_S
        while b"\n" not in out and (chunk := self._next(talk, deadline)):
            out += chunk[0]
            err += chunk[1]
        return out, err

    def _feed(
        self,
        talk: Conversation,
        read: Callable[[int], bytes],
        n_sent: int,
        n_bytes: int,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        try:
            while block := read(_BLOCK_BYTES):
                talk.channel.send(block, timeout_s=STALL_S)
                n_sent += len(block)
                if progress:
                    progress(n_sent, n_bytes)
        except BrokenPipeError:
            pass  # the script ended early and says why

    def _overdue(self, talk: Conversation, what: str, script: Script) -> OpsError:
        ended = self._end(talk)
        how = "it was ended there" if ended else "its end was not confirmed, it may still run there"
        return TimeoutExpired("remote-timeout", f"{what} on {self.target}; {how}", details={"command": script.text})

    def _end(self, talk: Conversation) -> bool:
        self._open.discard(talk.channel)
        return talk.channel.end()


def whole_seconds(timeout_s: float) -> int:
    """Round up, for commands that take whole seconds only."""
    return max(1, math.ceil(timeout_s))
