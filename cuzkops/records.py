"""Files that outlive a command, on the host and here: manifest, lock owner, kill record, run record.

Each carries a ``schema`` number; a reader refuses a number that it does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import ConfigDict, Field

from cuzkops.units import format_bytes
from prover.protocol import BenchAnswer, Name, Record, Sha256, StoredRecord, UnixNs

if TYPE_CHECKING:
    from pydantic import ValidationError


def first_problem(error: ValidationError) -> str:
    """Where the first thing that is wrong with a record stands, and what is wrong with it."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


LayerName = Literal["runtime", "gpu", "native", "app"]


class Layer(Record):
    """One deterministic tar.gz of the artifact, named by its digest: ``<sha256>.tar.gz`` beside the manifest."""

    name: LayerName
    sha256: Sha256
    n_bytes: int = Field(alias="bytes", ge=1)

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class HostPython(Record):
    """The interpreter that a ``host-python`` artifact asks of the host."""

    version: str = Field(description='such as "3.11"')
    path: str = Field(description="where the build found it; tried first on the host")


class Manifest(StoredRecord):
    """``manifest.json``: what was built, from what, and what it needs of a host."""

    build_id: str = Field(description="first 16 hex digits of the digest over the layers: same content, same id")
    git: str = Field(description="revision, or an empty string outside a checkout")
    dirty: bool
    version: str
    target: str = Field(description='such as "x86_64-linux-gnu"')
    glibc_floor: str = Field(description="highest GLIBC symbol version over all ELF files of the artifact")
    cpu_flags: list[str] = Field(description="flags of /proc/cpuinfo that the native code needs")
    runtime: Literal["bundled", "host-python"]
    host_python: HostPython | None = None
    entry: Literal["prover"] = "prover"
    layers: list[Layer]
    builder: str = Field(description='"docker" or "local", for people; nothing depends on it')
    built_unix_ns: int

    @property
    def layer_digests(self) -> list[str]:
        """Digests of the layers, in their order."""
        return [layer.sha256 for layer in self.layers]


class ExtractRecord(StoredRecord):
    """``build.json`` beside what was taken out of somebody else's image: what it is, and from what it was made."""

    extract: str = Field(description="its path in the image")
    name: str
    kind: Literal["file", "folder"]
    sha256: Sha256
    n_bytes: int = Field(alias="bytes", ge=0)
    git: str = Field(description="revision of the context, or an empty string outside a checkout")
    dirty: bool
    dockerfile: str
    dockerfile_sha256: Sha256
    target: str | None = Field(description="stage of the Dockerfile; null for its last one")
    built_unix_ns: int

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class LockOwner(StoredRecord):
    """``lock/owner.json``: who changes this host right now."""

    client_id: str = Field(description="random, kept in the tool's state directory")
    user: str
    host: str
    pid: int
    start_ticks: int = Field(description="start of that process on the client, in clock ticks since its boot")
    run_id: str
    step: str
    since_unix_ns: int


class ProcessId(Record):
    """One process for ever: a PID alone may be reused."""

    pid: int
    start_ticks: int


class KillRecord(StoredRecord):
    """``run/kill.json``: the baseline that ``wait-memory`` judges by, written before the drain."""

    name: Name
    boot_id: str
    processes: list[ProcessId] = Field(description="every process of the daemon's session, leader first")
    session_leader: ProcessId | None = Field(default=None, description="of that session; null: the first process")
    exe: str
    footprint_bytes: int = Field(description="F: sum of RssAnon + RssShmem + HugetlbPages")
    available_bytes: int = Field(description="A0: what remote.procfs.Memory calls available")
    shmem_bytes: int
    pins_pages: int | None = Field(description="P0: nr_foll_pin_acquired - nr_foll_pin_released; null if unreadable")
    gpu_used_bytes: int | None
    dev_shm: dict[str, int] = Field(description="files in /dev/shm, other tmpfs and SysV segments: size in bytes")
    own_shm: list[str] = Field(default=[], description="those of dev_shm that the daemon itself had mapped")
    hugetlb_free_bytes: int = Field(default=0, description="free pages of the hugetlb pools")
    others: dict[str, int] = Field(description='memory in bytes of the larger other processes, by "pid:start_ticks"')
    uptime_s: float = Field(description="/proc/uptime when this was taken: the clock of the whole series")
    signalled_uptime_s: float | None = Field(default=None, description="when they were told to stop: once")

    @property
    def leader(self) -> ProcessId:
        """The leader of the daemon's session; one that had ended by itself is not among ``processes``."""
        return self.session_leader or self.processes[0]


class Machine(Record):
    """The machine that was measured; empty or 0 where it does not say."""

    hostname: str
    kernel: str
    architecture: str
    cpu: str
    n_cpus: int
    memory_bytes: int
    memory_limit_bytes: int | None = Field(default=None, description="what a control group allows of it, if one does")
    thp: str = Field(description="transparent huge pages: always, madvise or never")
    load_1min: float = Field(description="load average of the minute before")
    gpus: list[str]
    driver: str

    @property
    def memory_text(self) -> str:
        """Its memory, and what of it a control group allows, for people."""
        if self.memory_limit_bytes is None:
            return format_bytes(self.memory_bytes)
        return f"{format_bytes(self.memory_limit_bytes)} of {format_bytes(self.memory_bytes)} (control group)"


class RunRecord(StoredRecord):
    """``runs/<run_id>/run.json``: one deploy or measurement and all that identifies it."""

    run_id: str
    target: str
    name: Name
    daemon_kind: Literal["cuzkops", "cuzk"]
    log_grammar: Literal["cuzkops", "cuzk"]
    build_id: str
    exe_sha256: str
    config_sha256: str
    circuits: dict[str, str] = Field(description="name -> sha256 of its zkey; its path where only the host has it")
    host: str
    gpus: list[str]
    driver: str | None
    started_unix_ns: UnixNs
    peak_bytes: int | None = Field(default=None, description="peak resident memory of the daemon, once known")
    kind: Literal["deploy", "rollback", "bench"] = "deploy"
    failed: str = Field(default="", description="why it came to nothing; empty where it did not")
    label: str = Field(default="", description="what the user calls it")
    release_id: str = ""
    launch_id: str = Field(default="", description="names the daemon's log")
    machine: Machine | None = None
    bench: BenchAnswer | None = Field(default=None, description="what was measured")
