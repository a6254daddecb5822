from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cuzkops.commands.status import status_text
from cuzkops.errors import OpsError, TimeoutExpired
from cuzkops.records import ProcessId
from cuzkops.remote.launching import abort_script, start_script
from cuzkops.remote.procfs import parse_stats
from cuzkops.remote.starting import Starting
from cuzkops.steps.launch import LaunchRequest, LaunchResult, launch
from cuzkops.steps.ship import ShipRequest, ship
from cuzkops.steps.status import status
from cuzkops.steps.verify import Release, read_release
from prover.protocol import DaemonState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.configuration import DeployConfig
    from cuzkops.remote.host import Completed, Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact

    Launch = Callable[..., LaunchResult]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def end(pid: int) -> None:
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pid)


@pytest.fixture
def start(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> Iterator[Launch]:
    """Ship and launch; whatever was launched is ended afterwards."""
    artifact = make_artifact()
    n_launches = 0

    def start(
        via: Host = host,
        deadline_s: float = 20,
        readiness_s: float = 0.3,
        if_interrupted: Callable[[str], None] = lambda _: None,
        **small: object,
    ) -> LaunchResult:
        nonlocal n_launches
        n_launches += 1
        config = make_config(**small)
        shipped = ship(host, layout, ShipRequest(artifact, config))
        request = LaunchRequest(
            shipped.release_id, f"launch-{n_launches}", artifact.manifest, config.sha256, readiness_s, deadline_s
        )
        return launch(via, layout, request, if_interrupted=if_interrupted)

    yield start
    record = Path(layout.daemon_json)
    if record.exists() and alive(pid := json.loads(record.read_text())["pid"]):
        end(pid)


def current(layout: Layout) -> str | None:
    link = Path(layout.current)
    return str(link.readlink()) if link.is_symlink() else None


def test_a_daemon_is_launched_verified_and_outlives_the_client(layout: Layout, host: Host, start: Launch) -> None:
    result = start()
    assert result.daemon.state is DaemonState.READY
    assert result.previous is None
    assert current(layout) == f"releases/{result.daemon.release_id}"
    host.close()
    assert alive(result.daemon.pid)
    assert result.daemon.session_id == result.daemon.pid  # a session of its own
    assert Path(result.log).read_text().startswith("HEADER run=launch-1 ")
    assert Path(f"/proc/{result.daemon.pid}/cwd").readlink() == Path(layout.home)
    assert [Path(path).stat().st_mode & 0o777 for path in (result.out, result.err)] == [0o600, 0o600]
    audit = [json.loads(line) for line in Path(layout.audit).read_text().splitlines()]
    assert [line["action"] for line in audit] == ["ship", "launch"]


def test_what_dead_clients_left_is_removed_at_a_launch(layout: Layout, start: Launch) -> None:
    Path(layout.run).mkdir(parents=True)
    for name in ("witness-0123.wtns", "older.pid"):
        (Path(layout.run) / name).write_text("secret")
    start()
    assert sorted(path.name for path in Path(layout.run).iterdir()) == ["daemon.json", "daemon.lock", "started"]


def test_a_folder_in_the_place_of_current_is_refused(layout: Layout, start: Launch) -> None:
    Path(layout.current, "mine").mkdir(parents=True)
    with pytest.raises(OpsError, match=f"{layout.current} is not the link that it should be"):
        start()
    assert [path.name for path in Path(layout.current).iterdir()] == ["mine"]
    assert not Path(layout.daemon_json).exists()


def test_an_audit_log_that_cannot_be_written_stops_no_daemon(layout: Layout, start: Launch) -> None:
    start()
    end(json.loads(Path(layout.daemon_json).read_text())["pid"])
    Path(layout.audit).unlink()
    Path(layout.audit).mkdir()
    assert start().daemon.state is DaemonState.READY


def test_nothing_is_inherited_and_no_signal_is_ignored(start: Launch) -> None:
    pid = start().daemon.pid
    files = {int(path.name): str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert files.pop(0) == "/dev/null"
    assert [files.pop(1).rpartition(".")[2], files.pop(2).rpartition(".")[2]] == ["out", "err"]
    assert all(name.endswith("daemon.lock") for name in files.values())
    status = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    ignored = int(status["SigIgn"], 16)
    assert not ignored & (1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1) | 1 << (signal.SIGQUIT - 1))
    assert status["Umask"].strip() == "0077"


def test_a_second_daemon_is_refused_and_the_first_is_named(start: Launch) -> None:
    first = start()
    with pytest.raises(
        OpsError, match=f"runs already: pid {first.daemon.pid}, release {first.daemon.release_id}, ready"
    ):
        start()
    assert alive(first.daemon.pid)


def test_a_record_of_a_dead_process_is_in_nobodys_way(layout: Layout, start: Launch) -> None:
    first = start()
    text = Path(layout.daemon_json).read_text()
    end(first.daemon.pid)
    Path(layout.daemon_json).write_text(text)
    assert start().previous == first.daemon.release_id


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("crash", r"the new daemon \(pid \d+\) ended within .* s: cannot load the key: it is not there"),
        ("exit", "this daemon never wanted to live"),
        ("wrong-config", f"what runs is not what was shipped: config_sha256 is {'0' * 64}, not "),
    ],
)
def test_a_launch_that_fails_says_why_and_puts_current_back(
    layout: Layout, start: Launch, mode: str, said: str
) -> None:
    first = start()
    end(first.daemon.pid)
    with pytest.raises(OpsError, match=said) as caught:
        start(mode=mode)
    assert current(layout) == f"releases/{first.daemon.release_id}"
    assert not Path(layout.daemon_json).exists() or not alive(json.loads(Path(layout.daemon_json).read_text())["pid"])
    lines = caught.value.details["last_lines"]
    assert isinstance(lines, list)
    assert "launch-2.log:" in lines
    assert str(caught.value) == caught.value.message


def test_a_first_launch_that_fails_leaves_no_current(layout: Layout, start: Launch) -> None:
    with pytest.raises(OpsError, match="it was stopped"):
        start(mode="wrong-config")
    assert current(layout) is None


def test_a_daemon_that_is_never_ready_is_stopped_at_the_deadline(layout: Layout, start: Launch) -> None:
    with pytest.raises(TimeoutExpired, match=r"was not ready within 1 s, it is starting.*\(it was stopped\)"):
        start(mode="never-ready", deadline_s=1)
    assert not Path(layout.daemon_json).exists()


def test_an_interrupted_launch_names_what_goes_on(host: Host, layout: Layout, start: Launch) -> None:
    class Interrupting:
        target = host.target

        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            if script.title == "look at the daemon" and current(layout):
                raise KeyboardInterrupt
            return host.run(script, timeout_s=timeout_s)

    told: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        start(via=Interrupting(), if_interrupted=told.append)
    deadline = time.monotonic() + 10
    while not Path(layout.daemon_json).exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    pid = json.loads(Path(layout.daemon_json).read_text())["pid"]
    assert alive(pid)
    how = "`cuzkops status` shows it, `cuzkops kill` stops it"
    assert told == [
        f"the new daemon may have been started on local: {how}",
        f"pid {pid} of launch launch-1 goes on starting on local: {how}",
    ]


def test_after_a_launch_an_interruption_says_what_runs(start: Launch) -> None:
    told: list[str] = []
    result = start(if_interrupted=told.append)
    assert told[-1].startswith(f"pid {result.daemon.pid} runs release {result.daemon.release_id} on local: ")


def run_in(shell: list[str], script: Script, path: str) -> str:
    environment = {"PATH": path, "LC_ALL": "C"}
    done = subprocess.run(
        [*shell, "-s"], input=script.text.encode(), capture_output=True, check=False, env=environment, timeout=20
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout.decode()


@pytest.fixture
def release(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> str:
    return ship(host, layout, ShipRequest(make_artifact(), make_config())).release_id


@pytest.mark.parametrize("setsid", ["util-linux", "busybox", "none"])
@pytest.mark.parametrize("shell", [["/bin/dash"], ["/bin/bash", "--posix"], ["/bin/busybox", "sh"]], ids=lambda s: s[0])
def test_every_shell_starts_a_process_that_lives_on(
    layout: Layout, release: str, tmp_path: Path, shell: list[str], setsid: str
) -> None:
    if not Path(shell[0]).exists():
        pytest.skip(f"no {shell[0]} here")
    path = tools(tmp_path / "bin", setsid)
    out = run_in(shell, start_script(layout, release, "one"), path)
    (started,) = parse_stats(out)
    pid, ticks = started.pid, started.start_ticks
    assert f"\npid {pid}\n" in out
    assert alive(pid)
    assert current(layout) == f"releases/{release}"
    if setsid != "none":
        assert os.getsid(pid) == pid
    other, same = (ProcessId(pid=pid, start_ticks=start_ticks) for start_ticks in (ticks + 1, ticks))
    assert run_in(shell, abort_script(layout, "one", "releases/older", other), path).startswith("ended\n")
    assert alive(pid)  # another start time is another process
    assert run_in(shell, abort_script(layout, "one", "releases/older", same), path).startswith("stopped\n")
    assert not alive(pid)
    assert current(layout) == "releases/older"


def tools(folder: Path, setsid: str) -> str:
    """A PATH with what a host has, and one kind of setsid."""
    folder.mkdir()
    for name in ("mkdir", "mv", "rm", "ln", "readlink", "sleep", "tail", "cat", "true", "dirname", "python3"):
        found = next(Path(place) / name for place in ("/usr/bin", "/bin") if (Path(place) / name).exists())
        (folder / name).symlink_to(found)
    if setsid == "util-linux":
        (folder / "setsid").symlink_to("/usr/bin/setsid")
    elif setsid == "busybox":  # knows no -f
        (folder / "setsid").write_text('#!/bin/sh\ncase $1 in -*) exit 1 ;; esac\nexec /usr/bin/setsid "$@"\n')
        (folder / "setsid").chmod(0o755)
    return str(folder)


def test_the_release_on_the_host_says_what_it_is(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    artifact, config = make_artifact(), make_config()
    release_id = ship(host, layout, ShipRequest(artifact, config)).release_id
    circuits = {name: circuit.sha256 for name, circuit in config.circuits.items()}
    assert read_release(host, layout, release_id) == Release(release_id, artifact.manifest, config.sha256, circuits)
    with pytest.raises(OpsError, match="there is no release gone"):
        read_release(host, layout, "gone")


def test_a_host_with_an_older_glibc_is_told_which_builder_serves_it(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    says = b"echo \"prover: /lib/libc.so.6: version 'GLIBC_2.38' not found (required by prover)\" >&2"
    artifact, config = make_artifact(launcher=b"#!/bin/sh\n" + says + b"\nexit 1\n"), make_config()
    release_id = ship(host, layout, ShipRequest(artifact, config)).release_id
    request = LaunchRequest(release_id, "launch-1", artifact.manifest, config.sha256, 0, 10)
    with pytest.raises(OpsError, match=r"GLIBC_2\.38") as failed:
        launch(host, layout, request)
    assert failed.value.hint.startswith("build with --builder docker")


def test_status_shows_a_daemon_that_has_not_written_its_record_yet(host: Host, layout: Layout, start: Launch) -> None:
    daemon = start().daemon
    assert status(host, layout).starting is None  # its own record says more
    record, aside = Path(layout.daemon_json), Path(layout.run) / "aside"
    record.rename(aside)
    try:
        report = status(host, layout)
        assert report.starting == Starting(daemon.pid, daemon.release_id, daemon.start_ticks)
        said = status_text("prover", report)
        assert said.startswith(f"daemon prover: starting, release {daemon.release_id}, pid {daemon.pid}")
        Path(layout.kill_json).write_text("")
        newer_s = Path(layout.started).stat().st_mtime + 1
        os.utime(layout.kill_json, (newer_s, newer_s))
        assert status(host, layout).starting is None  # it ends
        Path(layout.kill_json).unlink()
        started = Path(layout.started)
        started.write_text(started.read_text().replace(f" {daemon.start_ticks} ", f" {daemon.start_ticks - 1} "))
        assert status(host, layout).starting is None  # another process has its number
    finally:
        aside.rename(record)


def test_status_says_what_the_control_group_may_have(host: Host, layout: Layout) -> None:
    report = status(host, layout)
    group = {"cgroup": "/box", "cgroup_limit_bytes": 1 << 30, "mem_available_bytes": 8 << 30, "total_bytes": 9 << 30}
    limited = report.memory.model_copy(update={**group, "per_cpu_free_bytes": 0, "available_bytes": 1 << 29})
    said = status_text("prover", replace(report, memory=limited))
    assert (
        "host memory: 512.00 MiB available of the 1.00 GiB that the control group /box may have; the host has 9.00 GiB"
    ) in said
    free = limited.model_copy(update={"available_bytes": 8 << 30})
    assert "8.00 GiB available of 9.00 GiB\n" in status_text("prover", replace(report, memory=free))
