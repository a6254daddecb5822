"""The shell that takes the lock of a host, or takes it over; see ``lock.py``."""

from __future__ import annotations

from cuzkops.remote.reserve import RESERVE

SHOW = """
show() {
    now=$(date +%s)
    since=$(stat -c %Y -- "$lock" 2>/dev/null)
    echo "held $((now - ${since:-$now}))"
    cat -- "$lock/owner.json" 2>/dev/null
}
"""

# Each of these takes a moment; a client that dies meanwhile must not leave a lock without a name.
WHOLE = """
trap '' HUP INT PIPE TERM
"""

# cat says why a write fails; the printf of dash calls everything an I/O error.
WRITE_OWNER = (
    RESERVE
    + """
put_owner() {
    printf '%s\\n' "$owner" >"$lock/owner.json.part" && mv -f -- "$lock/owner.json.part" "$lock/owner.json"
}
write_owner() {
    put_owner 2>/dev/null && return
    give_room
    put_owner 2>/dev/null && return
    printf '%s\\n' "$owner" | cat >"$lock/owner.json.part" && put_owner
}
"""
)

ACQUIRE = (
    WHOLE
    + SHOW
    + WRITE_OWNER
    + """
umask 077
mkdir -p -- "$folder" || exit 1
if ! mkdir -- "$lock" 2>/dev/null; then
    if [ -d "$lock" ]; then show; exit 0; fi
    give_room
    mkdir -- "$lock" || { [ -d "$lock" ] || exit 1; show; exit 0; }
fi
if write_owner; then
    has_room || give_room
    echo acquired
    exit 0
fi
rm -f -- "$lock/owner.json.part"
rmdir -- "$lock"
exit 1
"""
)

TAKE_OVER = (
    WHOLE
    + SHOW
    + WRITE_OWNER
    + """
umask 077
if ! mkdir -- "$lock/takeover" 2>/dev/null; then
    if [ -d "$lock/takeover" ] || [ ! -d "$lock" ]; then show; exit 0; fi
    give_room
    mkdir -- "$lock/takeover" || { [ -d "$lock/takeover" ] || exit 1; show; exit 0; }
fi
status=0
if [ "$(cat -- "$lock/owner.json")" = "$dead" ]; then
    write_owner && { has_room || give_room; echo acquired; } || status=1
else
    show
fi
rmdir -- "$lock/takeover"
exit "$status"
"""
)
