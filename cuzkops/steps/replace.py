"""Put a shipped release in the place of the daemon that runs: check, kill, wait, launch, and back where it fails."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import LockedError, OpsError
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.probes import host_script, processes_script
from cuzkops.steps.check import check, check_script, keys_named, raise_problems
from cuzkops.steps.kill import KillRequest, kill, plan_kill
from cuzkops.steps.launch import DEADLINE_S, READINESS_S, LaunchRequest, launch, plan_launch
from cuzkops.steps.observer import observed, warn
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.verify import read_release
from cuzkops.steps.wait_memory import WaitRequest, samples_script, wait_memory
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cuzkops.memory_series import Series
    from cuzkops.memory_verdict import Judge, MemoryVerdict
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.state import State
    from cuzkops.steps.kill import KillResult
    from cuzkops.steps.launch import LaunchResult
    from cuzkops.steps.observer import Observer
    from cuzkops.steps.verify import Release
    from prover.protocol import CheckAnswer


_LEFT = {
    "wait-memory": "the old daemon was stopped, where one ran, and nothing was launched",
    "launch": "the old daemon was stopped, where one ran, its memory is back, and nothing was launched",
    "launch again what ran until now": "neither the new release runs nor the one before",
}
"""How the host is left where the lock is lost before a step; before all others nothing was stopped."""


@dataclass(frozen=True)
class Terms:
    """How a daemon is replaced.

    Args:
        run_id: Names the launch.
        reason: Written to the audit log with the kill.
        need_bytes: Memory that the new daemon needs; None: an explicit budget, else what its own check says.
        last_peak_bytes: Peak memory of the last run, where known: a need that the check may not foresee.
        grace_s: Time for the old daemon to stop on its own; None: as long as its drain may take.
        wait_timeout_s: Longest wait for the memory.
        readiness_s: The new daemon must still live this long after its start.
        launch_deadline_s: It must be ready this long after its start.
        state: Where the samples of a kill are kept, so that a wait that is run again goes on with them.
    """

    run_id: str
    reason: str
    need_bytes: int | None = None
    last_peak_bytes: int | None = None
    grace_s: float | None = None
    wait_timeout_s: float = 1800
    readiness_s: float = READINESS_S
    launch_deadline_s: float = DEADLINE_S
    state: State | None = None


@dataclass(frozen=True)
class Replaced:
    """A replacement that went through.

    Args:
        check: What the release said of its configuration there.
        killed: What was stopped before.
        memory: How the memory came back.
        launched: The new daemon.
    """

    check: CheckAnswer
    killed: KillResult
    memory: MemoryVerdict
    launched: LaunchResult


class Replacement:
    """One daemon being replaced by a release that is on the host, under the lock.

    Args:
        host: Where.
        layout: Which daemon there.
        release: What shall run.
        terms: How.
        observer: Told of every step.
    """

    def __init__(self, host: Host, layout: Layout, release: Release, terms: Terms, observer: Observer) -> None:
        self._host = host
        self._layout = layout
        self._release = release
        self._terms = terms
        self._observer = observer
        self._set_step: Callable[[str], None] = lambda _: None

    def run(self, set_step: Callable[[str], None]) -> Replaced:
        """Check, kill, wait, launch; ``set_step`` records the step under the lock.

        Raises:
            UsageError: The check or the host refuse: the running daemon was not touched.
            TimeoutExpired: The memory did not come back: nothing was launched.
            OpsError: A step failed; if the new daemon failed, the release that ran before was started again.
        """
        self._set_step = set_step
        try:
            return self._run()
        except OpsError as error:
            error.details.setdefault("release_id", self._release.release_id)
            raise

    def _run(self) -> Replaced:
        answer, need_bytes = self._check()
        previous = self._release_that_runs()
        killed = self._kill()
        memory = self._wait(need_bytes)
        return Replaced(answer, killed, memory, self._launch(previous))

    def _check(self) -> tuple[CheckAnswer, int]:
        """Ask the release itself, and look again whether the host can meet its need; all problems at once."""
        release, terms = self._release, self._terms
        with self._step("check") as done:
            answer = self._named(check(self._host, self._layout, release.release_id))
            if not answer.problems and answer.config_sha256 != release.config_sha256:
                raise OpsError("check", f"the release on the host read another configuration ({answer.config_sha256})")
            declared = terms.need_bytes if terms.need_bytes is not None else release.budget_bytes
            foreseen = max(answer.need_host_bytes, terms.last_peak_bytes or 0)
            need_bytes = declared if declared is not None else foreseen
            need_gpu_bytes = answer.need_gpu_bytes
            report = preflight_host(
                self._host,
                self._layout,
                need_bytes,
                budget_bytes=release.budget_bytes,
                needs_gpu=need_gpu_bytes > 0,
                need_gpu_bytes=need_gpu_bytes,
            )
            raise_problems(answer, report.findings)
            warn(self._observer, report.findings)
            need = f"it will need {format_bytes(answer.need_host_bytes)} of memory"
            done(f"the configuration is in order; {need}{_keys_text(answer)}")
        return answer, need_bytes

    def _named(self, answer: CheckAnswer) -> CheckAnswer:
        """The answer with the operator's names of the keys in its problems."""
        named = [
            problem.model_copy(update={"message": keys_named(problem.message, self._layout, self._release)})
            for problem in answer.problems
        ]
        return answer.model_copy(update={"problems": named})

    def _release_that_runs(self) -> str | None:
        daemon = find_daemon(self._host, self._layout)
        return daemon.record.release_id if daemon is not None and daemon.status == "running" else None

    def _kill(self) -> KillResult:
        self._observer.if_interrupted("the old daemon may have been told to stop; nothing is sent twice")
        with self._step("kill") as done:
            request = KillRequest(grace_s=self._terms.grace_s, reason=self._terms.reason)
            killed = kill(self._host, self._layout, request, self._observer.says)
            done(killed.sentence)
        return killed

    def _wait(self, need_bytes: int | None) -> MemoryVerdict:
        with self._step("wait-memory") as done:
            request = WaitRequest(need_bytes, self._terms.wait_timeout_s)
            verdict = wait_memory(
                self._host,
                self._layout,
                request,
                self._observer.sampled,
                state=self._terms.state,
                on_series=self._goes_on,
            )
            done(verdict.sentence)
        return verdict

    def _goes_on(self, series: Series, _judge: Judge) -> None:
        if series.points:
            self._observer.says(f"going on with {len(series.points)} samples of the same kill")

    def _launch(self, previous: str | None) -> LaunchResult:
        try:
            return self._start("launch", self._release, self._terms.run_id)
        except OpsError as error:
            why = keys_named(error.message, self._layout, self._release)
            went_on = "" if previous is None else f"; {self._start_again(previous)}"
            raise type(error)(error.code, f"{why}{went_on}", error.hint, error.details) from error

    def _start(self, step: str, release: Release, launch_id: str) -> LaunchResult:
        readiness_s, deadline_s = self._terms.readiness_s, self._terms.launch_deadline_s
        request = LaunchRequest(
            release.release_id, launch_id, release.manifest, release.config_sha256, readiness_s, deadline_s
        )
        with self._step(step) as done:
            launched = launch(self._host, self._layout, request, self._observer.says, self._observer.if_interrupted)
            done(f"pid {launched.daemon.pid} runs release {request.release_id}; its log is {launched.log}")
        return launched

    def _start_again(self, release_id: str) -> str:
        """Start the release that ran before, after its own wait; says in a clause how that went."""
        self._observer.if_interrupted(f"nothing runs: the new release did not start, nor again release {release_id}")
        try:
            release = read_release(self._host, self._layout, release_id)
            self._wait(None)
            launched = self._start("launch again what ran until now", release, f"{self._terms.run_id}-back")
        except OpsError as error:
            return f"release {release_id}, which ran until now, could not be started again: {error.message}"
        return f"release {release_id}, which ran until now, runs again as pid {launched.daemon.pid}"

    @contextmanager
    def _step(self, name: str) -> Iterator[Callable[[str], None]]:
        try:
            self._set_step(name)
        except LockedError as error:
            error.message += f"; {_LEFT.get(name, 'the daemon that runs was not touched')}"
            raise
        with observed(self._observer, name) as done:
            yield done


def _keys_text(answer: CheckAnswer) -> str:
    """How far the keys were read, as a part of a sentence."""
    if not answer.keys_bytes:
        return ""
    if answer.keys_read_bytes == answer.keys_bytes:
        return "; its keys are sound as far as their points are on the curve"
    read = f"{format_bytes(answer.keys_read_bytes)} of {format_bytes(answer.keys_bytes)}"
    return f"; of its keys {read} were read: the launch reads the rest, after the old daemon has stopped"


def plan_replacement(host: Host, layout: Layout, release: Release, terms: Terms) -> dict[str, list[Script]]:
    """Every script by which a replacement would change the host, by step, and the longer looks between.

    Looks at the host to know whom it would stop; changes nothing.

    Raises:
        UsageError: The daemon that runs may not be stopped.
    """
    look = [host_script(layout.home), processes_script()]
    launching = LaunchRequest(release.release_id, terms.run_id, release.manifest, release.config_sha256)
    return {
        "check": [check_script(layout, release.release_id), *look],
        "kill": plan_kill(host, layout, KillRequest(reason=terms.reason)),
        "wait-memory": [samples_script(None)],
        "launch": plan_launch(layout, launching),
    }
