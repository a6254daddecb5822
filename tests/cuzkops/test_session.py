"""What every command has: the command lines in its hints."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.project import Project
from cuzkops.rendering import Screen
from cuzkops.session import Place, Session
from cuzkops.target import parse_target

if TYPE_CHECKING:
    import pytest


def place(target: str = "ops@gpu1", name: str = "prover", remote_dir: str = "~/.cuzkops") -> Place:
    from cuzkops.state import open_state

    session = Session(Screen(), open_state())
    return Place(session, Project(), parse_target(target), "the command line", name, remote_dir)


def test_a_hint_leaves_out_what_is_the_default() -> None:
    assert place().command("logs") == "cuzkops logs ops@gpu1"


def test_a_hint_is_one_command_for_a_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # the tilde is the host's
    words = shlex.split(place("[::1]:22", "two", "~/o'ps folder; rm -rf *").command("prove mul60 WITNESS"))
    assert words == [
        *("cuzkops", "prove", "mul60", "WITNESS", "[::1]:22", "--name", "two"),
        *("--remote-dir", "~/o'ps folder; rm -rf *"),
    ]


def test_the_hints_of_a_step_name_the_place_and_its_key() -> None:
    keyed = replace(place(), identity=Path("a key"))
    hint = "`cuzkops kill --pid 12` stops it; `cuzkops adopt 12` takes it over; `cuzkops logs ops@gpu1` is whole"
    assert keyed.placed("`cuzkops unlock`") == "`cuzkops unlock ops@gpu1 --identity 'a key'`"
    assert keyed.placed("`cuzkops kill --pid PID`") == "`cuzkops kill --pid PID ops@gpu1 --identity 'a key'`"
    where = "ops@gpu1 --identity 'a key'"
    assert keyed.placed(hint) == (
        f"`cuzkops kill --pid 12 {where}` stops it; `cuzkops adopt 12 {where}` takes it over; "
        "`cuzkops logs ops@gpu1` is whole"
    )
