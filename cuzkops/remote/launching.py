"""Scripts that start a release detached and undo a start that failed. Pure; see ``steps/launch.py``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.remote.host import Script
from cuzkops.remote.script import LIVES

if TYPE_CHECKING:
    from cuzkops.records import ProcessId
    from cuzkops.remote.layout import Layout

_POINT = r"""
point() {  # move the link `current` to $1 in one step
    if [ -e current ] && [ ! -L current ]; then
        echo "$DAEMON_HOME/current is not the link that it should be: move it away" >&2
        return 1
    fi
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
stat=$(cat "/proc/$pid/stat" 2>/dev/null)
echo "$stat"
read -r boot </proc/sys/kernel/random/boot_id
printf '%s %s %s\n%s\n' "$boot" "$pid" "$RELEASE_ID" "$stat" >"$STARTED"
exit 0
"""

_ABORT = r"""
cd "$DAEMON_HOME" || exit 1
end() {  # $1: signal, $2: tenths of a second to wait
    lives "$PID" "$START_TICKS" || return 0
    kill "-$1" "-$PID" || kill "-$1" "$PID"
    waited=0
    while lives "$PID" "$START_TICKS" && [ "$waited" -lt "$2" ]; do
        sleep 0.1 || { sleep 1; waited=$((waited + 9)); }
        waited=$((waited + 1))
    done
}
{
    if [ -z "$PID" ] || ! lives "$PID" "$START_TICKS"; then
        echo "ended"
    else
        end TERM 150
        end KILL 150
        if lives "$PID" "$START_TICKS"; then echo "alive"; else echo "stopped"; fi
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
[ -d "$RELEASE" ] || { echo "there is no release ${RELEASE##*/}" >&2; exit 1; }
cat "$RELEASE/manifest.json" 2>/dev/null
exit 0
"""


def start_script(layout: Layout, release_id: str, launch_id: str) -> Script:
    """Move ``current`` and start the release in a session of its own.

    Prints ``previous LINK``, ``pid N``, and /proc/N/stat if the process still exists then.
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
            "STARTED": layout.started,
        },
        changes=True,
    )


def abort_script(layout: Layout, launch_id: str, previous: str, process: ProcessId | None) -> Script:
    """End what a failed launch started, move ``current`` back, and show the ends of its logs.

    Prints what became of the process (``ended`` by itself, ``stopped`` now, still ``alive``), then the name of each
    log before its end.

    Args:
        layout: Where things lie.
        launch_id: The launch.
        previous: Where ``current`` pointed before, or an empty string where there was none.
        process: What was started, or None where nothing lives.
    """
    pid, start_ticks = (str(process.pid), str(process.start_ticks)) if process else ("", "")
    return Script(
        "end the failed launch",
        _POINT + LIVES + _ABORT,
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


def release_config_script(layout: Layout, release_id: str) -> Script:
    """Print the configuration of a release; nothing where it has none."""
    parameters = {"CONFIG": f"{layout.release(release_id)}/config.toml"}
    return Script(f"read the configuration of release {release_id}", 'cat "$CONFIG" 2>/dev/null; exit 0', parameters)


def release_manifest_script(layout: Layout, release_id: str) -> Script:
    """Print the manifest of a release."""
    return Script(f"read release {release_id}", _RELEASE, {"RELEASE": layout.release(release_id)})
