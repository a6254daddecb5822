"""Prove through a deployed daemon: jobs go in over ``prover ctl`` on the host, and their proofs come back."""

from __future__ import annotations

import re
import secrets
import time
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, TimeoutExpired, UsageError
from cuzkops.remote.ctl import ctl
from cuzkops.remote.host import Script
from prover.protocol import JobAnswer, JobState, ReadyAnswer, WitnessAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

IN_FLIGHT = 4
"""Jobs that are submitted ahead, so that the daemon never waits for the connection."""
_POLL_S = 20.0
_STOPPED = ("no-daemon", "daemon-died")
_KEPT_WITNESS = r"/[^:]*/state/witnesses/[0-9a-f]{64}"
"""Where a daemon keeps a witness that was put, as its messages name it."""


@dataclass(frozen=True)
class ProveRequest:
    """What to prove.

    Args:
        circuit: Name of a circuit that the daemon knows.
        witness: Witness file on this machine; exactly one of this and ``host_witness``.
        host_witness: Absolute path of a witness file on the host.
        count: How many jobs, one proof each.
        timeout_s: Deadline of all of them together.
    """

    circuit: str
    witness: Path | None = None
    host_witness: str | None = None
    count: int = 1
    timeout_s: float = 1800

    def __post_init__(self) -> None:
        if (self.witness is None) == (self.host_witness is None):
            raise UsageError("witness", "give one witness: a file of this machine or a path on the host")
        if self.host_witness is not None and not self.host_witness.startswith("/"):
            raise UsageError("witness", f"{self.host_witness!r} is not an absolute path on the host")
        if self.count < 1:
            raise UsageError("count", f"{self.count} proofs cannot be made", "ask for at least one")


def prove(
    host: Host, layout: Layout, request: ProveRequest, on_job: Callable[[JobAnswer], None] = lambda _: None
) -> list[JobAnswer]:
    """Submit jobs and wait for all of them.

    Args:
        host: The host.
        layout: Which daemon there.
        request: What to prove.
        on_job: Called with each job when it is accepted and when it is done.

    Returns:
        The finished jobs in the order of their submission, with their proofs.

    Raises:
        OpsError: No daemon is ready, it refuses a job, or one failed; those behind it are cancelled.
        TimeoutExpired: ``timeout_s`` passed; what was left is cancelled.
    """
    check_ready(host, layout)
    deadline = time.monotonic() + request.timeout_s
    waiting: deque[JobAnswer] = deque()
    done: list[JobAnswer] = []
    key = secrets.token_hex(8)
    try:
        with naming_the_witness(request.witness), witness_on_host(host, layout, request.witness) as path:
            for index in range(request.count):
                waiting.append(_submit(host, layout, request, path, f"{key}-{index}"))
                on_job(waiting[-1])
                if len(waiting) >= IN_FLIGHT:
                    done.append(_finish(host, layout, waiting, deadline, on_job))
        with naming_the_witness(request.witness):
            while waiting:
                done.append(_finish(host, layout, waiting, deadline, on_job))
    except BaseException:
        for job in waiting:
            _cancel(host, layout, job)
        raise
    return done


def check_ready(host: Host, layout: Layout) -> None:
    """Ask the daemon whether it takes jobs.

    Raises:
        OpsError: It does not; one that does not run is to be started with this tool.
    """
    try:
        ctl(host, layout, ReadyAnswer, "ready")
    except OpsError as error:
        if error.code not in _STOPPED:
            raise
        raise OpsError(error.code, error.message, "start it with `cuzkops launch`", error.details) from error


@contextmanager
def naming_the_witness(witness: Path | None) -> Iterator[None]:
    """Let an error name the witness as the user does, not as the daemon keeps it; a wrong name is a usage error."""
    try:
        yield
    except OpsError as error:
        here = str(witness) if witness else ""
        message = re.sub(_KEPT_WITNESS, lambda _: here, error.message) if here else error.message
        kind = UsageError if error.code in ("no-such-circuit", "request") else OpsError
        if kind is OpsError and message == error.message:
            raise
        raise kind(error.code, message, error.hint, error.details) from error


@contextmanager
def witness_on_host(host: Host, layout: Layout, witness: Path | None) -> Iterator[str | None]:
    """Bring the witness to a file that only this user can read, for a block; None where it is on the host already."""
    if witness is None:
        yield None
        return
    path = f"{layout.run}/witness-{secrets.token_hex(8)}.wtns"
    host.put(witness, path, mode=0o600)
    try:
        yield path
    finally:
        host.run(Script("remove the witness file", 'rm -f "$WITNESS"', {"WITNESS": path}, changes=True))


def _submit(host: Host, layout: Layout, request: ProveRequest, path: str | None, key: str) -> JobAnswer:
    if path is None:
        witness = ("--witness-path", str(request.host_witness))
    else:  # one put a job: the daemon keeps a witness until a job has claimed each put
        put = ctl(host, layout, WitnessAnswer, "put-witness", standard_input=path, timeout_s=300)
        witness = ("--witness-sha256", put.sha256)
    return ctl(host, layout, JobAnswer, "submit", "--circuit", request.circuit, *witness, "--key", key)


def _finish(
    host: Host, layout: Layout, waiting: deque[JobAnswer], deadline: float, on_job: Callable[[JobAnswer], None]
) -> JobAnswer:
    """Wait for the oldest job and take it out of the queue."""
    job = waiting[0]
    while not job.state.is_final:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutExpired(
                "not-finished",
                f"job {job.id} is {job.state} and did not end in time: cancelled, with {len(waiting) - 1} behind it",
                "give more time with --timeout",
                {"job": job.id},
            )
        wait_s = min(left_s, _POLL_S)
        job = ctl(host, layout, JobAnswer, "job", job.id, "--wait-s", f"{wait_s:.3f}", timeout_s=wait_s + 30)
    waiting.popleft()
    if job.state is not JobState.DONE:
        error = job.error
        raise OpsError(
            error.code if error else "job-cancelled",
            f"job {job.id} {job.state}: {error.message if error else 'somebody cancelled it'}",
            error.hint if error else "",
            {"job": job.id, **(error.details if error else {})},
        )
    on_job(job)
    return job


def _cancel(host: Host, layout: Layout, job: JobAnswer) -> None:
    try:
        ctl(host, layout, JobAnswer, "cancel", job.id)
    except OpsError:
        return  # it ended meanwhile, or the daemon did: what happened before matters more
