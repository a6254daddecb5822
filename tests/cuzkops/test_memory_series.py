"""A wait that is interrupted and run again goes on with the series of the same kill; the curve that is drawn of it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from test_memory_verdict import BOOT, GIB, flat, kill_record, memory
from test_wait_memory import killed

from cuzkops import cli
from cuzkops.commands.deploy import DeployView
from cuzkops.memory_curve import Point, curve_lines
from cuzkops.memory_series import open_series
from cuzkops.memory_verdict import Judge, LiveProcess, Reason, Sample
from cuzkops.remote.run_files import write_record
from cuzkops.rendering import Screen
from cuzkops.session import Session
from cuzkops.state import State, open_state
from cuzkops.steps.wait_memory import WaitRequest, wait_memory

if TYPE_CHECKING:
    from pathlib import Path

    from cuzkops.memory_series import Series
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.local import LocalHost

NO_REASON = Reason("settling", "")


def test_a_series_survives_the_command_and_belongs_to_one_kill(tmp_path: Path) -> None:
    state, record = State(tmp_path), kill_record(10 * GIB, 8 * GIB, uptime_s=500.25)
    series = open_series(state, record)
    assert (series.first, series.points) == (None, [])
    for uptime_s in (501.0, 501.25):
        series.add(Sample(BOOT, memory(uptime_s, 11 * GIB), (LiveProcess(812, "D"),)), NO_REASON)
    again = open_series(state, record)
    assert again.first == memory(501.0, 11 * GIB)
    assert again.points == [Point(501.0, 11 * GIB), Point(501.25, 11 * GIB)]
    other = open_series(state, record.model_copy(update={"uptime_s": 500.26}))
    assert other.points == []


def test_a_line_that_a_killed_command_left_half_is_skipped(tmp_path: Path) -> None:
    state, record = State(tmp_path), kill_record(10 * GIB, 8 * GIB, uptime_s=1.0)
    open_series(state, record).add(Sample(BOOT, memory(2.0, GIB)), NO_REASON)
    [file] = tmp_path.rglob("memory.jsonl")
    whole = file.read_text()
    file.write_text(whole + whole[:30] + "\n[1]\n\xff\n" + whole)
    assert len(open_series(state, record).points) == 2


def test_a_series_that_cannot_be_kept_does_not_end_the_wait(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file where a folder should be")
    series = open_series(State(tmp_path), kill_record(GIB, GIB))
    series.add(Sample(BOOT, memory(2.0, GIB)), NO_REASON)
    series.add(Sample(BOOT, memory(2.25, GIB)), NO_REASON)
    assert "cannot be written" in series.problem
    assert len(series.points) == 2


def test_a_pipe_in_the_place_of_a_series_is_not_waited_for(tmp_path: Path) -> None:
    state, record = State(tmp_path), kill_record(GIB, GIB, uptime_s=1.0)
    open_series(state, record).add(Sample(BOOT, memory(2.0, GIB)), NO_REASON)
    [file] = tmp_path.rglob("memory.jsonl")
    file.unlink()
    os.mkfifo(file)
    series = open_series(state, record)
    series.add(Sample(BOOT, memory(2.25, GIB)), NO_REASON)
    assert series.problem == f"{file} is not a file"


def test_the_judge_goes_on_with_the_clock_of_the_series_and_a_deadline_of_its_own() -> None:
    judge = Judge(kill_record(10 * GIB, 8 * GIB), None, 20)
    judge.goes_on(memory(100.0, 3 * GIB), 40)
    verdict = None
    for sample in flat(11 * GIB, 30, start_s=700):
        verdict = judge.feed(sample)
        if verdict:
            break
    assert verdict is not None
    assert (verdict.timed_out, verdict.first_available_bytes) == (True, 3 * GIB)
    assert verdict.seconds == 620, "from the begin of the series; the wait itself took its 20 s"
    assert verdict.n_samples == 40 + 81


def test_calm_never_counts_the_gap_between_two_waits() -> None:
    judge = Judge(None, 4 * GIB, 1800)
    for sample in (*flat(8 * GIB, 1), *flat(8 * GIB, 4, start_s=90)):
        assert judge.feed(sample) is None, "4 s are no calm window of 5 s"


@pytest.mark.alone
def test_a_wait_that_is_run_again_goes_on(host: LocalHost, layout: Layout) -> None:
    killed(host, layout, 10)
    begun: list[tuple[int, int | None]] = []

    def begins(series: Series, judge: Judge) -> None:
        begun.append((len(series.points), judge.goal_bytes))

    def wait() -> int:
        return wait_memory(host, layout, WaitRequest(timeout_s=60), state=open_state(), on_series=begins).n_samples

    n_first = wait()
    n_second = wait()
    assert [n for n, _ in begun] == [0, n_first]
    assert n_second > n_first >= 2
    [file] = (open_state().root / "runs").glob("kill-*/memory.jsonl")
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(lines) == n_second
    assert [line["uptime_s"] for line in lines] == sorted(line["uptime_s"] for line in lines)
    assert list(open_state().runs()) == [], "a kill is no run"


@pytest.mark.alone
def test_the_command_says_that_it_goes_on(
    host: LocalHost, layout: Layout, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    killed(host, layout, 10)
    words = ["wait-memory", "local", "--remote-dir", str(tmp_path / "remote dir")]
    assert cli.run(words) == 0
    assert "going on" not in capsys.readouterr().err
    assert cli.run([*words, "--check", "--json"]) == 0
    captured = capsys.readouterr()
    assert "going on with " in captured.err
    assert json.loads(captured.out)["released"]


def test_a_boot_identity_that_is_no_name_becomes_no_path(tmp_path: Path) -> None:
    from cuzkops.errors import UnreadableError

    with pytest.raises(UnreadableError, match="is not the id of a run"):
        open_series(State(tmp_path), kill_record(GIB, GIB, boot_id="../../etc"))


def test_after_a_reboot_the_clock_of_the_series_is_forgotten(host: LocalHost, layout: Layout) -> None:
    record = killed(host, layout, 10)
    write_record(host, layout.kill_json, record.model_copy(update={"boot_id": "before", "uptime_s": 1e9}))
    for _ in range(2):
        verdict = wait_memory(host, layout, WaitRequest(), state=open_state())
        assert (verdict.code, verdict.seconds) == ("rebooted", 0)


def test_the_curve_goes_from_the_least_seen_to_the_goal() -> None:
    points = [Point(float(second), second * GIB) for second in range(1, 9)]
    lines = curve_lines(points, 8 * GIB, columns=53, rows=4)
    assert len(lines) == 5
    assert all(len(line) <= 53 for line in lines)
    assert lines[0].startswith("   8.00 GiB ")
    assert lines[3].startswith("   1.00 GiB ▁")
    assert lines[0].endswith("█")
    assert (lines[4].split()[0], lines[4].endswith("7.00 s")) == ("0", True)


def test_a_curve_without_unicode_a_flat_one_and_a_narrow_terminal() -> None:
    flat_points = [Point(0.0, GIB), Point(1.0, GIB)]
    assert all(line.isascii() for line in curve_lines(flat_points, 2 * GIB, columns=60, blocks=False))
    assert "█" in curve_lines([Point(0.0, GIB)], GIB, columns=60)[0]
    assert curve_lines(flat_points, GIB, columns=20) == []
    assert curve_lines([], GIB, columns=60) == []


def test_a_deploy_draws_the_curve_of_each_of_its_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_screen import Terminal

    monkeypatch.setattr("cuzkops.rendering._REDRAW_S", 0.0)
    monkeypatch.setenv("COLUMNS", "60")
    err = Terminal()
    view = DeployView(Session(Screen(err=err), State(tmp_path)), State(tmp_path).new_run(), "cuzkops deploy local")
    for _ in range(2):
        view.step_begins("wait-memory")
        before = len(err.getvalue())
        for second in range(4):
            view.sampled(Sample(BOOT, memory(float(second), (second + 1) * GIB)), NO_REASON)
        assert "4.00 GiB" in err.getvalue()[before:]
        assert "3.00 s" in err.getvalue()[before:]
        assert "4.00 s" not in err.getvalue()[before:]
