"""Runs the HTTP application on sockets that are already bound, in a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
from typing import TYPE_CHECKING

import uvicorn

from prover.connections import Connection, Connections
from prover.errors import ProverError

if TYPE_CHECKING:
    from fastapi import FastAPI

_START_DEADLINE_S = 30.0
_GRACE_S = 5
_SAY_EVERY_S = 60.0


def bind_loopback(host: str, port: int) -> socket.socket:
    """Listen on a loopback address.

    Raises:
        ProverError: It cannot be bound.
    """
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen()
    except OSError as error:
        listener.close()
        message = f"{host} port {port} cannot be bound: {error.strerror}"
        raise ProverError("listen", message, "choose another port in daemon.listen, or leave it empty") from None
    return listener


class _OncePerMinute(logging.Filter):
    """Lets each warning of the server pass once a minute: clients that send nonsense must not fill the log."""

    def __init__(self) -> None:
        super().__init__()
        self._said_s: dict[object, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno > logging.WARNING:
            return True
        now_s = time.monotonic()
        is_due = now_s - self._said_s.get(record.msg, -_SAY_EVERY_S) >= _SAY_EVERY_S
        if is_due:
            self._said_s[record.msg] = now_s
        return is_due


_quiet = _OncePerMinute()


class _Server(uvicorn.Server):
    """Uvicorn with our own way to accept: its own fills the log once descriptors run out, and knows no bound."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket], connections: Connections) -> None:
        super().__init__(config)
        self._listeners = sockets
        self._connections = connections
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets or [])
        self._connections.open = self.server_state.connections
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._connections.accept(s, self._connection)) for s in self._listeners]
        self._tasks.append(loop.create_task(self._connections.sweep()))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._connections.close_unfinished()
        await super().shutdown(sockets=[*(sockets or []), *self._listeners])

    def _connection(self) -> Connection:
        return Connection(self.config, self.server_state, self.lifespan.state)


class HttpServer:
    """Serves one application until it is stopped.

    Args:
        app: The application.
        sockets: Listening sockets; closed when the server stops.
        connections: Bounds its clients.
    """

    def __init__(self, app: FastAPI, sockets: list[socket.socket], connections: Connections) -> None:
        config = uvicorn.Config(
            app,
            loop="asyncio",
            http="h11",
            ws="none",
            lifespan="off",
            log_config=None,  # its words go the way of all our prose
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        logging.getLogger("uvicorn.error").addFilter(_quiet)  # the same object again changes nothing
        self._server = _Server(config, sockets, connections)
        self._thread = threading.Thread(target=self._server.run, name="http", daemon=True)

    def start(self) -> None:
        """Start the thread and wait until it answers.

        Raises:
            ProverError: It did not come up.
        """
        self._thread.start()
        end_s = time.monotonic() + _START_DEADLINE_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > end_s:
                raise ProverError("http", "the HTTP server did not start", "its words on standard error say why")
            time.sleep(0.01)

    def stop(self, deadline_s: float) -> None:
        """Let the requests at hand finish, then end the thread; nothing where it never ran."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(deadline_s)
