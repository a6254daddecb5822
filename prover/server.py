"""Runs the HTTP application on sockets that are already bound, in a thread of its own."""

from __future__ import annotations

import socket
import threading
import time
from typing import TYPE_CHECKING

import uvicorn

from prover.errors import ProverError

if TYPE_CHECKING:
    from fastapi import FastAPI

_START_DEADLINE_S = 30.0
_GRACE_S = 5


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


class HttpServer:
    """Serves one application until it is stopped.

    Args:
        app: The application.
        sockets: Listening sockets; closed when the server stops.
    """

    def __init__(self, app: FastAPI, sockets: list[socket.socket]) -> None:
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
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": sockets}, name="http", daemon=True)

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
