"""Real peers: OpenSSH servers on loopback, the embedded demo host, containers, and a Docker engine.

A missing peer is a skip with its reason.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from host_kinds import ALWAYS, HostPeer, SmallDisk, host_peer, kinds, need_base_image, need_sshd, working_docker
from peer_sshd import Sshd

from cuzkops.demohost import DemoHost
from cuzkops.remote.opening import open_host
from cuzkops.steps.build import Artifact, BuildRequest, build

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


@pytest.fixture(scope="session")
def shared_sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    need_sshd()
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
    need_sshd()
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


@pytest.fixture(scope="session")
def running_hosts() -> Iterator[Callable[[str], HostPeer]]:
    """Gives the host of a kind, started when it is first asked for."""
    running: dict[str, HostPeer] = {}
    with contextlib.ExitStack() as stack:

        def running_host(kind: str) -> HostPeer:
            if kind not in running:
                running[kind] = stack.enter_context(host_peer(kind))
            return running[kind]

        yield running_host


@pytest.fixture(params=kinds(ALWAYS))
def peer(
    request: pytest.FixtureRequest,
    running_hosts: Callable[[str], HostPeer],
    monkeypatch: pytest.MonkeyPatch,
) -> HostPeer:
    """A host of each kind in turn; the environment names its key and its known_hosts."""
    running = running_hosts(request.param)
    for name, value in running.env.items():
        monkeypatch.setenv(name, value)
    return running


@pytest.fixture
def any_host(peer: HostPeer) -> Iterator[Host]:
    """A connection to a host of each kind in turn."""
    with open_host(peer.target) as host:
        yield host


@pytest.fixture
def folder(peer: HostPeer) -> Iterator[Path]:
    """A folder on that host that the login and the tests see under one path, and that both may write."""
    with tempfile.TemporaryDirectory(prefix="a folder with 'quotes' ", dir=peer.folder) as name:
        os.chown(name, peer.login_uid, -1)
        yield Path(name)


@pytest.fixture
def small_disk(peer: HostPeer, folder: Path) -> Iterator[SmallDisk]:
    """A disk of 2 MiB on that host."""
    (folder / "small disk").mkdir()
    with contextlib.ExitStack() as undo:
        yield SmallDisk(folder / "small disk", peer.mount_tmpfs(folder / "small disk", "size=2m,mode=0777", undo))


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
    return working_docker()


@pytest.fixture(scope="session")
def base_image(docker: str) -> str:
    """A bare Debian bullseye: glibc 2.31, no Python, no compiler."""
    return need_base_image(docker)


@pytest.fixture(scope="session")
def docker_artifact(docker: str, base_image: str, tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """The artifact that `cuzkops build --builder docker` makes of this tree, without what no host of the tests uses."""
    out = tmp_path_factory.mktemp("docker") / "artifact"
    request = BuildRequest(
        "docker", out, base_image=base_image, gpu_archs="none", docker=docker, timeout_s=DOCKER_BUILD_S
    )
    return build(request, lambda _: None)
