"""Whether a deploy has nothing to do: what it would start runs already, ready, from files that have not changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.errors import OpsError
from cuzkops.remote.ctl import ctl
from cuzkops.remote.daemon import observe
from cuzkops.remote.host import Script
from cuzkops.steps.launch import LaunchRequest, mismatches
from prover.protocol import DaemonState, ReadyAnswer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout
    from cuzkops.steps.verify import Release
    from prover.protocol import DaemonRecord

# The daemon writes its record when it is ready: a key that is newer may be another one than the one that it loaded.
_NEWER = r"""
for key in "$@"; do [ "$key" -nt "$RECORD" ] && echo "newer $key"; done
exit 0
"""


def running_already(host: Host, layout: Layout, release: Release, host_keys: Sequence[str]) -> DaemonRecord | None:
    """Find the daemon that runs exactly a release, is ready, and answers; changes nothing.

    Args:
        host: Where.
        layout: Which daemon there.
        release: What a deploy would start.
        host_keys: Keys that its configuration names by their path on the host: their digest is not known here.

    Returns:
        Its record; None where no daemon runs, or another one, or one that may have loaded other keys.
    """
    try:
        seen = observe(host, layout, release_id=release.release_id)
        daemon, process = seen.record, seen.process
        if daemon is None or process is None or not process.n_live_threads or daemon.state is not DaemonState.READY:
            return None
        wanted = LaunchRequest(release.release_id, daemon.launch_id, release.manifest, release.config_sha256)
        if mismatches(seen, wanted, daemon.pid) or _newer_keys(host, layout, host_keys):
            return None
        answer = ctl(host, layout, ReadyAnswer, "ready", release_id=release.release_id)
    except OpsError:
        return None  # what cannot be read or does not answer is replaced
    return daemon if answer.ready else None


def _newer_keys(host: Host, layout: Layout, host_keys: Sequence[str]) -> bool:
    if not host_keys:
        return False
    parameters = {f"KEY_{i}": key for i, key in enumerate(host_keys)} | {"RECORD": layout.daemon_json}
    words = " ".join(f'"$KEY_{i}"' for i in range(len(host_keys)))
    script = Script("look for keys that changed", f"set -- {words}\n{_NEWER}", parameters)
    return bool(host.run(script).check().out)
