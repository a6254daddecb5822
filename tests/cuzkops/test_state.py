from __future__ import annotations

import stat
from typing import TYPE_CHECKING

import pytest

from cuzkops.errors import OpsError, UnreadableError
from cuzkops.records import Machine, RunRecord
from cuzkops.state import LastPlace, State, new_run_id, open_state, write_atomically

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def state(tmp_path: Path) -> State:
    return State(tmp_path / "state")


def record(run_id: str) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        target="local",
        name="prover",
        daemon_kind="cuzkops",
        log_grammar="cuzkops",
        build_id="0123456789abcdef",
        exe_sha256="0" * 64,
        config_sha256="1" * 64,
        circuits={"mul60": "2" * 64},
        host="box",
        gpus=[],
        driver=None,
        started_unix_ns=1,
    )


def test_the_xdg_folder_is_used_and_a_relative_one_ignored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "x"))
    assert open_state().root == tmp_path / "x" / "cuzkops"
    for value in ("", "relative/path"):
        monkeypatch.setenv("XDG_STATE_HOME", value)
        assert open_state().root == tmp_path / ".local" / "state" / "cuzkops"


def test_the_last_place_is_remembered(state: State) -> None:
    assert state.last_place() is None
    state.remember_place(LastPlace("root@box:22022"))
    state.remember_place(LastPlace("local", "two", "/srv/x"))
    assert state.last_place() == LastPlace("local", "two", "/srv/x")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b'{"schema": 2, "target": "x"}',
        b'{"schema": 1, "target": 3}',
        b"\xff",
        b'{"schema": 1, "target": "x", "name": ""}',
    ],
)
def test_a_damaged_last_target_counts_as_none(state: State, content: bytes) -> None:
    state.root.mkdir()
    (state.root / "last-target.json").write_bytes(content)
    assert state.last_place() is None


def test_a_last_place_of_an_older_version_is_its_target(state: State) -> None:
    state.root.mkdir()
    (state.root / "last-target.json").write_text('{"schema": 1, "target": "x"}')
    assert state.last_place() == LastPlace("x")


def test_the_client_id_stays(state: State) -> None:
    first = state.client_id()
    assert len(first) == 32
    assert state.client_id() == first
    (state.root / "client-id").write_text("torn")
    assert state.client_id() != first


def test_run_ids_sort_by_time_and_are_unique() -> None:
    moments = [0, 999, 1_000, 10**9, 1_796_000_000_123_456_789, 1_796_000_001_000_000_000]
    ids = [new_run_id(moment) for moment in moments]
    assert ids[2:] == sorted(ids[2:])
    assert len({new_run_id(5) for _ in range(200)}) > 150
    assert new_run_id(1_796_000_000_123_456_789).startswith("20261130-005320-123456-")


def test_runs_are_listed_newest_first_and_only_with_a_record(state: State) -> None:
    assert list(state.runs()) == []
    older, newer, empty = state.new_run(), state.new_run(), state.new_run()
    for run in (older, newer):
        run.write(record(run.run_id))
    assert [run.run_id for run in state.runs()] == sorted([older.run_id, newer.run_id], reverse=True)
    assert empty.logs.is_dir()
    assert older.read() == record(older.run_id)


def test_a_run_of_another_version_is_refused_by_the_key(state: State) -> None:
    run = state.new_run()
    run.write(record(run.run_id))
    file = run.path / "run.json"
    file.write_text(file.read_text().replace('"schema": 1', '"schema": 2'))
    with pytest.raises(UnreadableError, match=r"run\.json is not a run of this version: schema"):
        run.read()


def test_a_missing_run_is_refused(state: State) -> None:
    with pytest.raises(UnreadableError, match="cannot be read"):
        state.new_run().read()


def test_an_atomic_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "inside").touch()
    with pytest.raises(OpsError, match="cannot be written") as caught:
        write_atomically(tmp_path / "taken", b"data")
    assert "XDG_STATE_HOME" in caught.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]


def test_what_is_stored_is_for_this_user_alone(state: State) -> None:
    state.remember_place(LastPlace("local"))
    fault = state.write_fault("Traceback\n")
    assert fault.read_text() == "Traceback\n"
    for path in (state.root / "last-target.json", fault):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(state.root.stat().st_mode) == 0o700


def test_a_state_folder_that_cannot_be_made_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OpsError, match="cannot be written: Not a directory"):
        State(tmp_path / "file" / "state").new_run()


def test_a_folder_of_runs_that_cannot_be_read_is_said(state: State) -> None:
    state.root.mkdir(parents=True)
    (state.root / "runs").touch()
    with pytest.raises(UnreadableError, match="runs cannot be read: Not a directory"):
        list(state.runs())


@pytest.mark.parametrize(
    ("before", "after"),
    [('"started_unix_ns": 1', f'"started_unix_ns": {10**30}'), ('"load_1min": 0.5', '"load_1min": NaN')],
)
def test_a_run_with_numbers_that_cannot_be_is_refused(state: State, before: str, after: str) -> None:
    run = state.new_run()
    machine = Machine(
        hostname="h",
        kernel="k",
        architecture="x86_64",
        cpu="c",
        n_cpus=1,
        memory_bytes=1,
        thp="never",
        load_1min=0.5,
        gpus=[],
        driver="",
    )
    run.write(record(run.run_id).model_copy(update={"machine": machine}))
    file = run.path / "run.json"
    assert before in file.read_text()
    file.write_text(file.read_text().replace(before, after))
    with pytest.raises(UnreadableError, match=r"run\.json is not a run of this version: .*(less than|finite)"):
        run.read()
