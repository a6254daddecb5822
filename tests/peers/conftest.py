"""Real peers: an OpenSSH server of this user on loopback, the embedded demo host, and a Docker engine.

A missing peer is a skip with its reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from peer_sshd import SSHD, Sshd

from cuzkops.demohost import DemoHost
from cuzkops.remote.local import LocalHost
from cuzkops.remote.opening import open_host
from cuzkops.steps.build import Artifact, BuildRequest, build
from cuzkops.steps.build_docker import docker_client

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.remote.host import Host


@pytest.fixture(autouse=True)
def _no_ssh_settings_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("CUZKOPS_SSH_CONFIG", "CUZKOPS_HOST_KEYS", "SSH_AUTH_SOCK"):
        monkeypatch.delenv(name, raising=False)
    home = tmp_path / "client-home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


def _need_sshd() -> None:
    if not Path(SSHD).exists():
        pytest.skip("no OpenSSH server here (on Debian: apt install openssh-server)")


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    _need_sshd()
    server = Sshd(tmp_path_factory.mktemp("sshd")).start()
    yield server
    server.stop()


@pytest.fixture
def sshd(shared_sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    """The OpenSSH server that many tests share; the environment names its key and its known_hosts."""
    for name, value in shared_sshd.env.items():
        monkeypatch.setenv(name, value)
    return shared_sshd


@pytest.fixture
def start_sshd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Sshd]]:
    """Start an OpenSSH server for one test, with more lines of sshd_config."""
    _need_sshd()
    servers: list[Sshd] = []

    def start(*lines: str, address: str = "127.0.0.1") -> Sshd:
        servers.append(Sshd(tmp_path / f"sshd-{len(servers)}", *lines, address=address).start())
        for name, value in servers[-1].env.items():
            monkeypatch.setenv(name, value)
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def ssh_host(sshd: Sshd) -> Iterator[Host]:
    with open_host(sshd.target) as host:
        yield host


@pytest.fixture(scope="session")
def shared_demo_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoHost]:
    with DemoHost(tmp_path_factory.mktemp("demo-host")) as demo:
        yield demo


@pytest.fixture
def demo_host(shared_demo_host: DemoHost, monkeypatch: pytest.MonkeyPatch) -> DemoHost:
    """The embedded SSH host that many tests share; the environment names its key and its known_hosts."""
    for name, value in shared_demo_host.env.items():
        monkeypatch.setenv(name, value)
    return shared_demo_host


@pytest.fixture
def asyncssh_host(demo_host: DemoHost) -> Iterator[Host]:
    with open_host(demo_host.target) as host:
        yield host


@pytest.fixture(params=["local", "demo", "openssh"])
def any_host(request: pytest.FixtureRequest) -> Iterator[Host]:
    """Each kind of host in turn: this machine, the embedded server, OpenSSH."""
    if request.param == "local":
        with LocalHost() as host:
            yield host
    else:
        yield request.getfixturevalue("asyncssh_host" if request.param == "demo" else "ssh_host")


@pytest.fixture(scope="session")
def snarkjs() -> str:
    """The executable that $CUZKOPS_SNARKJS names, else the one on PATH, else the one beside these tests."""
    named = os.environ.get("CUZKOPS_SNARKJS")
    beside = str(Path(__file__).parent / "node" / "node_modules" / ".bin")
    found = shutil.which(named) if named else shutil.which("snarkjs") or shutil.which("snarkjs", path=beside)
    if not found:
        pytest.skip(
            f"no snarkjs {named or 'on PATH'}: npm ci --prefix tests/peers/node, or name one in CUZKOPS_SNARKJS"
        )
    return found


DOCKER_BUILD_S = 1200
"""How long the first test that asks for the Docker-built artifact may take: without a cache CPython is compiled."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "docker_artifact" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.timeout(DOCKER_BUILD_S))


@pytest.fixture(scope="session")
def docker() -> str:
    """The client of a Docker engine that can build with BuildKit."""
    client = docker_client()
    if shutil.which(client) is None:
        pytest.skip(f"no Docker client {client!r} here")
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    tried = subprocess.run(
        [client, "build", "-q", "-"],
        input="FROM scratch\nLABEL probe=cuzkops\n",
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if tried.returncode != 0:
        pytest.skip(f"{client} cannot build: {tried.stderr.strip().splitlines()[0]}")
    return client


@pytest.fixture(scope="session")
def base_image(docker: str) -> str:
    """A bare Debian bullseye: glibc 2.31, no Python, no compiler."""
    name = "cuzkops-base:bullseye"
    if subprocess.run([docker, "image", "inspect", name], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no image {name}: .ci/base-image bullseye makes it")
    return name


@pytest.fixture(scope="session")
def docker_artifact(docker: str, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The artifact that `cuzkops build --builder docker` makes of this tree."""
    out = tmp_path_factory.mktemp("docker") / "artifact"
    request = BuildRequest("docker", out, base_image=base_image, docker=docker, timeout_s=DOCKER_BUILD_S)
    return build(request, lambda _: None)
