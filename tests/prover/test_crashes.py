"""Processes that crash for real: whom the next one blames, and whom not."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from prover.crashes import CrashRecord
from prover.errors import ProverError

if TYPE_CHECKING:
    from pathlib import Path

ONE, OTHER = "0123456789abcdef", "fedcba9876543210"
PROCESS = """
import ctypes, faulthandler, os, signal, sys, threading
from pathlib import Path
from prover.crashes import CrashRecord
faulthandler.enable()
record = CrashRecord(Path(sys.argv[1]))
for job_ids in sys.argv[3:]:
    record.at_work(job_ids.split())
exec(sys.argv[2])
"""
SEGFAULT = "ctypes.string_at(0)"


def process(folder: Path, end: str, *at_work: str) -> subprocess.CompletedProcess[str]:
    """Run a process that has these jobs at work, one set after the other, and ends like that."""
    command = [sys.executable, "-c", PROCESS, str(folder), end, *at_work]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def blamed(folder: Path) -> list[str]:
    record = CrashRecord(folder)
    record.close()
    return record.blamed


@pytest.mark.parametrize(
    "end",
    [
        SEGFAULT,
        "os.abort()",
        "signal.raise_signal(signal.SIGBUS)",
        "thread = threading.Thread(target=ctypes.string_at, args=(0,)); thread.start(); thread.join()",
    ],
)
def test_a_crash_names_the_jobs_at_work_once(tmp_path: Path, end: str, caplog: pytest.LogCaptureFixture) -> None:
    crashed = process(tmp_path, end, f"{ONE} {OTHER}", OTHER, f"{OTHER} {ONE}")
    assert crashed.returncode < 0
    assert crashed.stderr == ""
    assert blamed(tmp_path) == [OTHER, ONE]
    assert f"crashed while it proved {OTHER}, {ONE}:\nFatal Python error: " in caplog.text
    assert blamed(tmp_path) == []


@pytest.mark.parametrize("end", ["os.kill(os.getpid(), signal.SIGKILL)", "os._exit(1)", "sys.exit(0)", "1 / 0"])
def test_another_end_blames_nobody(tmp_path: Path, end: str) -> None:
    assert process(tmp_path, end, ONE).returncode != 0 or end == "sys.exit(0)"
    assert blamed(tmp_path) == []


def test_who_has_left_is_not_blamed(tmp_path: Path) -> None:
    process(tmp_path, SEGFAULT, f"{ONE} {OTHER}", "")
    assert blamed(tmp_path) == []


def test_a_crash_before_the_first_job_or_after_the_last_is_told_on_standard_error(tmp_path: Path) -> None:
    assert "Segmentation fault" in process(tmp_path, SEGFAULT).stderr
    assert blamed(tmp_path) == []
    assert "Segmentation fault" in process(tmp_path, f"record.close(); {SEGFAULT}", ONE).stderr
    assert blamed(tmp_path) == []


def test_files_that_cannot_be_made_are_said(tmp_path: Path) -> None:
    (tmp_path / "crash").mkdir()
    (tmp_path / "at_work").touch()
    with pytest.raises(ProverError, match="crash cannot be used: Is a directory"):
        CrashRecord(tmp_path)
