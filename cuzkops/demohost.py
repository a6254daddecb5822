"""A host of its own on loopback: an SSH server in one process, for ``cuzkops demo`` and for tests.

``python -m cuzkops.demohost FOLDER`` serves until its standard input ends (so it never outlives who started it) or
SIGTERM comes. Keys, known_hosts, an ssh_config and the home folder of its user lie in FOLDER. It runs commands as the
user who started it, lets in nobody without the key it made, and listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Self

from cuzkops.errors import OpsError, UsageError
from cuzkops.target import Target

if TYPE_CHECKING:
    import asyncssh

START_S = 20
_BLOCK_BYTES = 1 << 16


class DemoHost:
    """Starts and stops the server in a process of its own; a context manager.

    Args:
        folder: Where its keys and its home folder go; kept between starts.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    def start(self) -> Self:
        """Start it and wait until it listens.

        Raises:
            UsageError: asyncssh is not installed.
            OpsError: It did not start; its last words are in the sentence.
        """
        log = self.folder / "server.log"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cuzkops.demohost", str(self.folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,  # a Ctrl-C of the terminal is for the tool, which stops this in its order
            )
        line = self._first_line()
        if not line.startswith("listening "):
            self.stop()
            words = log.read_text(errors="replace").strip().splitlines()
            if any("No module named 'asyncssh'" in word for word in words):
                raise UsageError("no-asyncssh", "the demo host needs asyncssh", "pip install 'cuzkops[demo]'")
            raise OpsError("demo-host", f"the demo host did not start: {words[-1] if words else 'no word from it'}")
        self._port = int(line.split()[1])
        return self

    def stop(self) -> None:
        """End it; may be called twice. Detached processes that were started through it live on."""
        process, self._process = self._process, None
        if process is None:
            return
        for pipe in (process.stdin, process.stdout):
            if pipe:
                pipe.close()
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def pid(self) -> int:
        """Process of the server."""
        return self._process.pid if self._process else 0

    @property
    def target(self) -> Target:
        """How to reach it, with ``env`` in the environment."""
        return Target("127.0.0.1", "demo", self._port)

    @property
    def env(self) -> dict[str, str]:
        """Variables that make its key and its known_hosts the ones to use."""
        return {
            "CUZKOPS_SSH_CONFIG": str(self.folder / "ssh_config"),
            "CUZKOPS_KNOWN_HOSTS": str(self.folder / "known_hosts"),
        }

    @property
    def home(self) -> Path:
        """Home folder of its user."""
        return self.folder / "home"

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _first_line(self) -> str:
        if self._process is None or self._process.stdout is None:
            return ""
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        return self._process.stdout.readline().decode() if poll.poll(START_S * 1000) else ""


async def _serve(folder: Path) -> None:
    import asyncssh  # noqa: PLC0415 - an extra: only who starts a demo host has it

    home = folder / "home"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in ("hostkey", "id"):
        if not (folder / name).exists():
            _make_key(folder / name)
    os.chdir(home)
    server = await asyncssh.listen(
        "127.0.0.1",
        0,
        server_host_keys=[str(folder / "hostkey")],
        authorized_client_keys=str(folder / "id.pub"),
        process_factory=lambda process: _run(process, home),
        encoding=None,
        sftp_factory=True,
        password_auth=False,
        kbdint_auth=False,
        keepalive_interval=15,
        keepalive_count_max=3,
    )
    _write_client_files(folder, server.get_port())
    print("listening", server.get_port(), flush=True)  # noqa: T201 - the word that the parent waits for
    await _until_stopped()
    server.close()


def _make_key(path: Path) -> None:
    import asyncssh  # noqa: PLC0415 - as above

    key = asyncssh.generate_private_key("ssh-ed25519")
    part = path.with_name(f"{path.name}.part")
    part.touch(mode=0o600)
    key.write_private_key(part)
    key.write_public_key(path.with_name(f"{path.name}.pub"))
    part.replace(path)


def _write_client_files(folder: Path, port: int) -> None:
    public = (folder / "hostkey.pub").read_text().split()[:2]
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {' '.join(public)}\n")
    lines = ["Host *", f"    IdentityFile {folder / 'id'}", "    IdentitiesOnly yes", "    StrictHostKeyChecking yes"]
    (folder / "ssh_config").write_text("\n".join([*lines, ""]))


async def _until_stopped() -> None:
    """Wait for SIGTERM or for the end of standard input: the parent is gone."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def at_input() -> None:
        if not os.read(sys.stdin.fileno(), _BLOCK_BYTES):
            loop.remove_reader(sys.stdin.fileno())
            stopped.set()

    with contextlib.suppress(PermissionError):  # a plain file cannot be watched: then only the signals end it
        loop.add_reader(sys.stdin.fileno(), at_input)
    await stopped.wait()


async def _run(process: asyncssh.SSHServerProcess[bytes], home: Path) -> None:
    """Run one command in a session of its own and pump its streams to their ends, then give its status."""
    child = await asyncio.create_subprocess_exec(
        "/bin/sh",
        "-c",
        process.command or "exit 0",
        cwd=home,
        env={**os.environ, "HOME": str(home)},
        start_new_session=True,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    feed = asyncio.create_task(_pump_in(process, child))
    try:
        await asyncio.gather(_pump(child.stdout, process.stdout), _pump(child.stderr, process.stderr))
        status = await child.wait()
        if status < 0:
            process.exit_with_signal(signal.Signals(-status).name[3:])
        else:
            process.exit(status)
    except (OSError, asyncio.CancelledError):  # the client went away; a real sshd hangs up on the command, too
        with contextlib.suppress(ProcessLookupError):
            if child.returncode is None:
                os.killpg(child.pid, signal.SIGHUP)
    finally:
        feed.cancel()


async def _pump_in(process: asyncssh.SSHServerProcess[bytes], child: asyncio.subprocess.Process) -> None:
    import asyncssh  # noqa: PLC0415 - as above

    ends = (asyncssh.Error, asyncssh.BreakReceived, asyncssh.SignalReceived, asyncssh.TerminalSizeChanged, OSError)
    try:
        with contextlib.suppress(*ends):
            await _pump(process.stdin, child.stdin)
    finally:
        if child.stdin:
            child.stdin.close()


async def _pump(source: object, sink: object) -> None:
    while data := await source.read(_BLOCK_BYTES):  # type: ignore[attr-defined] # asyncio's and asyncssh's streams alike
        sink.write(data)  # type: ignore[attr-defined]
        await sink.drain()  # type: ignore[attr-defined]


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]).absolute()))
