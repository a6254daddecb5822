"""What a login would use, looked at without logging in: ssh_config, keys, the agent, known_hosts."""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cuzkops.remote.login import configured, identities, known_as, known_hosts
from cuzkops.units import counted

if TYPE_CHECKING:
    from cuzkops.target import Target


_AGENT_S = 5.0


@dataclass(frozen=True)
class LoginFacts:
    """What there is to log in with.

    Args:
        place: The host and port that the target means, after ssh_config.
        user: As whom.
        config: The ssh_config file of the user, and whether it exists.
        keys: Key files that would be offered.
        open_keys: Those of them that others may read: ssh itself refuses them.
        agent: What the agent says: ``none``, ``dead``, or how many keys it has.
        is_known: Whether a key of that host is in known_hosts.
    """

    place: str
    user: str
    config: str
    keys: list[str]
    open_keys: list[str]
    agent: str
    is_known: bool


def look_at_login(target: Target, identity: Path | None = None) -> LoginFacts:
    """Look at what a login would use; opens no connection but that to the agent.

    Raises:
        UsageError: The ssh_config, the identity or the environment is wrong; the sentence says how.
    """
    connection = configured(target, 10)
    settings = connection.ssh_config
    keys = identities(settings, identity)
    config = os.environ.get("CUZKOPS_SSH_CONFIG") or "~/.ssh/config"
    return LoginFacts(
        place=f"{connection.host} port {connection.port}",
        user=connection.user,
        config=config if Path(config).expanduser().exists() else f"{config} (does not exist)",
        keys=keys,
        open_keys=[key for key in keys if Path(key).stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)],
        agent=_agent(),
        is_known=bool(known_hosts(settings).key_types(*known_as(connection))),
    )


def _agent() -> str:
    path = os.environ.get("SSH_AUTH_SOCK")
    if not path:
        return "none"
    try:
        with socket.socket(socket.AF_UNIX) as probe:  # the library says nothing of an agent that does not answer
            probe.settimeout(_AGENT_S)
            probe.connect(path)
    except OSError:
        return "dead"
    import paramiko  # noqa: PLC0415 - takes long to load

    try:
        agent = paramiko.Agent()
        keys = agent.get_keys()
        agent.close()
    except (paramiko.SSHException, OSError):  # whatever listens there is no agent
        return "dead"
    return counted(len(keys), "key")
