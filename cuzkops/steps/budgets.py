"""Whether the memory budget of a daemon can ever be held, alone and beside the other daemons of the host."""

from __future__ import annotations

import tomllib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from cuzkops.errors import OpsError
from cuzkops.remote.daemon import find_daemon
from cuzkops.remote.host import Script
from cuzkops.remote.launching import release_config_script
from cuzkops.remote.layout import Layout
from cuzkops.steps.findings import Finding
from cuzkops.units import format_bytes, parse_size_bytes

if TYPE_CHECKING:
    from cuzkops.remote.host import Host
    from cuzkops.remote.probes import HostFacts

SMALLER_BUDGET = "use a smaller budget (memory.budget, --budget), or a host or control group with more memory"

_NAMES = r"""
for record in "$REMOTE_DIR"/*/run/daemon.json; do [ -r "$record" ] && echo "${record%/run/daemon.json}"; done
exit 0
"""


def budget_findings(
    host: Host, layout: Layout, budget_bytes: int, facts: HostFacts, need_bytes: int | None = None
) -> list[Finding]:
    """Hold an explicit budget against what this session can ever have, alone and with its neighbours.

    Args:
        host: Where.
        layout: Which daemon there.
        budget_bytes: Its budget.
        facts: The host.
        need_bytes: A need that was held against the host already, or None.
    """
    most_bytes = facts.memory.most_bytes
    if budget_bytes > most_bytes:
        if need_bytes is not None and need_bytes >= budget_bytes:
            return []  # said already
        budget, most = format_bytes(budget_bytes), format_bytes(most_bytes)
        message = f"the memory budget of {budget} can never be held: this session may have {most} in all"
        return [Finding("memory-budget", "error", "memory", message, SMALLER_BUDGET)]
    others = neighbour_budgets(host, layout)
    together_bytes = budget_bytes + sum(others.values())
    if together_bytes <= most_bytes:
        return []
    named = ", ".join(f"{name} with {format_bytes(n_bytes)}" for name, n_bytes in others.items())
    message = (
        f"the memory budgets of {layout.name} with {format_bytes(budget_bytes)} and of what runs beside it ({named}) "
        f"make {format_bytes(together_bytes)}, and this session may have {format_bytes(most_bytes)} in all"
    )
    hint = "make the budgets smaller, so that each can be held while the others are"
    return [Finding("memory-shared", "warning", "memory", message, hint, {"budgets_bytes": others})]


def neighbour_budgets(host: Host, layout: Layout) -> dict[str, int]:
    """The explicit budgets of the other daemons that run in the same remote folder, by name."""
    done = host.run(Script("look for other daemons", _NAMES, {"REMOTE_DIR": layout.remote_dir})).check()
    found = {}
    for name in (PurePosixPath(home).name for home in done.out.splitlines()):
        other = Layout(layout.remote_dir, name)
        if name == layout.name or (budget_bytes := running_budget_bytes(host, other)) is None:
            continue
        found[name] = budget_bytes
    return found


def running_budget_bytes(host: Host, layout: Layout) -> int | None:
    """The explicit budget of a daemon that runs; None where none runs, or its budget follows the machine."""
    try:
        daemon = find_daemon(host, layout)
        if daemon is None or daemon.status != "running":
            return None
        text = host.run(release_config_script(layout, daemon.record.release_id)).check().out
        budget = tomllib.loads(text).get("memory", {}).get("budget", "auto")
        return None if budget == "auto" else parse_size_bytes(budget)
    except (OpsError, ValueError, TypeError, AttributeError):
        return None  # not for us to judge: the daemon reads its own configuration
