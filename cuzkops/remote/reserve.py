"""Room that is kept on a host for the day on which its disk is full: a few small files that can be given up.

On a full disk nothing new can be written: no lock, no baseline of a kill, no line of the audit log. So who takes the
lock gives the reserve up where there is too little room, in blocks or in inodes, and who gives the lock back makes it
again as far as the disk takes it. Between the two it may be missing; the next one that gives the lock back makes it.
"""

from __future__ import annotations

# Random bytes: a file system that compresses keeps no room for zeros.
RESERVE = r"""
LC_ALL=C
export LC_ALL
give_room() {  # the reserve becomes free room; whether there was one
    [ -d "$reserve" ] && rm -rf -- "$reserve"
}
has_room() {  # whether what a command writes under the lock can be written now
    head -c 65536 /dev/urandom >"$lock/room"
    set -- "$?"
    rm -f -- "$lock/room"
    return "$1"
} 2>/dev/null
keep_room() {  # makes the reserve again, as far as the disk takes it: 16 files of 16 KiB
    mkdir -p -- "$reserve" || return 0
    for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
        [ -s "$reserve/$n" ] && continue
        head -c 16384 /dev/urandom >"$reserve/$n" && continue
        rm -f -- "$reserve/$n"
        break
    done
    return 0
} 2>/dev/null
"""
