"""Start a release detached and believe it only when the daemon itself, /proc and the record agree."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, TimeoutExpired
from cuzkops.records import ProcessId
from cuzkops.remote import audit
from cuzkops.remote.ctl import ctl, ctl_script
from cuzkops.remote.daemon import Observation, describe_process, find_daemon, observe, observe_script
from cuzkops.remote.launching import abort_script, start_script
from cuzkops.remote.orphans import find_orphans
from cuzkops.remote.procfs import parse_stats
from cuzkops.remote.starting import find_starting
from cuzkops.steps.verify import plan_verify, read_release, verify
from prover.protocol import DaemonState, ReadyAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.records import Manifest
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from prover.protocol import DaemonRecord

_POLL_S = 0.25
READINESS_S = 2.0
DEADLINE_S = 900.0


@dataclass(frozen=True)
class LaunchRequest:
    """What to start, and what the running daemon has to be.

    Args:
        release_id: A complete release on the host.
        launch_id: Names the logs; one a start.
        manifest: The release's manifest.
        config_sha256: Digest of its configuration.
        readiness_s: The daemon must still live this long after its start.
        deadline_s: It must be ready this long after its start: large keys load slowly.
    """

    release_id: str
    launch_id: str
    manifest: Manifest
    config_sha256: str
    readiness_s: float = READINESS_S
    deadline_s: float = DEADLINE_S


@dataclass(frozen=True)
class LaunchResult:
    """A daemon that runs and was verified.

    Args:
        daemon: Its own record.
        log: Its timing log on the host.
        out: Its standard output there.
        err: Its standard error there.
        seconds: Time until it was ready and verified.
        previous: Release that ``current`` pointed to before, or None.
    """

    daemon: DaemonRecord
    log: str
    out: str
    err: str
    seconds: float
    previous: str | None


@dataclass(frozen=True)
class _Started:
    """What the start script started. ``previous`` is the old target of the link ``current``."""

    pid: int
    start_ticks: int | None
    previous: str
    begin_s: float = field(default_factory=time.monotonic)


def launch(
    host: Host,
    layout: Layout,
    request: LaunchRequest,
    progress: Callable[[str], None] = lambda _: None,
    if_interrupted: Callable[[str], None] = lambda _: None,
) -> LaunchResult:
    """Start a release and verify that what runs is what was asked for.

    Args:
        host: The host, whose lock this client holds.
        layout: Where things lie there.
        request: What to start.
        progress: Called with a sentence whenever the state changes.
        if_interrupted: Told what an interruption from now on leaves behind.

    Raises:
        OpsError: A daemon runs already; the release is damaged; or the new daemon ended, or is not what was shipped:
            then it was stopped, and ``current`` points where it did, and ``details["last_lines"]`` holds the ends of
            its logs.
        TimeoutExpired: It was not ready within ``deadline_s``; it was stopped, too.
    """
    _refuse_second(host, layout)
    progress(f"verifies release {request.release_id}")
    verify(host, layout, read_release(host, layout, request.release_id))
    how = "`cuzkops status` shows it, `cuzkops kill` stops it"
    if_interrupted(f"the new daemon may have been started on {host.target}: {how}")
    done = host.run(start_script(layout, request.release_id, request.launch_id), timeout_s=60).check()
    started = _parse_started(done.out)
    if_interrupted(f"pid {started.pid} of launch {request.launch_id} goes on starting on {host.target}: {how}")
    progress(f"started as pid {started.pid}")
    try:
        daemon = _verified(host, layout, request, started, progress)
    except OpsError as error:
        raise _aborted(host, layout, request, started, error) from error
    if_interrupted(f"pid {started.pid} runs release {request.release_id} on {host.target}: {how}")
    details = {"release_id": request.release_id, "launch_id": request.launch_id, "pid": started.pid}
    try:
        audit.append(host, layout, "launch", details)
    except OpsError as error:  # the daemon runs all the same
        progress(f"the audit log was not written: {error.message}")
    logs = f"{layout.logs}/{request.launch_id}"
    return LaunchResult(
        daemon,
        log=f"{logs}.log",
        out=f"{logs}.out",
        err=f"{logs}.err",
        seconds=time.monotonic() - started.begin_s,
        previous=started.previous.rpartition("/")[2] or None,
    )


def plan_launch(layout: Layout, request: LaunchRequest) -> list[Script]:
    """The scripts that ``launch`` runs when all goes well."""
    return [
        plan_verify(layout, request.release_id, request.manifest, {}),
        start_script(layout, request.release_id, request.launch_id),
        observe_script(layout, release_id=request.release_id),
        ctl_script(layout, "ready", release_id=request.release_id),
        audit.append_script(layout, audit.entry(layout.name, "launch", {"release_id": request.release_id})),
    ]


def _refuse_second(host: Host, layout: Layout) -> None:
    """Refuse where something of this name lives: the daemon, one that a launch has just started, or what one left."""
    daemon = find_daemon(host, layout)
    if daemon is not None and daemon.is_live:
        record = daemon.record
        what, pid = f"pid {record.pid}, release {record.release_id}, {record.state}", record.pid
        raise _runs_already(f"a daemon named {layout.name} runs already: {what}", pid, record.release_id)
    if starting := find_starting(host, layout):
        who = f"pid {starting.pid}, release {starting.release_id}"
        message = f"the daemon {layout.name} that was launched last lives: {who}, and has no record yet, or no more"
        raise _runs_already(message, starting.pid, starting.release_id)
    if daemon is not None and (orphans := find_orphans(host, daemon.record)):
        what = f"{describe_process(orphans[0])} lives on in its session"
        message = f"the daemon {layout.name}, pid {daemon.record.pid}, has ended by itself, but {what}"
        raise _runs_already(message, orphans[0].pid, daemon.record.release_id)


def _runs_already(message: str, pid: int, release_id: str) -> OpsError:
    hint = "stop it with `cuzkops kill`, or deploy, which does that"
    return OpsError("runs-already", message, hint, {"pid": pid, "release_id": release_id})


def _parse_started(output: str) -> _Started:
    words = dict(line.partition(" ")[::2] for line in output.splitlines())
    stats = parse_stats(output)
    return _Started(int(words["pid"]), stats[0].start_ticks if stats else None, words.get("previous", ""))


def _verified(
    host: Host, layout: Layout, request: LaunchRequest, started: _Started, progress: Callable[[str], None]
) -> DaemonRecord:
    said = ""
    for seen in _watch(host, layout, request, started):
        record = seen.record if seen.record and seen.record.launch_id == request.launch_id else None
        state = record.state if record else DaemonState.STARTING
        if state != said:
            progress(f"pid {started.pid} is {state}")
            said = state
        if state is DaemonState.DRAINING:
            raise OpsError("launch-failed", "somebody stopped the new daemon while it was being verified")
        if record is None or state is not DaemonState.READY:
            continue
        if problems := mismatches(seen, request, started.pid):
            raise OpsError(
                "not-what-was-shipped",
                f"what runs is not what was shipped: {'; '.join(problems)}",
                details={"problems": problems},
            )
        if time.monotonic() - started.begin_s >= request.readiness_s and _says_ready(host, layout, request):
            return record
    raise TimeoutExpired("not-ready", f"the new daemon was not ready within {request.deadline_s:g} s, it is {said}")


def _watch(host: Host, layout: Layout, request: LaunchRequest, started: _Started) -> Iterator[Observation]:
    """Look at the new process until the deadline; it has to live all that time."""
    while (age_s := time.monotonic() - started.begin_s) < request.deadline_s:
        seen = observe(host, layout, pid=started.pid, release_id=request.release_id)
        process = seen.process
        if (
            started.start_ticks is None
            or process is None
            or process.start_ticks != started.start_ticks
            or not process.n_live_threads
        ):
            raise OpsError("launch-failed", f"the new daemon (pid {started.pid}) ended within {age_s:.1f} s")
        yield seen
        time.sleep(_POLL_S if age_s < 10 else 4 * _POLL_S)


def mismatches(seen: Observation, request: LaunchRequest, pid: int) -> list[str]:
    """Say in what a running daemon differs from what was shipped; empty where it is the same.

    Args:
        seen: The daemon's record and the process.
        request: What was to be started.
        pid: Process that was started.
    """
    record, process = seen.record, seen.process
    if record is None or process is None:
        return ["there is no such daemon"]
    expected: list[tuple[str, object, object]] = [
        ("pid", record.pid, pid),
        ("start_ticks", record.start_ticks, process.start_ticks),
        ("boot_id", record.boot_id, seen.boot_id),
        ("release_id", record.release_id, request.release_id),
        ("build_id", record.build_id, request.manifest.build_id),
        ("config_sha256", record.config_sha256, request.config_sha256),
    ]
    problems = [f"{name} is {found}, not {wanted}" for name, found, wanted in expected if found != wanted]
    if request.manifest.runtime == "host-python":
        if f"{seen.folder}/runtime/boot.py" not in process.cmdline:
            problems.append(f"its command line is {process.cmdline}, not the boot file of {seen.folder}")
    elif not process.exe.startswith(f"{seen.folder}/"):
        problems.append(f"its executable is {process.exe}, outside of {seen.folder}")
    return problems


def _says_ready(host: Host, layout: Layout, request: LaunchRequest) -> bool:
    return ctl(host, layout, ReadyAnswer, "ready", release_id=request.release_id).ready


def _aborted(host: Host, layout: Layout, request: LaunchRequest, started: _Started, error: OpsError) -> OpsError:
    """Stop the process, move ``current`` back, and tell the error again with the ends of the logs."""
    ticks = started.start_ticks
    process = None if ticks is None else ProcessId(pid=started.pid, start_ticks=ticks)
    logs = f"{layout.logs}/{request.launch_id}"
    try:
        script = abort_script(layout, request.launch_id, started.previous, process)
        fate, *tail = [line for line in host.run(script, timeout_s=90).check().out.splitlines() if line]
    except OpsError as second:
        fate, tail = f"whether pid {started.pid} was stopped is not known: {second.message}", []
    ending = {"ended": "", "stopped": " (it was stopped)", "alive": f" (it is still alive as pid {started.pid})"}
    why = _last_words(tail, request.launch_id)
    return type(error)(
        error.code,
        f"{error.message}{f': {why}' if why else ''}{ending.get(fate, f' ({fate})')}",
        error.hint or f"{_older_host(tail)}its logs are {logs}.{{log,out,err}} on {host.target}",
        {**error.details, "last_lines": tail, "logs": [f"{logs}.{kind}" for kind in ("log", "out", "err")]},
    )


def _older_host(tail: list[str]) -> str:
    """What to do, if the loader of the host said that its glibc is too old for what was built."""
    if any("GLIBC_" in line and "not found" in line for line in tail):
        return "build with --builder docker, which is for older hosts too; "
    return ""


def _last_words(tail: list[str], launch_id: str) -> str:
    """The daemon's own error in the ends of its logs, else their last line; the hint of an error is not the error."""
    errors = [line.removeprefix("error: ") for line in tail if line.startswith("error: ")]
    lines = [line for line in tail if not line.startswith(f"{launch_id}.")]
    return errors[-1] if errors else lines[-1] if lines else ""
