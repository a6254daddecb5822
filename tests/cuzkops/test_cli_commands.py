"""Commands against this machine as the host: real scripts, real processes, a remote folder of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cuzkops import cli
from cuzkops.remote.lock import this_process
from cuzkops.rendering import Screen
from cuzkops.state import LastPlace, open_state

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")


@pytest.fixture
def place(tmp_path: Path) -> list[str]:
    return ["local", "--remote-dir", str(tmp_path / "remote")]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True) as process:
        yield process
        process.kill()


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any, str]:
    """Run with --json; returns the status, the one document, and standard error."""
    status = cli.run([*words, "--json"])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err


def answer(monkeypatch: pytest.MonkeyPatch, reply: bool) -> list[str]:
    """Sit at the terminal; returns the questions."""
    asked: list[str] = []

    def confirm(_: Screen, question: str) -> bool:
        asked.append(question)
        return reply

    monkeypatch.setattr(Screen, "interactive", True)
    monkeypatch.setattr(Screen, "confirm", confirm)
    return asked


# -- unlock


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    """A lock that another client left."""
    lock = tmp_path / "remote" / "lock"
    lock.mkdir(parents=True)
    owner = {"schema": 1, "client_id": "x", "user": "ada", "host": "laptop", "pid": 1, "start_ticks": 1}
    (lock / "owner.json").write_text(json.dumps({**owner, "run_id": "r", "step": "ship", "since_unix_ns": 10**18}))
    return lock


def test_unlock_where_nothing_is_locked(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "unlock", *place)[:2] == (0, {"unlocked": False, "holder": None})


def test_unlock_needs_yes_where_nobody_can_be_asked(
    place: list[str], locked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, err = run(capsys, "unlock", *place)
    assert (status, document["error"]["code"]) == (2, "not-confirmed")
    assert "ada@laptop" in err
    assert locked.exists()
    status, document, _ = run(capsys, "unlock", *place, "--yes")
    assert (status, document["unlocked"], document["holder"]["owner"]["user"]) == (0, True, "ada")
    assert not locked.exists()
    audit = json.loads((locked.parent / "audit.jsonl").read_text())
    assert audit["action"] == "unlock"


@pytest.mark.parametrize(("start_ticks", "warned"), [(None, True), (1, False)])
def test_unlock_warns_where_the_holder_lives(
    start_ticks: int | None, warned: bool, place: list[str], locked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    us = this_process(open_state().client_id(), "r", "ship")
    owner = us if start_ticks is None else us.model_copy(update={"start_ticks": start_ticks})
    (locked / "owner.json").write_text(owner.model_dump_json(by_alias=True))
    known = "still runs on this machine" if warned else "has ended: the next command that changes this host takes"
    assert cli.run(["status", *place]) == 0
    assert known in capsys.readouterr().out
    status, _, err = run(capsys, "unlock", *place, "--yes")
    assert status == 0
    assert known in err
    assert ("warning: what runs under this lock stops before its next step" in err) is warned


@pytest.mark.parametrize("reply", [True, False])
def test_unlock_asks_on_a_terminal(
    reply: bool, place: list[str], locked: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = answer(monkeypatch, reply)
    assert run(capsys, "unlock", *place)[1]["unlocked"] is reply
    assert len(asked) == 1
    assert locked.exists() is not reply


def test_a_locked_host_refuses_a_kill_with_status_6(
    place: list[str], locked: Path, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "kill", *place, "--pid", str(sleeper.pid), "--yes")
    assert (status, document["error"]["code"]) == (6, "locked")
    assert "cuzkops unlock" in document["error"]["hint"]
    assert sleeper.poll() is None
    assert locked.exists()


# -- kill


def test_killing_nothing_is_fine(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, document, _ = run(capsys, "kill", *place)
    assert (status, document["how"]) == (0, "nothing")


def test_a_pid_is_shown_and_not_killed_without_yes(
    place: list[str], sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, err = run(capsys, "kill", *place, "--pid", str(sleeper.pid))
    assert (status, document["error"]["code"]) == (2, "not-confirmed")
    shown = err.splitlines()
    assert shown[1].startswith(f"pid {sleeper.pid} ({os.path.realpath(sys.executable)}, ")
    assert ", started 2" in shown[1]
    assert "time.sleep(600)" in shown[2]
    assert sleeper.poll() is None


def test_a_pid_is_killed_and_its_memory_awaited(
    place: list[str], sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "kill", *place, "--pid", str(sleeper.pid), "--yes")
    assert (status, document["how"]) == (0, "terminated")
    assert document["record"]["processes"][0]["pid"] == sleeper.pid
    assert sleeper.wait(5) == -15
    status, document, _ = run(capsys, "wait-memory", *place, "--timeout", "30s")
    assert (status, document["code"]) == (0, "released")
    assert document["seconds"] < 30


@pytest.mark.parametrize("reply", [True, False])
def test_a_pid_is_asked_about_on_a_terminal(
    reply: bool,
    place: list[str],
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = answer(monkeypatch, reply)
    status, document, _ = run(capsys, "kill", *place, "--pid", str(sleeper.pid))
    assert (status, asked) == (0 if reply else 1, ["Stop it on local?"])
    if reply:
        assert document["how"] == "terminated"
    else:
        assert document["error"]["message"] == "nothing was stopped: the answer was no"
    assert (sleeper.poll() is None) is not reply


def test_a_pid_that_does_not_exist_is_status_2(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, document, _ = run(capsys, "kill", *place, "--pid", "4194304", "--yes")
    assert (status, document["error"]["code"]) == (2, "no-such-process")


def test_a_dry_kill_prints_its_scripts_and_kills_nothing(
    place: list[str], tmp_path: Path, sleeper: subprocess.Popen[bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "kill", *place, "--pid", str(sleeper.pid), "--dry-run")
    assert status == 0
    kill_json = f"write {tmp_path}/remote/prover/run/kill.json"
    assert [script["title"] for script in document["plan"] if script["changes"]] == [
        *("take the lock", kill_json, "send SIGTERM", kill_json),
        *("send SIGKILL (only if it lives on after the grace time)", "write the audit log", "release the lock"),
    ]
    signal = next(script for script in document["plan"] if script["title"] == "send SIGTERM")
    assert f"PROCESSES={sleeper.pid}:" in signal["script"]
    assert sleeper.poll() is None
    assert not (tmp_path / "remote").exists()


# -- wait-memory


def test_waiting_where_nothing_was_killed_says_so(place: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, document, _ = run(capsys, "wait-memory", *place)
    assert (status, document["code"], document["released"]) == (0, "nothing-killed", True)


def test_a_need_that_cannot_be_met_is_status_4_with_the_reason(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "wait-memory", *place, "--need", "4000GiB", "--timeout", "1s")
    assert status == 4
    assert "short of the need" in document["error"]["message"]
    assert document["error"]["details"]["verdict"]["released"] is False


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--need", "lots"], "size"),
        (["--need", "2"], "size"),
        (["--timeout", "soon"], "duration"),
        (["--timeout", "5"], "duration"),
    ],
)
def test_wrong_quantities_are_status_2(
    words: list[str], code: str, place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "wait-memory", *place, *words)
    assert (status, document["error"]["code"]) == (2, code)


# -- the target that was used last


def test_a_command_that_reached_its_host_makes_it_the_last_target(
    place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    status, document, _ = run(capsys, "kill", "nobody@localhost:1", *place[1:])
    assert (status, document["error"]["code"]) == (3, "refused")
    assert open_state().last_place() is None
    run(capsys, "kill", *place)
    remote_dir = place[place.index("--remote-dir") + 1]
    assert open_state().last_place() == LastPlace("local", remote_dir=remote_dir)
    _, _, err = run(capsys, "wait-memory", *place[1:])
    assert "target: local (from the last command)" in err
    _, _, err = run(capsys, "wait-memory")
    assert f"target: local --remote-dir {remote_dir} (from the last command)" in err


@pytest.mark.parametrize("look", [["status"], ["logs"], ["wait-memory"], ["unlock"], ["kill", "--dry-run"]])
def test_a_command_that_only_looks_leaves_the_last_target(
    look: list[str], place: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    open_state().remember_place(LastPlace("ops@gpu1"))
    run(capsys, *look, *place)
    assert open_state().last_place() == LastPlace("ops@gpu1")


def test_a_kill_on_the_last_target_asks_when_interactive(
    place: list[str],
    tmp_path: Path,
    sleeper: subprocess.Popen[bytes],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    record_as_daemon(tmp_path, sleeper)
    open_state().remember_place(LastPlace("local"))
    asked = answer(monkeypatch, reply=False)
    status, document, _ = run(capsys, "kill", *place[1:])
    assert (status, document["error"]["code"], asked) == (1, "not-confirmed", ["Stop it on local?"])
    assert sleeper.poll() is None
    status, document, _ = run(capsys, "kill", *place)  # named: not asked again
    assert (status, document["how"], len(asked)) == (0, "terminated", 1)


def record_as_daemon(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    """Record a process as the daemon of the place, one that is not ours."""
    start_ticks = int(Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record = {"schema": 1, "name": "prover", "release_id": "r", "launch_id": "l", "state": "ready", "boot_id": boot_id}
    record |= {"pid": process.pid, "start_ticks": start_ticks, "session_id": process.pid, "exe_sha256": "0" * 64}
    record |= {"build_id": "", "config_sha256": "", "api": "", "logs": [], "started_unix_ns": 1}
    run_folder = tmp_path / "remote" / "prover" / "run"
    run_folder.mkdir(parents=True)
    (run_folder / "daemon.json").write_text(json.dumps(record))


@pytest.mark.parametrize("release", ["../../x", "", "a b", "-x"])
def test_what_cannot_be_the_name_of_a_release(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["launch", "local", "--remote-dir", str(tmp_path), "--release", release]) == 2
    assert "is not the name of a release" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--builder", "local"], ["--base-image", "x"], ["--gpu-archs", "90"]])
def test_how_to_build_and_what_was_built_exclude_each_other(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["deploy", "local", "--remote-dir", str(tmp_path / "r"), "--artifact", "x", *words]) == 2
    assert "say how to build, and --artifact names what was built" in capsys.readouterr().err
