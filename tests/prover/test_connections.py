"""Clients that hold connections: a bound, a time-out, and no descriptor too many."""

from __future__ import annotations

import contextlib
import logging
import resource
import socket
import threading
from typing import TYPE_CHECKING

import pytest
from fastapi import FastAPI, Request
from starlette.requests import ClientDisconnect

from prover.connections import SPARE_DESCRIPTORS, Connections
from prover.server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ASK = b"GET /quick HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HALF = b"PUT /body HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\nhalf"


class Served:
    """A server with an endpoint that answers, one that waits for the test, and one that reads a body."""

    def __init__(self, folder: Path, limit: int, idle_timeout_s: float) -> None:
        self.path = str(folder / "s")
        self.let_go = threading.Event()
        self.cut = threading.Event()
        self.connections = Connections(limit, idle_timeout_s)
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        self.server = HttpServer(self._app(), [listener], self.connections)
        self.server.start()

    def _app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/quick")
        async def quick() -> str:
            return "yes"

        @app.get("/slow")
        def slow() -> str:
            self.let_go.wait(60)
            return "late"

        @app.put("/body")
        async def body(request: Request) -> str:
            try:
                await request.body()
            except ClientDisconnect:
                self.cut.set()
            return "whole"

        return app

    def connect(self, data: bytes = b"") -> socket.socket:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(60)
        client.connect(self.path)
        with contextlib.suppress(BrokenPipeError):  # refused before it spoke: the answer lies in the socket
            client.sendall(data)
        return client

    def ask(self, data: bytes = ASK) -> bytes:
        with self.connect(data) as client:
            return read_all(client)


def read_all(client: socket.socket) -> bytes:
    """Everything until the end; one that was cut off ends too."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(65536):
            parts.append(part)
    return b"".join(parts)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    made: list[Served] = []

    def make(limit: int = 8, idle_timeout_s: float = 60) -> Served:
        made.append(Served(tmp_path, limit, idle_timeout_s))
        return made[-1]

    yield make
    for served in made:
        served.let_go.set()
        served.server.stop(30)


def test_the_longest_idle_client_gives_way(serve: Callable[..., Served], wait_until: Callable[..., None]) -> None:
    served = serve(limit=3)
    idle = [served.connect() for _ in range(3)]
    wait_until(lambda: len(served.connections.open) == 3)
    assert served.ask().endswith(b'"yes"')
    assert idle[0].recv(1) == b""
    idle[1].sendall(ASK)
    assert read_all(idle[1]).endswith(b'"yes"'), "the others are still served"
    for client in idle:
        client.close()


def test_clients_in_the_middle_of_a_request_keep_their_place(
    serve: Callable[..., Served], wait_until: Callable[..., None]
) -> None:
    served = serve(limit=2)
    asking = [served.connect(ASK.replace(b"quick", b"slow")) for _ in range(2)]
    wait_until(lambda: len(served.connections.open) == 2 and not any(c.is_idle for c in served.connections.open))
    refused = served.ask()
    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b'"code": "too-many-connections"' in refused
    assert served.connections.n_refused == 1
    served.let_go.set()
    for client in asking:
        assert read_all(client).endswith(b'"late"')
        client.close()


def test_silent_clients_and_half_sent_bodies_are_cut_off(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(idle_timeout_s=0.2)
    waiting = served.connect(ASK.replace(b"quick", b"slow"))
    clients = [served.connect(), served.connect(b"GET /qu"), served.connect(HALF)]
    for client in clients:
        assert read_all(client) == b""
        client.close()
    assert served.cut.wait(30)
    assert served.connections.n_timed_out >= 3
    served.let_go.set()
    assert read_all(waiting).endswith(b'"late"'), "who waits for us is not silent"
    waiting.close()
    assert "Traceback" not in caplog.text


def test_nonsense_is_answered_each_time_and_said_once_a_minute(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture
) -> None:
    served = serve()
    for _ in range(5):
        assert served.ask(b"\x00\xff\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert caplog.text.count("Invalid HTTP request received") <= 1


def test_a_stop_cuts_a_half_sent_body_without_a_traceback(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture, wait_until: Callable[..., None]
) -> None:
    served = serve()
    client = served.connect(HALF)
    wait_until(lambda: any(not c.is_idle for c in served.connections.open))
    served.server.stop(30)
    assert served.cut.is_set()
    assert read_all(client) == b""
    client.close()
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_the_last_descriptors_are_not_given_to_clients(
    serve: Callable[..., Served], caplog: pytest.LogCaptureFixture, wait_until: Callable[..., None]
) -> None:
    served = serve(limit=1000)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open("/dev/null", "rb") as lowest:  # noqa: PTH123 - its descriptor says how many are taken
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest.fileno() + SPARE_DESCRIPTORS + 40, before[1]))
        try:
            clients = [socket.socket(socket.AF_UNIX) for _ in range(20)]
            for client in clients:
                client.connect(served.path)
            wait_until(lambda: any(client_is_closed(client) for client in clients))
            with open("/dev/null", "rb"):  # noqa: PTH123 - the same
                pass
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
    for client in clients:
        client.close()
    assert served.ask().endswith(b'"yes"')
    assert len([r for r in caplog.records if r.levelno >= logging.WARNING]) <= 2


def client_is_closed(client: socket.socket) -> bool:
    client.setblocking(False)
    try:
        return client.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
