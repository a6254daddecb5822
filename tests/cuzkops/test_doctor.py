"""The doctor: a line for everything that was looked at, what to do about it, and nothing changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from test_build import fake_client

from cuzkops import cli
from cuzkops.remote import lock
from cuzkops.steps.doctor import Check, examine_here, examine_host, examine_login
from cuzkops.steps.ship import ShipRequest, ship
from cuzkops.target import parse_target

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact

OLD = "case $1 in version) echo 20.10.24 20.10.24 ;; *) exit 1 ;; esac"
NO_ENGINE = "echo 'Cannot connect to the Docker daemon' >&2; exit 1"
NO_BUILDX = "case $1 in version) echo 28.2.2 20.10.24 ;; *) echo 'no such command' >&2; exit 1 ;; esac"
WHOLE = "case $1 in version) echo 28.2.2 28.2.2 ;; *) exit 0 ;; esac"


def named(checks: list[Check], name: str) -> Check:
    (found,) = (check for check in checks if check.name == name)
    return found


@pytest.mark.parametrize(
    ("body", "state", "said"),
    [
        (OLD, "ok", "client 20.10.24, engine 20.10.24"),
        (WHOLE, "ok", "client 28.2.2, engine 28.2.2"),
        (NO_BUILDX, "warning", "lacks the component buildx"),
        (NO_ENGINE, "warning", "Cannot connect to the Docker daemon"),
    ],
)
def test_docker_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, state: str, said: str) -> None:
    monkeypatch.setenv("CUZKOPS_DOCKER", fake_client(tmp_path, body))
    check = named(examine_here(tmp_path / "build" / "artifact", tmp_path / "state"), "docker")
    assert check.state == state
    assert said in check.message
    assert bool(check.hint) == (state != "ok")
    assert not (tmp_path / "build").exists()
    assert not (tmp_path / "state").exists()


def test_what_is_missing_here_has_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUZKOPS_DOCKER", raising=False)
    checks = examine_here(tmp_path / "artifact", tmp_path / "state")
    for name in ("docker", "local builder", "git"):
        assert named(checks, name).state == "warning"
        assert named(checks, name).hint
    assert named(checks, "tool").message.startswith("cuzkops ")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for name in ("CUZKOPS_SSH_CONFIG", "CUZKOPS_HOST_KEYS", "CUZKOPS_KNOWN_HOSTS", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    return home


def test_what_a_login_would_use_is_named_and_nothing_is_connected(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = parse_target("gpu1")
    assert named(examine_login(target, None), "ssh keys").state == "error"
    key = home / ".ssh" / "id_ed25519"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    key.chmod(0o644)
    (home / ".ssh" / "config").write_text("Host gpu1\n  HostName 192.0.2.1\n  User ops\n  Port 2222\n")
    checks = examine_login(target, None)
    assert "gpu1 means ops at 192.0.2.1 port 2222" in named(checks, "ssh config").message
    assert named(checks, "ssh keys").message == f"offered: {key}; agent: none"
    assert named(checks, "ssh key files").hint == f"chmod 600 {key}"
    assert named(checks, "known hosts").state == "warning"
    key.chmod(0o600)
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "nobody listens"))
    checks = examine_login(target, None)
    assert [check.name for check in checks] == ["ssh config", "ssh agent", "ssh keys", "known hosts"]
    assert named(checks, "ssh agent").state == "warning"
    assert named(examine_login(target, home / "none"), "ssh").state == "error"
    assert named(examine_login(parse_target("local"), None), "ssh").state == "ok"


def test_a_host_is_looked_at_with_what_is_in_the_way(
    host: Host,
    layout: Layout,
    make_artifact: Callable[..., Artifact],
    make_config: Callable[..., DeployConfig],
) -> None:
    Path(layout.lock).rmdir()
    names = [check.name for check in examine_host(host, layout)]
    assert names == ["host", "memory", "disk", "gpu", "lock", "daemon"]
    release_id = ship(host, layout, ShipRequest(make_artifact(), make_config())).release_id
    Path(layout.current).symlink_to(f"releases/{release_id}")
    assert named(examine_host(host, layout), "release").message == f"{release_id} is whole; there: 1 release"
    (Path(layout.release(release_id)) / "prover").unlink()
    with lock.held(host, layout, lock.this_process("somebody", "run-x", "ship"), lambda _: None):
        checks = examine_host(host, layout)
    assert "prover is missing" in named(checks, "release").message
    assert named(checks, "lock").state == "warning"


def test_the_command_prints_a_line_each_and_ends_with_2_where_something_is_in_the_way(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    place = ["--remote-dir", str(tmp_path / "remote")]
    assert cli.run(["doctor", "local", *place]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("ok  ", "warning  ")) for line in lines)
    assert cli.run(["doctor", "local", *place, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["checks"]) == len(lines)
    assert not (tmp_path / "remote").exists()
    assert cli.run(["doctor", "127.0.0.1:1", "--json"]) == 2
    captured = capsys.readouterr()
    error = json.loads(captured.out)["error"]
    assert error["code"] == "doctor"
    states = {check["name"]: check["state"] for check in error["details"]["checks"]}
    assert (states["ssh keys"], states["connection"]) == ("error", "error")
    assert "error    connection" in captured.err
    assert not (home / ".ssh" / "known_hosts").exists()
