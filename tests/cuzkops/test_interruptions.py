"""Ctrl-C in a command that changes a host: the sentence says what is left running, and how to go on."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops import cli

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.steps.build import Artifact


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A place of the test's own; what was launched there is stopped at the end."""
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", 0.5)
    place = ["local", "--remote-dir", str(tmp_path / "remote")]
    yield place
    assert cli.run(["kill", *place, "--grace", "5s"]) == 0


@pytest.fixture
def artifact(make_artifact: Callable[..., Artifact]) -> str:
    return str(make_artifact().directory)


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def how(place: list[str]) -> str:
    where = " ".join(place)
    return f"`cuzkops status {where}` shows it, `cuzkops kill {where}` stops it"


def said(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Run a command that is interrupted; returns its sentence."""
    capsys.readouterr()
    assert cli.run([*words, "--json"]) == 130
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["code"] == "interrupted"
    return str(error["message"]).removeprefix("interrupted: ")


def launched(tmp_path: Path) -> tuple[int, str]:
    """The daemon that goes on: its PID, and the name of its launch."""
    record = json.loads((tmp_path / "remote/prover/run/daemon.json").read_text())
    assert Path(f"/proc/{record['pid']}/exe").exists()
    return record["pid"], record["launch_id"]


def test_launch_and_deploy_name_the_daemon_that_goes_on(
    place: list[str],
    artifact: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("cuzkops.steps.launch._says_ready", interrupt)
        sentence = said(capsys, "deploy", *place, "--artifact", artifact)
        pid, launch_id = launched(tmp_path)
        goes_on = f"pid {pid} of launch {launch_id} goes on starting on local: {how(place)}"
        assert sentence == f"{goes_on}; go on with: cuzkops deploy {' '.join(place)} --artifact {artifact}"
        assert cli.run(["kill", *place]) == 0
        sentence = said(capsys, "launch", *place)
        pid, launch_id = launched(tmp_path)
        assert sentence == f"pid {pid} of launch {launch_id} goes on starting on local: {how(place)}"
    assert not (tmp_path / "remote/lock").exists()


def test_deploy_says_that_the_old_daemon_may_be_stopping(
    place: list[str], artifact: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cuzkops.steps.replace.kill", interrupt)
    sentence = said(capsys, "deploy", *place, "--artifact", artifact)
    again = f"cuzkops deploy {' '.join(place)} --artifact {artifact}"
    assert sentence == f"the old daemon may have been told to stop; nothing is sent twice; go on with: {again}"


def test_the_command_that_goes_on_repeats_every_option(
    place: list[str],
    artifact: str,
    key: Path,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("cuzkops.steps.replace.kill", interrupt)
    config = tmp_path / "it's one.toml"
    config.write_text("")
    where = [*place, "--identity", str(tmp_path / "a key"), "--host-key", "strict"]
    given = ["--config", str(config), "--circuit", f"a={key}", "--circuit", f"b={key}", "--budget", "64MiB"]
    given += ["--artifact", artifact, "--need", "1MiB"]
    given += ["--timeout", "5m", "--grace", "3s"]
    sentence = said(capsys, "deploy", *where, *given)
    assert shlex.split(sentence.partition("go on with: ")[2]) == ["cuzkops", "deploy", *where, *given]


def test_kill_names_the_command_that_goes_on(
    place: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cuzkops.steps.kill.write_record", interrupt)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            sentence = said(capsys, "kill", *place, "--pid", str(process.pid), "--yes")
        finally:
            process.kill()
    assert f"`cuzkops kill {' '.join(place)} --pid {process.pid} --yes` goes on with the same processes" in sentence


def test_adopt_says_that_the_process_runs_on(
    place: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("cuzkops.steps.adopt.write_record", interrupt)
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as process:
        try:
            sentence = said(capsys, "adopt", str(process.pid), *place)
        finally:
            process.kill()
    assert sentence.startswith(f"process {process.pid} runs on as before; `cuzkops status {' '.join(place)}` says ")
