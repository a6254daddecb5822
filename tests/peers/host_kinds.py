"""The kinds of hosts that the tool is tested on, each started for real: see ``KINDS``.

A kind whose means are missing here is a skip with its reason.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from peer_sshd import SSHD, Account, Sshd, make_key, write_ssh_config

from cuzkops.demohost import DemoHost
from cuzkops.steps.build_docker import docker_client
from cuzkops.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _pytest.mark.structures import ParameterSet

KINDS = ("local", "demo", "sshd-user", "sshd-root", "debian", "fish", "tcsh", "busybox")
"""This machine without SSH, the embedded server, sshd as an ordinary user and as root, and containers: with coreutils
and bash, with fish and tcsh as login shells, and with nothing but busybox."""
ALWAYS = ("local", "demo", "sshd-user", "busybox")
LOOP_ALWAYS = ("sshd-user", "busybox")
"""What every run of the tests goes through, and its whole loop; `make test-hosts` goes through all."""

TESTHOST = Path(__file__).parent / "testhost"
BASE_IMAGE = "cuzkops-base:bullseye"
_MEMORY = "3g"


def kinds(always: tuple[str, ...]) -> list[ParameterSet]:
    """All kinds as parameters; those that are not among ``always`` only for `make test-hosts`."""
    return [pytest.param(kind, marks=[] if kind in always else pytest.mark.hosts) for kind in KINDS]


@dataclass(frozen=True)
class HostPeer:
    """A host of one kind that runs, and how a test looks at it from outside.

    Args:
        kind: One of ``KINDS``.
        target: How the tool reaches it, with ``env`` in the environment.
        folder: The login and the tests see the same files here under the same path, and both may write.
        pid: A process of this machine that sees the file systems that the login sees.
        login_uid: The user whom it lets in.
        remote_dir: Where releases go; empty: the default in the home of the login.
        needs_bundle: Its login can run no Python of this machine: the artifact must bring one.
        env: Variables that name its key and its known_hosts.
        container: Its name for Docker, if it is one.
    """

    kind: str
    target: Target
    folder: Path
    pid: int
    login_uid: int
    remote_dir: str = ""
    needs_bundle: bool = False
    env: dict[str, str] = field(default_factory=dict)
    container: str = ""

    def mount_tmpfs(self, folder: Path, options: str, undo: contextlib.ExitStack) -> Path:
        """Mount a disk in memory where the login sees it; returns where the tests see it."""
        if os.geteuid() != 0:
            pytest.skip("only root can mount a small disk")
        enter = ["nsenter", "-t", str(self.pid), "-m", "--"]
        subprocess.run([*enter, "mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
        undo.callback(lambda: subprocess.run([*enter, "umount", folder], check=True))
        return Path(f"/proc/{self.pid}/root{folder}")


@dataclass(frozen=True)
class SmallDisk:
    """A disk on a host.

    Args:
        there: Where the login sees it.
        seen: Where the tests see it.
    """

    there: Path
    seen: Path


@contextlib.contextmanager
def host_peer(kind: str) -> Iterator[HostPeer]:
    """Start a host of this kind, and end it with all that runs in it."""
    folder = Path(tempfile.mkdtemp(prefix="cuzkops-host-"))
    folder.chmod(0o755)  # the login is not always the user of the tests
    try:
        with _STARTS[kind](kind, folder) as peer:
            yield peer
    finally:
        shutil.rmtree(folder)


def _shared(folder: Path, login_uid: int) -> Path:
    shared = folder / "shared"
    shared.mkdir()
    os.chown(shared, login_uid, -1)
    return shared


@contextlib.contextmanager
def _local(kind: str, folder: Path) -> Iterator[HostPeer]:
    shared = _shared(folder, os.geteuid())
    yield HostPeer(kind, Target("local"), shared, os.getpid(), os.geteuid(), f"{shared}/remote dir")


@contextlib.contextmanager
def _demo(kind: str, folder: Path) -> Iterator[HostPeer]:
    with DemoHost(folder / "demo") as demo:
        shared = _shared(folder, os.geteuid())
        yield HostPeer(kind, demo.target, shared, demo.pid, os.geteuid(), env=demo.env)


@contextlib.contextmanager
def _sshd_root(kind: str, folder: Path) -> Iterator[HostPeer]:
    if os.geteuid() != 0:
        pytest.skip("only root can serve the login of root")
    with _sshd(folder, None) as server:
        shared = _shared(folder, 0)
        yield HostPeer(kind, server.target, shared, server.pid, 0, f"{shared}/remote dir", env=server.env)


@contextlib.contextmanager
def _sshd_user(kind: str, folder: Path) -> Iterator[HostPeer]:
    """An ordinary user: the one who runs the tests, and an account of its own where that one is root."""
    if os.geteuid() == 0:
        account = Account("ops", _free_uid(), folder / "home")
        with _sshd(folder, account) as server:
            shared = _shared(folder, account.uid)
            yield HostPeer(kind, server.target, shared, server.pid, account.uid, needs_bundle=True, env=server.env)
    else:
        with _sshd(folder, None) as server:
            shared = _shared(folder, os.geteuid())
            remote_dir = f"{shared}/remote dir"
            yield HostPeer(kind, server.target, shared, server.pid, os.geteuid(), remote_dir, env=server.env)


@contextlib.contextmanager
def _sshd(folder: Path, account: Account | None) -> Iterator[Sshd]:
    need_sshd()
    server = Sshd(folder / "sshd", account=account).start()
    try:
        yield server
    finally:
        server.stop()


def _free_uid() -> int:
    taken = {entry.pw_uid for entry in pwd.getpwall()}
    return next(uid for uid in range(61_000, 65_000) if uid not in taken)


_SHELLS = {"debian": "/bin/bash", "fish": "/usr/bin/fish", "tcsh": "/bin/tcsh", "busybox": "/bin/sh"}
_STAGES = {"debian": "debian", "fish": "shells", "tcsh": "shells", "busybox": "busybox"}


@contextlib.contextmanager
def _container(kind: str, folder: Path) -> Iterator[HostPeer]:
    docker = working_docker()
    need_base_image(docker)
    image = _image(docker, _STAGES[kind])
    login_uid = os.geteuid() or 1000  # so that the tests may read what the login writes
    shared = _shared(folder, login_uid)
    make_key(folder / "id")
    public = (folder / "id.pub").read_text().strip()
    limits = ["--memory", _MEMORY, "--memory-swap", _MEMORY, "--pids-limit", "512"]
    login = {"LOGIN_UID": login_uid, "LOGIN_SHELL": _SHELLS[kind], "AUTHORIZED_KEY": public}
    variables = [word for name, value in login.items() for word in ("-e", f"{name}={value}")]
    place = ["-p", "127.0.0.1::22", "-v", f"{shared}:{shared}"]
    name = _docker(docker, "run", "-d", "--init", *limits, *place, *variables, image)
    try:
        port = int(_docker(docker, "port", name, "22").splitlines()[0].rpartition(":")[2])
        pid = int(_docker(docker, "inspect", "-f", "{{.State.Pid}}", name))
        env = _client_files(folder, port, lambda: docker_logs(docker, name))
        target = Target("127.0.0.1", "ops", port)
        yield HostPeer(kind, target, shared, pid, login_uid, needs_bundle=True, env=env, container=name)
    finally:
        subprocess.run([docker, "rm", "-f", name], check=False, capture_output=True)


def _docker(docker: str, *words: str) -> str:
    environment = os.environ | {"DOCKER_BUILDKIT": "1"}
    done = subprocess.run([docker, *words], capture_output=True, text=True, check=False, env=environment)
    if done.returncode:
        pytest.fail(f"docker {words[0]} failed: {done.stderr}")
    return done.stdout.strip()


def docker_logs(docker: str, name: str) -> str:
    """What a container has said."""
    done = subprocess.run([docker, "logs", "--tail", "20", name], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def _image(docker: str, stage: str) -> str:
    """Make the image and return its own name, which no other run of the tests can give to another one."""
    arguments = ["--build-arg", f"BASE_IMAGE={BASE_IMAGE}", "--target", stage, "-t", f"cuzkops-testhost-{stage}"]
    return _docker(docker, "build", "-q", *arguments, str(TESTHOST))


def _client_files(folder: Path, port: int, words: Callable[[], str]) -> dict[str, str]:
    """Wait until it serves, and write the files by which a client knows it and gets in."""
    deadline = time.monotonic() + 60
    while not (keys := _host_keys(port)):
        assert time.monotonic() < deadline, f"sshd in the container does not answer: {words()}"
        time.sleep(0.1)
    (folder / "known_hosts").write_text(keys)
    write_ssh_config(folder / "ssh_config", folder / "id")
    return {"CUZKOPS_SSH_CONFIG": f"{folder}/ssh_config", "CUZKOPS_KNOWN_HOSTS": f"{folder}/known_hosts"}


def _host_keys(port: int) -> str:
    scan = ["ssh-keyscan", "-t", "ed25519", "-p", str(port), "127.0.0.1"]
    return subprocess.run(scan, capture_output=True, text=True, check=False).stdout


def need_sshd() -> None:
    """Skip where there is no OpenSSH server."""
    if not Path(SSHD).exists():
        pytest.skip("no OpenSSH server here (on Debian: apt install openssh-server)")


def working_docker() -> str:
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


def need_base_image(docker: str) -> str:
    """A bare Debian bullseye: glibc 2.31, no Python, no compiler."""
    if subprocess.run([docker, "image", "inspect", BASE_IMAGE], capture_output=True, check=False).returncode != 0:
        pytest.skip(f"no image {BASE_IMAGE}: .ci/base-image bullseye makes it")
    return BASE_IMAGE


_STARTS = {"local": _local, "demo": _demo, "sshd-user": _sshd_user, "sshd-root": _sshd_root} | dict.fromkeys(
    _SHELLS, _container
)
