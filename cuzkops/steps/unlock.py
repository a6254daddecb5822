"""Remove the lock of a host, whoever holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cuzkops.remote import audit, lock

if TYPE_CHECKING:
    from cuzkops.remote.host import Host, Script
    from cuzkops.remote.layout import Layout
    from cuzkops.remote.lock import Holder


def unlock(host: Host, layout: Layout) -> Holder | None:
    """Remove the lock and write down that it was done.

    Returns:
        Who held it, or None where nobody did any more.
    """
    removed = lock.unlock(host, layout)
    if removed:
        audit.append(host, layout, "unlock", {"holder": str(removed)})
    return removed


def plan_unlock(layout: Layout) -> list[Script]:
    """What runs on the host."""
    return [lock.read_script(layout), lock.unlock_script(layout)]
