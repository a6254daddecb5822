"""A real daemon that is killed, drained or cut short: no accepted job is lost, and none has two results."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import socket
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prover.client import NobodyAnswersError
from prover.errors import ProverError
from prover.protocol import JobAnswer, JobState
from prover.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

pytestmark = pytest.mark.peers

FIXTURES = Path(__file__).parents[1] / "data" / "groth16"
N_KILLS = 3


def witness(circuit: str) -> Path:
    return FIXTURES / circuit / "witness.wtns"


def assert_valid(answer: dict[str, Any], circuit: str = "cube500") -> None:
    vkey, public = (
        json.loads((FIXTURES / circuit / name).read_text()) for name in ("verification_key.json", "public.json")
    )
    assert answer["state"] == "done", answer
    assert len(answer["proofs"]) == answer["n_partitions"]
    for record in answer["proofs"]:
        assert record["public"] == public
        verify(vkey, record["public"], record["proof"])


def end(daemon: Any) -> None:
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.stderr.read_text()


def test_a_drain_that_is_cut_short_leaves_its_jobs_to_the_next_daemon(make_daemon: Make) -> None:
    daemon = make_daemon("cube500", extra="[daemon]\ndrain_timeout_s = 0.1\n")
    daemon.start()
    data = witness("cube500").read_bytes()
    sha256 = daemon.ask("put-witness", stdin=data)["sha256"]
    path = ["--witness-path", str(witness("cube500"))]
    ahead = daemon.ask("submit", "--circuit", "cube500", *path * 256)  # until it is cancelled, nobody else gets a turn
    by_path = daemon.ask("submit", "--circuit", "cube500", *path * 3, "--priority", "-1")
    put = ["--circuit", "cube500", "--witness-sha256", sha256, "--key", "k", "--priority", "-7"]
    by_digest = daemon.ask("submit", *put)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait() == 1
    kept = daemon.home / "state/witnesses" / sha256
    assert kept.stat().st_mode & 0o777 == 0o600
    daemon.start()
    assert "3 jobs of an earlier process run again" in daemon.stderr.read_text()
    daemon.ask("cancel", ahead["id"])
    for job in (by_path, by_digest):
        assert_valid(daemon.ask("job", job["id"], "--wait-s", "120"))
    assert not kept.exists()
    again = daemon.ask("submit", *put)
    assert (again["id"], again["state"], again["priority"]) == (by_digest["id"], "done", -7)
    end(daemon)


def test_kills_under_load_lose_no_accepted_job_and_change_no_result(make_daemon: Make, wait_until: Make) -> None:
    daemon = make_daemon("mul60", "cube500")
    accepted: dict[str, str] = {}
    first_seen: dict[str, list[Any]] = {}
    for n_killed in range(N_KILLS):
        daemon.start("--launch-id", f"l{n_killed}")
        client = daemon.client()
        for i in range(6):
            circuit = ("mul60", "cube500")[i % 2]
            accepted[submit(client, circuit, f"{n_killed}-{i}")] = circuit
        loader = threading.Thread(target=keep_submitting, args=(client, accepted, f"more-{n_killed}"))
        loader.start()
        # killed at another moment each time: as soon as so many jobs have ended
        wait_until(lambda: look(client, accepted, first_seen) > 2 * n_killed, within_s=120)  # noqa: B023 - at once
        os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.wait()
        loader.join(60)
        assert not loader.is_alive()
    daemon.start("--launch-id", "last")
    for job_id, circuit in accepted.items():
        answer = daemon.ask("job", job_id, "--wait-s", "120")
        assert_valid(answer, circuit)
        assert first_seen.get(job_id, answer["proofs"]) == answer["proofs"], "a result that was shown stays"
    assert list((daemon.home / "state/witnesses").iterdir()) == []
    end(daemon)
    ends: list[str] = []
    for path in (daemon.home / "logs").glob("*.log"):
        ends += [
            line.split()[2] for line in path.read_text().splitlines() if line.startswith("JOB") and "=done" in line
        ]
    assert len(ends) == len(set(ends)), "no job was done twice"


def test_a_job_that_crashes_the_daemon_twice_fails_and_a_kill_does_not_count(
    make_daemon: Make, wait_until: Make
) -> None:
    daemon = make_daemon("cube500")
    daemon.start("--launch-id", "first")
    path = ["--witness-path", str(witness("cube500"))]
    guilty = daemon.ask("submit", "--circuit", "cube500", *path * 256)  # at work until the daemon crashes
    behind = daemon.ask("submit", "--circuit", "cube500", *path, "--priority", "-1")
    for number in (signal.SIGSEGV, signal.SIGKILL, signal.SIGKILL, signal.SIGABRT):
        wait_until(lambda: daemon.ask("job", guilty["id"])["state"] == "running")
        os.kill(daemon.process.pid, number)
        assert daemon.wait() == -number
        daemon.start("--launch-id", f"after-{number.name}-{os.urandom(2).hex()}")
    answer = daemon.ask("job", guilty["id"])
    assert (answer["state"], answer["error"]["code"]) == ("failed", "crashed-daemon")
    assert_valid(daemon.ask("job", behind["id"], "--wait-s", "120"))
    told = daemon.stderr.read_text()
    assert told.count(f"the process before this one crashed while it proved {guilty['id']}:") == 2
    assert told.index("Fatal Python error: Segmentation fault") < told.index("Fatal Python error: Aborted")
    end(daemon)


def submit(client: Any, circuit: str, key: str) -> str:
    """Put a witness and submit a job for it; returns its id once it is accepted."""
    data = witness(circuit).read_bytes()
    sha256 = hashlib.sha256(data).hexdigest()
    with witness(circuit).open("rb") as file:
        client.put(sha256, file, len(data))
    body = {"circuit": circuit, "witnesses": [{"sha256": sha256}], "idempotency_key": key}
    return JobAnswer.model_validate_json(client.ask("POST", "/v1/jobs", json.dumps(body).encode())).id


def keep_submitting(client: Any, accepted: dict[str, str], key: str) -> None:
    """Load until the daemon is gone; only what was acknowledged counts."""
    for i in range(10_000):
        try:
            accepted[submit(client, "mul60", f"{key}-{i}")] = "mul60"
        except NobodyAnswersError:
            return
        except ProverError as error:
            assert error.code == "queue-full", error.message  # noqa: PT017 - any other refusal is a failure
            threading.Event().wait(0.05)


def look(client: Any, accepted: dict[str, str], first_seen: dict[str, list[Any]]) -> int:
    """Note every result that is shown; returns how many there are."""
    for job_id in list(accepted):
        if job_id not in first_seen:
            answer = JobAnswer.model_validate_json(client.ask("GET", f"/v1/jobs/{job_id}"))
            if answer.state is JobState.DONE:
                first_seen[job_id] = [proof.model_dump() for proof in answer.proofs]
    return len(first_seen)


def test_a_half_sent_upload_is_no_traceback_at_the_end(make_daemon: Make, wait_until: Make) -> None:
    daemon = make_daemon("mul60")
    daemon.start()
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(daemon.home / "run/api.sock"))
        client.sendall(f"PUT /v1/witnesses/{'0' * 64} HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nwtns".encode())
        wait_until(lambda: len(list((daemon.home / "state/witnesses").iterdir())) == 1)
        end(daemon)
    assert list((daemon.home / "state/witnesses").iterdir()) == []
    assert "Traceback" not in daemon.stderr.read_text()


def test_two_daemons_of_one_host_have_nothing_in_common(make_daemon: Make) -> None:
    one = make_daemon("mul60")
    one.start()
    other = make_daemon("mul60", extra='[daemon]\nname = "second"\n', beside=one)
    other.start()
    assert one.home.parent == other.home.parent
    pids = [daemon.ask("status")["daemon"]["pid"] for daemon in (one, other)]
    assert pids == [one.process.pid, other.process.pid]
    job = one.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60"))
    assert_valid(job, "mul60")
    assert other.ctl("job", job["id"]).returncode == 2
    end(one)
    assert_valid(other.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60")), "mul60")
    end(other)
