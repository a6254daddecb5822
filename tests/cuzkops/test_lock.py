"""Who may change a host: taking, losing and giving back its lock."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from cuzkops.errors import LockedError, OpsError
from cuzkops.remote import lock
from cuzkops.remote.layout import Layout
from cuzkops.remote.local import LocalHost

if TYPE_CHECKING:
    from cuzkops.records import LockOwner

CLIENT = "c" * 32


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    return Layout(str(tmp_path / "it's a folder"), "prover")


def owner(run_id: str = "run-1", client_id: str = CLIENT, step: str = "ship", **changes: object) -> LockOwner:
    return lock.this_process(client_id, run_id, step).model_copy(update=changes)


def dead(run_id: str = "run-0", step: str = "ship") -> LockOwner:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return owner(run_id, step=step, pid=process.pid, start_ticks=12)


def quiet(_: str) -> None:
    pass


def stored(layout: Layout) -> dict[str, object]:
    text = Path(layout.lock, "owner.json").read_text()
    loaded: dict[str, object] = json.loads(text)
    return loaded


def test_this_process_is_described_by_its_pid_and_start() -> None:
    us = owner()
    assert psutil.pid_exists(us.pid)
    assert us.start_ticks == int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


def test_a_lock_is_taken_named_by_step_and_given_back(host: LocalHost, layout: Layout) -> None:
    said: list[str] = []
    with lock.held(host, layout, owner(), said.append) as step:
        assert stored(layout)["step"] == "ship"
        step("kill")
        assert stored(layout)["step"] == "kill"
        holder = lock.read(host, layout)
        assert holder is not None
        assert holder.owner is not None
        assert (holder.owner.run_id, holder.owner.step) == ("run-1", "kill")
        assert Path(layout.lock).stat().st_mode & 0o77 == 0
    assert not Path(layout.lock).exists()
    assert lock.read(host, layout) is None
    assert said == []


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_error_or_ctrl_c_gives_it_back(host: LocalHost, layout: Layout, error: type[BaseException]) -> None:
    with pytest.raises(error), lock.held(host, layout, owner(), quiet):
        raise error
    assert not Path(layout.lock).exists()


def test_another_run_is_refused_and_told_who_holds_it(host: LocalHost, layout: Layout) -> None:
    with lock.held(host, layout, owner("run-1", "a" * 32, "wait-memory", user="ann", host="laptop"), quiet):
        with pytest.raises(LockedError) as caught:
            lock.acquire(host, layout, owner("run-2"), quiet)
        assert Path(layout.lock).exists()
    message = caught.value.message
    assert message.startswith("local is locked by ann@laptop (process ")
    assert "in step wait-memory, since 20" in message
    assert "`cuzkops unlock`" in caught.value.hint
    assert caught.value.exit_status == 6


def test_a_living_run_of_this_client_is_respected(host: LocalHost, layout: Layout) -> None:
    lock.acquire(host, layout, owner("run-1"), quiet)
    with pytest.raises(LockedError):
        lock.acquire(host, layout, owner("run-2"), quiet)


def test_a_dead_run_of_this_client_is_taken_over_and_that_is_said(host: LocalHost, layout: Layout) -> None:
    lock.acquire(host, layout, dead(step="kill"), quiet)
    said: list[str] = []
    with lock.held(host, layout, owner("run-2"), said.append):
        assert stored(layout)["run_id"] == "run-2"
        assert sorted(path.name for path in Path(layout.lock).iterdir()) == ["owner.json"]
    assert len(said) == 1
    assert "took over the lock of local from a dead process of this client" in said[0]
    assert "in step kill" in said[0]
    assert not Path(layout.lock).exists()


def test_a_process_that_was_killed_counts_as_dead(host: LocalHost, layout: Layout) -> None:
    code = f"""
import time
from cuzkops.remote import lock
from cuzkops.remote.layout import Layout
from cuzkops.remote.local import LocalHost
layout = Layout({layout.remote_dir!r}, "prover")
lock.acquire(LocalHost(), layout, lock.this_process({CLIENT!r}, "run-0", "ship"), print)
print("held", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(LockedError):
            lock.acquire(host, layout, owner("run-2"), quiet)
        process.kill()
    lock.acquire(host, layout, owner("run-2"), quiet)
    assert stored(layout)["run_id"] == "run-2"


@pytest.mark.parametrize("changes", [{"client_id": "d" * 32}, {"host": "another-machine"}])
def test_a_dead_process_elsewhere_cannot_be_judged(host: LocalHost, layout: Layout, changes: dict[str, object]) -> None:
    lock.acquire(host, layout, dead().model_copy(update=changes), quiet)
    with pytest.raises(LockedError):
        lock.acquire(host, layout, owner("run-2"), quiet)


@pytest.mark.parametrize("content", [None, "", "{", '{"schema": 9}', "\xff\xfe"])
def test_an_owner_that_cannot_be_read_is_said_with_the_age(
    host: LocalHost, layout: Layout, content: str | None
) -> None:
    Path(layout.lock).mkdir(parents=True)
    if content is not None:
        Path(layout.lock, "owner.json").write_text(content, encoding="latin-1")
    time.sleep(1.1)
    with pytest.raises(LockedError) as caught:
        lock.acquire(host, layout, owner(), quiet)
    assert "left no readable name" in caught.value.message
    age_s = caught.value.details["age_s"]
    assert isinstance(age_s, int)
    assert 1 <= age_s < 60
    assert "`cuzkops unlock`" in caught.value.hint


def test_of_many_who_try_one_wins(layout: Layout) -> None:
    assert winners(layout) == 1


def test_of_many_who_take_over_one_wins(host: LocalHost, layout: Layout) -> None:
    lock.acquire(host, layout, dead(), quiet)
    assert winners(layout) == 1


def winners(layout: Layout) -> int:
    won: list[str] = []

    def attempt(run_id: str) -> None:
        with LocalHost() as host:
            try:
                lock.acquire(host, layout, owner(run_id), quiet)
            except LockedError:
                return
            won.append(run_id)

    threads = [threading.Thread(target=attempt, args=(f"run-{n}",)) for n in range(10, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [stored(layout)["run_id"]] == won
    return len(won)


def test_unlock_removes_it_and_says_whose_it_was(host: LocalHost, layout: Layout) -> None:
    assert lock.unlock(host, layout) is None
    lock.acquire(host, layout, owner(user="ann"), quiet)
    holder = lock.unlock(host, layout)
    assert holder is not None
    assert str(holder).startswith("ann@")
    assert not Path(layout.lock).exists()


def test_who_lost_the_lock_neither_moves_on_nor_removes_the_next_one(host: LocalHost, layout: Layout) -> None:
    said: list[str] = []
    with lock.held(host, layout, owner("run-1"), said.append) as step:
        lock.unlock(host, layout)
        lock.acquire(host, layout, owner("run-2"), quiet)
        with pytest.raises(LockedError, match="took the lock of local away, so step kill was not begun") as lost:
            step("kill")
        assert (lost.value.code, lost.value.exit_status) == ("lock-lost", 6)
        assert "`cuzkops status`" in lost.value.hint
    assert stored(layout)["run_id"] == "run-2"
    assert "could not be released" in said[0]


@pytest.mark.parametrize(
    ("changes", "client_id", "said"),
    [
        ({}, CLIENT, lock.STILL_RUNS),
        ({"start_ticks": 1}, CLIENT, "has ended: the next command that changes this host takes the lock over"),
        ({"host": "laptop"}, CLIENT, "can be seen on laptop alone"),
        ({}, "d" * 32, "alone"),
        ({}, None, "alone"),
    ],
)
def test_whether_a_holder_lives_is_said_where_it_can_be_known(
    changes: dict[str, object], client_id: str | None, said: str
) -> None:
    found = lock.fate(lock.Holder(owner(**changes), 3, ""), client_id)  # type: ignore[arg-type] # any field of it
    assert said in found


def test_a_holder_without_a_name_has_no_known_fate() -> None:
    assert lock.fate(lock.Holder(None, 3, ""), CLIENT) == ""


def test_a_lock_that_is_gone_is_released_without_a_word(host: LocalHost, layout: Layout) -> None:
    said: list[str] = []
    with lock.held(host, layout, owner(), said.append):
        lock.unlock(host, layout)
    assert said == []


def test_a_folder_that_cannot_be_made_is_an_error_and_no_lock(host: LocalHost, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    layout = Layout(str(tmp_path / "file" / "below"), "prover")
    with pytest.raises(OpsError, match="take the lock ended with status 1") as caught:
        lock.acquire(host, layout, owner(), quiet)
    assert not isinstance(caught.value, LockedError)


def test_a_lock_that_is_just_being_given_back_is_waited_for(host: LocalHost, layout: Layout) -> None:
    """For a moment it has no name: its owner's file goes before the folder does."""
    Path(layout.lock).mkdir(parents=True, exist_ok=True)
    giving_back = threading.Timer(0.7, Path(layout.lock).rmdir)
    giving_back.start()
    try:
        lock.refuse_locked(host, layout, owner())
    finally:
        giving_back.join()
    assert not Path(layout.lock).exists()
