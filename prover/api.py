"""HTTP and JSON over the daemon's socket: the endpoints of docs/PROVER.md, and nothing that computes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from prover import __version__
from prover.errors import BusyError, CapacityError, InputError, ProverError
from prover.job import error_body
from prover.protocol import (
    SHA256_PATTERN,
    DaemonState,
    DrainAnswer,
    ErrorAnswer,
    JobAnswer,
    JobRequest,
    ReadyAnswer,
    StatusAnswer,
    WitnessAnswer,
)

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from prover.jobs import JobStore
    from prover.witness_store import WitnessStore

logger = logging.getLogger(__name__)
WAIT_LIMIT_S = 30.0
BODY_LIMIT_BYTES = 16 << 20
"""Of every request but a put. The largest job names 256 paths of 4096 bytes, each six times as long in JSON at most."""
_MARKS = (b"{", b"[", b",", b":")
BODY_LIMIT_MARKS = 16384
"""The same for what separates values: each value costs the parser, and more its complaint, hundreds of bytes of memory.
The largest job has some 2500; the rest is for paths that have such characters."""
_SHOWN_PROBLEMS = 10
_STATUS_OF_CODE = {
    "no-such-job": 404,
    "not-loaded": 503,
    "job-finished": 409,
    "idempotency-conflict": 409,
    "witness-too-large": 413,
}
_STATUS_OF_CLASS: list[tuple[type[ProverError], int]] = [(InputError, 400), (CapacityError, 507), (BusyError, 503)]


class Service(Protocol):
    """What the daemon offers to its clients."""

    jobs: JobStore
    witnesses: WitnessStore

    def submit(self, request: JobRequest) -> JobAnswer:
        """Accept a job."""

    def state(self) -> DaemonState:
        """Whether it is starting, ready or draining."""

    def drain(self) -> DrainAnswer:
        """Take no new jobs, finish the others, end."""

    def verification_key(self, name: str) -> dict[str, Any]:
        """What proofs of a circuit are verified with."""

    def status(self) -> StatusAnswer:
        """Everything about it."""

    def metrics_text(self) -> bytes:
        """Its numbers."""


def create_app(service: Service) -> FastAPI:
    """Build the application.

    Args:
        service: The daemon behind it.
    """
    failures: dict[int | str, dict[str, Any]] = {"default": {"model": ErrorAnswer, "description": "Any failure"}}
    app = FastAPI(
        title="prover", version=__version__, docs_url=None, redoc_url=None, responses=failures, redirect_slashes=False
    )
    app.add_middleware(_BoundedBodies)
    _add_work(app, service)
    _add_state(app, service)
    _add_errors(app)
    return app


def _add_work(app: FastAPI, service: Service) -> None:
    @app.put("/v1/witnesses/{sha256}")
    async def put_witness(
        sha256: Annotated[str, Path(pattern=f"^{SHA256_PATTERN}$")], request: Request
    ) -> WitnessAnswer:
        if service.jobs.closed:
            raise BusyError("draining", "the daemon is draining: it takes no witnesses", "wait for the next daemon")
        with service.witnesses.receive(sha256) as incoming:
            try:
                async for chunk in request.stream():
                    await run_in_threadpool(incoming.write, chunk)
            except ClientDisconnect:
                raise InputError("witness-cut", "the witness was cut off on the way", "put it again") from None
            return incoming.commit()

    @app.post("/v1/jobs")
    async def submit(request: JobRequest) -> JobAnswer:
        return await run_in_threadpool(service.submit, request)  # it is on the disk before it is answered

    @app.get("/v1/jobs/{job_id}")
    async def job(job_id: str, wait_s: Annotated[float, Query(ge=0)] = 0) -> JobAnswer:
        found = service.jobs.get(job_id)
        if wait_s and not found.state.is_final:
            # asyncio.wait leaves the future alone when the time is over or the client has gone
            await asyncio.wait([asyncio.wrap_future(found.ended)], timeout=min(wait_s, WAIT_LIMIT_S))
        return found.answer()

    @app.delete("/v1/jobs/{job_id}")
    async def cancel(job_id: str) -> JobAnswer:
        return await run_in_threadpool(service.jobs.cancel, job_id)

    @app.get("/v1/circuits/{name}/verification-key")
    async def verification_key(name: str) -> dict[str, Any]:
        return service.verification_key(name)


def _add_state(app: FastAPI, service: Service) -> None:
    @app.get("/v1/ready")
    async def ready(response: Response) -> ReadyAnswer:
        state = service.state()
        if state is not DaemonState.READY:
            response.status_code = 503
        return ReadyAnswer(ready=state is DaemonState.READY, state=state)

    @app.post("/v1/drain")
    async def drain() -> DrainAnswer:
        return service.drain()

    @app.get("/status")
    async def status() -> StatusAnswer:
        return service.status()

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics_text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(ProverError)
    async def known(_request: Request, error: ProverError) -> JSONResponse:
        return _answer(http_status(error), error)

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, error: RequestValidationError) -> JSONResponse:
        problems = error.errors()
        found = [f"{'.'.join(str(part) for part in e['loc'])}: {e['msg']}" for e in problems[:_SHOWN_PROBLEMS]]
        if len(problems) > _SHOWN_PROBLEMS:
            found.append(f"and {len(problems) - _SHOWN_PROBLEMS} more")
        message = f"the request is not understood: {'; '.join(found)}"
        return _answer(400, InputError("request", message, "docs/PROVER.md shows every request"))

    @app.exception_handler(HTTPException)
    async def unknown_path(request: Request, error: HTTPException) -> JSONResponse:
        message = f"{request.method} {request.url.path[:200]}: {error.detail}"
        return _answer(error.status_code, InputError("request", message, "docs/PROVER.md lists the endpoints"))

    @app.exception_handler(Exception)
    async def fault(_request: Request, error: Exception) -> JSONResponse:
        message = f"a fault of this program: {type(error).__name__}; the daemon's standard error has the details"
        return _answer(500, ProverError("internal", message))


class _BoundedBodies:
    """Stops to read a request that is too large: JSON is held whole in memory, and outside of the budget.

    Args:
        app: What answers.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        n_bytes = n_marks = 0

        async def bounded() -> Message:
            nonlocal n_bytes, n_marks
            message = await receive()
            body = message.get("body", b"")
            n_bytes += len(body)
            n_marks += sum(body.count(mark) for mark in _MARKS)
            if n_marks > BODY_LIMIT_MARKS:
                raise HTTPException(413, f"the request has more than {BODY_LIMIT_MARKS} of {{ [ , and :")
            if n_bytes > BODY_LIMIT_BYTES:
                raise HTTPException(413, f"the request is larger than {BODY_LIMIT_BYTES} bytes")
            return message

        is_put = scope["type"] == "http" and scope["method"] == "PUT"  # it is written to the disk as it comes
        await self._app(scope, receive if is_put else bounded, send)


def http_status(error: ProverError) -> int:
    """The HTTP status that says what kind of error this is."""
    by_class = next((status for kind, status in _STATUS_OF_CLASS if isinstance(error, kind)), 500)
    return _STATUS_OF_CODE.get(error.code, by_class)


def _answer(status: int, error: ProverError) -> JSONResponse:
    return JSONResponse(ErrorAnswer(error=error_body(error)).model_dump(mode="json"), status_code=status)
