"""The timing log of a launch: what the header says of the devices, and how the file goes on in another one."""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from prover.timeline import parse_line
from prover.timing_log import TimingLog, gpus_and_driver

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = {
    "build_id": "b",
    "release_id": "r",
    "config_sha256": "c",
    "backend": "host",
    "options": "daemon.name:prover/memory.budget:auto",
}


def test_without_the_library_there_are_no_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # an import of it fails
    assert gpus_and_driver() == ("none", "none")


@pytest.fixture
def small(tmp_path: Path) -> Iterator[TimingLog]:
    log = TimingLog(tmp_path / "l.log", "l", max_bytes=2000, keep_files=50)
    log.header(**HEADER, threads=2)
    yield log
    log.close()


def files(log: TimingLog) -> list[Path]:
    """The oldest first."""
    full = sorted(log.path.parent.glob("l.log.*"), key=lambda path: -int(path.suffix[1:]))
    return [*full, log.path]


def test_no_line_is_lost_when_several_threads_fill_many_files(small: TimingLog) -> None:
    def write(worker: int) -> None:
        for i in range(40):
            small.event("JOB", "started", {"job": f"{worker}-{i}"}, queue_us=i)

    threads = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(files(small)) > 5
    events = []
    for path in files(small):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_size < 2000 + 200
        lines = [parse_line(line) for line in path.read_text().splitlines()]
        assert [(line.family, line.event) for line in lines[:2]] == [("HEADER", "run"), ("CONFIG", "effective")]
        events += lines
    jobs = [event.common["job"] for event in events if event.family == "JOB"]
    assert sorted(jobs) == sorted(f"{worker}-{i}" for worker in range(4) for i in range(40))
    times = [int(event.common["t_ns"]) for event in events]
    assert times == sorted(times)
    assert small.lines_lost == 0


def test_the_oldest_files_are_removed(tmp_path: Path) -> None:
    log = TimingLog(tmp_path / "l.log", "l", max_bytes=500, keep_files=2)
    for i in range(100):
        log.event("JOB", "started", {"job": f"{i}"}, queue_us=i)
    log.close()
    assert [path.name for path in files(log)] == ["l.log.2", "l.log.1", "l.log"]
    last = [parse_line(line).common["job"] for path in files(log) for line in path.read_text().splitlines()]
    assert last == list(range(100 - len(last), 100))


def test_where_no_other_file_can_be_made_the_old_one_goes_on(
    small: TimingLog, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_arguments: object, **_more: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "open", full)
    for i in range(60):
        small.event("JOB", "started", {"job": f"{i}"}, queue_us=i)
    monkeypatch.undo()
    assert files(small) == [small.path]
    assert small.path.read_text().count("started") == 60
    assert 1 <= caplog.text.count("cannot go on in a new file") < 20
    for i in range(60):
        small.event("JOB", "started", {"job": f"{i}"}, queue_us=i)
    assert len(files(small)) > 1


def test_nothing_is_written_after_the_last_event(small: TimingLog) -> None:
    small.end("DAEMON", "stopped", uptime_us=5, peak_rss_bytes=6)
    small.event("JOB", "started", {"job": "1"}, queue_us=1)
    line = parse_line(small.path.read_text().splitlines()[-1])
    assert (line.family, line.event) == ("DAEMON", "stopped")
