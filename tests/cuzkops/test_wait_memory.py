"""wait-memory on this machine: real kills, and everything that keeps memory from coming back."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from stand_ins import MIB, frozen_writer, holding, leader_zombie, recorded_kernel, running

from cuzkops.commands.wait_memory import verdict_text
from cuzkops.errors import OpsError, TimeoutExpired, UnreadableError
from cuzkops.remote.baseline import take_baseline
from cuzkops.remote.procfs import parse_threads
from cuzkops.remote.run_files import write_record
from cuzkops.steps import kill as kill_step
from cuzkops.steps import wait_memory as wait_step
from cuzkops.steps.kill import KillRequest, kill
from cuzkops.steps.wait_memory import WaitRequest, parse_sample, samples_script, wait_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.memory_verdict import MemoryVerdict, Reason, Sample
    from cuzkops.records import KillRecord
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.local import LocalHost

HELD_MIB = 700  # above the slack of 256 MiB, or the missing memory would not be noticed
SHORT_CALM_S = 1.0  # how long 5 s are is judged by test_a_need_without_a_kill_takes_a_calm_window


@pytest.fixture
def _soon_calm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cuzkops.memory_verdict.CALM_S", SHORT_CALM_S)


class Waiting:
    """wait_memory in a thread, with the reasons that it gave meanwhile."""

    def __init__(self, host: LocalHost, layout: Layout, request: WaitRequest) -> None:
        self.codes: list[str] = []
        self.sentences: list[str] = []
        self.verdict: MemoryVerdict | None = None
        self.error: OpsError | None = None
        self._arguments = (host, layout, request)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.verdict = wait_memory(*self._arguments, self._note)
        except OpsError as error:
            self.error = error

    def _note(self, _: Sample, reason: Reason) -> None:
        self.codes.append(reason.code)
        self.sentences.append(reason.sentence)

    def until(self, code: str) -> str:
        """Wait until that reason was given; returns its sentence."""
        deadline = time.monotonic() + 30
        while code not in self.codes:
            assert self._thread.is_alive(), (self.verdict, self.error, self.codes)
            assert time.monotonic() < deadline, self.codes
            time.sleep(0.05)
        return self.sentences[self.codes.index(code)]

    def end(self) -> MemoryVerdict:
        self._thread.join(60)
        assert self.error is None, self.error
        assert self.verdict is not None
        return self.verdict


def killed(host: LocalHost, layout: Layout, mib: int = HELD_MIB) -> KillRecord:
    """Hold memory, stop the holder, and leave its kill.json."""
    with holding(mib) as process:
        result = kill(host, layout, KillRequest(pid=process.pid))
        process.wait()
    assert result.record is not None
    return result.record


@pytest.mark.alone
def test_a_real_kill_is_released(host: LocalHost, layout: Layout) -> None:
    record = killed(host, layout)
    seen: list[Sample] = []
    verdict = wait_memory(host, layout, WaitRequest(timeout_s=60), lambda sample, _: seen.append(sample))
    assert (verdict.released, verdict.code) == (True, "released")
    assert verdict.seconds < 30
    assert verdict.available_bytes >= record.available_bytes + (HELD_MIB // 2) * MIB
    assert len(seen) == verdict.n_samples >= 2
    assert seen[0].boot_id == record.boot_id
    assert seen[0].others is not None
    assert [later.memory.uptime_s for later in seen] == sorted(later.memory.uptime_s for later in seen)


@pytest.mark.alone
def test_the_same_kill_is_judged_again(host: LocalHost, layout: Layout) -> None:
    killed(host, layout)
    for _ in range(2):
        assert wait_memory(host, layout, WaitRequest(timeout_s=60)).code == "released"


def test_nothing_was_killed_is_said_with_status_0(host: LocalHost, layout: Layout) -> None:
    verdict = wait_memory(host, layout, WaitRequest())
    assert (verdict.released, verdict.code) == (True, "nothing-killed")
    assert "nothing was killed" in verdict.sentence
    assert verdict_text(verdict) == verdict.sentence


def steady_kernel(folder: Path, files: dict[str, str] | None = None) -> dict[str, str]:
    """A kernel whose memory stands still while its clock goes on: other tests' memory does not matter."""
    kernel = recorded_kernel(folder, files=files or {})
    uptime = Path(kernel["PROC"]) / "uptime"
    uptime.unlink()
    uptime.symlink_to("/proc/uptime")
    return kernel


def test_a_need_without_a_kill_takes_a_calm_window(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    kernel = steady_kernel(tmp_path / "k")
    verdict = wait_memory(host, layout, WaitRequest(need_bytes=MIB, timeout_s=60), kernel=kernel)
    assert (verdict.released, verdict.code) == (True, "calm")
    assert verdict.seconds >= 4.9


def test_a_need_that_is_too_large_names_what_is_missing(host: LocalHost, layout: Layout) -> None:
    with pytest.raises(TimeoutExpired) as expired:
        wait_memory(host, layout, WaitRequest(need_bytes=1 << 50, timeout_s=1))
    assert expired.value.exit_status == 4
    assert expired.value.code == "short"
    assert "after 1." in expired.value.message
    verdict = expired.value.details["verdict"]
    assert isinstance(verdict, dict)
    assert verdict["timed_out"]
    assert verdict["still_bytes"] > 1 << 49


@pytest.mark.alone
def test_check_does_not_wait(host: LocalHost, layout: Layout) -> None:
    with holding(HELD_MIB) as process:
        write_record(host, layout.kill_json, take_baseline(host, layout.name, [process.pid]))
        started = time.monotonic()
        with pytest.raises(TimeoutExpired, match="was not told to stop yet") as expired:
            wait_memory(host, layout, WaitRequest(check=True))
        assert time.monotonic() - started < 10
        assert expired.value.code == "still-running"
        process.kill()
        process.wait()
    wait_memory(host, layout, WaitRequest(timeout_s=60))
    assert wait_memory(host, layout, WaitRequest(check=True)).released


@pytest.mark.alone
def test_a_leader_zombie_is_never_taken_for_released(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    with leader_zombie(tmp_path, HELD_MIB) as process:
        write_record(host, layout.kill_json, take_baseline(host, layout.name, [process.pid]))
        waiting = Waiting(host, layout, WaitRequest(timeout_s=60))
        waiting.until("still-running")
        time.sleep(1)
        process.kill()
        assert waiting.end().released
    assert set(waiting.codes) <= {"still-running", "unpinning", "driver-releasing", "settling"}


@pytest.mark.alone
def test_an_unreaped_zombie_holds_nothing_back(host: LocalHost, layout: Layout) -> None:
    with holding(HELD_MIB) as process:  # not reaped before the block ends
        kill(host, layout, KillRequest(pid=process.pid))
        verdict = wait_memory(host, layout, WaitRequest(timeout_s=60))
        assert verdict.released
        assert "zombie" in verdict.sentence


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Callable[[], None]]]:
    with frozen_writer(tmp_path, HELD_MIB) as found:
        yield found


@pytest.mark.peers
@pytest.mark.alone
def test_state_d_after_sigkill_is_waited_for_until_memory_is_back(
    host: LocalHost,
    layout: Layout,
    frozen: tuple[subprocess.Popen[str], Callable[[], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, thaw = frozen
    monkeypatch.setattr(kill_step, "AFTER_SIGKILL_S", 0.5)
    kill(host, layout, KillRequest(pid=process.pid, grace_s=0.5))
    waiting = Waiting(host, layout, WaitRequest(timeout_s=60))
    sentence = waiting.until("unpinning")
    assert f"{process.pid} (D)" in sentence
    time.sleep(3)
    assert waiting.verdict is None, "a flat curve is not the end"
    thaw()
    assert waiting.end().released


@pytest.mark.alone
@pytest.mark.usefixtures("_soon_calm")
def test_a_file_left_in_dev_shm_ends_the_wait_by_name(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    room = os.statvfs("/dev/shm")  # noqa: S108 - the same
    if room.f_bavail * room.f_frsize < HELD_MIB * MIB:
        pytest.skip(f"no room for {HELD_MIB} MiB in shared memory (a container has 64 MiB: docker run --shm-size)")
    file = Path("/dev/shm") / f"cuzkops-test-{tmp_path.name}-{os.getpid()}"  # noqa: S108 - what the kernel calls it
    code = f"import mmap, time; f = open({str(file)!r}, 'w+b'); f.truncate({HELD_MIB * MIB}); "
    code += f"m = mmap.mmap(f.fileno(), 0)\nfor at in range(0, {HELD_MIB * MIB}, 4096): m[at] = 1\n"
    code += "print('ready', flush=True); time.sleep(600)"
    try:
        with running(sys.executable, "-c", code) as process:
            kill(host, layout, KillRequest(pid=process.pid))
        with pytest.raises(TimeoutExpired) as expired:
            wait_memory(host, layout, WaitRequest(timeout_s=60))
        assert (expired.value.code, expired.value.exit_status) == ("tmpfs-left", 4)
        assert f"{file} {HELD_MIB}.00 MiB" in expired.value.message
        assert "rm FILE" in expired.value.hint
    finally:
        file.unlink(missing_ok=True)
    assert wait_memory(host, layout, WaitRequest(timeout_s=60)).released


# A System V segment outlives the process that made it; it prints its id.
SEGMENT = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
size = int(sys.argv[1]) << 20
segment = libc.shmget(0, size, 0o1600)
address = libc.shmat(segment, None, 0)
for at in range(0, size, 4096):
    ctypes.memset(address + at, 1, 1)
print("ready", flush=True)
print(segment, flush=True)
time.sleep(600)
"""


@pytest.mark.alone
@pytest.mark.usefixtures("_soon_calm")
def test_a_segment_that_outlives_its_process_ends_the_wait_by_its_id(host: LocalHost, layout: Layout) -> None:
    segment = ""
    try:
        with running(sys.executable, "-c", SEGMENT, str(HELD_MIB)) as process:
            assert process.stdout
            segment = process.stdout.readline().strip()
            kill(host, layout, KillRequest(pid=process.pid))
        with pytest.raises(TimeoutExpired) as expired:
            wait_memory(host, layout, WaitRequest(timeout_s=60))
        assert (expired.value.code, expired.value.exit_status) == ("tmpfs-left", 4)
        assert f"sysv:{segment} {HELD_MIB}.00 MiB" in expired.value.message
        assert "ipcrm -m ID" in expired.value.hint
    finally:
        if segment:
            ctypes.CDLL(None).shmctl(int(segment), 0, None)  # IPC_RMID
    assert wait_memory(host, layout, WaitRequest(timeout_s=60)).released


@pytest.mark.alone
@pytest.mark.usefixtures("_soon_calm")
def test_another_tenant_that_took_the_memory_is_named(host: LocalHost, layout: Layout) -> None:
    with holding(HELD_MIB) as process:
        kill(host, layout, KillRequest(pid=process.pid))
    with holding(HELD_MIB) as tenant:
        with pytest.raises(TimeoutExpired) as expired:
            wait_memory(host, layout, WaitRequest(timeout_s=60))
        assert expired.value.code == "other-tenant"
        assert f"pid {tenant.pid} (python" in expired.value.message
        assert "cuzkops kill --pid" in expired.value.hint


def test_a_reboot_in_between_is_released_with_a_warning(host: LocalHost, layout: Layout) -> None:
    record = killed(host, layout, 10)
    write_record(host, layout.kill_json, record.model_copy(update={"boot_id": "before"}))
    verdict = wait_memory(host, layout, WaitRequest())
    assert (verdict.released, verdict.code) == (True, "rebooted")


def test_a_kill_json_that_is_no_record_is_unreadable(host: LocalHost, layout: Layout) -> None:
    Path(layout.run).mkdir(parents=True)
    Path(layout.kill_json).write_text('{"schema": 9}')
    with pytest.raises(UnreadableError, match=r"kill\.json"):
        wait_memory(host, layout, WaitRequest())


def test_the_control_group_counts(host: LocalHost, layout: Layout, tmp_path: Path) -> None:
    group = {"memory.max": f"{900 * MIB}\n", "memory.current": f"{800 * MIB}\n", "memory.stat": "inactive_file 0\n"}
    files = {f"sys/fs/cgroup/box/{name}": text for name, text in group.items()} | {"proc/self/cgroup": "0::/box\n"}
    kernel = steady_kernel(tmp_path / "k", files)
    with pytest.raises(TimeoutExpired) as expired:
        wait_memory(host, layout, WaitRequest(need_bytes=200 * MIB, check=True), kernel=kernel)
    assert "100.00 MiB available are 100.00 MiB short" in expired.value.message


def test_a_clock_that_stands_still_ends_at_the_clients_deadline(
    host: LocalHost, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_step, "_CLIENT_SPARE_S", 1)
    kernel = recorded_kernel(tmp_path / "k", files={})
    with pytest.raises(TimeoutExpired) as expired:
        wait_memory(host, layout, WaitRequest(need_bytes=1 << 50, timeout_s=1), kernel=kernel)
    assert expired.value.code == "short"


def test_a_check_does_not_speak_of_what_it_does_not_wait_for(
    host: LocalHost, layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_step, "_CHECK_CALM_S", 0.5)
    with pytest.raises(TimeoutExpired) as expired:
        wait_memory(host, layout, WaitRequest(need_bytes=MIB, check=True), kernel=steady_kernel(tmp_path / "k"))
    assert expired.value.code == "settling"
    assert "enough is available now, but it was not so for long enough" in expired.value.message


def test_a_script_that_ends_is_an_error(host: LocalHost, layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_step, "_SAMPLES", "exit 0\n")
    with pytest.raises(OpsError) as ended:
        wait_memory(host, layout, WaitRequest(need_bytes=1))
    assert ended.value.code == "samples-ended"


@pytest.fixture
def applets(tmp_path: Path) -> Path:
    """A folder with busybox under the name of each of its tools, and nothing else."""
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("busybox is not installed")
    folder = tmp_path / "applets"
    folder.mkdir()
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        (folder / name).symlink_to(busybox)
    return folder


@pytest.mark.peers
@pytest.mark.alone
def test_samples_from_a_host_that_has_only_busybox(host: LocalHost, layout: Layout, applets: Path) -> None:
    with holding(20) as process:
        record = take_baseline(host, layout.name, [process.pid])
        script = samples_script(record)
        assert "date" not in script.text
        with pytest.raises(subprocess.TimeoutExpired) as endless:
            subprocess.run(
                [str(applets / "sh"), "-s"],
                input=script.text.encode(),
                capture_output=True,
                timeout=3,
                check=False,
                env={"PATH": str(applets)},
            )
    blocks = (endless.value.stdout or b"").decode().split("end-of-sample\n")
    assert len(blocks) >= 3
    first, second = (parse_sample(block, record) for block in blocks[:2])
    assert [live.pid for live in first.live] == [process.pid]
    assert first.leftovers is not None
    assert second.leftovers is None, "the long look is taken only now and then"
    assert 0.2 <= second.memory.uptime_s - first.memory.uptime_s <= 1.5


def test_threads_of_a_vanished_process_are_empty() -> None:
    assert parse_threads("process 12\nprocess 13\n") == {}
