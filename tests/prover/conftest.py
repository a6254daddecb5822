"""What the tests of the daemon share: a timing log, and a real daemon process with a home of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import kernels
from kernels.interface import KernelError
from prover.client import Client
from prover.instance import Home
from prover.timeline import Event, parse_line
from prover.timing_log import TimingLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "data" / "groth16"
START_S = 60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[TimingLog]:
    log = TimingLog(tmp_path / "test.log", "test")
    yield log
    os.close(log._fd)


@pytest.fixture
def logged(log: TimingLog) -> Callable[[], list[Event]]:
    return lambda: [parse_line(line) for line in log.path.read_text().splitlines()]


def run_prover(*arguments: str | Path, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "prover", *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(command, input=stdin, capture_output=True, env=env, timeout=120, check=False)


class DaemonProcess:
    """A daemon that a test started, with the files it uses; ends with the test."""

    def __init__(self, remote_dir: Path, configuration: str) -> None:
        name = str(tomllib.loads(configuration).get("daemon", {}).get("name", "prover"))
        self.remote_dir = remote_dir
        self.home = remote_dir / name
        remote_dir.mkdir(parents=True, exist_ok=True)
        self.config = remote_dir / f"{name}.toml"
        self.config.write_text(configuration)
        self.stderr = remote_dir / f"{name}.stderr.txt"
        self.process: subprocess.Popen[bytes] | None = None

    def spawn(self, *options: str, **environment: str) -> None:
        serve = ["serve", "--config", str(self.config), "--remote-dir", str(self.remote_dir), *options]
        with self.stderr.open("ab") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "prover", *serve],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
                start_new_session=True,
            )

    def start(self, *options: str, **environment: str) -> None:
        self.spawn(*options, **environment)
        ready = self.ctl("ready", "--wait-s", str(START_S))
        assert ready.returncode == 0, (ready.stderr, self.stderr.read_text())

    def ctl(self, *arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return run_prover("ctl", *arguments, "--home", self.home, stdin=stdin)

    def ask(self, *arguments: str | Path, stdin: bytes = b"") -> Any:
        done = self.ctl(*arguments, "--json", stdin=stdin)
        assert done.returncode == 0, (done.stdout, done.stderr, self.stderr.read_text())
        return json.loads(done.stdout)

    def client(self) -> Client:
        return Client(Home(self.home))

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(60)

    def events(self) -> list[Event]:
        (path,) = (self.home / "logs").glob("*.log")
        return [parse_line(line) for line in path.read_text().splitlines()]

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def configuration(*circuits: str, extra: str = "") -> str:
    sections = [f'[[circuits]]\nname = "{name}"\npath = "{FIXTURES / name / "circuit.zkey"}"\n' for name in circuits]
    return "\n".join([extra, "[synthesis]\nthreads = 2\n", *sections])


@pytest.fixture
def make_daemon() -> Iterator[Callable[..., DaemonProcess]]:
    """Make daemons in short folders of their own: a socket's path must not depend on the name of a test."""
    try:
        kernels.backend("host")
    except KernelError as error:
        pytest.skip(f"no host backend to run a daemon with: {error}")
    with contextlib.ExitStack() as stack:

        def make(
            *circuits: str, extra: str = "", below: str = "", beside: DaemonProcess | None = None
        ) -> DaemonProcess:
            if beside is None:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prover-test-"))) / below
            else:
                folder = beside.remote_dir
            daemon = DaemonProcess(folder, configuration(*circuits, extra=extra))
            stack.callback(daemon.kill)
            return daemon

        yield make


def eventually(condition: Callable[[], bool], within_s: float = 30) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, f"did not happen within {within_s} s"
        time.sleep(0.02)


@pytest.fixture
def prover_command() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    return run_prover


@pytest.fixture
def wait_until() -> Callable[..., None]:
    return eventually
