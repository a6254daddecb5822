"""Real processes and recorded kernel folders that tests put in the place of a prover and its host."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.remote.script import roots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.memory_verdict import Reason, Sample
    from cuzkops.steps.ship import Transfer

MIB = 1 << 20
NEED_BYTES = MIB
"""So little that no other test's memory matters: for deploys that judge something else than how memory comes back."""

# MAP_SHARED | MAP_ANONYMOUS is accounted as shmem, like memory that CUDA pins. The first argument is a size in MiB.
HOLD = """
import mmap, signal, sys, time
size = int(sys.argv[1]) << 20
if "stubborn" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
held = mmap.mmap(-1, size)
for at in range(0, size, 4096):
    held[at] = 1
print("ready", flush=True)
time.sleep(600)
"""


# The main thread ends while the other one holds the memory and ignores SIGTERM: a zombie that has released nothing.
LEADER = """
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static void *hold(void *) {
    sleep(1);
    puts("ready");
    fflush(stdout);
    for (;;) pause();
}

int main(int, char **argv) {
    size_t size = strtoul(argv[1], nullptr, 10) << 20;
    void *held = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (held == MAP_FAILED) return 1;
    memset(held, 1, size);
    signal(SIGTERM, SIG_IGN);
    pthread_t thread;
    if (pthread_create(&thread, nullptr, hold, nullptr)) return 1;
    pthread_exit(nullptr);
}
"""

# Writes on and on: once the file system is frozen, it hangs in state D and no signal reaches it.
WRITE = """
import mmap, sys, time
held = mmap.mmap(-1, int(sys.argv[1]) << 20)
for at in range(0, len(held), 4096):
    held[at] = 1
with open(sys.argv[2], "wb", buffering=0) as file:
    print("ready", flush=True)
    while True:
        file.write(b"x")
        time.sleep(0.01)
"""


# A daemon with a worker process: it prints the worker's PID. The worker holds memory; the second argument moves it to
# a session of its own.
FAMILY = """
import subprocess, sys, time
code = "import mmap, sys, time; m = mmap.mmap(-1, int(sys.argv[1]) << 20)\\n"
code += "for at in range(0, len(m), 4096): m[at] = 1\\nprint('up', flush=True); time.sleep(600)"
worker = subprocess.Popen(
    [sys.executable, "-c", code, sys.argv[1]], stdout=subprocess.PIPE, start_new_session="own" in sys.argv
)
worker.stdout.readline()
print("ready", flush=True)
print(worker.pid, flush=True)
time.sleep(600)
"""


def wait_until(holds: Callable[[], bool], timeout_s: float = 20) -> None:
    """Wait for what must become true soon."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.01)


@contextlib.contextmanager
def running(*argv: str, new_session: bool = False, cwd: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the block ends; it has printed ``ready`` when the block begins, and is reaped after it."""
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, start_new_session=new_session, cwd=cwd)
    try:
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


@contextlib.contextmanager
def holding(mib: int, *how: str, new_session: bool = False) -> Iterator[subprocess.Popen[str]]:
    """Hold that much shared-anonymous memory; ``"stubborn"`` ignores SIGTERM. The process is not reaped meanwhile."""
    with running(sys.executable, "-c", HOLD, str(mib), *how, new_session=new_session) as process:
        yield process


@contextlib.contextmanager
def family(mib: int, *how: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A leader of a session, and the PID of its worker that holds that much memory; the worker is killed at the end."""
    with running(sys.executable, "-c", FAMILY, str(mib), *how, new_session=True) as leader:
        assert leader.stdout
        worker = int(leader.stdout.readline())
        try:
            yield leader, worker
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def start_ticks(pid: int) -> int:
    """When a process started, in clock ticks since boot."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


@contextlib.contextmanager
def reusing(pid: int) -> Iterator[subprocess.Popen[str]]:
    """Another process with that number, which must be free."""
    try:
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    except OSError as error:
        pytest.skip(f"the next PID cannot be chosen here: {error}")
    for _ in range(200):
        Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        with running(sys.executable, "-c", HOLD, "1") as process:
            if process.pid == pid:
                yield process
                return
    pytest.skip(f"somebody else always took the number {pid}")


@contextlib.contextmanager
def leader_zombie(folder: Path, mib: int) -> Iterator[subprocess.Popen[str]]:
    """Hold memory in a thread whose leader has ended; compiled in ``folder``."""
    source, program = folder / "leader.cpp", folder / "leader"
    source.write_text(LEADER)
    subprocess.run(["g++", "-pthread", "-o", str(program), str(source)], check=True)
    with running(str(program), str(mib)) as process:
        yield process


@contextlib.contextmanager
def frozen_writer(folder: Path, mib: int) -> Iterator[tuple[subprocess.Popen[str], Callable[[], None]]]:
    """Hold memory in a process that hangs in state D; the second value lets it go on (and die of its signals).

    It writes to a file system of its own that is frozen: to everybody else it looks like a driver that unpins memory.
    """
    if os.getuid() != 0:
        pytest.skip("only root can freeze a file system")
    image, mount = folder / "image", folder / "mount"
    mount.mkdir()
    image.write_bytes(bytes(16 * MIB))
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)
    done = subprocess.run(["mount", "-o", "loop", str(image), str(mount)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no loop mounts here: {done.stderr.strip()}")

    def thaw() -> None:
        subprocess.run(["fsfreeze", "-u", str(mount)], capture_output=True, check=False)

    try:
        with running(sys.executable, "-c", WRITE, str(mib), str(mount / "file")) as process:
            try:
                subprocess.run(["fsfreeze", "-f", str(mount)], check=True)
                wait_until(lambda: "\nState:\tD" in Path(f"/proc/{process.pid}/status").read_text())
                yield process, thaw
            finally:
                thaw()
    finally:
        subprocess.run(["umount", str(mount)], check=True)


def recorded_kernel(folder: Path, *, files: dict[str, str]) -> dict[str, str]:
    """Write files below ``folder`` and return the parameters that put its proc, dev and sys in the kernel's place.

    Args:
        folder: An empty folder.
        files: Path such as ``"proc/self/cgroup"`` -> content. The minimum for a probe is there already.
    """
    basics = {
        "proc/uptime": "1000.25 1800.00\n",
        "proc/meminfo": "MemTotal: 16000000 kB\nMemFree: 9000000 kB\nMemAvailable: 12000000 kB\nShmem: 1024 kB\n",
        "proc/vmstat": "nr_free_pages 1\nnr_foll_pin_acquired 700\nnr_foll_pin_released 200\n",
        "proc/sys/kernel/random/boot_id": "0f6f1f6e-5f0c-4d7e-9f7c-0c5f3f0a1b2c\n",
        "proc/stat": "btime 1700000000\n",
        "proc/cpuinfo": "processor : 0\nflags : fpu adx bmi2\n",
        "proc/mounts": "/dev/sda1 / ext4 rw 0 0\n",
        "dev/null": "",
        "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
    }
    for name, text in (basics | files).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return roots(str(folder / "proc"), str(folder / "dev"), str(folder / "sys"))


class Recorder:
    """Keeps what a deploy says."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.sentences: list[str] = []
        self.interrupted = ""
        self.n_samples = 0

    def step_begins(self, step: str) -> None:
        self.steps.append(step)

    def step_ended(self, step: str, sentence: str, seconds: float) -> None:
        self.sentences.append(f"{step}: {sentence}")
        assert sentence
        assert seconds >= 0

    def says(self, text: str) -> None:
        self.sentences.append(text)

    def detail(self, text: str) -> None:
        self.sentences.append(text)

    def transferred(self, transfer: Transfer) -> None:
        assert transfer.done_bytes <= transfer.total_bytes

    def sampled(self, sample: Sample, reason: Reason) -> None:
        del sample, reason
        self.n_samples += 1

    def if_interrupted(self, text: str) -> None:
        self.interrupted = text
