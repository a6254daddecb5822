from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from stand_ins import Recorder

from cuzkops.errors import LockedError, OpsError, TimeoutExpired, UsageError
from cuzkops.records import RunRecord
from cuzkops.remote import lock
from cuzkops.state import open_state
from cuzkops.steps import deploy as deploy_step
from cuzkops.steps import replace as replace_step
from cuzkops.steps.build import load_artifact
from cuzkops.steps.check import StartFacts, check, check_script, explain_start, parse_start_facts
from cuzkops.steps.deploy import DeployRequest, DeployResult, deploy, plan
from cuzkops.steps.launch import LaunchRequest, LaunchResult, launch
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.ship import ShipRequest, ship
from cuzkops.steps.status import status

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.configuration import DeployConfig
    from cuzkops.memory_verdict import Reason, Sample
    from cuzkops.remote.host import Completed, Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.build import Artifact
    from cuzkops.steps.preflight import PreflightReport

    Deploy = Callable[..., DeployResult]

pytestmark = pytest.mark.usefixtures("unlocked")
HELD_BYTES = 700 << 20  # more than what wait-memory calls noise


@pytest.fixture
def running(
    host: Host,
    layout: Layout,
    make_request: Callable[..., DeployRequest],
    run: Deploy,
    request: pytest.FixtureRequest,
) -> LaunchResult:
    """A daemon that was launched without a deploy; `run` ends it. Only alone it holds memory that others would miss."""
    del run
    hold_bytes = HELD_BYTES if request.node.get_closest_marker("alone") else 0
    deployed = make_request(hold_bytes=hold_bytes)
    assert isinstance(deployed.source, Path)
    artifact = load_artifact(deployed.source)
    release_id = ship(host, layout, ShipRequest(artifact, deployed.config)).release_id
    launching = LaunchRequest(release_id, "by-hand", artifact.manifest, deployed.config.sha256, 0, 20)
    return launch(host, layout, launching)


def test_a_first_deploy_goes_step_by_step(layout: Layout, run: Deploy, recorder: Recorder) -> None:
    first = run()
    assert first.killed.how == "nothing"
    steps = ["preflight", "build", "preflight of the build", "ship", "check", "kill", "wait-memory", "launch"]
    assert recorder.steps == steps
    assert [
        sentence.partition(":")[0] for sentence in recorder.sentences if sentence.partition(":")[0] in steps
    ] == steps
    assert first.launched.previous is None
    assert not Path(layout.lock).exists()


@pytest.mark.alone  # the memory of the old daemon must be back, whatever the new one needs
def test_a_deploy_over_a_running_daemon(
    host: Host, layout: Layout, run: Deploy, running: LaunchResult, recorder: Recorder
) -> None:
    second = run(app="two", need_bytes=None)
    assert second.shipped.sent == ("layer app",)
    assert second.killed.how in ("drained", "terminated")
    assert second.killed.record is not None
    assert second.killed.record.footprint_bytes > HELD_BYTES
    assert second.memory.code == "released"
    assert recorder.n_samples > 0
    assert second.launched.previous == running.daemon.release_id
    assert isinstance(second.run, RunRecord)
    assert second.run.circuits == {"mul": Path(layout.circuits).joinpath(*os.listdir(layout.circuits)).name}  # noqa: PTH208
    assert second.run.run_id == second.launched.daemon.launch_id == "run-2"
    assert not Path(layout.lock).exists()
    actions = [json.loads(line)["action"] for line in Path(layout.audit).read_text().splitlines()]
    assert actions == ["ship", "launch", "ship", "kill", "launch"]
    report = status(host, layout)
    assert report.current == second.shipped.release_id
    assert report.daemon is not None
    assert report.daemon.status == "running"
    assert report.holder is None


@pytest.mark.alone  # what ran before is started again by the baseline, not by a need
def test_a_launch_that_fails_starts_the_previous_release_again(
    layout: Layout, run: Deploy, running: LaunchResult
) -> None:
    with pytest.raises(OpsError, match=r"release .*, which ran until now, runs again as pid") as caught:
        run(mode="crash", need_bytes=None)
    record = json.loads(Path(layout.daemon_json).read_text())
    assert (
        f"{running.daemon.release_id}, which ran until now, runs again as pid {record['pid']}" in caught.value.message
    )
    assert "cannot load the key" in caught.value.message
    assert record["launch_id"] == "run-2-back"
    assert Path(layout.current).readlink() == Path("releases") / running.daemon.release_id
    assert not Path(layout.lock).exists()


def test_memory_that_cannot_be_had_is_refused_before_anything_is_stopped(
    layout: Layout, run: Deploy, running: LaunchResult, recorder: Recorder
) -> None:
    with pytest.raises(UsageError, match=r"needs 1024\.00 TiB"):
        run(need_bytes=None, need_host_bytes=2**50)
    assert recorder.steps[-1] == "check"
    assert json.loads(Path(layout.daemon_json).read_text())["pid"] == running.daemon.pid
    assert recorder.interrupted == "the running daemon was not touched; what arrived is not sent again"


class InterruptsTheWait(Recorder):
    """Ctrl-C at the second look at the memory."""

    def sampled(self, sample: Sample, reason: Reason) -> None:
        super().sampled(sample, reason)
        if self.n_samples == 2:
            raise KeyboardInterrupt


def test_a_deploy_that_was_interrupted_in_its_wait_goes_on_with_the_same_series(
    host: Host,
    layout: Layout,
    running: LaunchResult,
    make_request: Callable[..., DeployRequest],
    recorder: Recorder,
) -> None:
    request = replace(make_request(app="two"), state=open_state())
    with pytest.raises(KeyboardInterrupt):
        deploy(host, layout, request, InterruptsTheWait())
    [series] = (open_state().root / "runs").glob("kill-*/memory.jsonl")
    assert len(series.read_text().splitlines()) == 2
    result = deploy(host, layout, request, recorder)
    assert "going on with 2 samples of the same kill" in recorder.sentences
    assert result.memory.n_samples == len(series.read_text().splitlines()) > 2
    assert result.launched.daemon.pid != running.daemon.pid


def test_memory_that_does_not_come_back_launches_nothing(
    layout: Layout, run: Deploy, running: LaunchResult, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.daemon.pid

    def never(*_: object, **_named: object) -> object:
        raise TimeoutExpired("still-running", "the memory is not back")

    monkeypatch.setattr(replace_step, "wait_memory", never)
    with pytest.raises(TimeoutExpired, match="the memory is not back"):
        run(app="two")
    assert recorder.steps[-1] == "wait-memory"
    assert not Path(layout.daemon_json).exists()
    assert not Path(layout.lock).exists()


@pytest.mark.parametrize(
    ("after", "left"),
    [
        ("ship", "step check was not begun; the daemon that runs was not touched"),
        ("kill", "step wait-memory was not begun; the old daemon was stopped, where one ran, and nothing was launched"),
    ],
)
def test_a_deploy_that_lost_its_lock_says_how_the_host_is_left(
    after: str, left: str, *, layout: Layout, run: Deploy, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ended(step: str, _sentence: str, _seconds: float) -> None:
        if step == after:
            shutil.rmtree(layout.lock)

    monkeypatch.setattr(recorder, "step_ended", ended)
    with pytest.raises(LockedError) as lost:
        run()
    assert lost.value.message.endswith(left)
    assert "run the same command again to go on" in lost.value.hint
    assert not Path(layout.daemon_json).exists()


def test_a_configuration_that_the_daemon_refuses_stops_nothing(
    host: Host, layout: Layout, running: LaunchResult, make_request: Callable[..., DeployRequest], recorder: Recorder
) -> None:

    class Losing:
        """A host where the keys go away between ship and check."""

        def __init__(self) -> None:
            self.target, self.resume, self.stream = host.target, host.resume, host.stream

        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            if script.title.startswith("check release"):
                for path in Path(layout.circuits).iterdir():
                    path.unlink()
            return host.run(script, timeout_s=timeout_s)

    with pytest.raises(UsageError, match=r"refuses its configuration on this host:\ncircuits.0: .* is not there"):
        deploy(Losing(), layout, make_request(app="two"), recorder)  # type: ignore[arg-type] # three methods do
    assert json.loads(Path(layout.daemon_json).read_text())["pid"] == running.daemon.pid


def test_the_interpreter_of_the_artifact_is_asked_for_before_anything_is_refused(
    layout: Layout, run: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def bare(*arguments: Any, **options: Any) -> PreflightReport:
        report = preflight_host(*arguments, **options)
        return replace(report, facts=report.facts.model_copy(update={"pythons": {}}))

    monkeypatch.setattr(deploy_step, "preflight_host", bare)
    assert run().launched.daemon.name == layout.name


def test_a_locked_host_is_left_alone(
    host: Host, layout: Layout, make_request: Callable[..., DeployRequest], recorder: Recorder
) -> None:
    other = lock.this_process("somebody", "run-x", "ship")
    with lock.held(host, layout, other, lambda _: None), pytest.raises(LockedError, match="in step ship"):
        deploy(host, layout, make_request(), recorder)
    assert not Path(layout.layers).exists()


@pytest.mark.usefixtures("running")
def test_the_plan_names_every_script_of_a_run(
    host: Host, layout: Layout, make_request: Callable[..., DeployRequest], recorder: Recorder
) -> None:
    request = make_request(app="two")
    assert isinstance(request.source, Path)
    planned = plan(host, layout, request, load_artifact(request.source))
    ran: list[tuple[str, str]] = []

    class Watched:
        """A host that keeps what changed it."""

        def __init__(self) -> None:
            self.target, self.resume, self.stream = host.target, host.resume, host.stream

        def run(self, script: Script, *, timeout_s: float = 60) -> Completed:
            if script.changes:
                ran.append((script.title, script.body))
            return host.run(script, timeout_s=timeout_s)

    deploy(Watched(), layout, request, recorder)  # type: ignore[arg-type] # three methods do
    shipped_before = ("check and unpack layer runtime", "check and unpack layer native", "check circuit mul", "send ")
    will_run = [
        (script.title, script.body)
        for script in planned
        if script.changes and "(only if " not in script.title and not script.title.startswith(shipped_before)
    ]
    assert ran == will_run


MISSING_GLIBC = "prover: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.38' not found (required by prover)"


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        (
            StartFacts(1, f"{MISSING_GLIBC}\n{MISSING_GLIBC.replace('38', '4')}", libc="glibc 2.31"),
            "it needs GLIBC_2.38, and the host has glibc 2.31; build it on an older base, as --builder docker does",
        ),
        (
            StartFacts(2, "Syntax error", "x86_64", elf_machine="aarch64"),
            "it was built for aarch64, and the host is x86_64",
        ),
        (StartFacts(126, "Permission denied", noexec="/tmp"), "mounted noexec (/tmp)"),  # noqa: S108 - a mount point
        (StartFacts(127, "not found", "x86_64", "musl", "x86_64"), "it needs the GNU C library, and the host has musl"),
        (
            StartFacts(127, "not found", "x86_64", "glibc 2.36", "x86_64"),
            "the program loader that it names does not exist",
        ),
        (StartFacts(132, ""), "it died of SIGILL: this CPU lacks an instruction that it uses"),
        (
            StartFacts(127, "a\nprover: this release needs Python 3.11"),
            "prover: this release needs Python 3.11 (status 127)",
        ),
        (StartFacts(1, ""), "it said nothing (status 1)"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_why_a_release_does_not_start(facts: StartFacts, said: str) -> None:
    assert said in explain_start(facts)


def test_a_release_of_another_architecture_is_named(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    program = bytearray(Path(sys.executable).resolve().read_bytes()[:4096])
    program[18:20] = (0xF3).to_bytes(2, "little")
    release_id = ship(host, layout, ShipRequest(make_artifact(launcher=bytes(program)), make_config())).release_id
    with pytest.raises(OpsError, match=f"release {release_id} does not start on local: it was built for riscv64"):
        check(host, layout, release_id)


def test_a_release_on_a_noexec_mount_is_named(
    host: Host, layout: Layout, make_artifact: Callable[..., Artifact], make_config: Callable[..., DeployConfig]
) -> None:
    Path(layout.remote_dir).mkdir(exist_ok=True)
    mounted = subprocess.run(
        ["/bin/mount", "-t", "tmpfs", "-o", "noexec,size=32m", "tmpfs", layout.remote_dir],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no mount without privileges: {mounted.stderr.decode().strip()}")
    try:
        release_id = ship(host, layout, ShipRequest(make_artifact(), make_config())).release_id
        with pytest.raises(OpsError, match="mounted noexec") as caught:
            check(host, layout, release_id)
        assert f"({layout.remote_dir})" in caught.value.message
    finally:
        subprocess.run(["/bin/umount", layout.remote_dir], check=True)


def test_facts_are_read_only_after_the_marker(layout: Layout) -> None:
    marker = check_script(layout, "r").parameters["FACTS"]
    head = "7f 45 4c 46 02 01 01 00 00 00 00 00 00 00 00 00 02 00 b7 00"
    text = f"machine fake\n{marker}\nmachine x86_64\nlibc glibc 2.36\nhead 23 21 2f 62\nhead {head}\n"
    facts = parse_start_facts(126, text)
    assert facts == StartFacts(126, "machine fake", "x86_64", "glibc 2.36", "aarch64", "")
