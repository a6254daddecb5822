"""Where everything lies on a host: the one place that spells these paths."""

from __future__ import annotations

from dataclasses import dataclass

from prover.protocol import SOCKET_NAME


@dataclass(frozen=True)
class Layout:
    """Paths of one daemon on one host.

    Args:
        remote_dir: Absolute path of the folder that all daemons of this host share.
        name: The daemon's name.
    """

    remote_dir: str
    name: str

    @property
    def layers(self) -> str:
        """Unpacked layers, one folder a digest."""
        return f"{self.remote_dir}/layers"

    @property
    def circuits(self) -> str:
        """Proving keys, one file a digest."""
        return f"{self.remote_dir}/circuits"

    @property
    def digests(self) -> str:
        """What layers and keys were when they were verified: ``SHA256.files`` of a layer, ``SHA256.seen`` of a key."""
        return f"{self.remote_dir}/digests"

    @property
    def lock(self) -> str:
        """Folder that exists while somebody changes this host; ``owner.json`` in it says who."""
        return f"{self.remote_dir}/lock"

    @property
    def reserve(self) -> str:
        """Folder of files that are given up where the disk is full: see ``reserve.py``."""
        return f"{self.remote_dir}/.reserve"

    @property
    def audit(self) -> str:
        """One JSON line a change."""
        return f"{self.remote_dir}/audit.jsonl"

    @property
    def home(self) -> str:
        """Everything of this daemon alone."""
        return f"{self.remote_dir}/{self.name}"

    @property
    def releases(self) -> str:
        """One folder a release."""
        return f"{self.home}/releases"

    def release(self, release_id: str) -> str:
        """Folder of one release: the union of its layers, with ``manifest.json`` and ``config.toml``."""
        return f"{self.releases}/{release_id}"

    @property
    def current(self) -> str:
        """Symbolic link to the release that was launched last."""
        return f"{self.home}/current"

    @property
    def run(self) -> str:
        """``daemon.json``, ``daemon.lock``, the socket and ``kill.json``."""
        return f"{self.home}/run"

    @property
    def socket(self) -> str:
        """The daemon's socket, unless this path is too long for one: daemon.json says where it is then."""
        return f"{self.run}/{SOCKET_NAME}"

    @property
    def daemon_json(self) -> str:
        """Who runs here, as the daemon itself wrote it."""
        return f"{self.run}/daemon.json"

    @property
    def started(self) -> str:
        """What the last launch started, for as long as the process has not written daemon.json itself."""
        return f"{self.run}/started"

    @property
    def kill_json(self) -> str:
        """The baseline of the last kill."""
        return f"{self.run}/kill.json"

    @property
    def logs(self) -> str:
        """``<launch_id>.log`` by the daemon, ``.out`` and ``.err`` by redirection."""
        return f"{self.home}/logs"


RELEASE_ID_PATTERN = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""What names a release; none of it means anything to a shell."""


def release_id(build_id: str, config_sha256: str) -> str:
    """Name a release by what it is, so that shipping the same thing twice changes nothing."""
    return f"{build_id}-{config_sha256[:12]}"
