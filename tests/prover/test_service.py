"""The unit for systemd: what it starts really starts, and it restarts after the right statuses."""

from __future__ import annotations

import configparser
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import prover
from prover.config import Settings
from prover.errors import CapacityError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
UNIT = Path(prover.__file__).parent / "prover.service"


@pytest.fixture
def service() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign, assignment]
    parser.read_string(UNIT.read_text())
    return parser["Service"]


def test_it_waits_for_the_drain_and_restarts_what_a_restart_helps(service: configparser.SectionProxy) -> None:
    assert int(service["TimeoutStopSec"]) > Settings().daemon.drain_timeout_s
    assert service["Restart"] == "on-failure"
    prevented = {int(status) for status in service["RestartPreventExitStatus"].split()}
    assert prevented == {InputError.exit_status, CapacityError.exit_status}
    assert service["KillSignal"] == "SIGTERM"


@pytest.mark.peers
def test_what_it_starts_is_the_current_release(
    service: configparser.SectionProxy, make_daemon: Callable[..., Any], wait_until: Callable[..., None]
) -> None:
    daemon = make_daemon("mul60")
    release = daemon.home / "releases" / "abc-def"
    release.mkdir(parents=True)
    (release / "manifest.json").write_text('{"build_id": "abc"}')
    daemon.config.rename(release / "config.toml")
    launcher = release / "prover"
    environment = f'export PROVER_RELEASE_DIR="{release}" PYTHONPATH="{ROOT}"'
    launcher.write_text(f'#!/bin/sh\n{environment}\nexec "{sys.executable}" -m prover "$@"\n')
    launcher.chmod(0o755)
    (daemon.home / "current").symlink_to(release)
    command = shlex.split(service["ExecStart"].replace("$$", "$"))
    daemon.process = subprocess.Popen(command, env={**os.environ, "PROVER_HOME": str(daemon.home)})
    wait_until((daemon.home / "run/daemon.json").exists)
    assert daemon.ctl("ready", "--wait-s", "60").returncode == 0
    record = daemon.ask("status")["daemon"]
    assert (record["pid"], record["release_id"]) == (daemon.process.pid, "abc-def")
    daemon.process.send_signal(getattr(signal, service["KillSignal"]))
    assert daemon.wait() == 0
