"""A host over SSH: channels of one connection, and a heart that notices when the other side is gone."""

from __future__ import annotations

import contextlib
import threading
import time
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from cuzkops.errors import UnreachableError
from cuzkops.remote.host import Script
from cuzkops.remote.login import AS_CONFIGURED, Access, hops, log_in
from cuzkops.remote.shell import ShellHost, whole_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    import paramiko

    from cuzkops.target import Target

BEAT_S = 15
"""Seconds between two signs of life that are asked for."""
SILENCE_S = 40
"""No answer for so long: the connection is dead. A dead link is noticed within 60 s."""
_GRACE_S = 5
_READ_BYTES = 1 << 18
_PROBE = Script("look for the command timeout", "timeout -k 1 5 true")


class SshHost(ShellHost):
    """A host reached over SSH; one connection carries everything.

    Args:
        target: Where to log in.
        access: What the command line says about logging in.
        on_host_key: Gets one sentence when the key of an unknown host was stored.
        connect_timeout_s: For the connection and each step of the login.
        beat_s: Seconds between two signs of life that are asked for.
        silence_s: The connection is given up when nothing was heard for so long.

    Raises:
        UnreachableError: No connection, or no trust, or no login.
    """

    def __init__(
        self,
        target: Target,
        access: Access = AS_CONFIGURED,
        *,
        on_host_key: Callable[[str], None] | None = None,
        connect_timeout_s: float = 10,
        beat_s: float = BEAT_S,
        silence_s: float = SILENCE_S,
    ) -> None:
        super().__init__(target)
        self._connect_timeout_s = connect_timeout_s
        self._connection = log_in(target, access, on_host_key=on_host_key, connect_timeout_s=connect_timeout_s)
        self._heart = Heart(self._connection.transport, beat_s, silence_s)
        self._can_bound: bool | None = None

    def close(self) -> None:
        """End every script that still runs here, then the connection."""
        super().close()
        self._heart.stop()
        for hop in hops(self._connection):
            hop.close()

    def _start(self, command: str) -> SshChannel:
        import paramiko  # noqa: PLC0415 - takes long to load; it is by now

        try:
            session = self._connection.transport.open_session(timeout=self._connect_timeout_s)
            session.settimeout(self._connect_timeout_s)
            session.exec_command(command)
        except (paramiko.SSHException, OSError, EOFError, AttributeError) as error:  # no transport once it is closed
            raise self._lost(f"a new session could not be opened: {error}") from error
        return SshChannel(session, self._lost)

    def _bound(self, timeout_s: float) -> str:
        if self._can_bound is None:
            self._can_bound = False  # the probe itself runs without
            self._can_bound = self.run(_PROBE, timeout_s=20).status == 0
        return f"timeout -k 5 {whole_seconds(timeout_s)} " if self._can_bound else ""

    def _lost(self, what: str) -> UnreachableError:
        why = self._heart.lost or what
        return UnreachableError(
            "connection-lost", f"the connection to {self.target} was lost: {why}", "run the same command again"
        )


class Heart:
    """Asks the other side for a sign of life and closes the connection when none comes.

    TCP alone does not notice a frozen server, whose kernel goes on acknowledging.
    """

    def __init__(self, transport: paramiko.Transport, beat_s: float, silence_s: float) -> None:
        self.lost = ""
        """Why the connection was given up, or an empty string."""
        self._transport = transport
        self._beat_s = beat_s
        self._silence_s = silence_s
        self._stopped = threading.Event()
        self._heard_s = time.monotonic()
        for work in (self._ask, self._watch):
            threading.Thread(target=work, name=f"heart of {transport.name}", daemon=True).start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopped.set()

    def _ask(self) -> None:
        """Ask, and wait for the answer: a refusal is one too."""
        while not self._stopped.wait(self._beat_s) and self._transport.is_active():
            with contextlib.suppress(Exception):  # the end of the connection is for those who use it to report
                self._transport.global_request("keepalive@openssh.com", wait=True)
                if self._transport.is_active():
                    self._heard_s = time.monotonic()

    def _watch(self) -> None:
        while not self._stopped.wait(min(1, self._silence_s / 4)) and self._transport.is_active():
            silent_s = time.monotonic() - self._heard_s
            if silent_s > self._beat_s + self._silence_s:
                self.lost = f"no answer for {silent_s:.0f} s"
                self._transport.close()
                return


class _Wake:
    """Rings when either stream has data or ends. The library clears it when one stream is empty: that is ignored.

    No ``threading.Event``: Ctrl-C between two of its steps leaves it locked, and then both sides wait for ever.
    """

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        if self._rings.empty():
            self._rings.put(None)

    def clear(self) -> None:
        pass

    def forget(self) -> None:
        """Forget that it rang."""
        with contextlib.suppress(Empty):
            while True:
                self._rings.get_nowait()

    def wait(self, timeout_s: float) -> None:
        """Wait until it rings, or for so long."""
        with contextlib.suppress(Empty):
            self._rings.get(timeout=max(0.0, timeout_s))


class SshChannel:
    """One session of a connection."""

    def __init__(self, session: paramiko.Channel, lost: Callable[[str], UnreachableError]) -> None:
        self._session = session
        self._lost = lost
        self._wake = _Wake()
        session.in_buffer.set_event(self._wake)
        session.in_stderr_buffer.set_event(self._wake)

    def send(self, data: bytes, *, timeout_s: float) -> None:
        """See ``Channel.send``."""
        self._session.settimeout(timeout_s)
        try:
            self._session.sendall(data)
        except TimeoutError:
            self._check_link()
            raise
        except OSError as error:
            self._check_link()
            raise BrokenPipeError from error

    def end_input(self) -> None:
        """See ``Channel.end_input``."""
        with contextlib.suppress(OSError, EOFError):
            self._session.shutdown_write()

    def receive(self, *, timeout_s: float) -> tuple[bytes, bytes] | None:
        """See ``Channel.receive``."""
        session = self._session
        self._wake.forget()  # before looking: what comes after that rings again
        finished = session.eof_received or session.closed  # read before the buffers: nothing comes after it
        out = session.recv(_READ_BYTES) if session.recv_ready() else b""
        err = session.recv_stderr(_READ_BYTES) if session.recv_stderr_ready() else b""
        if out or err:
            return out, err
        if finished:
            self._check_link()
            return None
        self._wake.wait(timeout_s)
        return b"", b""

    def status(self, *, timeout_s: float) -> int:
        """See ``Channel.status``."""
        if not self._session.status_event.wait(timeout_s):
            raise TimeoutError
        status: int = self._session.exit_status
        if status < 0:
            self._check_link()
        return status

    def end(self) -> bool:
        """See ``Channel.end``."""
        self.end_input()
        try:
            return bool(self._session.status_event.wait(_GRACE_S) and self._session.get_transport().is_active())
        finally:
            self._session.close()

    def _check_link(self) -> None:
        if not self._session.get_transport().is_active():
            raise self._lost("the other side closed it")
