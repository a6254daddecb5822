"""Finding the daemon, and what is said where nobody answers."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prover.cli import main
from prover.client import Client, NobodyAnswersError, find_home, job_path
from prover.ctl import _naming
from prover.instance import Home, boot_id, start_ticks
from prover.protocol import DaemonRecord, DaemonState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _keep_signal_handlers() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "run").mkdir()
    return Home(tmp_path)


def write_record(home: Home, **changes: Any) -> DaemonRecord:
    record = DaemonRecord(
        name="prover",
        release_id="r",
        launch_id="l",
        state=DaemonState.READY,
        boot_id=boot_id(),
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
        session_id=0,
        exe_sha256="",
        build_id="source",
        config_sha256="",
        api=str(home.socket),
        logs=[],
        started_unix_ns=1,
    ).model_copy(update=changes)
    home.record.write_text(record.model_dump_json(by_alias=True))
    return record


def refused(home: Home, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["ctl", *(arguments or ("status",)), "--json", "--home", str(home.root)]) == 1
    captured = capsys.readouterr()
    message = str(json.loads(captured.out)["error"]["message"])
    assert captured.err.startswith(f"error: {message}\nhint: ")
    return message


def test_the_home_that_is_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find_home(None).root == tmp_path / ".cuzkops/prover"
    monkeypatch.setenv("PROVER_RELEASE_DIR", "/srv/cuzkops/bench/releases/abc-def")
    assert find_home(None).root == Path("/srv/cuzkops/bench")
    assert find_home("~/x").root == tmp_path / "x"
    monkeypatch.setenv("PROVER_RELEASE_DIR", "/build/artifact")
    assert find_home(None).root == tmp_path / ".cuzkops/prover"


def test_no_daemon(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(home, capsys) == f"no daemon runs in {home.root}"


def test_a_record_of_another_version(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    record = json.loads(write_record(home).model_dump_json(by_alias=True))
    home.record.write_text(json.dumps(record | {"schema": 2}))  # and nothing else is strange
    assert "is not a record of this version" in refused(home, capsys)


def test_a_dead_daemon(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home, start_ticks=1)
    assert f"process {os.getpid()} has ended without tidying up" in refused(home, capsys)


def test_a_daemon_that_is_not_ours(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home, api="")
    assert "is not a prover" in refused(home, capsys)


def test_a_socket_that_is_gone(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home)
    assert "does not listen on" in refused(home, capsys)


def test_a_stale_socket(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home)
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(home.socket))
    assert "does not listen on" in refused(home, capsys)


def answering(home: Home, answer: bytes) -> socket.socket:
    """Listen on the home's socket, and answer one request with these bytes."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home.socket))
    listener.listen()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return listener


def test_a_daemon_that_hangs_up(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home)
    with answering(home, b""):
        assert "closed the connection, while it was asked" in refused(home, capsys)


def test_a_daemon_that_is_silent(home: Home) -> None:
    write_record(home)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(home.socket))
        listener.listen()
        start_s = time.monotonic()
        with pytest.raises(NobodyAnswersError, match=r"did not answer within 0.1 s"):
            Client(home).call("GET", "/status", timeout_s=0.1)
        assert time.monotonic() - start_s < 5


def test_an_answer_that_is_no_error_of_ours(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home)
    with answering(home, b"HTTP/1.1 502 Bad\r\nContent-Length: 4\r\n\r\noops"):
        assert refused(home, capsys) == "the daemon answered 502: oops"


def test_a_wait_for_readiness_ends(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    start_s = time.monotonic()
    assert main(["ctl", "ready", "--wait-s", "0.6", "--home", str(home.root)]) == 1
    assert 0.5 < time.monotonic() - start_s < 10
    err = capsys.readouterr().err
    assert err.count("waiting: no daemon runs") == 1
    assert "error: no daemon runs" in err


def test_a_wait_whose_daemon_ends_says_that_the_job_goes_on() -> None:
    with pytest.raises(NobodyAnswersError) as caught, _naming("0123"):
        raise NobodyAnswersError("no-answer", "the daemon ended", "look at its standard error")
    assert "the next daemon there proves it" in caught.value.hint
    assert caught.value.details == {"job": "0123"}


@pytest.mark.peers
def test_an_interrupted_wait_names_the_job(make_daemon: Callable[..., Any], wait_until: Callable[..., None]) -> None:
    daemon = make_daemon("cube500")
    daemon.start()
    witness = ROOT / "tests/data/groth16/cube500/witness.wtns"
    command = [sys.executable, "-m", "prover", "ctl", "prove", "--circuit", "cube500", "--count", "256"]
    command += ["--witness-path", str(witness), "--home", str(daemon.home)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as client:
        wait_until(lambda: daemon.ask("status")["jobs"]["running"] == 1)
        time.sleep(0.2)  # from acceptance to the wait
        client.send_signal(signal.SIGTERM)
        _, err = client.communicate(timeout=30)
    assert client.returncode == 130
    job_id = err.decode().split("job ")[1].split()[0]
    assert f"prover ctl cancel {job_id}" in err.decode()
    assert daemon.ask("job", job_id)["state"] == "running"
    assert daemon.ask("cancel", job_id)["id"] == job_id


@pytest.mark.peers
def test_a_wait_that_is_too_short_says_how_to_go_on(make_daemon: Callable[..., Any]) -> None:
    daemon = make_daemon("cube500")
    daemon.start()
    witness = ROOT / "tests/data/groth16/cube500/witness.wtns"
    arguments = ["--circuit", "cube500", "--count", "256", "--witness-path", witness]
    done = daemon.ctl("prove", *arguments, "--wait-s", "0.2", "--json")
    assert done.returncode == 1
    error = json.loads(done.stdout)["error"]
    assert error["code"] == "not-finished"
    assert error["details"]["job"] in error["hint"]


@pytest.mark.parametrize("arguments", [["job", ""], ["cancel", ""]])
def test_an_empty_id_is_refused(arguments: list[str], home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    write_record(home)
    assert main(["ctl", *arguments, "--home", str(home.root), "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["message"] == "the id of the job is empty"


def test_words_that_are_not_utf8_have_an_address() -> None:
    assert job_path("a\udcff/") == "/v1/jobs/a%FF%2F"
