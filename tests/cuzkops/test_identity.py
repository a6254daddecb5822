"""Which process is meant, and whether it lives: one answer in the shell and in Python."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import holding, leader_zombie, running

from cuzkops.records import ProcessId
from cuzkops.remote.host import Script
from cuzkops.remote.procfs import live, parse_stats, parse_threads
from cuzkops.remote.script import LIVES, PRELUDE, PROCESSES, roots

if TYPE_CHECKING:
    from collections.abc import Callable

SHELLS = [["/bin/dash"], ["/bin/bash", "--posix"], ["/bin/busybox", "sh"]]


def identity(pid: int, *, later: int = 0) -> ProcessId:
    (stat,) = parse_stats(Path(f"/proc/{pid}/stat").read_text())
    return ProcessId(pid=pid, start_ticks=stat.start_ticks + later)


@pytest.fixture(params=SHELLS, ids=lambda shell: Path(shell[0]).name)
def lives(request: pytest.FixtureRequest) -> Callable[[ProcessId], bool]:
    """Ask both sides; they must agree."""
    shell: list[str] = request.param
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")

    def run(body: str, **parameters: str) -> str:
        script = Script("ask", body, roots() | parameters)
        done = subprocess.run([*shell, "-s"], input=script.text, text=True, capture_output=True, check=True, timeout=20)
        assert done.stderr == ""
        return done.stdout

    def ask(process: ProcessId) -> bool:
        pid, ticks = str(process.pid), str(process.start_ticks)
        said = run(LIVES + 'if lives "$PID" "$TICKS"; then echo yes; else echo no; fi', PID=pid, TICKS=ticks)
        seen = parse_threads(run(PRELUDE + PROCESSES + 'threads "$PID"', PID=pid))
        assert said == ("yes\n" if process.pid in live(seen, [process]) else "no\n")
        return said == "yes\n"

    return ask


def test_a_live_process_and_another_one_that_had_its_pid(lives: Callable[[ProcessId], bool]) -> None:
    with holding(1) as process:
        assert lives(identity(process.pid))
        assert not lives(identity(process.pid, later=1))
    assert not lives(ProcessId(pid=process.pid, start_ticks=1))


def test_a_zombie_is_dead(lives: Callable[[ProcessId], bool]) -> None:
    with subprocess.Popen(["/bin/true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not lives(identity(process.pid))


def test_a_zombie_whose_threads_live_is_not(lives: Callable[[ProcessId], bool], tmp_path: Path) -> None:
    with leader_zombie(tmp_path, 1) as process:
        assert " Z " in Path(f"/proc/{process.pid}/stat").read_text()
        assert lives(identity(process.pid))


@pytest.mark.parametrize("name", ["a) Z 1 2", "two\nlines) X", "* ) ("])
def test_a_command_name_is_no_field(lives: Callable[[ProcessId], bool], name: str) -> None:
    code = f"import time; open('/proc/self/comm', 'w').write({name!r}); print('ready', flush=True); time.sleep(600)"
    with running(sys.executable, "-c", code) as process:
        assert lives(identity(process.pid))
