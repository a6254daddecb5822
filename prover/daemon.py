"""The daemon: builds the parts, joins them, and ends them in order. The only file that knows all of them."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import re
import resource
import signal
import stat
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import kernels
from kernels.interface import KernelError
from prover import __version__
from prover.api import create_app
from prover.check import auto_budget_bytes
from prover.checked_keys import CheckedKeys
from prover.circuits import Circuits
from prover.config import parse_listen
from prover.connections import Connections
from prover.crashes import CrashRecord
from prover.errors import InputError, ProverError
from prover.instance import Home, Instance, boot_id, exe_sha256, read_build_id, release_folder, start_ticks
from prover.jobs import JobStore
from prover.journal import Journal
from prover.memory.available import rss_and_peak_bytes
from prover.memory.budget import MemoryBudget
from prover.metrics import Metrics
from prover.pipeline import Engine
from prover.protocol import (
    LAUNCH_ID_PATTERN,
    DaemonRecord,
    DaemonState,
    DrainAnswer,
    JobAnswer,
    JobRequest,
    MemoryStatus,
    StatusAnswer,
)
from prover.server import HttpServer, bind_loopback
from prover.timing_log import TimingLog
from prover.witness_store import WitnessStore

if TYPE_CHECKING:
    import socket

    from kernels.interface import Backend
    from prover.check import Plan
    from prover.config import Config, Settings
    from prover.journal import StoredJob

logger = logging.getLogger(__name__)
_TICK_S = 0.1
_STOP_S = 10.0
_HURRY_S = 1.0


@dataclass(frozen=True)
class LaunchIds:
    """Who started us as what.

    Args:
        release_id: The release folder's name, or ``"source"``.
        launch_id: Names the timing log; one a start.

    Raises:
        InputError: An id is not a plain word: they become names of files and values of the log.
    """

    release_id: str
    launch_id: str

    def __post_init__(self) -> None:
        for option, value in (("--release-id", self.release_id), ("--launch-id", self.launch_id)):
            if not re.fullmatch(LAUNCH_ID_PATTERN, value):
                message = f"{option} is {value!r}, not 1 to 128 letters, digits, '.', '_' or '-'"
                raise InputError("usage", message, "give another one")


class Daemon:
    """One running daemon.

    Args:
        config: Its configuration.
        plan: What the check of the configuration found: circuits, budget.
        ids: Who started it as what.
        instance: The claimed home; the caller releases it.

    Raises:
        ProverError: A part cannot be had.
    """

    def __init__(self, config: Config, plan: Plan, ids: LaunchIds, instance: Instance) -> None:
        self._started_ns = time.monotonic_ns()
        self._config = config
        self._ids = ids
        self._lock = threading.Lock()
        self._state = DaemonState.STARTING
        self._drain_end_s: float | None = None
        settings = config.settings
        build_id = read_build_id(release_folder())
        home = instance.home
        self._instance = instance
        self._backend = _backend(settings)
        self._log = _open_log(config, ids, home)
        self._log.header(
            build_id=build_id,
            release_id=ids.release_id,
            config_sha256=config.sha256,
            backend=self._backend.name,
            threads=self._backend.threads,
            options=settings.effective(),
        )
        logger.info("configuration %s: %s", config.sha256, settings.effective().replace("/", ", "))
        self._budget = MemoryBudget(plan.budget_bytes, auto_budget_bytes if plan.is_auto else None)
        self._crashes = CrashRecord(home.state)
        self._journal = Journal(home.journal)
        if self._crashes.blamed:
            self._journal.count_crash(self._crashes.blamed)
        stored = self._journal.jobs()
        unfinished = [job.request for job in stored if not job.state.is_final]
        self.witnesses = WitnessStore(home.witnesses, plan.witness_limit_bytes, unfinished)
        self.jobs = self._take_up_jobs(stored)
        self._circuits = Circuits(
            plan.circuits,
            backend=self._backend,
            budget=self._budget,
            checked_keys=CheckedKeys(home.checked_keys),
            log=self._log,
            evict_idle_s=settings.memory.evict_idle_s,
        )
        connections = Connections(settings.daemon.connection_limit, settings.daemon.idle_timeout_s)
        self._metrics = Metrics(self.jobs, self._budget, self._log, connections, self._circuits)
        self._engine = Engine(
            self._circuits,
            budget=self._budget,
            jobs=self.jobs,
            witnesses=self.witnesses,
            log=self._log,
            metrics=self._metrics,
            n_workers=settings.gpus.workers,
            lookahead=settings.pipeline.lookahead,
            memory_wait_s=settings.memory.wait_s,
        )
        self._thread = threading.Thread(target=self._engine.run, name="engine", daemon=True)
        self._http = HttpServer(create_app(self), self._sockets(), connections)
        self._record = self._describe(build_id)

    def _take_up_jobs(self, stored: list[StoredJob]) -> JobStore:
        section = self._config.settings.daemon
        jobs = JobStore(
            self._log,
            self._journal,
            queue_limit=section.queue_limit,
            on_finished=lambda job: self.witnesses.let_go(job.request),
            on_work=self._crashes.at_work,
            kept_proofs=section.keep_proofs,
            kept_s=section.keep_results_s,
        )
        jobs.recover(stored)
        if left := jobs.unfinished():
            logger.info("%d jobs of an earlier process run again", len(left))
        return jobs

    def run(self, signals: set[signal.Signals]) -> int:
        """Serve until a drain is over; returns the exit status.

        Args:
            signals: Those that end the daemon; blocked in every thread, so that only this one takes them.

        Raises:
            ProverError: It could not start, or its engine ended by a failure.
        """
        try:
            self._publish(DaemonState.STARTING)
            self._http.start()
            self._thread.start()
            status = self._watch(signals)
        finally:
            self._end(_STOP_S)
        if self._thread.is_alive():  # it still loads a key, in native code that cannot be interrupted
            self._leave(status)
        self._journal.close()
        self._crashes.close()
        return status

    def submit(self, request: JobRequest) -> JobAnswer:
        """Accept a job."""
        return self.jobs.submit(request, self._engine.admit)

    def state(self) -> DaemonState:
        """Whether it is starting, ready or draining."""
        return self._state

    def drain(self) -> DrainAnswer:
        """Take no new jobs; once the others are done, ``run`` returns."""
        with self._lock:
            if self._drain_end_s is None:
                self.jobs.close()
                self._drain_end_s = time.monotonic() + self._config.settings.daemon.drain_timeout_s
                self._publish(DaemonState.DRAINING)
                self._log.event("DAEMON", "draining", jobs_left=len(self.jobs.unfinished()))
            time_left_s = max(0.0, self._drain_end_s - time.monotonic())
        return DrainAnswer(state=self._state, n_jobs_left=len(self.jobs.unfinished()), time_left_s=time_left_s)

    def status(self) -> StatusAnswer:
        """Everything about it."""
        rss, peak = rss_and_peak_bytes()
        return StatusAnswer(
            daemon=self._record,
            version=__version__,
            backend=self._backend.name,
            uptime_s=(time.monotonic_ns() - self._started_ns) / 1e9,
            jobs=self.jobs.counts(),
            circuits=self._circuits.status(),
            memory=MemoryStatus(
                budget_bytes=self._budget.total_bytes,
                reserved_bytes=self._budget.reserved_bytes,
                rss_bytes=rss,
                peak_rss_bytes=peak,
                held_bytes=self._budget.held_bytes(),
            ),
        )

    def verification_key(self, name: str) -> dict[str, Any]:
        """What proofs of a circuit are verified with."""
        return self._circuits.verification_key(name)

    def metrics_text(self) -> bytes:
        """Its numbers for Prometheus."""
        return self._metrics.text()

    def _watch(self, signals: set[signal.Signals]) -> int:
        n_signals = 0
        while True:
            taken = signal.sigtimedwait(signals, _TICK_S)
            if taken is not None:
                n_signals += 1
                name = signal.Signals(taken.si_signo).name
                if n_signals > 1:
                    self._abandon(f"second signal ({name}): ended at once", 128 + taken.si_signo)
                logger.info("%s: finishing %d jobs", name, self.drain().n_jobs_left)
            if self._engine.fatal is not None:
                raise self._engine.fatal
            if self._state is DaemonState.STARTING and self._engine.loaded.is_set():
                self._become_ready()
            if self._drain_end_s is not None:
                if not self.jobs.unfinished():
                    return 0
                if time.monotonic() > self._drain_end_s:
                    self._abandon("the drain timed out", 1)

    def _become_ready(self) -> None:
        with self._lock:
            if self._state is DaemonState.STARTING:
                self._publish(DaemonState.READY)
                start_us = (time.monotonic_ns() - self._started_ns) // 1000
                self._log.event("DAEMON", "ready", pid=os.getpid(), start_us=start_us)
                logger.info("ready: %s", self._instance.api)

    def _abandon(self, why: str, status: int) -> NoReturn:
        """End now, with a computation still on its way: it cannot be interrupted, so nothing is joined."""
        n_left = len(self.jobs.unfinished())
        logger.error("%s: %d jobs are left, and the next daemon here proves them", why, n_left)
        self._end(_HURRY_S)
        self._leave(status)

    def _leave(self, status: int) -> NoReturn:
        self._instance.release()
        logging.shutdown()
        os._exit(status)

    def _end(self, deadline_s: float) -> None:
        """Stop what was started, and leave nothing behind but the log."""
        self.jobs.stop()
        self._http.stop(deadline_s)
        if self._thread.is_alive():
            self._thread.join(deadline_s)
        self.witnesses.erase_unneeded()
        uptime_us = (time.monotonic_ns() - self._started_ns) // 1000
        with contextlib.suppress(OSError):  # no free descriptor to read /proc: there are clients left
            self._log.end("DAEMON", "stopped", uptime_us=uptime_us, peak_rss_bytes=rss_and_peak_bytes()[1])

    def _sockets(self) -> list[socket.socket]:
        sockets = [self._instance.bind()]
        if listen := self._config.settings.daemon.listen:
            tcp = bind_loopback(*parse_listen(listen))
            sockets.append(tcp)
            logger.info("also on %s", tcp.getsockname())
        return sockets

    def _publish(self, state: DaemonState) -> None:
        """Say our state in daemon.json; once we serve, a full disk is no reason to lose the jobs that were accepted."""
        self._state = state
        self._record = self._record.model_copy(update={"state": state})
        try:
            self._instance.publish(self._record)
        except ProverError as error:
            if state is DaemonState.STARTING:
                raise
            logger.warning("%s: it does not say that this daemon is %s", error.message, state)

    def _describe(self, build_id: str) -> DaemonRecord:
        pid = os.getpid()
        return DaemonRecord(
            name=self._config.settings.daemon.name,
            release_id=self._ids.release_id,
            launch_id=self._ids.launch_id,
            state=DaemonState.STARTING,
            boot_id=boot_id(),
            pid=pid,
            start_ticks=start_ticks(pid) or 0,
            session_id=os.getsid(0),
            exe_sha256=exe_sha256(),
            build_id=build_id,
            config_sha256=self._config.sha256,
            api=self._instance.api,
            logs=[str(self._log.path), *_redirects()],
            started_unix_ns=time.time_ns(),
        )


def serve(config: Config, plan: Plan, ids: LaunchIds, signals: set[signal.Signals]) -> int:
    """Run a daemon to its end; returns the exit status.

    Args:
        config: Its configuration.
        plan: What the check of the configuration found.
        ids: Who started it as what.
        signals: Those that end it; the caller blocked them before any thread was started.

    Raises:
        BusyError: Another daemon runs in this home.
        ProverError: It could not start.
    """
    level = config.settings.logging.level.upper()
    logging.basicConfig(stream=sys.stderr, level=level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.captureWarnings(capture=True)
    logging.raiseExceptions = False  # a standard error that is gone or full must not disturb proofs
    with contextlib.suppress(ValueError, OSError):
        faulthandler.enable()
    _raise_descriptor_limit()
    instance = Instance.claim(Home(config.home))
    try:
        return Daemon(config, plan, ids, instance).run(signals)
    finally:
        instance.release()


def _raise_descriptor_limit() -> None:
    """Each client takes a descriptor, and the usual soft limit of 1024 is kept for programs that use ``select``."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _backend(settings: Settings) -> Backend:
    name = settings.gpus.backend
    try:
        return kernels.backend(name, threads=settings.synthesis.threads or None)
    except KernelError as error:
        message = f"the {name} backend cannot be had: {error}"
        raise ProverError(
            "backend", message, f"build it with `make {'cuda' if name == 'cuda' else 'kernels'}`"
        ) from error


def _open_log(config: Config, ids: LaunchIds, home: Home) -> TimingLog:
    section = config.settings.logging
    path = home.logs / f"{ids.launch_id}.log"
    return TimingLog(path, ids.launch_id, max_bytes=section.max_file_bytes, keep_files=section.keep_files)


def _redirects() -> list[str]:
    """Files that standard output and standard error go to, where they go to files."""
    found: dict[str, None] = {}
    for fd in (1, 2):
        if stat.S_ISREG(os.fstat(fd).st_mode):
            found[str(Path(f"/proc/self/fd/{fd}").readlink())] = None
    return list(found)
