"""Every endpoint over a real unix socket, in front of real stores and an engine that never proves."""

from __future__ import annotations

import hashlib
import http.client
import json
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from prover.api import BODY_LIMIT_BYTES, BODY_LIMIT_MARKS, create_app, http_status
from prover.connections import Connections
from prover.errors import BusyError, CapacityError, InputError, ProofInvalidError, ProverError
from prover.jobs import JobStore
from prover.journal import Journal
from prover.memory.budget import MemoryBudget
from prover.metrics import Metrics
from prover.protocol import (
    DaemonState,
    DrainAnswer,
    ErrorAnswer,
    JobAnswer,
    JobRequest,
    JobState,
    ProofRecord,
    StatusAnswer,
    WitnessAnswer,
)
from prover.server import HttpServer
from prover.witness_store import WitnessStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from prover.timing_log import TimingLog

DATA = b"wtns" * 100
SHA = hashlib.sha256(DATA).hexdigest()


class IdleService:
    """A daemon whose jobs wait for the test to finish them."""

    def __init__(self, folder: Path, log: TimingLog) -> None:
        folder.mkdir()
        self.witnesses = WitnessStore(folder, 1000)
        self.jobs = JobStore(log, Journal(), queue_limit=2, on_finished=lambda job: self.witnesses.let_go(job.request))
        self.metrics = Metrics(self.jobs, MemoryBudget(1000), log)
        self.now = DaemonState.READY

    def submit(self, request: JobRequest) -> JobAnswer:
        return self.jobs.submit(request, self.witnesses.claim)

    def state(self) -> DaemonState:
        return self.now

    def drain(self) -> DrainAnswer:
        self.now = DaemonState.DRAINING
        self.jobs.close()
        return DrainAnswer(state=self.now, n_jobs_left=len(self.jobs.unfinished()), time_left_s=600)

    def verification_key(self, name: str) -> dict[str, Any]:
        return {"of": name}

    def status(self) -> StatusAnswer:
        raise RuntimeError("secret of the inside")

    def metrics_text(self) -> bytes:
        return self.metrics.text()


class Connection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=30)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(str(self._path))


class Caller:
    """The service behind its socket, and a way to ask it."""

    def __init__(self, service: IdleService, path: Path, connections: Connections) -> None:
        self.service = service
        self.connections = connections
        self._path = path

    def __call__(self, method: str, path: str, body: bytes | dict[str, Any] | None = None) -> tuple[int, str]:
        connection = Connection(self._path)
        if isinstance(body, dict):
            headers = {"Content-Type": "application/json"}
            connection.request(method, path, body=json.dumps(body), headers=headers)
        else:
            connection.request(method, path, body=body)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, text

    def error(self, method: str, path: str, body: bytes | dict[str, Any] | None = None) -> tuple[int, str, str]:
        status, text = self(method, path, body)
        error = ErrorAnswer.model_validate_json(text).error
        return status, error.code, error.message


@pytest.fixture
def call(tmp_path: Path, log: TimingLog) -> Iterator[Caller]:
    service = IdleService(tmp_path / "w", log)
    listener = socket.socket(socket.AF_UNIX)
    path = tmp_path / "s"
    listener.bind(str(path))
    listener.listen()
    connections = Connections(limit=80, idle_timeout_s=30)
    server = HttpServer(create_app(service), [listener], connections)
    server.start()
    yield Caller(service, path, connections)
    server.stop(10)


def submit(call: Caller, key: str | None = None) -> JobAnswer:
    call("PUT", f"/v1/witnesses/{SHA}", DATA)
    body = {"circuit": "mul60", "witnesses": [{"sha256": SHA}], "idempotency_key": key}
    status, text = call("POST", "/v1/jobs", body)
    assert status == 200
    return JobAnswer.model_validate_json(text)


def test_witness_is_stored(call: Caller) -> None:
    status, text = call("PUT", f"/v1/witnesses/{SHA}", DATA)
    assert status == 200
    assert WitnessAnswer.model_validate_json(text) == WitnessAnswer(sha256=SHA, n_bytes=len(DATA))


def test_witness_mistakes(call: Caller) -> None:
    assert call.error("PUT", f"/v1/witnesses/{'0' * 64}", DATA)[:2] == (400, "witness-digest")
    assert call.error("PUT", f"/v1/witnesses/{SHA}", bytes(1001))[:2] == (413, "witness-too-large")
    assert call.error("PUT", "/v1/witnesses/../../x", DATA)[0] == 404
    assert call.error("PUT", "/v1/witnesses/xyz", DATA)[:2] == (400, "request")


def test_a_witness_that_is_cut_off_leaves_nothing(call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(call._path))
        client.sendall(f"PUT /v1/witnesses/{SHA} HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\nwtns".encode())
        end_s = time.monotonic() + 10
        while not list(call.service.witnesses._folder.iterdir()):
            assert time.monotonic() < end_s
            time.sleep(0.01)
    while list(call.service.witnesses._folder.iterdir()):
        assert time.monotonic() < end_s
        time.sleep(0.01)
    assert call("GET", "/v1/ready")[0] == 200
    assert "Traceback" not in caplog.text


def test_job_is_accepted_asked_for_and_cancelled(call: Caller) -> None:
    job = submit(call)
    assert job.state is JobState.QUEUED
    assert JobAnswer.model_validate_json(call("GET", f"/v1/jobs/{job.id}")[1]) == job
    status, text = call("DELETE", f"/v1/jobs/{job.id}")
    assert status == 200
    assert JobAnswer.model_validate_json(text).state is JobState.CANCELLED


def test_a_wait_ends_with_the_job(call: Caller) -> None:
    job = submit(call)
    timer = threading.Timer(0.1, call.service.jobs.cancel, (job.id,))
    timer.start()
    _, text = call("GET", f"/v1/jobs/{job.id}?wait_s=20")
    assert JobAnswer.model_validate_json(text).state is JobState.CANCELLED
    timer.join()


def test_a_wait_ends_with_its_time(call: Caller) -> None:
    job = submit(call)
    _, text = call("GET", f"/v1/jobs/{job.id}?wait_s=0.05")
    assert JobAnswer.model_validate_json(text).state is JobState.QUEUED


def test_many_waits_do_not_block_others(call: Caller) -> None:
    job = submit(call)
    answers: list[str] = []
    path = f"/v1/jobs/{job.id}?wait_s=20"
    threads = [threading.Thread(target=lambda: answers.append(call("GET", path)[1])) for _ in range(60)]
    for thread in threads:
        thread.start()
    assert call("GET", "/v1/ready")[0] == 200
    call("DELETE", f"/v1/jobs/{job.id}")
    for thread in threads:
        thread.join(30)
    assert len(answers) == 60


def test_refusals(call: Caller) -> None:
    assert call.error("GET", "/v1/jobs/zzz")[:2] == (404, "no-such-job")
    assert call.error("DELETE", "/v1/jobs/zzz")[:2] == (404, "no-such-job")
    assert call.error("GET", "/v1/jobs/zzz?wait_s=-1")[:2] == (400, "request")
    assert call.error("POST", "/v1/jobs", {"circuit": "a"})[:2] == (400, "request")
    assert call.error("POST", "/v1/jobs", {"circuit": "a", "witnesses": []})[:2] == (400, "request")
    assert call.error("POST", "/v1/jobs", {"circuit": "a", "witnesses": [{}], "x": 1})[:2] == (400, "request")
    assert call.error("POST", "/v1/jobs", b"{")[:2] == (400, "request")
    missing = {"circuit": "a", "witnesses": [{"sha256": SHA}]}
    assert call.error("POST", "/v1/jobs", missing)[:2] == (400, "witness-missing")
    assert call.error("GET", "/nothing")[:2] == (404, "request")
    assert call.error("POST", "/status")[:2] == (405, "request")


def test_conflicts(call: Caller) -> None:
    job = submit(call, "k")
    other = {"circuit": "other", "witnesses": [{"sha256": SHA}], "idempotency_key": "k"}
    assert call.error("POST", "/v1/jobs", other)[:2] == (409, "idempotency-conflict")
    taken = call.service.jobs.take()
    assert taken is not None
    call.service.jobs.add_proof(*taken, ProofRecord(proof={}, public=[]))
    assert call.error("DELETE", f"/v1/jobs/{job.id}")[:2] == (409, "job-finished")


def test_a_full_queue(call: Caller) -> None:
    submit(call)
    submit(call)
    body = {"circuit": "mul60", "witnesses": [{"sha256": SHA}]}
    assert call.error("POST", "/v1/jobs", body)[:2] == (503, "queue-full")


def test_readiness(call: Caller) -> None:
    assert call("GET", "/v1/ready") == (200, '{"ready":true,"state":"ready"}')
    call.service.now = DaemonState.STARTING
    assert call("GET", "/v1/ready") == (503, '{"ready":false,"state":"starting"}')


def test_draining(call: Caller) -> None:
    submit(call)
    status, text = call("POST", "/v1/drain")
    assert status == 200
    assert DrainAnswer.model_validate_json(text).n_jobs_left == 1
    body = {"circuit": "mul60", "witnesses": [{"sha256": SHA}]}
    assert call.error("POST", "/v1/jobs", body)[:2] == (503, "draining")
    assert call.error("PUT", f"/v1/witnesses/{SHA}", DATA)[:2] == (503, "draining")


def test_metrics(call: Caller) -> None:
    submit(call)
    call.service.metrics.observe("device", 1_500_000)
    status, text = call("GET", "/metrics")
    assert status == 200
    assert 'prover_jobs{state="queued"} 1.0' in text
    assert 'prover_jobs_ended_total{state="done"} 0.0' in text
    assert 'prover_stage_seconds_sum{stage="device"} 1.5' in text
    assert "prover_budget_bytes 1000.0" in text


def test_a_fault_does_not_tell_its_inside(call: Caller, caplog: pytest.LogCaptureFixture) -> None:
    status, code, message = call.error("GET", "/status")
    assert (status, code) == (500, "internal")
    assert "RuntimeError" in message
    assert "secret" not in message
    end_s = time.monotonic() + 10  # the server writes its words after the answer
    while "secret of the inside" not in caplog.text and time.monotonic() < end_s:
        time.sleep(0.01)
    assert "secret of the inside" in caplog.text


def test_exactly_the_documented_endpoints(call: Caller) -> None:
    _, text = call("GET", "/openapi.json")
    found = {f"{method.upper()} {path}" for path, methods in json.loads(text)["paths"].items() for method in methods}
    assert found == {
        "PUT /v1/witnesses/{sha256}",
        "POST /v1/jobs",
        "GET /v1/jobs/{job_id}",
        "DELETE /v1/jobs/{job_id}",
        "GET /v1/circuits/{name}/verification-key",
        "GET /v1/ready",
        "POST /v1/drain",
        "GET /status",
        "GET /metrics",
    }


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError("x", "x"), 400),
        (CapacityError("x", "x"), 507),
        (BusyError("x", "x"), 503),
        (ProofInvalidError("x", "x"), 500),
        (ProverError("x", "x"), 500),
    ],
)
def test_http_status_of_errors(error: ProverError, status: int) -> None:
    assert http_status(error) == status


def test_a_request_that_is_too_large_is_not_read(call: Caller) -> None:
    status, code, message = call.error("POST", "/v1/jobs", b" " * (BODY_LIMIT_BYTES + 1))
    assert (status, code) == (413, "request")
    assert f"larger than {BODY_LIMIT_BYTES} bytes" in message


def test_a_request_of_very_many_values_is_not_parsed(call: Caller) -> None:
    keys = ",".join(f'"k{i}":1' for i in range(BODY_LIMIT_MARKS // 2 + 1))
    status, code, message = call.error("POST", "/v1/jobs", f"{{{keys}}}".encode())
    assert (status, code) == (413, "request")
    assert f"more than {BODY_LIMIT_MARKS} of" in message
    assert call.error("POST", "/v1/jobs", b"[" * 100_000)[0] == 413


def test_many_complaints_are_counted(call: Caller) -> None:
    _, _, message = call.error("POST", "/v1/jobs", {f"k{i}": i for i in range(100)})
    assert len(message) < 1000
    assert message.endswith("; and 92 more")


def test_the_largest_job_is_parsed(call: Caller) -> None:
    witnesses = [{"path": "/" + "a" * 4095, "sha256": None}] * 256
    body = {"circuit": "a", "witnesses": witnesses, "priority": 1, "idempotency_key": "k"}
    assert call.error("POST", "/v1/jobs", body)[1] == "witness-missing"


def test_names_that_are_not_utf8(call: Caller) -> None:
    status, code, message = call.error("POST", "/v1/jobs", {"circuit": "a", "witnesses": [{"path": "/\udcff"}]})
    assert (status, code) == (400, "request")
    assert "the path is not UTF-8" in message
    assert call.error("GET", "/v1/jobs/%ff")[:2] == (404, "no-such-job")


def test_a_slash_too_many_is_an_error_of_ours(call: Caller) -> None:
    assert call.error("GET", "/v1/jobs/")[:2] == (404, "request")
    assert call.error("GET", "/status/")[:2] == (404, "request")
