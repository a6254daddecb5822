"""The lock, the record and the socket of a home."""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from prover.errors import BusyError, InputError, ProverError
from prover.instance import (
    Home,
    Instance,
    boot_id,
    exe_sha256,
    expanded,
    is_alive,
    read_build_id,
    read_record,
    start_ticks,
)
from prover.protocol import DaemonRecord, DaemonState


def record_of(instance: Instance, pid: int | None = None, ticks: int | None = None) -> DaemonRecord:
    pid = pid or os.getpid()
    return DaemonRecord(
        name="prover",
        release_id="r",
        launch_id="l",
        state=DaemonState.READY,
        boot_id=boot_id(),
        pid=pid,
        start_ticks=ticks or start_ticks(pid) or 0,
        session_id=0,
        exe_sha256="",
        build_id="source",
        config_sha256="",
        api=instance.api,
        logs=[],
        started_unix_ns=1,
    )


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "prover")


def test_folders_are_for_their_owner_alone(home: Home) -> None:
    Instance.claim(home).release()
    assert [folder.stat().st_mode & 0o777 for folder in (home.run, home.logs, home.witnesses)] == [0o700] * 3


def test_a_second_instance_is_refused_by_pid(home: Home) -> None:
    first = Instance.claim(home)
    with pytest.raises(BusyError, match=f"a daemon already runs in .*: process {os.getpid()}$"):
        Instance.claim(home)
    first.release()
    Instance.claim(home).release()


def test_a_home_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ProverError, match="cannot hold a daemon"):
        Instance.claim(Home(tmp_path / "file" / "prover"))


def test_the_lock_is_not_inherited(home: Home) -> None:
    instance = Instance.claim(home)
    program = [sys.executable, "-c", "print(flush=True); input()"]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
    assert child.stdout is not None
    child.stdout.readline()  # only now is it sure that the child has become another program
    instance.release()
    try:
        Instance.claim(home).release()
    finally:
        child.communicate(b"\n", timeout=30)


def test_record_is_written_and_removed(home: Home) -> None:
    instance = Instance.claim(home)
    instance.publish(record_of(instance))
    found = read_record(home)
    assert found is not None
    assert is_alive(found)
    assert json.loads(home.record.read_text())["schema"] == 1
    assert home.record.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in home.run.iterdir() if "json." in path.name] == []
    instance.release()
    assert not home.record.exists()


def test_a_record_of_somebody_else_stays(home: Home) -> None:
    instance = Instance.claim(home)
    instance.publish(record_of(instance))
    home.record.write_text(record_of(instance, pid=1, ticks=5).model_dump_json(by_alias=True))
    instance.release()
    assert home.record.exists()


def test_a_reused_pid_is_not_alive(home: Home) -> None:
    instance = Instance.claim(home)
    assert is_alive(record_of(instance))
    assert not is_alive(record_of(instance, ticks=1))
    assert not is_alive(record_of(instance).model_copy(update={"boot_id": "earlier"}))
    instance.release()


def test_socket_is_bound_for_its_owner(home: Home) -> None:
    instance = Instance.claim(home)
    with instance.bind():
        assert instance.api == str(home.socket)
        assert home.socket.stat().st_mode & 0o777 == 0o600
    instance.release()
    assert not home.socket.exists()


def test_a_socket_that_was_left_behind_is_replaced(home: Home) -> None:
    home.run.mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(home.socket))
    instance = Instance.claim(home)
    with instance.bind(), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(home.socket))
    instance.release()


def test_a_long_home_gets_a_short_socket(tmp_path: Path) -> None:
    home = Home(tmp_path / ("x" * 100) / "prover")
    instance = Instance.claim(home)
    with instance.bind():
        api = Path(instance.api)
        assert len(os.fsencode(api)) <= 107
        assert api.parent.parent == Path(tempfile.gettempdir())
        assert api.parent.stat().st_mode & 0o777 == 0o700
    instance.release()
    assert not api.parent.exists()


def test_a_short_socket_that_was_left_behind_is_removed(tmp_path: Path) -> None:
    home = Home(tmp_path / ("x" * 100) / "prover")
    killed = Instance.claim(home)
    with killed.bind():
        killed.publish(record_of(killed))
    os.close(killed._lock_fd)  # what a kill does
    left_behind = Path(killed.api)
    assert left_behind.exists()
    instance = Instance.claim(home)
    with instance.bind():
        assert not left_behind.parent.exists()
        assert instance.api != str(left_behind)
    instance.release()


def test_start_ticks_of_a_process_with_a_strange_name(tmp_path: Path) -> None:
    program = tmp_path / "a) S 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([program, "60"])
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
        assert start_ticks(process.pid) == int(stat.rpartition(")")[2].split()[19])
        assert (start_ticks(process.pid) or 0) >= (start_ticks(os.getpid()) or 0)
    finally:
        process.kill()
        process.wait()
    assert start_ticks(process.pid) is None


def test_exe_digest() -> None:
    assert exe_sha256() == hashlib.sha256(Path(sys.executable).resolve().read_bytes()).hexdigest()


def test_build_id(tmp_path: Path) -> None:
    assert read_build_id(None) == "source"
    with pytest.raises(InputError, match="does not say what was built"):
        read_build_id(tmp_path)
    (tmp_path / "manifest.json").write_text('{"build_id": "0123456789abcdef"}')
    assert read_build_id(tmp_path) == "0123456789abcdef"


def test_a_record_that_cannot_be_written_is_a_sentence(home: Home) -> None:
    instance = Instance.claim(home)
    home.record.mkdir()
    with pytest.raises(ProverError, match=r"daemon\.json cannot be written: .*Is a directory"):
        instance.publish(record_of(instance))
    assert sorted(path.name for path in home.run.iterdir()) == ["daemon.json", "daemon.lock"]
    instance.release()


def test_a_folder_in_the_place_of_the_socket_is_a_sentence(home: Home) -> None:
    home.socket.mkdir(parents=True)
    instance = Instance.claim(home)
    with pytest.raises(ProverError, match=r"api\.sock cannot be bound"):
        instance.bind()
    instance.release()


def test_a_home_of_nobody_is_a_sentence() -> None:
    with pytest.raises(InputError, match="--home is ~nobody-here/x, and no home folder is known for ~nobody-here"):
        expanded(Path("~nobody-here/x"), "--home")
