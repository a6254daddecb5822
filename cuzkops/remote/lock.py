"""The lock of a host: a folder that exists while somebody changes it, and ``owner.json`` in it that says who.

A folder, because making one is atomic everywhere and nothing can inherit it, as a daemon would inherit a locked
descriptor. A lock whose process on this client is dead is taken over; any other needs ``cuzkops unlock``. On a full
disk there is room for it all the same: see ``reserve.py``.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import ValidationError

from cuzkops.errors import LockedError, OpsError
from cuzkops.records import LockOwner
from cuzkops.remote.audit import local_user
from cuzkops.remote.host import Script
from cuzkops.remote.lock_taking import ACQUIRE, SHOW, TAKE_OVER, WHOLE, WRITE_OWNER
from cuzkops.remote.own_processes import start_ticks
from cuzkops.remote.reserve import RESERVE
from cuzkops.units import format_duration_s, format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

_SET_STEP = (
    WHOLE
    + WRITE_OWNER
    + """
umask 077
case $(cat -- "$lock/owner.json" 2>/dev/null) in
*"$token"*) write_owner ;;
*) exit 66 ;;
esac
"""
)

_RELEASE = (
    WHOLE
    + RESERVE
    + """
[ -d "$lock" ] || exit 0
umask 077
case $(cat -- "$lock/owner.json" 2>/dev/null) in
*"$token"*) keep_room; rm -rf -- "$lock" ;;
*) echo 'the lock is not ours any more' >&2; exit 1 ;;
esac
"""
)

_READ = (
    SHOW
    + """
[ -d "$lock" ] && show
exit 0
"""
)

_UNLOCK = (
    SHOW
    + """
[ -d "$lock" ] || exit 0
show
rm -rf -- "$lock"
"""
)


_NOT_OURS = 66
_YOUNG_S = 5
"""A lock without a name that is not older is looked at again, for three seconds."""
_SETTLING_ROUNDS = 15
_SETTLING_S = 0.2


STILL_RUNS = "that process still runs on this machine"
"""What ``fate`` says of a holder that lives."""


@dataclass(frozen=True)
class Holder:
    """Who holds a lock.

    Args:
        owner: What ``owner.json`` says, or None where it is missing or cannot be read.
        age_s: Age of the folder by the host's own clock, in seconds.
        text: ``owner.json`` as it stands.
    """

    owner: LockOwner | None
    age_s: int
    text: str

    def __str__(self) -> str:
        age = format_duration_s(self.age_s)
        if self.owner is None:
            return f"somebody who left no readable name (a client that died while it took the lock?), {age} ago"
        since = format_instant(self.owner.since_unix_ns // 10**9)
        who = f"{self.owner.user}@{self.owner.host} (process {self.owner.pid})"
        return f"{who} in step {self.owner.step}, since {since}, changed {age} ago"


def this_process(client_id: str, run_id: str, step: str) -> LockOwner:
    """Describe this process as the owner of a lock."""
    return LockOwner(
        client_id=client_id,
        user=local_user(),
        host=socket.gethostname(),
        pid=os.getpid(),
        start_ticks=start_ticks(os.getpid()) or 0,
        run_id=run_id,
        step=step,
        since_unix_ns=time.time_ns(),
    )


@contextlib.contextmanager
def held(host: Host, layout: Layout, owner: LockOwner, say: Callable[[str], None]) -> Iterator[Callable[[str], None]]:
    """Hold the lock for a block; it is released on errors and on Ctrl-C, too.

    Args:
        host: The host to lock.
        layout: Its paths.
        owner: This process, from ``this_process``.
        say: Gets a sentence when a dead owner's lock was taken over or the release failed.

    Yields:
        A function that records the step that begins.

    Raises:
        LockedError: Somebody else holds it.
    """
    try:
        acquire(host, layout, owner, say)
    except LockedError:
        raise
    except BaseException:  # interrupted on the way: it may be ours already
        with contextlib.suppress(OpsError):
            release(host, layout, owner)
        raise
    try:
        yield lambda step: set_step(host, layout, owner, step)
    finally:
        try:
            release(host, layout, owner)
        except OpsError as error:  # what happened in the block matters more; a dead owner's lock is taken over
            say(f"the lock of {host.target} could not be released: {error}")


def acquire(host: Host, layout: Layout, owner: LockOwner, say: Callable[[str], None]) -> None:
    """Take the lock, or take it over from a dead process of this client.

    Raises:
        LockedError: Somebody else holds it.
    """
    holder = _settled(lambda: _taken(host, acquire_script(layout, owner)))
    if holder and holder.owner and died_here(holder.owner, owner):
        dead = holder
        holder = _taken(host, take_over_script(layout, owner, dead.text))
        if holder is None:
            say(f"took over the lock of {host.target} from a dead process of this client: {dead}")
    if holder:
        raise _locked(host, holder, owner)


def refuse_locked(host: Host, layout: Layout, owner: LockOwner) -> None:
    """Look whether ``acquire`` could take the lock now; changes nothing, and promises nothing for later.

    Raises:
        LockedError: Somebody else holds it.
    """
    holder = _settled(lambda: read(host, layout))
    if holder and not (holder.owner and died_here(holder.owner, owner)):
        raise _locked(host, holder, owner)


def set_step(host: Host, layout: Layout, owner: LockOwner, step: str) -> None:
    """Record the step that begins.

    Raises:
        LockedError: The lock is not ours any more (code ``lock-lost``): somebody removed it by ``unlock``.
    """
    done = host.run(set_step_script(layout, owner.model_copy(update={"step": step})))
    if done.status == _NOT_OURS:
        raise LockedError(
            "lock-lost",
            f"somebody took the lock of {host.target} away, so step {step} was not begun",
            "`cuzkops status` shows what runs and who holds the lock now; run the same command again to go on",
        )
    done.check()


def release(host: Host, layout: Layout, owner: LockOwner) -> None:
    """Give the lock back; one that is gone already is fine.

    Raises:
        OpsError: Somebody else holds it by now; it is left alone.
    """
    host.run(release_script(layout, owner)).check()


def read(host: Host, layout: Layout) -> Holder | None:
    """Who holds the lock, or None."""
    return _holder(host.run(read_script(layout)).check().out)


def unlock(host: Host, layout: Layout) -> Holder | None:
    """Remove the lock, whoever holds it, and return who that was."""
    return _holder(host.run(unlock_script(layout)).check().out)


def fate(holder: Holder, client_id: str | None) -> str:
    """What is known of a holder's process, and so of what happens next; empty where it left no name.

    Args:
        holder: Who holds the lock.
        client_id: That of this client, or None where it has none yet.
    """
    owner = holder.owner
    if owner is None:
        return ""
    if (owner.client_id, owner.host) != (client_id, socket.gethostname()):
        return f"whether it still runs can be seen on {owner.host} alone"
    if died_here(owner, owner):
        return "that process has ended: the next command that changes this host takes the lock over"
    return STILL_RUNS


def died_here(owner: LockOwner, us: LockOwner) -> bool:
    """Whether the owner was a process of this client, on this machine, that does not run any more."""
    if (owner.client_id, owner.host) != (us.client_id, us.host):
        return False
    return start_ticks(owner.pid) != owner.start_ticks


def planned(layout: Layout, owner: LockOwner, steps: Mapping[str, Sequence[Script]]) -> list[Script]:
    """What ``held`` runs around a block, for a plan.

    Args:
        layout: Whose lock.
        owner: This process.
        steps: Scripts by the step that is recorded before them; under the owner's own step nothing is recorded.
    """
    scripts = [acquire_script(layout, owner)]
    for step, block in steps.items():
        record = [] if step == owner.step else [set_step_script(layout, owner.model_copy(update={"step": step}))]
        scripts += [*record, *block]
    return [*scripts, release_script(layout, owner)]


def acquire_script(layout: Layout, owner: LockOwner) -> Script:
    """Make the folder and write who we are, or show who holds it."""
    return _script("take the lock", ACQUIRE, layout, folder=layout.remote_dir, owner=_text(owner))


def take_over_script(layout: Layout, owner: LockOwner, dead: str) -> Script:
    """Replace the owner in place; one of several who try at once wins."""
    return _script("take the lock over", TAKE_OVER, layout, owner=_text(owner), dead=dead)


def set_step_script(layout: Layout, owner: LockOwner) -> Script:
    """Write the owner anew if that is still the same run."""
    return _script(f"record step {owner.step}", _SET_STEP, layout, owner=_text(owner), token=_token(owner))


def release_script(layout: Layout, owner: LockOwner) -> Script:
    """Remove the folder if it is ours."""
    return _script("release the lock", _RELEASE, layout, token=_token(owner))


def read_script(layout: Layout) -> Script:
    """Show who holds the lock."""
    return Script("read the lock", _READ, {"lock": layout.lock})


def unlock_script(layout: Layout) -> Script:
    """Show who holds the lock and remove it."""
    return Script("remove the lock", _UNLOCK, {"lock": layout.lock}, changes=True)


def _script(title: str, body: str, layout: Layout, **parameters: str) -> Script:
    return Script(title, body, {"lock": layout.lock, "reserve": layout.reserve, **parameters}, changes=True)


def _text(owner: LockOwner) -> str:
    return owner.model_dump_json(by_alias=True)


def _settled(look: Callable[[], Holder | None]) -> Holder | None:
    """Look again while a lock without a name is so young that it may just be taken or given back."""
    holder = look()
    for _ in range(_SETTLING_ROUNDS):
        if holder is None or holder.owner is not None or holder.age_s > _YOUNG_S:
            break
        time.sleep(_SETTLING_S)
        holder = look()
    return holder


def _locked(host: Host, holder: Holder, us: LockOwner) -> LockedError:
    known = fate(holder, us.client_id)
    return LockedError(
        "locked",
        f"{host.target} is locked by {holder}{f'; {known}' if known else ''}",
        "wait for it; if it is gone for good: `cuzkops unlock`",
        {
            "owner": holder.owner.model_dump(mode="json", by_alias=True) if holder.owner else None,
            "age_s": holder.age_s,
        },
    )


def _token(owner: LockOwner) -> str:
    return f'"run_id":"{owner.run_id}"'


def _taken(host: Host, script: Script) -> Holder | None:
    out = host.run(script).check().out
    return None if out == "acquired\n" else _holder(out)


def _holder(out: str) -> Holder | None:
    first, _, rest = out.partition("\n")
    word, _, age = first.partition(" ")
    if word != "held":
        return None
    text = rest.removesuffix("\n")
    try:
        owner = LockOwner.model_validate_json(text)
    except ValidationError:
        owner = None
    return Holder(owner, max(0, int(age)), text)
