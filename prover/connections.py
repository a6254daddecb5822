"""Who is connected: a bounded number, none of them silent for long, and never the last file descriptor.

Clients that connect and say nothing must not take the descriptors that proofs need. A connection that would be one too
many takes the place of the one that has been idle longest; where all are in the middle of a request it is refused.
Everything here runs in the loop of the HTTP server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import resource
import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

logger = logging.getLogger(__name__)
SPARE_DESCRIPTORS = 16
"""Never taken by clients: witnesses, keys, the journal and /proc are read with these."""
_SWEEP_S = 0.25
_NO_DESCRIPTOR_PAUSE_S = 0.25
_WARN_EVERY_S = 60.0


class Connection(H11Protocol):
    """One client, and when it was last heard."""

    heard_s = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn does
        """Start to count its silence."""
        self.heard_s = time.monotonic()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        """Note that it spoke."""
        self.heard_s = time.monotonic()
        super().data_received(data)

    def resume_writing(self) -> None:
        """Note that it read what was sent."""
        self.heard_s = time.monotonic()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """Count its silence from here: until now it waited for us."""
        self.heard_s = time.monotonic()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request of it is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def waits_for_client(self) -> bool:
        """Whether it is the client's turn: to ask, to send the rest of a body, or to read an answer."""
        sending = not self.is_idle and self.cycle.more_body and not self.flow.read_paused
        return self.is_idle or sending or self.flow.write_paused


class Connections:
    """The connections of one server.

    Args:
        limit: How many there are at most; file descriptors may allow fewer.
        idle_timeout_s: How long a client may be silent while it is its turn.
    """

    def __init__(self, limit: int, idle_timeout_s: float) -> None:
        self._limit = limit
        self._idle_timeout_s = idle_timeout_s
        self._warned_s = -_WARN_EVERY_S
        self.open: set[Any] = set()  # uvicorn's own set, given by the server
        self.n_refused = 0
        self.n_timed_out = 0

    async def accept(self, listener: socket.socket, make: Callable[[], Connection]) -> None:
        """Take connections from a listening socket until cancelled, one at a time."""
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        while True:
            try:
                client, _ = await loop.sock_accept(listener)
            except OSError as error:  # no descriptor is left, or the client has gone again
                self._warn(f"a connection cannot be accepted: {error}")
                if not self._close_longest_idle():
                    await asyncio.sleep(_NO_DESCRIPTOR_PAUSE_S)
                continue
            if self._is_full(client) and not self._close_longest_idle():
                self._refuse(client)
                continue
            with contextlib.suppress(OSError):  # it has gone again
                await loop.connect_accepted_socket(make, client)

    async def sweep(self) -> None:
        """Close clients that are silent for too long, until cancelled."""
        while True:
            await asyncio.sleep(_SWEEP_S)
            oldest_s = time.monotonic() - self._idle_timeout_s
            for connection in list(self.open):
                if connection.waits_for_client and connection.heard_s < oldest_s:
                    self.n_timed_out += 1
                    connection.transport.abort()

    def close_unfinished(self) -> None:
        """Close every connection whose client has the turn: nothing that it might still say is waited for."""
        for connection in list(self.open):
            if connection.waits_for_client:
                connection.transport.abort()

    def _is_full(self, client: socket.socket) -> bool:
        # Descriptors are numbered from the lowest free one, so the number says how many are taken.
        soft_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        is_bounded = soft_limit != resource.RLIM_INFINITY
        return len(self.open) >= self._limit or (is_bounded and client.fileno() >= soft_limit - SPARE_DESCRIPTORS)

    def _close_longest_idle(self) -> bool:
        idle = [c for c in self.open if c.is_idle and not c.transport.is_closing()]
        if not idle:
            return False
        min(idle, key=lambda connection: connection.heard_s).transport.abort()
        return True

    def _refuse(self, client: socket.socket) -> None:
        self.n_refused += 1
        self._warn(f"a connection is refused: {len(self.open)} are open, all in the middle of a request")
        with client, contextlib.suppress(OSError):
            client.setblocking(False)
            client.send(_REFUSAL)

    def _warn(self, sentence: str) -> None:
        if time.monotonic() - self._warned_s >= _WARN_EVERY_S:
            self._warned_s = time.monotonic()
            logger.warning("%s (said once a minute)", sentence)


def _refusal() -> bytes:
    error = {
        "code": "too-many-connections",
        "message": "the daemon has as many clients as it takes, all in the middle of a request",
        "hint": "try again later, or raise daemon.connection_limit",
        "details": {"exit_status": 1},
    }
    body = json.dumps({"error": error}).encode()
    head = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


_REFUSAL = _refusal()
