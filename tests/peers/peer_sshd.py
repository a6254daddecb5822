"""An OpenSSH server on loopback, of this user or of one that only it knows, and looking at processes from outside."""

from __future__ import annotations

import contextlib
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import psutil
import pytest

from cuzkops.remote.host import Script
from cuzkops.target import Target

SSHD = "/usr/sbin/sshd"


@dataclass(frozen=True)
class Account:
    """An ordinary user whom this machine does not know: only one server, and what runs below it, sees it in /etc.

    Args:
        name: Login name.
        uid: User and group.
        home: Its home, made here.
    """

    name: str
    uid: int
    home: Path

    def prepare(self, folder: Path, public_key: Path) -> list[str]:
        """Make its home and let the key in; returns the words before the command that shall see the account.

        A mount namespace of its own gives it other files in /etc, and leaves nothing behind when it ends.
        """
        if not shutil.which("unshare"):
            pytest.skip("no unshare here (on Debian: apt install util-linux)")
        entries = {
            "passwd": f"{self.name}:x:{self.uid}:{self.uid}::{self.home}:/bin/bash",
            "group": f"{self.name}:x:{self.uid}:",
            "shadow": f"{self.name}:*:19000:0:99999:7:::",
        }
        for name, entry in entries.items():
            (folder / name).write_text(f"{Path('/etc', name).read_text().rstrip()}\n{entry}\n")
        self.home.mkdir(exist_ok=True)
        (self.home / ".ssh").mkdir(exist_ok=True)
        shutil.copy(public_key, self.home / ".ssh" / "authorized_keys")
        for path in (self.home, self.home / ".ssh", self.home / ".ssh" / "authorized_keys"):
            os.chown(path, self.uid, self.uid)
        bind = 'for name in passwd group shadow; do mount --bind "$0/$name" "/etc/$name"; done; exec "$@"'
        words = ["unshare", "--mount", "sh", "-euc", bind, str(folder)]
        tried = subprocess.run([*words, "true"], capture_output=True, text=True, check=False)
        if tried.returncode:
            pytest.skip(f"no mount namespace of our own here: {tried.stderr.strip()}")
        return words


class Sshd:
    """An OpenSSH server with its own keys, and one user: who runs it, or the account; nobody else gets in."""

    def __init__(self, folder: Path, *lines: str, address: str = "127.0.0.1", account: Account | None = None) -> None:
        self.folder = folder
        self.address = address
        self.port = 0
        self.user = account.name if account else getpass.getuser()
        self._account = account
        self._before: list[str] = []
        self._lines = lines
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        """Start it on a free port: sshd cannot choose one, so the choice is tried again when it was taken."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("hostkey", "id"):
            if not (self.folder / name).exists():
                make_key(self.folder / name)
        shutil.copy(self.folder / "id.pub", self.folder / "authorized_keys")
        if self._account:
            self._before = self._account.prepare(self.folder, self.folder / "id.pub")
        if os.geteuid() == 0:
            Path("/run/sshd").mkdir(exist_ok=True)
        for _ in range(5):
            if self._listens():
                break
        else:
            pytest.fail(f"sshd did not start: {(self.folder / 'sshd.log').read_text()}")
        public = " ".join((self.folder / "hostkey.pub").read_text().split()[:2])
        (self.folder / "known_hosts").write_text(f"[{self.address}]:{self.port} {public}\n")
        write_ssh_config(self.folder / "ssh_config", self.folder / "id")
        return self

    def _listens(self) -> bool:
        family = socket.AF_INET6 if ":" in self.address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((self.address, 0))
            self.port = probe.getsockname()[1]
        config = [
            f"ListenAddress {self.address}",
            f"Port {self.port}",
            f"HostKey {self.folder}/hostkey",
            f"PidFile {self.folder}/sshd.pid",
            f"AuthorizedKeysFile {f'{self.folder}/authorized_keys' if not self._account else '.ssh/authorized_keys'}",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            f"AllowUsers {self.user}",
            "MaxStartups 100",
            *self._lines,
        ]
        (self.folder / "sshd_config").write_text("\n".join([*config, ""]))
        command = [*self._before, SSHD, "-D", "-f", f"{self.folder}/sshd_config", "-E", f"{self.folder}/sshd.log"]
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self.address, self.port), 1):
                return True
            time.sleep(0.02)
        self.stop()
        return False

    def stop(self) -> None:
        if self._process:
            for process in self.sessions():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.kill()
            self._process.wait()
            self._process = None

    def sessions(self) -> list[psutil.Process]:
        """Processes that serve connections, without what runs in them."""
        if not self._process:
            return []
        below = psutil.Process(self._process.pid).children(recursive=True)
        return [process for process in below if process.name() == "sshd"]

    @property
    def pid(self) -> int:
        """The process that listens."""
        return self._process.pid if self._process else 0

    @property
    def target(self) -> Target:
        return Target(self.address, self.user, self.port)

    @property
    def env(self) -> dict[str, str]:
        return {
            "CUZKOPS_SSH_CONFIG": str(self.folder / "ssh_config"),
            "CUZKOPS_KNOWN_HOSTS": str(self.folder / "known_hosts"),
        }


def make_key(path: Path, *, passphrase: str = "") -> None:
    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen here (on Debian: apt install openssh-client)")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True)


def write_ssh_config(path: Path, identity: Path, *lines: str) -> None:
    path.write_text("\n".join(["Host *", f"    IdentityFile {identity}", "    IdentitiesOnly yes", *lines, ""]))


def processes_with(word: str, name: str = "") -> list[psutil.Process]:
    """Processes whose command line holds a word, and of this name if one is given; zombies do not count."""
    found = []
    for process in psutil.process_iter(["cmdline", "name", "status"]):
        cmdline = process.info["cmdline"] or []
        if name and process.info["name"] != name:
            continue
        if process.info["status"] != psutil.STATUS_ZOMBIE and any(word in part for part in cmdline):
            found.append(process)
    return found


def wait_until_gone(word: str, within_s: float = 10) -> None:
    deadline = time.monotonic() + within_s
    while left := processes_with(word):
        assert time.monotonic() < deadline, f"still runs: {left}"
        time.sleep(0.05)


def wait_until_running(word: str, name: str = "", within_s: float = 10) -> None:
    deadline = time.monotonic() + within_s
    while not processes_with(word, name):
        assert time.monotonic() < deadline, f"{word} did not start"
        time.sleep(0.02)


def pid_there(process: psutil.Process) -> int:
    """The PID of a process where it lives: in a container another one than here."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    (numbers,) = (line for line in status.splitlines() if line.startswith("NSpid:"))
    return int(numbers.split()[-1])


def freeze(processes: list[psutil.Process]) -> None:
    for process in processes:
        process.send_signal(signal.SIGSTOP)


def script(body: str, **parameters: str) -> Script:
    return Script("a test", body, parameters)


def seconds() -> str:
    """A duration that marks one `sleep` among all processes: hours, and unique where `random` is seeded anew a test."""
    return f"{10_000 + secrets.randbelow(10_000)}.{secrets.randbelow(10**9):09d}"
