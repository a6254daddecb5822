"""Commands of a build: lines as they come, a deadline, and nothing left behind."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from cuzkops.artifact import command
from cuzkops.artifact.command import run_command
from cuzkops.errors import OpsError, TimeoutExpired

# A child that outlives its parent's death unless the whole group is ended; it says its PID first.
WITH_CHILD = "sleep 60 & echo $!; wait"


def soon() -> float:
    return time.monotonic() + 30


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not is_running(pid)


def test_hands_on_both_streams_line_by_line() -> None:
    lines: list[str] = []
    ended = run_command(
        ["sh", "-c", "echo one; echo two >&2; printf three"], title="t", progress=lines.append, deadline=soon()
    )
    assert (ended.status, ended.lines) == (0, lines)
    assert sorted(lines) == ["one", "three", "two"]


def test_a_command_that_prints_nothing_is_said_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "QUIET_S", 0.05)
    lines: list[str] = []
    seen = tmp_path / "seen"

    def progress(line: str) -> None:
        lines.append(line)
        seen.touch()

    quiet = f"while [ ! -e '{seen}' ]; do sleep 0.1; done; echo; echo end"
    ended = run_command(["sh", "-c", quiet], title="the build", progress=progress, deadline=soon())
    assert ended.lines == ["", "end"]
    assert {line.partition(", ")[0] for line in lines} == {"the build goes on", "end"}


def test_failure_shows_status_and_last_lines() -> None:
    ended = run_command(["sh", "-c", "seq 30; exit 3"], title="the count", progress=lambda _: None, deadline=soon())
    with pytest.raises(OpsError, match="the count ended with status 3: 30") as caught:
        ended.check()
    assert caught.value.details == {"status": 3, "last_lines": [str(number) for number in range(11, 31)]}


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    ended = run_command(["printf", "\\377a\\n"], title="t", progress=lambda _: None, deadline=soon())
    assert ended.lines == ["\N{REPLACEMENT CHARACTER}a"]


def test_deadline_ends_the_whole_group() -> None:
    lines: list[str] = []
    began = time.monotonic()
    with pytest.raises(TimeoutExpired, match="the wait did not end within its deadline") as caught:
        run_command(["sh", "-c", WITH_CHILD], title="the wait", progress=lines.append, deadline=began + 0.3)
    assert 0.3 <= time.monotonic() - began < 10
    assert caught.value.exit_status == 4
    assert gone(int(lines[0]))


def test_interrupt_ends_the_whole_group() -> None:
    pids: list[int] = []

    def interrupt(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_command(["sh", "-c", WITH_CHILD], title="t", progress=interrupt, deadline=soon())
    assert gone(pids[0])


def test_interrupt_while_a_command_starts_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[int] = []
    start = command._start

    def interrupted(*words: Any) -> object:
        process = start(*words)
        started.append(process.pid)
        signal.raise_signal(signal.SIGINT)  # nobody but this function knows the process yet
        return process

    monkeypatch.setattr(command, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_command(["sleep", "60"], title="t", progress=print, deadline=soon())
    assert gone(*started)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_group_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "GRACE_S", 0.2)
    lines: list[str] = []
    stubborn = "trap '' TERM; echo $$; while :; do sleep 0.05; done"
    with pytest.raises(TimeoutExpired):
        run_command(["sh", "-c", stubborn], title="t", progress=lines.append, deadline=time.monotonic() + 0.3)
    assert gone(int(lines[0]))


def test_command_reads_nothing_from_us_and_gets_the_environment() -> None:
    argv = ["sh", "-c", 'cat; echo "$WORD"']
    ended = run_command(argv, title="t", progress=lambda _: None, deadline=soon(), env=os.environ | {"WORD": "given"})
    assert ended.lines == ["given"]


def test_without_a_deadline_it_just_runs() -> None:
    assert run_command(["true"], title="t", progress=lambda _: None, deadline=float("inf")).status == 0
