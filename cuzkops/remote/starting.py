"""What a launch has started and that has not said yet who it is: while it loads, it has no daemon.json."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cuzkops.records import ProcessId
from cuzkops.remote.host import Script
from cuzkops.remote.procfs import DEAD_STATES, parse_stats
from cuzkops.remote.script import roots

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from cuzkops.remote.layout import Layout

# The first stat line is that of the moment of the launch, the second is that of now.
STARTED = r"""
started() {  # the boot, what the last launch started, and the process of that number now
    [ -r "$STARTED" ] || return 0
    read -r boot <"$PROC/sys/kernel/random/boot_id"
    echo "$boot"
    cat "$STARTED"
    read -r _ pid _ <"$STARTED"
    cat "$PROC/$pid/stat" 2>/dev/null
    return 0
}
"""


@dataclass(frozen=True)
class Starting:
    """A process that a launch has started and that has not said yet who it is: it loads its libraries."""

    pid: int
    release_id: str
    start_ticks: int

    @property
    def process(self) -> ProcessId:
        """The process, for ever."""
        return ProcessId(pid=self.pid, start_ticks=self.start_ticks)


def find_starting(host: Host, layout: Layout) -> Starting | None:
    """What the last launch started, where it lives; whether it has written daemon.json meanwhile is not asked."""
    script = Script("look at what was started", f"{STARTED}\nstarted\n", {**roots(), "STARTED": layout.started})
    return parse_started(host.run(script).check().out)


def parse_started(text: str) -> Starting | None:
    """Read what the shell function ``started`` prints: None unless it is of this boot, still the same, and alive."""
    boot, _, rest = text.partition("\n")
    words = rest.partition("\n")[0].split()
    stats = parse_stats(rest)
    if len(words) != 3 or words[0] != boot or len(stats) != 2:
        return None
    then, now = stats
    if (then.pid, then.start_ticks) != (now.pid, now.start_ticks) or now.state in DEAD_STATES:
        return None
    return Starting(now.pid, words[2], now.start_ticks)
