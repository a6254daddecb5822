"""Bench: put a load of equal jobs on a deployed daemon, once, and record what it came to and what it was measured on.

The load is made on the host, by ``prover ctl bench``: neither the connection nor this machine is in the figures.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, TimeoutExpired
from cuzkops.profiles import CUZKOPS
from cuzkops.records import RunRecord
from cuzkops.remote.ctl import ctl, parse_answer
from cuzkops.remote.host import Script
from cuzkops.remote.machine import read_machine
from cuzkops.steps.load import check_ready, naming_the_witness, witness_on_host
from prover.protocol import BenchAnswer, ErrorBody, StatusAnswer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

_IDLE_S = 120.0  # it says how far it is every ten seconds

# What it says goes out line by line while it runs; its one answer comes after the word of ours.
_BENCH = r"""
answer=$(mktemp) && code=$(mktemp) || exit 1
trap 'rm -f "$answer" "$code"' EXIT
trap 'exit 143' HUP INT TERM
{
    "$RELEASE/prover" ctl bench --circuit "$CIRCUIT" @witness@ --jobs "$JOBS" \
        --concurrency "$CONCURRENCY" --warmup "$WARMUP" --count "$COUNT" --timeout-s "$TIMEOUT_S" --json \
        --home "$DAEMON_HOME" <"$INPUT" 2>&1 >"$answer"
    echo "$?" >"$code"
} | while IFS= read -r line; do printf 'said %s\n' "$line"; done
read -r status <"$code"
echo "status $status"
cat "$answer"
"""


@dataclass(frozen=True)
class BenchRequest:
    """The load.

    Args:
        circuit: Name of a circuit that the daemon serves.
        witness: Witness file of this machine; exactly one of this and ``host_witness``.
        host_witness: Absolute path of a witness file on the host.
        n_jobs: Measured jobs.
        concurrency: Jobs in flight at most.
        n_warmup: Jobs before them, in no figure.
        count: Proofs of one job.
        timeout_s: Deadline of everything together.
        label: What the user calls this measurement.
    """

    circuit: str
    witness: Path | None
    host_witness: str | None
    n_jobs: int = 20
    concurrency: int = 2
    n_warmup: int = 1
    count: int = 1
    timeout_s: float = 3600
    label: str = ""


def bench(
    host: Host, layout: Layout, request: BenchRequest, run_id: str, progress: Callable[[str], None] = lambda _: None
) -> RunRecord:
    """Measure a daemon that runs, and say what was measured on what.

    Args:
        host: The host.
        layout: Which daemon there.
        request: The load.
        run_id: Names the record.
        progress: Called with what the load says of itself, line by line.

    Raises:
        OpsError: No daemon is ready, a job failed, or a proof did not verify: there is no record of it.
        TimeoutExpired: ``timeout_s`` passed, or the host fell silent.
    """
    check_ready(host, layout)
    machine = read_machine(host)
    with naming_the_witness(request.witness), witness_on_host(host, layout, request.witness) as path:
        answer = _measure(host, layout, request, path, progress)
    daemon = answer.daemon
    if daemon is None:
        raise OpsError("answer", "the bench does not say which daemon it measured", "deploy again, then measure again")
    return RunRecord(
        run_id=run_id,
        kind="bench",
        label=request.label,
        target=str(host.target),
        name=layout.name,
        daemon_kind=CUZKOPS.kind,
        log_grammar=CUZKOPS.log_grammar,
        build_id=daemon.build_id,
        exe_sha256=daemon.exe_sha256,
        config_sha256=daemon.config_sha256,
        release_id=daemon.release_id,
        launch_id=daemon.launch_id,
        circuits={answer.circuit: answer.circuit_sha256},
        host=machine.hostname,
        gpus=machine.gpus,
        driver=machine.driver or None,
        machine=machine,
        started_unix_ns=answer.started_unix_ns,
        peak_bytes=_peak_bytes(host, layout, daemon.release_id),
        bench=answer,
    )


def _peak_bytes(host: Host, layout: Layout, release_id: str) -> int | None:
    """The largest memory of the daemon so far, as it says itself; None where it does not: the measurement stands."""
    try:
        return ctl(host, layout, StatusAnswer, "status", release_id=release_id).memory.peak_rss_bytes
    except OpsError:
        return None


def _measure(
    host: Host, layout: Layout, request: BenchRequest, path: str | None, progress: Callable[[str], None]
) -> BenchAnswer:
    script = bench_script(layout, request, path)
    status, lines = "", list[str]()
    for raw in host.stream(script, idle_timeout_s=_IDLE_S):
        line = raw.decode(errors="replace")
        if status:
            lines.append(line)
        elif line.startswith("said "):
            progress(line.removeprefix("said "))
        elif line.startswith("status "):
            status = line.removeprefix("status ")
    found = parse_answer("\n".join(lines).encode(), BenchAnswer)
    if isinstance(found, BenchAnswer) and status == "0":
        return found
    if isinstance(found, ErrorBody):
        kind = TimeoutExpired if found.code == "timeout" else OpsError
        raise kind(found.code, f"the bench failed: {found.message}", found.hint, found.details)
    message = f"the bench ended with status {status or 'unknown'}, and its answer cannot be read: {found}"
    raise OpsError("answer", message, "the daemon's release may be older than this tool: deploy again")


def bench_script(layout: Layout, request: BenchRequest, witness: str | None) -> Script:
    """Build the script that runs the load: what it says, line by line, then its status and its answer.

    Args:
        layout: Which daemon.
        request: The load.
        witness: File on the host that holds the witness of this machine; None for ``request.host_witness``.
    """
    parameters = {
        "RELEASE": layout.current,
        "DAEMON_HOME": layout.home,
        "CIRCUIT": request.circuit,
        "WITNESS": request.host_witness or "",
        "INPUT": witness or "/dev/null",
        "JOBS": str(request.n_jobs),
        "CONCURRENCY": str(request.concurrency),
        "WARMUP": str(request.n_warmup),
        "COUNT": str(request.count),
        "TIMEOUT_S": json.dumps(request.timeout_s),
    }
    body = _BENCH.replace("@witness@ ", '--witness-path "$WITNESS" ' if witness is None else "")
    return Script(f"bench circuit {request.circuit}", body, parameters, changes=True)
