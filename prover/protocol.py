"""The words that the daemon and those who talk to it share: requests, answers, and ``run/daemon.json``.

Imports pydantic only, so that the operator's tool can read these records without the daemon's dependencies.
Every record carries its units in its names; times are Unix nanoseconds unless a name says otherwise.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

NAME_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
"""Names of daemons and circuits: for ``re.fullmatch``, and safe as the name of a file."""
LAUNCH_ID_PATTERN = "[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
SHA256_PATTERN = "[0-9a-f]{64}"

Sha256 = Annotated[str, StringConstraints(pattern=f"^{SHA256_PATTERN}$")]
Name = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
UnixNs = Annotated[int, Field(ge=0, lt=1 << 63)]
DurationUs = Annotated[int, Field(lt=1 << 63)]
LaunchId = Annotated[str, StringConstraints(pattern=f"^{LAUNCH_ID_PATTERN}$")]

DEFAULT_NAME = "prover"
DEFAULT_REMOTE_DIR = "~/.cuzkops"
"""Folder on the host that all daemons there share."""
SOCKET_NAME = "api.sock"
SOCKET_PATH_LIMIT_BYTES = 107
"""What a unix socket's path may take: sun_path has 108 bytes with its closing NUL."""


class Record(BaseModel):
    """Base of every record that crosses a process boundary: frozen, and unknown keys are refused.

    So are NaN and infinities, which JSON does not have.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StoredRecord(Record):
    """Base of every record that outlives the process that wrote it: a reader refuses a number that it does not know.

    ``schema`` is spelled without the underscore that pydantic's own name forces.
    """

    schema_version: Literal[1] = Field(default=1, alias="schema")

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class DaemonState(StrEnum):
    """What a daemon says of itself in ``run/daemon.json``."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"


class DaemonRecord(StoredRecord):
    """``run/daemon.json``: who runs here.

    Written atomically by the daemon at start and at each change of ``state`` while it holds a flock on
    ``run/daemon.lock``. For a daemon that is not ours ``adopt`` writes the same file. The process is
    the one with this (boot_id, pid, start_ticks); a file that outlived its process describes nobody.
    """

    name: Name
    release_id: str
    launch_id: LaunchId
    state: DaemonState
    boot_id: str
    pid: int
    start_ticks: int = Field(description="field 22 of /proc/PID/stat: start time in clock ticks since boot")
    session_id: int
    exe_sha256: str
    build_id: str
    config_sha256: str
    api: str = Field(description="absolute path of the unix socket; empty where the daemon is not ours")
    logs: list[str]
    started_unix_ns: int

    @property
    def is_ours(self) -> bool:
        """Whether it is this daemon, which answers ``prover ctl``, and not one that was adopted."""
        return bool(self.api)


class WitnessRef(Record):
    """One witness: a file on the daemon's host, or the digest of one that was put before."""

    path: str | None = None
    sha256: Sha256 | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> WitnessRef:
        if (self.path is None) == (self.sha256 is None):
            raise ValueError("give either path or sha256")
        try:
            (self.path or "").encode()
        except UnicodeEncodeError:  # it could be neither kept in the journal nor named in an answer
            raise ValueError("the path is not UTF-8: give the file another name") from None
        return self


class JobRequest(Record):
    """POST /v1/jobs: prove this circuit for these witnesses, in order."""

    circuit: Name
    witnesses: list[WitnessRef] = Field(min_length=1, max_length=256)
    idempotency_key: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    priority: int = Field(default=0, ge=-100, le=100, description="higher ones go first, between partitions too")


class JobState(StrEnum):
    """queued -> running -> done | failed | cancelled; a queued job may also be cancelled or fail."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Whether a job in this state has ended."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class ErrorBody(Record):
    """One failure, in the words of ProverError or OpsError."""

    code: str
    message: str
    hint: str = ""
    details: dict[str, Any] = {}


class ErrorAnswer(Record):
    """What every failed request and every failed ``--json`` command returns."""

    error: ErrorBody


class ProofRecord(Record):
    """One verified proof, as snarkjs writes it: ``proof.json`` and ``public.json``."""

    proof: dict[str, Any]
    public: list[str]


class JobAnswer(Record):
    """A job as it stands now. ``proofs`` has one entry a witness, in order, once the state is ``done``."""

    id: str
    circuit: Name
    state: JobState
    priority: int = 0
    n_partitions: int
    n_partitions_done: int
    submitted_unix_ns: int
    started_unix_ns: int | None = None
    finished_unix_ns: int | None = None
    proofs: list[ProofRecord] = []
    error: ErrorBody | None = None


class WitnessAnswer(Record):
    """PUT /v1/witnesses/{sha256}: stored, or already there."""

    sha256: Sha256
    n_bytes: int


class ReadyAnswer(Record):
    """GET /v1/ready: 200 with ``ready`` true, or 503 with the state that stands in the way."""

    ready: bool
    state: DaemonState


class DrainAnswer(Record):
    """POST /v1/drain: no new jobs are taken; this many are still to finish."""

    state: DaemonState
    n_jobs_left: int
    time_left_s: float = Field(description="seconds until the daemon ends although jobs are left")


class CircuitStatus(Record):
    """A circuit that the daemon knows."""

    name: Name
    sha256: Sha256
    n_constraints_domain: int = Field(description="size of the evaluation domain, a power of two")
    n_public: int
    loaded_bytes: int = Field(description="host memory that the loaded key holds; 0 while it is not loaded")


class MemoryStatus(Record):
    """The daemon's memory: its budget, what it reserved, and what the kernel says."""

    budget_bytes: int
    reserved_bytes: int
    rss_bytes: int
    peak_rss_bytes: int = Field(description="VmHWM of /proc/self/status")
    held_bytes: dict[str, int] = Field(default={}, description="who reserved how much")


class StatusAnswer(Record):
    """GET /status."""

    daemon: DaemonRecord
    version: str
    backend: str
    uptime_s: float
    jobs: dict[JobState, int]
    circuits: list[CircuitStatus]
    memory: MemoryStatus


class Percentiles(Record):
    """What a series of durations looks like, in whole microseconds.

    ``p50_us`` is the median, of an even number the mean of the two in the middle; ``p95_us`` and ``p99_us`` are nearest
    ranks.

    ``p95_us`` needs 20 durations and ``p99_us`` 100: from fewer they would be the maximum under another name.
    """

    n: int
    min_us: int
    mean_us: int
    p50_us: int
    p95_us: int | None
    p99_us: int | None
    max_us: int


class BenchSample(Record):
    """One measured job that was done."""

    job: str
    latency_us: DurationUs = Field(
        description="from just before its submission until its proofs were here, by the client"
    )
    queue_us: DurationUs = Field(description="from acceptance to the start, by the daemon's wall clock")
    run_us: DurationUs = Field(description="from the start to the last verified proof, by the daemon's wall clock")


class BenchAnswer(StoredRecord):
    """``prover ctl bench --json`` and ``prover bench --json``: what a load of equal jobs came to.

    The wall begins with the submission of the first measured job, once all warm-up jobs have ended, and ends with the
    arrival of the last proof. A job that failed is in ``errors``, and in no figure but ``n_failed`` and the wall.
    """

    circuit: Name
    circuit_sha256: Sha256
    domain_size: int
    n_public: int
    n_jobs: int = Field(description="measured jobs that were submitted")
    n_partitions: int = Field(description="proofs of one job")
    concurrency: int = Field(description="jobs in flight at most")
    n_warmup: int = Field(description="jobs before the measured ones, in no figure")
    n_done: int
    n_failed: int
    n_proofs: int = Field(description="of the jobs that were done")
    n_verified: int = Field(description="proofs that the client verified anew, after the measurement; warm-up included")
    wall_us: DurationUs
    proofs_per_s: float = Field(description="n_proofs over the wall")
    latency: Percentiles | None = Field(description="None where no job was done; the same for the other two")
    queue: Percentiles | None
    run: Percentiles | None
    samples: list[BenchSample] = Field(description="in the order of their ends")
    errors: list[ErrorBody] = Field(description="why jobs failed, one entry a failed job")
    started_unix_ns: UnixNs = Field(description="when the wall began; the daemon's log has the jobs between the two")
    finished_unix_ns: UnixNs
    daemon: DaemonRecord | None = Field(description="who proved; None for `prover bench`, which has no daemon")


class Problem(Record):
    """One finding of a check: ``where`` is a dotted configuration path, a file, or a part of the host."""

    where: str
    message: str
    hint: str = ""


class CheckAnswer(Record):
    """``prover serve --check-config --json``: everything wrong at once, and what this daemon will need."""

    ok: bool
    problems: list[Problem]
    need_host_bytes: int
    need_gpu_bytes: int
    config_sha256: Sha256
    keys_bytes: int = Field(default=0, description="size of the keys together; 0 from a version that reads none")
    keys_read_bytes: int = Field(default=0, description="how much of them was read whole, or was loaded before")
