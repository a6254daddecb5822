"""A client that is killed or interrupted at any step: the same command again ends where it would have ended."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from stand_ins import Recorder

from cuzkops.remote import lock, shell
from cuzkops.remote.local import LocalHost
from cuzkops.steps.deploy import DeployRequest, deploy

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.deploy import DeployResult

pytestmark = pytest.mark.usefixtures("unlocked")


def die_at(title: str, die: Callable[[], NoReturn], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the client die when the script with this title has begun on the host."""
    say = shell.ShellHost._say

    def say_and_die(self: shell.ShellHost, script: Script, *words: object) -> object:
        talk = say(self, script, *words)  # type: ignore[arg-type] # what it was called with
        if script.title.startswith(title):
            die()
        return talk

    monkeypatch.setattr(shell.ShellHost, "_say", say_and_die)


def killed() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def interrupted() -> NoReturn:
    raise KeyboardInterrupt


def deploy_in_a_child(layout: Layout, request: DeployRequest, title: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Deploy in a process of its own that dies at a step; returns the signal that ended it."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            die_at(title, killed, monkeypatch)
            owner = lock.this_process("client", "run-child", "deploy")
            with LocalHost() as host:
                deploy(host, layout, DeployRequest(**(vars(request) | {"owner": owner})), Recorder())
        finally:
            sys.stderr.flush()
            os._exit(status)  # nothing of pytest may run twice
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def assert_converged(layout: Layout, result: DeployResult) -> None:
    daemon = json.loads(Path(layout.daemon_json).read_text())
    assert daemon["release_id"] == result.shipped.release_id
    assert daemon["pid"] == result.launched.daemon.pid
    assert not Path(layout.lock).exists()
    folders = (layout.layers, layout.circuits, layout.digests, layout.releases, layout.home, layout.run)
    left = [
        path for folder in folders for path in Path(folder).iterdir() if ".part-" in path.name or ".tmp-" in path.name
    ]
    assert left == []
    assert daemons(layout) == [daemon["pid"]]


def daemons(layout: Layout) -> list[int]:
    """Processes that serve below this folder and are no zombies."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if b"serve" in words and layout.remote_dir.encode() in words and b"--launch-id" in words:
                found.append(int(entry.name))
    return found


BEFORE_THE_KILL = (
    "look at the host",
    "take the lock",
    "record step",
    "make folders",
    "upload",
    "check and unpack layer native",
    "check circuit",
    "make release",
    "check release",
)
FROM_THE_KILL_ON = (
    "write /",  # kill.json
    "ask the daemon: drain",
    "sample the memory",
    "launch release",
    "ask the daemon: ready",
    "release the lock",
)


def test_a_client_killed_before_anything_is_stopped(
    host: Host,
    layout: Layout,
    make_request: Callable[..., DeployRequest],
    run: Callable[..., DeployResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One place for all of these steps: each goes on from what the one before has left."""
    del run  # it ends the daemon
    request = make_request()
    for title in BEFORE_THE_KILL:
        assert deploy_in_a_child(layout, request, title, monkeypatch) == -signal.SIGKILL, title
        assert not Path(layout.current).exists()
    assert_converged(layout, deploy(host, layout, request, Recorder()))


def test_a_client_killed_while_the_daemon_is_replaced(
    layout: Layout,
    make_request: Callable[..., DeployRequest],
    run: Callable[..., DeployResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(app="one")
    request = make_request(app="two")
    for title in FROM_THE_KILL_ON:
        assert deploy_in_a_child(layout, request, title, monkeypatch) == -signal.SIGKILL, title
    assert_converged(layout, run(app="two"))


def test_ctrl_c_leaves_no_lock_and_is_gone_on_from(
    host: Host,
    layout: Layout,
    make_request: Callable[..., DeployRequest],
    run: Callable[..., DeployResult],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run(app="one")
    request = make_request(app="two")
    for title in ("upload", "make release", "check release", "ask the daemon: drain", "launch release"):
        with monkeypatch.context() as patch:
            die_at(title, interrupted, patch)
            with pytest.raises(KeyboardInterrupt):
                deploy(host, layout, request, Recorder())
        assert not Path(layout.lock).exists(), title
    assert_converged(layout, run(app="two"))
