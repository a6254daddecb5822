"""Scripts that start a release detached, look at it, and undo a start that failed. Pure; see ``steps/launch.py``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.remote.host import Script
from cuzkops.remote.probes import parse_processes
from cuzkops.remote.script import PRELUDE, PROCESSES, roots
from prover.protocol import DaemonRecord

if TYPE_CHECKING:
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.probes import ProcessInfo

_POINT = r"""
point() {  # move the link `current` to $1 in one step
    rm -f "current.tmp-$LAUNCH_ID"
    ln -s "$1" "current.tmp-$LAUNCH_ID" || return 1
    mv -fT "current.tmp-$LAUNCH_ID" current 2>/dev/null && return 0
    rm -f "current.tmp-$LAUNCH_ID"  # an mv without -T would move into the folder behind the link
    ln -sfn "$1" current
}
"""

# The shell ignores SIGINT and SIGQUIT in what it starts with `&`, and some shells cannot undo that. `setsid -f` of
# util-linux forks by itself; busybox has no such option.
_START = r"""
umask 077
mkdir -p "$RUN" "$LOGS" && cd "$DAEMON_HOME" || exit 1
rm -f "$RUN"/witness-*.wtns "$RUN"/*.pid  # left by clients that died; no daemon runs now
previous=$(readlink current 2>/dev/null)
echo "previous $previous"
point "releases/$RELEASE_ID" || exit 1
failed() {
    echo "no process started" >&2
    cat "$LOGS/$LAUNCH_ID.err" >&2
    if [ -n "$previous" ]; then point "$previous"; else rm -f current; fi
    exit 1
}
begin() {
    "$@" /bin/sh -c 'echo "$$" >"$0.part" && mv "$0.part" "$0"; exec "$@"' "$PIDFILE" \
        "$RELEASE/prover" serve --config "$RELEASE/config.toml" --remote-dir "$REMOTE_DIR" \
        --release-id "$RELEASE_ID" --launch-id "$LAUNCH_ID" \
        </dev/null >"$LOGS/$LAUNCH_ID.out" 2>"$LOGS/$LAUNCH_ID.err" 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
}
if setsid -f true 2>/dev/null; then
    begin setsid -f
elif command -v setsid >/dev/null 2>&1; then
    (trap - INT QUIT; begin exec setsid) &
else
    (trap - INT QUIT; begin exec) &
fi
waited=0
while [ ! -s "$PIDFILE" ] && [ "$waited" -lt 100 ]; do
    sleep 0.1 2>/dev/null || { sleep 1; waited=$((waited + 9)); }
    waited=$((waited + 1))
done
read -r pid <"$PIDFILE" || failed
rm -f "$PIDFILE"
echo "pid $pid"
read -r stat <"/proc/$pid/stat" && echo "stat $stat"
exit 0
"""

_OBSERVE = r"""
exec 2>/dev/null
echo "boot $(cat "$PROC/sys/kernel/random/boot_id")"
echo "folder $(cd "$RELEASE" && pwd -P)"
[ -r "$RECORD" ] && echo "record $(tr -d '\n' <"$RECORD")"
filter '^btime ' <"$PROC/stat"
[ -z "$PID" ] || describe "$PID"
exit 0
"""

_ABORT = r"""
cd "$DAEMON_HOME" || exit 1
alive() {
    read -r stat <"/proc/$PID/stat" || return 1
    set -- ${stat##*) }
    [ "$1" != Z ] && [ "$1" != X ] && [ "${20}" = "$START_TICKS" ]
}
end() {  # $1: signal, $2: tenths of a second to wait
    alive || return 0
    kill "-$1" "-$PID" || kill "-$1" "$PID"
    waited=0
    while alive && [ "$waited" -lt "$2" ]; do
        sleep 0.1 || { sleep 1; waited=$((waited + 9)); }
        waited=$((waited + 1))
    done
}
{
    if [ -z "$PID" ] || ! alive; then
        echo "ended"
    else
        end TERM 150
        end KILL 150
        if alive; then echo "alive"; else echo "stopped"; fi
    fi
    if [ -n "$PREVIOUS" ]; then point "$PREVIOUS"; else rm -f current; fi
} 2>/dev/null
for end in log out err; do
    [ -s "$LOGS/$LAUNCH_ID.$end" ] || continue
    echo "$LAUNCH_ID.$end:"
    tail -n 20 "$LOGS/$LAUNCH_ID.$end"
    echo
done
exit 0
"""

_RELEASE = r"""
[ -f "$RELEASE/manifest.json" ] || { echo "there is no release ${RELEASE##*/}" >&2; exit 1; }
sha256sum <"$RELEASE/config.toml" || exit 1
cat "$RELEASE/manifest.json"
"""


@dataclass(frozen=True)
class Observation:
    """What is seen of a daemon: its own record, and the process itself.

    Args:
        boot_id: This boot of the host.
        folder: The release's folder without symbolic links.
        record: ``daemon.json``, or None where there is none that can be read.
        process: The process that was asked for, or None where it does not exist.
    """

    boot_id: str
    folder: str
    record: DaemonRecord | None
    process: ProcessInfo | None


def start_script(layout: Layout, release_id: str, launch_id: str) -> Script:
    """Move ``current`` and start the release in a session of its own.

    Prints ``previous LINK``, ``pid N``, and ``stat`` with /proc/N/stat if the process still lives then.
    """
    return Script(
        f"launch release {release_id}",
        _POINT + _START,
        {
            "REMOTE_DIR": layout.remote_dir,
            "DAEMON_HOME": layout.home,
            "RUN": layout.run,
            "LOGS": layout.logs,
            "RELEASE": layout.release(release_id),
            "RELEASE_ID": release_id,
            "LAUNCH_ID": launch_id,
            "PIDFILE": f"{layout.run}/{launch_id}.pid",
        },
        changes=True,
    )


def observe_script(layout: Layout, release_id: str, pid: int | None) -> Script:
    """Look at ``daemon.json`` and at one process."""
    parameters = {
        **roots(),
        "RELEASE": layout.release(release_id),
        "RECORD": layout.daemon_json,
        "PID": "" if pid is None else str(pid),
    }
    return Script("look at the daemon", PRELUDE + PROCESSES + _OBSERVE, parameters)


def parse_observation(output: str) -> Observation:
    """Read what ``observe_script`` prints."""
    from pydantic import ValidationError  # noqa: PLC0415 - costs a tenth of a second of every start

    words: dict[str, str] = {}
    for line in output.splitlines():
        word, _, rest = line.partition(" ")
        words.setdefault(word, rest)
    try:
        record = DaemonRecord.model_validate_json(words["record"]) if "record" in words else None
    except ValidationError:
        record = None
    processes = parse_processes(output[output.find("btime ") :])
    return Observation(words.get("boot", ""), words.get("folder", ""), record, processes[0] if processes else None)


def abort_script(layout: Layout, launch_id: str, previous: str, process: tuple[int, int] | None) -> Script:
    """End what a failed launch started, move ``current`` back, and show the ends of its logs.

    Prints what became of the process (``ended`` by itself, ``stopped`` now, still ``alive``), then the name of each
    log before its end.

    Args:
        layout: Where things lie.
        launch_id: The launch.
        previous: Where ``current`` pointed before, or an empty string where there was none.
        process: (pid, start_ticks) of what was started, or None where nothing lives.
    """
    pid, start_ticks = (str(process[0]), str(process[1])) if process else ("", "")
    return Script(
        "end the failed launch",
        _POINT + _ABORT,
        {
            "DAEMON_HOME": layout.home,
            "LOGS": layout.logs,
            "LAUNCH_ID": launch_id,
            "PREVIOUS": previous,
            "PID": pid,
            "START_TICKS": start_ticks,
        },
        changes=True,
    )


def release_facts_script(layout: Layout, release_id: str) -> Script:
    """Print the digest of a release's configuration, then its manifest."""
    return Script(f"read release {release_id}", _RELEASE, {"RELEASE": layout.release(release_id)})
