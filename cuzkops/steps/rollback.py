"""Go back to a release that ran before: its artifact, its configuration and its circuits, by the steps of a deploy."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError, UsageError
from cuzkops.remote.lock import held, planned, refuse_locked
from cuzkops.remote.probes import host_script, processes_script
from cuzkops.steps.clean import look
from cuzkops.steps.deploy import record_run
from cuzkops.steps.findings import raise_findings
from cuzkops.steps.observer import observed, warn
from cuzkops.steps.preflight import preflight_host
from cuzkops.steps.replace import Replacement, plan_replacement
from cuzkops.steps.verify import plan_verify, read_release, remake, verify
from cuzkops.units import counted, format_bytes
from prover.protocol import SHA256_PATTERN

if TYPE_CHECKING:
    from cuzkops.memory_verdict import MemoryVerdict
    from cuzkops.records import LockOwner, RunRecord
    from cuzkops.remote.cleaning import DaemonHoldings
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.findings import Finding
    from cuzkops.steps.kill import KillResult
    from cuzkops.steps.launch import LaunchResult
    from cuzkops.steps.observer import Observer
    from cuzkops.steps.replace import Terms
    from cuzkops.steps.verify import Release
    from prover.protocol import CheckAnswer


@dataclass(frozen=True)
class RollbackRequest:
    """Where to go back to.

    Args:
        release_id: A release on the host, or a beginning of its name; None for the one that ran before the current one.
        owner: This process as the owner of the host's lock.
        terms: How the daemon that runs is replaced.
        thorough: Hash every key on the host, also one that was hashed before and has not changed since.
    """

    release_id: str | None
    owner: LockOwner
    terms: Terms
    thorough: bool = False


@dataclass(frozen=True)
class RollbackResult:
    """A rollback that went through.

    Args:
        run: What identifies the run, for run.json.
        release_id: What runs now.
        warnings: What preflight found odd.
        check: What the release said of its configuration there.
        killed: What was stopped before.
        memory: How the memory came back.
        launched: The daemon.
        seconds: Time of the whole.
    """

    run: RunRecord
    release_id: str
    warnings: tuple[Finding, ...]
    check: CheckAnswer
    killed: KillResult
    memory: MemoryVerdict
    launched: LaunchResult
    seconds: float


def rollback(host: Host, layout: Layout, request: RollbackRequest, observer: Observer) -> RollbackResult:
    """Preflight, lock, verify, check, kill, wait, launch, unlock.

    Args:
        host: The host.
        layout: Which daemon there.
        request: Where to go back to.
        observer: Told of every step.

    Raises:
        UsageError: There is no such release, or preflight or the check refuse: the running daemon was not touched.
        LockedError: Somebody else holds the lock.
        TimeoutExpired: The memory did not come back: nothing was launched.
        OpsError: The release is damaged, and the running daemon was not touched; or a step failed; if the daemon did
            not start, the release that ran before this was started again.
    """
    begin_s = time.monotonic()
    observer.if_interrupted("nothing was changed")
    with observed(observer, "preflight") as done:
        refuse_locked(host, layout, request.owner)
        release = find_release(host, layout, request.release_id)
        need_bytes = request.terms.need_bytes if request.terms.need_bytes is not None else release.budget_bytes
        report = preflight_host(host, layout, need_bytes, needs_gpu=False)
        raise_findings(report.findings)
        warn(observer, report.findings)
        available = format_bytes(report.facts.available_bytes)
        done(f"back to release {release.release_id}; {available} of memory are available")
    with held(host, layout, request.owner, observer.says) as set_step:
        set_step("verify")
        with observed(observer, "verify") as done:
            _verify(host, layout, release, request, observer)
            done(f"its files and {counted(len(release.circuits), 'key')} are what was shipped")
        replaced = Replacement(host, layout, release, request.terms, observer).run(set_step)
    return RollbackResult(
        record_run(
            request.owner.run_id, str(host.target), replaced.launched, report.facts, release.circuits, kind="rollback"
        ),
        release_id=release.release_id,
        warnings=tuple(report.findings),
        check=replaced.check,
        killed=replaced.killed,
        memory=replaced.memory,
        launched=replaced.launched,
        seconds=time.monotonic() - begin_s,
    )


def _verify(host: Host, layout: Layout, release: Release, request: RollbackRequest, observer: Observer) -> None:
    try:
        verify(host, layout, release, thorough=request.thorough)
    except OpsError as error:
        if error.code != "damaged-release" or not remake(host, layout, release):
            raise
        verify(host, layout, release)  # its keys may be what is damaged
        observer.says(f"{error.message}; it was made again from its layers")


def plan_rollback(host: Host, layout: Layout, request: RollbackRequest) -> list[Script]:
    """Every script by which a rollback would change the host, in order; looks at the host, and changes nothing.

    Raises:
        UsageError: There is no such release, or the daemon that runs may not be stopped.
    """
    release = find_release(host, layout, request.release_id)
    steps = {
        "verify": [plan_verify(layout, release.release_id, release.manifest, release.circuits)],
        **plan_replacement(host, layout, release, request.terms),
    }
    return [host_script(layout.home), processes_script(), *planned(layout, request.owner, steps)]


@dataclass(frozen=True)
class ListedRelease:
    """A release on a host.

    Args:
        release_id: Its name.
        role: ``current``, ``previous`` (where a rollback without a name goes), or an empty string.
        was_ready: Whether it was ever launched and ready; as far back as the audit log says.
        differs: In what it differs from the current one: ``artifact``, ``configuration``, ``circuits``.
        built_unix_ns: When its artifact was built, or None where its manifest cannot be read.
        git: Revision of its source; empty where that is not known.
        dirty: Whether its source had changes besides that revision.
    """

    release_id: str
    role: str
    was_ready: bool
    differs: tuple[str, ...]
    built_unix_ns: int | None = None
    git: str = ""
    dirty: bool = False


def list_releases(host: Host, layout: Layout) -> list[ListedRelease]:
    """The releases of a daemon on a host, the newest first; changes nothing."""
    from pydantic import ValidationError  # noqa: PLC0415 - costs a tenth of a second of every start

    from cuzkops.records import Manifest  # noqa: PLC0415 - the same

    daemon = look(host, layout).daemons.get(layout.name)
    if daemon is None:
        return []
    found = []
    roles = {daemon.current: "current", daemon.previous: "previous"}
    for release_id, (text, _) in daemon.releases.items():
        was_ready = release_id in {*daemon.launched, *daemon.in_use}
        release = ListedRelease(release_id, roles.get(release_id, ""), was_ready, _differs(daemon, release_id))
        with contextlib.suppress(ValidationError):
            manifest = Manifest.model_validate_json(text)
            release = replace(release, built_unix_ns=manifest.built_unix_ns, git=manifest.git, dirty=manifest.dirty)
        found.append(release)
    return found


def _differs(daemon: DaemonHoldings, release_id: str) -> tuple[str, ...]:
    """In what a release differs from the current one, by its name and by the keys that its configuration names."""
    if daemon.current not in daemon.releases:
        return ()
    (build, _, config), (current_build, _, current_config) = (
        name.partition("-") for name in (release_id, daemon.current)
    )
    keys, current_keys = (
        set(re.findall(rf'"({SHA256_PATTERN})"', daemon.releases[name][1])) for name in (release_id, daemon.current)
    )
    pairs = (
        ("artifact", build, current_build),
        ("configuration", config, current_config),
        ("circuits", keys, current_keys),
    )
    return tuple(word for word, its, current in pairs if its != current)


def find_release(host: Host, layout: Layout, release_id: str | None) -> Release:
    """Find a release by its name, by a beginning of it that only one has, or the one that ran before the current one.

    Raises:
        UsageError: There is none, or there are several; the message lists those that are there.
        OpsError: It is damaged.
    """
    daemon = look(host, layout).daemons.get(layout.name)
    releases = list(daemon.releases) if daemon else []
    wanted = release_id or (daemon.previous if daemon else None)
    listed = ", ".join(releases) or "none"
    if wanted is None:
        raise UsageError(
            "no-previous",
            f"nothing ran before the current release of {layout.name} that is still on {host.target}; "
            f"releases there, the newest first: {listed}",
            "name one with --release" if len(releases) > 1 else "deploy what you want to go back to",
        )
    meant = [wanted] if wanted in releases else [name for name in releases if name.startswith(wanted)]
    if len(meant) > 1:
        message = f"{wanted!r} is the beginning of {len(meant)} releases on {host.target}: {', '.join(meant)}"
        raise UsageError("no-release", message, "say more of it")
    if not meant:
        raise UsageError(
            "no-release",
            f"there is no release {wanted} on {host.target}; releases there, the newest first: {listed}",
            "name one of them with --release, or deploy what you want to go back to",
        )
    return read_release(host, layout, meant[0])
