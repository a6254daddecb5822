"""``prover ctl bench``: the load of ``prover.bench`` on the daemon of this host."""

from __future__ import annotations

import contextlib
import hashlib
import sys
from typing import TYPE_CHECKING, Any

from prover import bench
from prover.client import dump, job_path
from prover.errors import InputError, ProverError
from prover.protocol import CircuitStatus, JobAnswer, StatusAnswer

if TYPE_CHECKING:
    import argparse

    from prover.client import Client
    from prover.protocol import BenchAnswer, DaemonRecord

_SPARE_S = 30.0


class DaemonTarget:
    """The daemon of this host, as ``prover.bench`` sees it.

    Args:
        client: Talks to it.
        circuit: Name of a circuit there.
        witnesses: Paths or digests, one a proof.
        data: A witness to put before each job, or None where the daemon finds them all.
    """

    def __init__(
        self, client: Client, circuit: str, witnesses: list[dict[str, str]], data: bytes | None = None
    ) -> None:
        self._client = client
        self._circuit = circuit
        self._body = dump({"circuit": circuit, "witnesses": witnesses})
        self._data = data
        self._sha256 = hashlib.sha256(data or b"").hexdigest()

    def submit(self) -> JobAnswer:
        """Submit one job; the daemon keeps a witness until a job has claimed each put."""
        if self._data is not None:
            self._client.ask("PUT", f"/v1/witnesses/{self._sha256}", self._data, timeout_s=120)
        return JobAnswer.model_validate_json(self._client.ask("POST", "/v1/jobs", self._body))

    def wait(self, job_id: str, wait_s: float) -> JobAnswer:
        """Wait for its end."""
        answer = self._client.ask("GET", job_path(job_id, wait_s), timeout_s=wait_s + _SPARE_S)
        return JobAnswer.model_validate_json(answer)

    def cancel(self, job_id: str) -> None:
        """Cancel it."""
        with contextlib.suppress(ProverError):  # it has ended meanwhile, or the daemon has
            self._client.ask("DELETE", job_path(job_id))

    def circuit(self) -> CircuitStatus:
        """The circuit."""
        status = StatusAnswer.model_validate_json(self._client.ask("GET", "/status"))
        found = next((circuit for circuit in status.circuits if circuit.name == self._circuit), None)
        if found is None:
            raise ProverError("not-loaded", f"circuit {self._circuit} was never loaded: nothing was proved", "")
        return found

    def verification_key(self) -> dict[str, Any]:
        """Its verification key."""
        return self._client.verification_key(self._circuit)

    def daemon(self) -> DaemonRecord | None:
        """Who proves."""
        return self._client.record


def run(client: Client, options: argparse.Namespace) -> BenchAnswer:
    """Measure the daemon; the options are those of ``prover ctl bench``.

    Raises:
        InputError: An option is wrong.
        BenchFailedError: A job failed.
        ProverError: See ``prover.bench.run``.
    """
    from prover.progress import Progress  # noqa: PLC0415 - nothing else here needs a thread

    load = load_of(options)
    witnesses: list[dict[str, str]] = options.witnesses or []
    data = None if witnesses else _standard_input()
    if data is not None:
        witnesses = [{"sha256": hashlib.sha256(data).hexdigest()}]
    if load.n_partitions % len(witnesses):
        raise InputError("usage", f"--count {load.n_partitions} is no multiple of the witnesses", "give another one")
    target = DaemonTarget(client, options.circuit, witnesses * (load.n_partitions // len(witnesses)), data)
    with Progress("starting") as progress:
        return bench.run(target, load, progress.stage)


def load_of(options: argparse.Namespace) -> bench.Load:
    """Read the options that say how much load there is.

    Raises:
        InputError: A number is out of range.
    """
    ranges = {"jobs": (1, 1_000_000), "concurrency": (1, 1024), "warmup": (0, 10_000), "count": (1, 256)}
    ranges |= {"workers": (1, 64), "lookahead": (1, 1024)}  # of `prover bench` alone, as in a configuration
    for name, (least, most) in ranges.items():
        if not least <= getattr(options, name, least) <= most:
            raise InputError("usage", f"--{name} is not from {least} to {most}", "give another number")
    return bench.Load(
        n_jobs=options.jobs,
        concurrency=options.concurrency,
        n_warmup=options.warmup,
        n_partitions=options.count,
        timeout_s=options.timeout_s,
    )


def _standard_input() -> bytes:
    if sys.stdin.isatty():
        raise InputError("usage", "the witness is expected on standard input", "redirect a .wtns file, or name one")
    data = sys.stdin.buffer.read()
    if not data:
        raise InputError("witness-empty", "nothing came on standard input", "redirect a .wtns file, or name one")
    return data
