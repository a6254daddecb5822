"""Wait until the memory of a killed daemon is really back, or say why it is not."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, TimeoutExpired
from cuzkops.memory_series import open_series
from cuzkops.memory_verdict import Judge, LiveProcess, MemoryVerdict, Reason, Sample
from cuzkops.records import KillRecord
from cuzkops.remote.blocks import read_blocks
from cuzkops.remote.host import Script
from cuzkops.remote.probes import MIN_BYTES
from cuzkops.remote.procfs import (
    Threads,
    is_same,
    live,
    parse_leftovers,
    parse_memory,
    parse_others,
    parse_stats,
    parse_threads,
)
from cuzkops.remote.run_files import read_record
from cuzkops.remote.script import LEFTOVERS, MEMORY, PRELUDE, PROCESSES, roots
from cuzkops.units import format_duration_s

if TYPE_CHECKING:
    from collections.abc import Callable

    from cuzkops.memory_series import Series
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.state import State

_CLIENT_SPARE_S = 30  # the host's clock decides; this one ends the wait where that clock stands still
_CHECK_S = 1.0
_CHECK_CALM_S = 6.0  # the calm window of a host where nothing was killed takes 5 s

_HINTS = {
    "tmpfs-left": "remove what is left over (rm FILE; ipcrm -m ID for sysv:ID), then run wait-memory again",
    "other-tenant": "stop it (`cuzkops kill --pid PID`) or give the new daemon a smaller budget (--budget)",
    "hugetlb-pool": "make the pool smaller (sysctl vm.nr_hugepages=N on the host), then run wait-memory again",
    "short": "stop another process (`cuzkops kill --pid PID`) or give the new daemon a smaller budget (--budget)",
    "still-running": "run `cuzkops kill` again: it goes on with the same processes",
}
_AGAIN = "run wait-memory again: it judges the same kill, and --timeout lets it wait longer"

# Sampling and judging are apart: this prints raw lines of /proc, with /proc/uptime as the clock, and knows no rule.
_SAMPLES = r"""
exec 2>/dev/null
interval=0.25 every=12
sleep 0.01 || { interval=1 every=3; }
groups=$(limited_cgroups)
n=0
while :; do
    read -r boot <"$PROC/sys/kernel/random/boot_id"
    echo "boot $boot"
    memory "$groups"
    threads $PIDS
    if [ $((n % every)) -eq 0 ]; then
        leftovers
        others "$MIN_KIB" "$PIDS"
        echo "members"
        threads $(members "$SESSION" "$PIDS")
        echo "holders"
        for pid in $(gpu_holders); do cat "$PROC/$pid/stat"; done
    fi
    echo "end-of-sample"
    n=$((n + 1))
    sleep "$interval"
done
"""


@dataclass(frozen=True)
class WaitRequest:
    """How to wait.

    Args:
        need_bytes: What the next daemon needs; None: all that the old one held must be back.
        timeout_s: Longest wait.
        check: Do not wait: judge what is true now.
    """

    need_bytes: int | None = None
    timeout_s: float = 1800
    check: bool = False


def wait_memory(
    host: Host,
    layout: Layout,
    request: WaitRequest,
    on_sample: Callable[[Sample, Reason], None] | None = None,
    *,
    state: State | None = None,
    on_series: Callable[[Series, Judge], None] | None = None,
    kernel: dict[str, str] | None = None,
) -> MemoryVerdict:
    """Wait for the memory; the verdict is always one of released.

    Args:
        host: Where the daemon was killed.
        layout: Whose run/kill.json is the baseline; without that file nothing was killed, and the verdict says so.
        request: How to wait.
        on_sample: Called for each sample with the reason why it did not end the wait.
        state: Where the samples of this kill are kept; a wait that is run again goes on with them.
        on_series: Called once, before the first sample, with those samples and the judge; only with ``state``.
        kernel: ``roots(...)`` of a recording; the real folders by default.

    Raises:
        TimeoutExpired: The memory is not back, or will not come back; code and details are those of the verdict.
        OpsError: The host stopped answering.
    """
    record = read_record(host, layout.kill_json, KillRecord)
    timeout_s = _timeout_s(request, record)
    judge = Judge(record, request.need_bytes, timeout_s)
    series = _series(state, record, judge)
    if series is not None and on_series:
        on_series(series, judge)
    verdict = None
    deadline = time.monotonic() + timeout_s + _CLIENT_SPARE_S
    script = samples_script(record, kernel)
    with contextlib.closing(read_blocks(host, script, "end-of-sample")) as blocks:
        for block in blocks:
            sample = parse_sample(block, record)
            verdict = judge.feed(sample)
            if verdict is None and time.monotonic() >= deadline:
                verdict = judge.give_up()
            for note in (series.add if series else None, on_sample):
                if note:
                    note(sample, judge.reason)
            if verdict:
                break
    if verdict is None:
        raise OpsError("samples-ended", f"{host.target} stopped sending samples: {judge.reason.sentence}", _AGAIN)
    if not verdict.released:
        raise _not_back(verdict, check=request.check)
    return verdict


def _timeout_s(request: WaitRequest, record: KillRecord | None) -> float:
    if not request.check:
        return request.timeout_s
    return _CHECK_CALM_S if record is None else _CHECK_S


def _series(state: State | None, record: KillRecord | None, judge: Judge) -> Series | None:
    """The samples of this kill so far, which the judge goes on with; None where none are to be kept."""
    if state is None or record is None:
        return None
    series = open_series(state, record)
    if series.first is not None:
        judge.goes_on(series.first, len(series.points))
    return series


def plan_wait(host: Host, layout: Layout) -> list[Script]:
    """What a wait runs on the host: one script, whose samples are judged here."""
    return [samples_script(read_record(host, layout.kill_json, KillRecord))]


def samples_script(record: KillRecord | None, kernel: dict[str, str] | None = None) -> Script:
    """Build the script that prints samples until its reader goes away."""
    pids = [process.pid for process in record.processes] if record else []
    parameters = {
        **(kernel or roots()),
        "PIDS": " ".join(map(str, pids)),
        "SESSION": str(record.leader.pid) if record and record.processes else "",
        "MIN_KIB": str(MIN_BYTES // 1024),
    }
    return Script("sample the memory", PRELUDE + MEMORY + LEFTOVERS + PROCESSES + _SAMPLES, parameters)


def parse_sample(text: str, record: KillRecord | None) -> Sample:
    """Read one block of ``samples_script``.

    Args:
        text: The lines before ``end-of-sample``.
        record: The kill whose processes are looked for.

    Raises:
        ValueError: The block does not say how much memory there is.
    """
    has_details = "\nlisting\n" in text
    head, _, details = text.partition("\nlisting\n")
    details, _, family = details.partition("\nmembers\n")
    members_text, _, holders_text = f"\n{family}".partition("\nholders\n")
    boot, _, rest = head.partition("\n")
    memory_text, *_ = rest.partition("\nprocess ")
    threads = parse_threads(rest)
    recorded = record.processes if record else []
    alive = live(threads, recorded)
    zombies = [p.pid for p in recorded if p.pid not in alive and is_same(threads.get(p.pid), p)]
    others, names = parse_others(details)
    return Sample(
        boot_id=boot.removeprefix("boot ").strip(),
        memory=parse_memory(memory_text),
        live=tuple(LiveProcess(pid, states) for pid, states in alive.items()),
        zombies=tuple(zombies),
        leftovers=parse_leftovers(f"listing\n{details}") if has_details else None,
        others=others if has_details else None,
        names=names,
        members=_members(threads | parse_threads(members_text), record) if has_details else None,
        holders=_holders(holders_text, alive) if has_details else None,
    )


def _members(threads: dict[int, Threads], record: KillRecord | None) -> tuple[LiveProcess, ...]:
    """The live members of the session that the killed daemon led, without the recorded ones.

    The number of a session is given again only when it has no members: a new leader means that the old one is over.
    """
    if record is None or not record.processes:
        return ()
    leader, recorded = record.leader, {process.pid for process in record.processes}
    if leader.pid in threads and not is_same(threads[leader.pid], leader):
        return ()
    return tuple(
        LiveProcess(pid, seen.states)
        for pid, seen in threads.items()
        if pid not in recorded
        and seen.live_states
        and seen.leader.session_id == leader.pid
        and seen.leader.start_ticks >= leader.start_ticks
    )


def _holders(text: str, alive: dict[int, str]) -> dict[int, str]:
    return {stat.pid: stat.comm for stat in parse_stats(text) if stat.pid not in alive}


def _not_back(verdict: MemoryVerdict, *, check: bool) -> TimeoutExpired:
    sentence = verdict.sentence
    if check:
        what = "the memory is not back"
        if verdict.code == "settling":  # nothing more is awaited
            sentence = "enough is available now, but it was not so for long enough to count: check again, or wait"
    elif verdict.timed_out:
        what = f"the memory is not back after {format_duration_s(verdict.seconds)}"
    else:
        what = "the memory will not come back by waiting"
    return TimeoutExpired(
        verdict.code,
        f"{what}: {sentence}",
        _HINTS.get(verdict.code, _AGAIN),
        details={"verdict": verdict.model_dump()},
    )
