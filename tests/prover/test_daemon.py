"""A real daemon process: proofs, drain, signals, lock, sockets, and its timing log."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from prover.timeline import EVENTS, Event
from prover.verify import verify

if TYPE_CHECKING:
    from collections.abc import Callable

    Make = Callable[..., Any]

pytestmark = pytest.mark.peers

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "data" / "groth16"


def witness(circuit: str) -> Path:
    return FIXTURES / circuit / "witness.wtns"


# Many seconds of work, whatever the machine; no test waits for its end.
LONG_JOB = ["--witness-path", str(witness("cube500"))] * 256


def assert_verified(answer: dict[str, Any], circuit: str) -> None:
    vkey = json.loads((FIXTURES / circuit / "verification_key.json").read_text())
    public = json.loads((FIXTURES / circuit / "public.json").read_text())
    assert answer["state"] == "done"
    assert len(answer["proofs"]) == answer["n_partitions"] == answer["n_partitions_done"]
    for record in answer["proofs"]:
        assert record["public"] == public
        verify(vkey, record["public"], record["proof"])


@pytest.mark.parametrize("circuit", ["mul60", "cube500"])
def test_proves_through_ctl(make_daemon: Make, circuit: str) -> None:
    daemon = make_daemon("mul60", "cube500")
    daemon.start()
    by_path = daemon.ask("prove", "--circuit", circuit, "--witness-path", witness(circuit), "--count", "2")
    assert_verified(by_path, circuit)
    by_input = daemon.ask("prove", "--circuit", circuit, stdin=witness(circuit).read_bytes())
    assert_verified(by_input, circuit)
    assert list((daemon.home / "state/witnesses").iterdir()) == []
    proofs = [record["proof"] for record in by_path["proofs"] + by_input["proofs"]]
    assert len({json.dumps(proof) for proof in proofs}) == 3, "each proof is blinded anew"
    stop(daemon)


def stop(daemon: Any) -> None:
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait() == 0, daemon.stderr.read_text()


def test_answers_through_every_verb(make_daemon: Make) -> None:
    daemon = make_daemon("mul60")
    daemon.start("--release-id", "r-1", "--launch-id", "l-1")
    assert daemon.ask("ready") == {"ready": True, "state": "ready"}
    status = daemon.ask("status")
    record = json.loads((daemon.home / "run/daemon.json").read_text())
    assert status["daemon"] == record
    assert record["release_id"] == "r-1"
    assert record["logs"] == [str(daemon.home / "logs/l-1.log"), str(daemon.stderr)]
    assert record["pid"] == record["session_id"] == daemon.process.pid
    assert status["circuits"][0]["n_constraints_domain"] == 64
    stored = daemon.ask("put-witness", stdin=witness("mul60").read_bytes())
    job = daemon.ask("submit", "--circuit", "mul60", "--witness-sha256", stored["sha256"], "--key", "k")
    assert_verified(daemon.ask("job", job["id"], "--wait-s", "60"), "mul60")
    again = daemon.ask("submit", "--circuit", "mul60", "--witness-sha256", stored["sha256"], "--key", "k")
    assert again["id"] == job["id"]
    assert 'prover_jobs_ended_total{state="done"} 1.0' in daemon.ask("metrics")["metrics"]
    drain = daemon.ask("drain")
    assert drain["state"] == "draining"
    assert 500 < drain["time_left_s"] <= 600, "what it promises is what its operator waits"
    assert daemon.wait() == 0
    assert not (daemon.home / "run/daemon.json").exists()
    assert not (daemon.home / "run/api.sock").exists()


def test_failures_end_jobs_and_nothing_else(make_daemon: Make, tmp_path: Path) -> None:
    daemon = make_daemon("mul60")
    daemon.start()
    unsatisfied = bytearray(witness("mul60").read_bytes())
    unsatisfied[-32] ^= 1  # the last wire: the circuit no longer holds
    failures: list[tuple[list[str | Path], bytes, int, str]] = [
        (["--circuit", "nothing", "--witness-path", witness("mul60")], b"", 2, "no-such-circuit"),
        (["--circuit", "mul60", "--witness-path", tmp_path / "gone"], b"", 2, "witness-missing"),
        (["--circuit", "mul60", "--witness-path", witness("cube500")], b"", 2, "witness-length"),
        (["--circuit", "mul60"], b"not a witness", 2, ""),
        (["--circuit", "mul60"], b"", 2, "witness-empty"),
        (["--circuit", "mul60"], bytes(1 << 20), 2, "witness-too-large"),
        (["--circuit", "mul60"], bytes(unsatisfied), 3, "proof-invalid"),
    ]
    for arguments, stdin, status, code in failures:
        done = daemon.ctl("prove", *arguments, "--json", stdin=stdin)
        assert done.returncode == status, (arguments, done.stdout, done.stderr)
        error = json.loads(done.stdout)["error"]
        assert error["code"] == code or not code
        assert done.stderr.decode().startswith(f"error: {error['message']}")
    assert_verified(daemon.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60")), "mul60")
    assert list((daemon.home / "state/witnesses").iterdir()) == []
    stop(daemon)
    assert "Traceback" not in daemon.stderr.read_text()


def test_sigterm_finishes_what_was_accepted(make_daemon: Make, wait_until: Callable[..., None]) -> None:
    daemon = make_daemon("cube500")
    daemon.start()
    first = daemon.ask("submit", "--circuit", "cube500", *LONG_JOB)
    second = daemon.ask("submit", "--circuit", "cube500", "--witness-path", witness("cube500"))
    command = [sys.executable, "-m", "prover", "ctl", "job", second["id"], "--wait-s", "60", "--json"]
    with subprocess.Popen([*command, "--home", daemon.home], cwd=ROOT, stdout=subprocess.PIPE) as waiting:
        wait_until(lambda: daemon.ask("job", first["id"])["n_partitions_done"] >= 1)
        daemon.process.send_signal(signal.SIGTERM)
        wait_until(lambda: daemon.ask("status")["daemon"]["state"] == "draining")
        refused = daemon.ctl("prove", "--circuit", "cube500", "--witness-path", witness("cube500"))
        not_ready = daemon.ctl("ready", "--wait-s", "30")
        daemon.ask("cancel", first["id"])
        out, _ = waiting.communicate(timeout=120)
    for answer in (refused, not_ready):
        assert answer.returncode == 1
        assert b"draining" in answer.stderr
    assert_verified(json.loads(out), "cube500")
    assert daemon.wait() == 0
    names = [event.event for event in daemon.events() if event.family in ("JOB", "DAEMON")]
    assert names[:5] == ["ready", "accepted", "started", "accepted", "draining"]
    assert sorted(names[5:7]) == ["cancelled", "started"], "the next job starts beside the last partitions of this one"
    assert names[7:] == ["done", "stopped"]
    assert not (daemon.home / "run/daemon.json").exists()


def test_a_drain_that_takes_too_long_gives_up(make_daemon: Make) -> None:
    daemon = make_daemon("cube500", extra="[daemon]\ndrain_timeout_s = 0.2\n")
    daemon.start()
    for _ in range(2):
        daemon.ask("submit", "--circuit", "cube500", *LONG_JOB)
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.wait() == 1
    assert "the drain timed out: 2 jobs are left, and the next daemon here proves them" in daemon.stderr.read_text()
    assert daemon.events()[-1].event == "stopped"
    assert not (daemon.home / "run/daemon.json").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(make_daemon: Make, wait_until: Callable[..., None], number: int) -> None:
    daemon = make_daemon("cube500")
    daemon.start()
    daemon.ask("submit", "--circuit", "cube500", *LONG_JOB)
    daemon.process.send_signal(number)
    wait_until(lambda: "finishing 1 jobs" in daemon.stderr.read_text())
    daemon.process.send_signal(number)
    assert daemon.wait() == 128 + number
    assert "second signal" in daemon.stderr.read_text()
    assert not (daemon.home / "run/daemon.json").exists()


def test_a_running_job_is_cancelled_between_partitions(make_daemon: Make, wait_until: Callable[..., None]) -> None:
    daemon = make_daemon("cube500")
    daemon.start()
    job = daemon.ask("submit", "--circuit", "cube500", *LONG_JOB)
    wait_until(lambda: daemon.ask("job", job["id"])["n_partitions_done"] >= 1)
    assert daemon.ask("cancel", job["id"])["state"] == "running"
    answer = daemon.ask("job", job["id"], "--wait-s", "30")
    assert answer["state"] == "cancelled"
    assert 1 <= answer["n_partitions_done"] < 100
    assert answer["proofs"] == []
    stop(daemon)


def test_a_second_instance_is_refused(make_daemon: Make, prover_command: Callable[..., Any]) -> None:
    daemon = make_daemon("mul60")
    daemon.start()
    second = prover_command("serve", "--config", daemon.config, "--remote-dir", daemon.remote_dir)
    assert second.returncode == 1
    first_line = second.stderr.decode().splitlines()[0]
    assert first_line == f"error: a daemon already runs in {daemon.home}: process {daemon.process.pid}"
    assert daemon.ask("status")["daemon"]["pid"] == daemon.process.pid
    stop(daemon)


def test_a_killed_daemon_leaves_nothing_in_the_way(make_daemon: Make) -> None:
    daemon = make_daemon("mul60")
    daemon.start("--launch-id", "first")
    daemon.ask("put-witness", stdin=witness("mul60").read_bytes())
    daemon.kill()
    assert (daemon.home / "run/api.sock").is_socket()
    assert len(list((daemon.home / "state/witnesses").iterdir())) == 1
    dead = daemon.ctl("status")
    assert dead.returncode == 1
    assert b"has ended without tidying up" in dead.stderr
    daemon.start("--launch-id", "second")
    assert daemon.ask("status")["daemon"]["launch_id"] == "second"
    assert list((daemon.home / "state/witnesses").iterdir()) == []
    stop(daemon)


def test_a_long_home_uses_a_short_socket(make_daemon: Make) -> None:
    daemon = make_daemon("mul60", below="x" * 100)
    daemon.start()
    api = Path(daemon.ask("status")["daemon"]["api"])
    assert len(os.fsencode(api)) <= 107
    assert api.parent.parent == Path(tempfile.gettempdir())
    assert (api.stat().st_mode & 0o777, api.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert_verified(daemon.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60")), "mul60")
    daemon.kill()
    daemon.start()
    assert not api.exists()
    stop(daemon)


def test_loopback_tcp_when_configured(make_daemon: Make) -> None:
    daemon = make_daemon("mul60", extra='[daemon]\nlisten = "127.0.0.1:0"\n')
    daemon.start()
    port = int(daemon.stderr.read_text().split("('127.0.0.1', ")[1].split(")")[0])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(b"GET /v1/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
    stop(daemon)


def test_a_release_is_named(make_daemon: Make) -> None:
    daemon = make_daemon("mul60")
    release = daemon.home / "releases/abc-def"
    release.mkdir(parents=True)
    (release / "manifest.json").write_text('{"build_id": "abc"}')
    daemon.start(PROVER_RELEASE_DIR=str(release))
    record = daemon.ask("status")["daemon"]
    assert (record["build_id"], record["release_id"]) == ("abc", "abc-def")
    stop(daemon)


def test_closed_streams_and_a_detached_session(make_daemon: Make, wait_until: Callable[..., None]) -> None:
    daemon = make_daemon("mul60")
    serve = f'"{sys.executable}" -m prover serve --config "{daemon.config}" --remote-dir "{daemon.remote_dir}"'
    subprocess.run(
        ["/bin/sh", "-c", f"setsid {serve} <&- >&- 2>&- &"],
        cwd=ROOT,
        check=True,
        timeout=30,
    )
    assert daemon.ctl("ready", "--wait-s", "60").returncode == 0
    pid = daemon.ask("status")["daemon"]["pid"]
    assert {Path(f"/proc/{pid}/fd/{fd}").readlink() for fd in range(3)} == {Path("/dev/null")}
    assert_verified(daemon.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60")), "mul60")
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not (daemon.home / "run/daemon.json").exists())


def test_start_errors_are_one_sentence(make_daemon: Make) -> None:
    damaged = make_daemon("mul60")
    key = damaged.remote_dir / "circuits" / ("ab" * 32)
    key.parent.mkdir()
    shutil.copy(FIXTURES / "mul60/circuit.zkey", key)
    damaged.config.write_text(f'[[circuits]]\nname = "a"\nsha256 = "{key.name}"\n')
    damaged.spawn()
    assert damaged.wait() == 2
    errors = [line for line in damaged.stderr.read_text().splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "has the digest 480c0aeb" in errors[0]
    assert "Traceback" not in damaged.stderr.read_text()
    assert not (damaged.home / "run/daemon.json").exists()
    taken = make_daemon("mul60", extra='[daemon]\nlisten = "127.0.0.1:1"\n')
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        taken.config.write_text(taken.config.read_text().replace("127.0.0.1:1", f"127.0.0.1:{port}"))
        taken.spawn()
        assert taken.wait() == 1
    assert f"error: 127.0.0.1 port {port} cannot be bound" in taken.stderr.read_text()
    assert list((taken.home / "run").glob("*.sock")) == []


def test_every_event_is_written_in_its_place(make_daemon: Make) -> None:
    daemon = make_daemon("mul60", "cube500")
    daemon.start()
    daemon.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60"), "--count", "3")
    daemon.ask("prove", "--circuit", "cube500", "--witness-path", witness("cube500"))
    assert daemon.ctl("prove", "--circuit", "mul60", "--witness-path", witness("cube500")).returncode == 2
    blocker = daemon.ask("submit", "--circuit", "cube500", *LONG_JOB)
    queued = daemon.ask("submit", "--circuit", "cube500", "--witness-path", witness("cube500"))
    assert daemon.ask("cancel", queued["id"])["state"] == "cancelled"
    daemon.ask("cancel", blocker["id"])
    stop(daemon)
    events = daemon.events()
    elsewhere = {("JOB", "recovered"), ("CIRCUIT", "evicted")}
    assert {(event.family, event.event) for event in events} == set(EVENTS) - elsewhere
    assert (events[0].family, events[-1].event) == ("HEADER", "stopped")
    times = [int(event.common["t_ns"]) for event in events]
    assert times == sorted(times)
    parts: dict[tuple[object, object], dict[str, Event]] = defaultdict(dict)
    for event in events:
        if "part" in event.common:
            name = event.family if event.event in ("phases", "partition") else event.event
            assert name not in parts[event.common["job"], event.common["part"]]
            parts[event.common["job"], event.common["part"]][name] = event
    whole = [part for part in parts.values() if "FIN_TIMING" in part]
    assert len(whole) >= 3 + 1
    for part in whole:
        assert_nested(part)


def assert_nested(part: dict[str, Event]) -> None:
    """Every phase lies within the one that contains it, on the clock and in its own durations."""
    order = ["SYNTH_START", "SYNTH_END", "GPU_QUEUE", "GPU_PICKUP", "GPU_START", "CUZK_NTT_H", "CUZK_TIMING", "GPU_END"]
    assert list(part) == [*order, "FIN_TIMING"]
    at = {name: int(event.common["t_ns"]) for name, event in part.items()}
    values: dict[str, Any] = {name: event.values for name, event in part.items()}
    assert values["SYNTH_END"]["synth_us"] <= (at["SYNTH_END"] - at["SYNTH_START"]) / 1000
    gpu_us = values["GPU_END"]["gpu_us"]
    assert gpu_us <= (at["GPU_END"] - at["GPU_START"]) / 1000
    phases = values["CUZK_TIMING"]
    assert phases["ntt_msm_h_us"] + phases["tail_msm_us"] + phases["b_g2_msm_us"] <= phases["gpu_total_us"] <= gpu_us
    assert min(phases.values()) > 0
    inner = values["CUZK_NTT_H"]
    assert inner["ntt_kernels_us"] + inner["msm_invoke_us"] <= inner["total_us"] == phases["ntt_msm_h_us"]
    finish = values["FIN_TIMING"]
    assert finish["finish_us"] + finish["verify_us"] <= finish["total_us"] <= (at["FIN_TIMING"] - at["GPU_END"]) / 1000
    device = [event for name, event in part.items() if name.startswith(("GPU_P", "GPU_S", "GPU_E", "CUZK"))]
    assert {event.common["dev"] for event in device} == {"host"}
    assert {event.common["worker"] for event in part.values()} == {0}


def test_a_timing_log_that_cannot_grow_costs_no_proof(make_daemon: Make) -> None:
    daemon = make_daemon("mul60")
    logs = daemon.home / "logs"
    logs.mkdir(parents=True)
    (logs / "l.log").symlink_to("/dev/full")
    daemon.start("--launch-id", "l")
    assert_verified(daemon.ask("prove", "--circuit", "mul60", "--witness-path", witness("mul60")), "mul60")
    assert "prover_log_lines_lost_total 0.0" not in daemon.ask("metrics")["metrics"]
    stop(daemon)


def test_a_full_disk_costs_no_accepted_job(make_daemon: Make) -> None:
    daemon = make_daemon("cube500", extra="[daemon]\ndrain_timeout_s = 0.5\n")
    daemon.start()
    job = daemon.ask("submit", "--circuit", "cube500", *LONG_JOB[:256])  # half of it: more than the drain waits for
    _, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (0, hard))  # every further write fails with EFBIG
    refused = daemon.ctl("submit", "--circuit", "cube500", *LONG_JOB[:2], "--json")
    assert refused.returncode in (1, 4)
    assert "the journal cannot be written" in json.loads(refused.stdout)["error"]["message"]
    daemon.ask("drain")
    assert daemon.wait() == 1
    assert [path.name for path in (daemon.home / "run").iterdir()] == ["daemon.lock"]
    daemon.start()
    assert_verified(daemon.ask("job", job["id"], "--wait-s", "60"), "cube500")


def test_a_start_on_a_full_disk_is_one_sentence(make_daemon: Make) -> None:
    daemon = make_daemon("mul60")
    daemon.config.write_text("")
    limited = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)); from prover.cli import main; "
    serve = ["serve", "--config", str(daemon.config), "--remote-dir", str(daemon.remote_dir)]
    done = subprocess.run(
        [sys.executable, "-c", f"{limited}sys.exit(main())", *serve], capture_output=True, cwd=ROOT, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: ")
    assert b"cannot hold a daemon" in done.stderr


def test_clients_that_take_every_descriptor_do_not_end_the_daemon(make_daemon: Make, wait_until: Make) -> None:
    daemon = make_daemon("cube500")
    daemon.start()
    job = daemon.ask("submit", "--circuit", "cube500", *["--witness-path", str(witness("cube500"))] * 10)
    n_open = len(list(Path(f"/proc/{daemon.process.pid}/fd").iterdir()))
    soft, hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)
    assert soft == hard
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (n_open + 8, hard))
    clients = [socket.socket(socket.AF_UNIX) for _ in range(20)]
    for client in clients:
        client.connect(str(daemon.home / "run/api.sock"))
    log = daemon.home / "logs"
    wait_until(lambda: any("event=done" in path.read_text() for path in log.glob("*.log")))
    for client in clients:
        client.close()
    resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    assert_verified(daemon.ask("job", job["id"]), "cube500")
    assert len(daemon.stderr.read_text().splitlines()) < 20, "nothing floods the log"
    stop(daemon)
