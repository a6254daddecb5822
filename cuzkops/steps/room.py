"""What to do where a disk of a host is too small: what a clean would free, what lies there, and where there is room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.errors import OpsError
from cuzkops.remote.cleaning import parse_room, room_script
from cuzkops.steps.clean import choose, look, paths_of
from cuzkops.units import format_bytes

if TYPE_CHECKING:
    from cuzkops.remote.cleaning import Room
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

_TIMEOUT_S = 30
_MOST_FOLDERS = 4
_MOST_DISKS = 3
_KEPT, _LEAST_KEPT = 5, 1
"""How many releases a clean that is offered keeps: many, where that frees enough. None is refused."""
_LITTLE_BYTES = 16 << 10
"""Empty folders are no news."""


def advise(host: Host, layout: Layout, need_bytes: int, free_bytes: int, *, protect: tuple[str, ...] = ()) -> str:
    """Say what makes room on a host; looks there, and changes nothing.

    Args:
        host: Where.
        layout: Which daemon there.
        need_bytes: What is needed: another disk is named where it has that much.
        free_bytes: What is free where the remote folder lies.
        protect: Releases that a clean would leave alone, besides those in use.
    """
    try:
        holdings = look(host, layout)
        plans = {keep: choose(holdings, layout.name, keep, protect) for keep in (_KEPT, _LEAST_KEPT)}
        done = host.run(room_script(layout, paths_of(plans[_LEAST_KEPT])), timeout_s=_TIMEOUT_S).check()
    except OpsError as error:  # the advice is no reason to fail for
        return f"remove something there, or choose another folder with --remote-dir ({error.message})"
    room = parse_room(done.out)
    freed = {keep: sum(room.bytes_of.get(path, 0) for path in paths_of(plan)) for keep, plan in plans.items()}
    elsewhere = _elsewhere(room, need_bytes)
    if not freed[_LEAST_KEPT]:
        return f"{_what_lies_there(layout, room)}; {elsewhere}"
    keep = _KEPT if free_bytes + freed[_KEPT] >= need_bytes or freed[_KEPT] == freed[_LEAST_KEPT] else _LEAST_KEPT
    counts = plans[keep].counts
    would = f"`cuzkops clean --keep {keep}` would free {format_bytes(freed[keep])} there ({counts})"
    return would if free_bytes + freed[keep] >= need_bytes else f"{would}, which is not enough; {elsewhere}"


def _what_lies_there(layout: Layout, room: Room) -> str:
    largest = sorted(room.folders.items(), key=lambda item: -item[1])[:_MOST_FOLDERS]
    held = ", ".join(f"{name} {format_bytes(n_bytes)}" for name, n_bytes in largest if n_bytes > _LITTLE_BYTES)
    what = f"holds {held}, nothing of which a clean would remove" if held else "holds next to nothing"
    return f"{layout.remote_dir} {what}: remove something else on that disk"


def _elsewhere(room: Room, need_bytes: int) -> str:
    disks = sorted(((n, point) for point, n in room.free_bytes.items() if n >= need_bytes), reverse=True)
    if not disks:
        return "no other disk there that this user may write to has the room"
    named = ", ".join(f"{point} ({format_bytes(n_bytes)} free)" for n_bytes, point in disks[:_MOST_DISKS])
    return f"choose a folder with --remote-dir on {named}"
