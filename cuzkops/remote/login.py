"""Logging in over SSH: ssh_config, sockets, host keys, identities, and one sentence for each way to fail."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cuzkops.errors import OpsError, UnreachableError, UsageError
from cuzkops.paths import expanded
from cuzkops.remote.hostkeys import DEFAULT_PORT, SYSTEM_FILE, KnownHosts, Policy

if TYPE_CHECKING:
    from collections.abc import Callable

    import fabric
    import paramiko

    from cuzkops.target import Target

_DEAD_AFTER_MS = 45_000
"""The kernel gives a connection up when what was sent is not acknowledged for so long."""
_UNUSABLE_KEY = ("private key file", "Invalid key", "unexpected OpenSSH key header")
"""What paramiko says of a key file that it cannot use."""
_KEY_HEAD_BYTES = 1 << 16
_DEFAULT_IDENTITIES = ("id_rsa", "id_ecdsa", "id_ed25519")


@dataclass(frozen=True)
class Access:
    """What the command line says about logging in; the rest is for the environment and ssh_config.

    Args:
        identity: Private key to offer, and no other, or None.
        host_keys: ``"strict"``, ``"accept-new"``, or an empty string.
    """

    identity: Path | None = None
    host_keys: str = ""


AS_CONFIGURED = Access()


def log_in(
    target: Target,
    access: Access = AS_CONFIGURED,
    *,
    on_host_key: Callable[[str], None] | None,
    connect_timeout_s: float,
) -> fabric.Connection:
    """Open an authenticated connection. Never asks anything.

    Environment: ``CUZKOPS_SSH_CONFIG`` replaces the ssh_config files as ``ssh -F`` does, ``CUZKOPS_KNOWN_HOSTS`` the
    user's known_hosts, and ``CUZKOPS_HOST_KEYS`` is ``accept-new`` (default) or ``strict``.

    Raises:
        UnreachableError: In one sentence, why.
        UsageError: The ssh_config cannot be read, or the environment is wrong.
    """
    logging.getLogger("paramiko").addHandler(logging.NullHandler())  # or its thread prints tracebacks
    logging.getLogger("paramiko").propagate = False  # PyInstaller sets up the root logger when it is imported
    connection = configured(target, connect_timeout_s)
    try:
        for hop in reversed(hops(connection)):
            # as with ssh -i, the key is for the target, and jump hosts have theirs in ssh_config
            its_access = access if hop is connection else Access(host_keys=access.host_keys)
            _open(hop, its_access, on_host_key, connect_timeout_s)
    except BaseException:
        for hop in hops(connection):
            hop.client.close()
        raise
    return connection


def hops(connection: fabric.Connection) -> list[fabric.Connection]:
    """The connection itself, then the jump host that it goes through, and so on."""
    found = [connection]
    while found[-1].gateway and not isinstance(found[-1].gateway, str):  # a string is a ProxyCommand
        found.append(found[-1].gateway)
    return found


def configured(target: Target, connect_timeout_s: float) -> fabric.Connection:
    """What ssh_config and a target say of a connection, which is not opened yet.

    Raises:
        UsageError: The ssh_config cannot be read.
    """
    import fabric  # noqa: PLC0415 - takes long to load
    from paramiko.ssh_exception import ConfigParseError  # noqa: PLC0415

    own_file = os.environ.get("CUZKOPS_SSH_CONFIG") or None
    try:
        config = fabric.Config(lazy=True, runtime_ssh_path=own_file)
        config.load_ssh_config()
        return fabric.Connection(
            target.host,
            user=target.user,
            port=target.port,
            config=config,
            connect_timeout=max(1, round(connect_timeout_s)),
        )
    except (OSError, ConfigParseError, ValueError, KeyError, RecursionError) as error:
        files = own_file or "~/.ssh/config or /etc/ssh/ssh_config"
        why = "its jump hosts go in a circle" if isinstance(error, RecursionError) else error
        raise UsageError("ssh-config", f"{files} cannot be used for {target}: {why}") from error


def _open(hop: fabric.Connection, access: Access, on_host_key: Callable[[str], None] | None, timeout_s: float) -> None:
    import paramiko  # noqa: PLC0415 - takes long to load

    place = f"{hop.host} port {hop.port}"
    known = known_hosts(hop.ssh_config, access.host_keys)
    name, port = known_as(hop)
    hop.client.set_missing_host_key_policy(_check_with(known, name, port, on_host_key))
    tried = identities(hop.ssh_config, access.identity)
    only = access.identity is not None or hop.ssh_config.get("identitiesonly", "no") == "yes"
    hop.connect_kwargs = {
        "key_filename": tried,
        "look_for_keys": False,
        "allow_agent": not only,
        "banner_timeout": timeout_s,
        "auth_timeout": timeout_s,
        "channel_timeout": timeout_s,
        "transport_factory": _transports(known.key_types(name, port)),
    }
    try:
        if not hop.gateway:
            hop.connect_kwargs["sock"] = _socket(hop.host, hop.port, timeout_s)
        hop.open()
    except OpsError:
        raise
    except paramiko.AuthenticationException as error:
        raise _not_accepted(hop, tried, only, error) from error
    except paramiko.ChannelException as error:
        raise UnreachableError(
            "unreachable", f"{place} cannot be reached from {hop.gateway.host}: {error.text}"
        ) from error
    except paramiko.SSHException as error:
        raise _not_ssh(hop, tried, only, error) from error
    except EOFError as error:
        raise UnreachableError("no-ssh", f"{place} closed the connection during the login") from error
    except (OSError, UnicodeError) as error:  # the idna codec refuses a name before any resolver is asked
        raise _unreachable(hop.host, hop.port, timeout_s, error) from error


def known_as(hop: fabric.Connection) -> tuple[str, int]:
    """The name and port under which known_hosts has a host: HostKeyAlias of ssh_config stands there without a port."""
    alias = hop.ssh_config.get("hostkeyalias")
    return (alias, DEFAULT_PORT) if alias is not None else (hop.host, hop.port)


def known_hosts(ssh_config: dict[str, Any], wish: str = "") -> KnownHosts:
    """Known hosts for one host of ssh_config, and the policy for unknown ones; ``wish`` goes before all others."""
    own = os.environ.get("CUZKOPS_KNOWN_HOSTS") or ssh_config.get("userknownhostsfile") or "~/.ssh/known_hosts"
    words = [own] if "CUZKOPS_KNOWN_HOSTS" in os.environ else own.split()
    files = [expanded(word, "the known_hosts file") for word in words]
    wish = wish or os.environ.get("CUZKOPS_HOST_KEYS") or ""
    if not wish:
        # nobody can be asked, so what would be asked about is refused; only what no file says is trusted at first sight
        careful = ssh_config.get("stricthostkeychecking", "").lower() in ("yes", "true", "ask")
        wish = Policy.STRICT if careful else Policy.ACCEPT_NEW
    try:
        policy = Policy(wish)
    except ValueError:
        raise UsageError("host-keys", f"CUZKOPS_HOST_KEYS is {wish!r}", "write accept-new or strict") from None
    return KnownHosts([*files, SYSTEM_FILE], policy)


def identities(ssh_config: dict[str, Any], identity: Path | None = None) -> list[str]:
    """Identity files to offer: the one that was asked for, else those of ssh_config, else the usual three, if readable.

    Raises:
        UsageError: The one that was asked for cannot be read, or is no private key.
    """
    if identity is not None:
        if not (os.access(identity, os.R_OK) and identity.is_file()):
            message = f"the private key {identity} is not a file that can be read"
            raise UsageError("identity", message, "check --identity")
        _check_private(identity)
        return [str(identity)]
    named = ssh_config.get("identityfile") or [f"~/.ssh/{name}" for name in _DEFAULT_IDENTITIES]
    paths = [Path(os.path.expanduser(path)) for path in ([named] if isinstance(named, str) else named)]  # noqa: PTH111 - leaves the ~ of an unknown user
    return [str(path) for path in paths if os.access(path, os.R_OK) and path.is_file()]


def _check_private(identity: Path) -> None:
    """Refuse a file that is no private key; a certificate stands for the key beside it."""
    if identity.name.endswith("-cert.pub"):
        return
    with identity.open("rb") as file:
        head = file.read(_KEY_HEAD_BYTES)
    if b"PRIVATE KEY-----" in head:  # closes the first line in each of its formats
        return
    if identity.suffix == ".pub":
        private = identity.with_suffix("")
        raise UsageError(
            "identity", f"{identity} is a public key, not a private one", f"name its private key: {private}"
        )
    raise UsageError("identity", f"{identity} is not a private key in a format of OpenSSH", "check --identity")


def _socket(host: str, port: int, timeout_s: float) -> socket.socket:
    """Connect to the first address that answers; writes are not delayed, and a dead link ends by itself."""
    link = socket.create_connection((host, port), timeout_s)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_AFTER_MS)
    return link


def _transports(known_types: list[str]) -> Callable[..., paramiko.Transport]:
    """Make transports that ask for the host key types already known, as ``ssh`` does, and for the faster ciphers."""
    import paramiko  # noqa: PLC0415 - takes long to load

    wanted = [t for known in known_types for t in (["rsa-sha2-512", "rsa-sha2-256"] if known == "ssh-rsa" else [known])]

    def make(sock: object, **options: object) -> paramiko.Transport:
        transport = paramiko.Transport(sock, **options)
        security = transport.get_security_options()
        security.key_types = sorted(security.key_types, key=lambda t: t not in wanted)
        security.ciphers = sorted(security.ciphers, key=lambda c: "gcm" not in c)
        return transport

    return make


def _check_with(
    known: KnownHosts, host: str, port: int, on_host_key: Callable[[str], None] | None
) -> paramiko.MissingHostKeyPolicy:
    """Judge every key here: the client itself has loaded none, so each one is missing to it."""
    import paramiko  # noqa: PLC0415 - takes long to load

    class Check(paramiko.MissingHostKeyPolicy):  # type: ignore[misc] # the library has no types
        def missing_host_key(self, _client: object, _name: str, key: paramiko.PKey) -> None:
            stored = known.check(host, port, key.get_name(), key.asbytes())
            if stored and on_host_key:
                on_host_key(stored)

    return Check()


def _not_ssh(hop: fabric.Connection, tried: list[str], only_files: bool, error: Exception) -> OpsError:
    if any(words in str(error) for words in _UNUSABLE_KEY):
        message = (
            f"a private key for {hop.host} port {hop.port} cannot be used: {error}; named were: {', '.join(tried)}"
        )
        return UsageError("identity", message, "check --identity and IdentityFile in ssh_config")
    if "No authentication methods available" in str(error):
        return _not_accepted(hop, tried, only_files, error)
    return UnreachableError("no-ssh", f"{hop.host} port {hop.port} does not answer as an SSH server: {error}")


def _unreachable(host: str, port: int, timeout_s: float, error: OSError | UnicodeError) -> UnreachableError:
    if isinstance(error, socket.gaierror | UnicodeError):
        hint = "check the spelling, or add it to ~/.ssh/config"
        return UnreachableError("unknown-host", f"no address is known for the host {host}", hint)
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return UnreachableError("connect-timeout", f"{host} port {port} did not answer within {timeout_s:g} s")
    if error.errno == errno.ECONNREFUSED:
        return UnreachableError("refused", f"nothing listens on {host} port {port}", "check the port; is sshd running?")
    return UnreachableError("unreachable", f"{host} port {port} cannot be reached: {error.strerror or error}")


def _not_accepted(hop: fabric.Connection, tried: list[str], only_files: bool, error: Exception) -> UnreachableError:
    import paramiko  # noqa: PLC0415 - takes long to load

    keys: list[str] = []
    with contextlib.suppress(paramiko.SSHException):
        keys = [] if only_files else [f"{key.get_name()} of the agent" for key in paramiko.Agent().get_keys()]
    offered = ", ".join([*tried, *keys]) or "no key at all"
    locked = " (one of the files is locked by a passphrase)" if "encrypted" in str(error) else ""
    return UnreachableError(
        "not-accepted",
        f"{hop.host} port {hop.port} did not let {hop.user} in; offered: {offered}{locked}",
        "name a private key with -i FILE or as IdentityFile in ~/.ssh/config, add it to ssh-agent, "
        "or authorise it on the host",
    )
