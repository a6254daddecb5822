"""--notify: a program of this machine learns how the wait ended, and no shell reads its words."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from cuzkops import cli
from cuzkops.errors import UsageError
from cuzkops.steps import notify as notify_step
from cuzkops.steps.notify import notify, parse_command

if TYPE_CHECKING:
    from pathlib import Path

KEEP = """
import json, sys
json.dump({"arguments": sys.argv[2:], "input": json.load(sys.stdin)}, open(sys.argv[1], "w"))
"""


@pytest.fixture
def keeper(tmp_path: Path) -> tuple[str, Path]:
    """A command that keeps what it is told in a file."""
    script, kept = tmp_path / "keep it.py", tmp_path / "kept"
    script.write_text(KEEP)
    return f"{sys.executable} '{script}' '{kept}' '$(touch {tmp_path}/owned); `id`'", kept


def test_words_are_split_and_the_program_is_found_before_anything_begins() -> None:
    assert parse_command("sh -c 'a b' \"c\"") == ("sh", "-c", "a b", "c")
    for text, why in (("", "is empty"), ("sh 'x", "is not a command"), ("no-such-program-1 x", "is not here")):
        with pytest.raises(UsageError, match=why):
            parse_command(text)


@pytest.mark.parametrize("end", [((), 0, "nothing-killed"), (("--need", "1000TiB"), 4, "short")])
def test_the_verdict_is_told_whatever_it_is(
    end: tuple[tuple[str, ...], int, str],
    keeper: tuple[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (words, status, code), (command, kept) = end, keeper
    place = ["local", "--remote-dir", str(tmp_path / "host")]
    assert cli.run(["wait-memory", *place, *words, "--timeout", "1s", "--notify", command]) == status
    told = json.loads(kept.read_text())
    assert told["arguments"][0] == f"$(touch {tmp_path}/owned); `id`"
    assert not (tmp_path / "owned").exists()
    assert told["input"]["code"] == code
    captured = capsys.readouterr()
    assert told["arguments"][1] in captured.out + captured.err


def test_a_program_that_fails_is_said_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = ["local", "--remote-dir", str(tmp_path / "host")]
    assert cli.run(["wait-memory", *place, "--notify", "sh -c 'echo no bell >&2; exit 3'"]) == 0
    assert "nobody was notified: sh ended with status 3: no bell" in capsys.readouterr().err


def test_an_unknown_program_is_refused_before_the_host_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["wait-memory", "nobody@203.0.113.1", "--notify", "no-such-program-1"]) == 2
    assert "no-such-program-1" in capsys.readouterr().err


def test_a_program_that_does_not_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notify_step, "_DEADLINE_S", 0.2)
    assert "did not end within 0.2 s" in notify((sys.executable, "-c", "import time; time.sleep(600)"), "s", "{}")


def test_a_program_that_went_away_is_said(tmp_path: Path) -> None:
    assert "could not be run" in notify((str(tmp_path / "gone"),), "s", "{}")
