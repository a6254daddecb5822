"""``cuzkops prove``: prove a witness through the deployed daemon, and keep each proof from when it arrives."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import Timeout, on_host
from cuzkops.errors import OpsError, UsageError
from cuzkops.paths import expanded
from cuzkops.session import Place
from cuzkops.state import write_atomically
from cuzkops.units import format_duration_s, parse_duration_s

if TYPE_CHECKING:
    from prover.protocol import JobAnswer, ProofRecord

_CANCELLED = "the jobs that were submitted and had not ended are cancelled; the daemon runs on"


@on_host
def prove(
    place: Place,
    *,
    circuit: Annotated[str, typer.Argument(metavar="CIRCUIT", help="A circuit that the daemon serves.")],
    witness: Annotated[str, typer.Argument(metavar="WITNESS", help="A .wtns file of this machine.")],
    count: Annotated[int, typer.Option("--count", metavar="N", min=1, help="Prove it N times, one job each.")] = 1,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Folder for proof.json and public.json (DIR/1, DIR/2, ... for more)."
        ),
    ] = Path(),
    on_host: Annotated[bool, typer.Option("--on-host", help="WITNESS is an absolute path on the host.")] = False,
    timeout: Timeout = "30m",
) -> None:
    """Prove a witness through the deployed daemon, and write the proofs as snarkjs reads them.

    The daemon verifies each proof with an independent library before it leaves.
    """
    from cuzkops.steps import load  # noqa: PLC0415 - `--help` loads no records

    local = None if on_host else local_witness(witness)
    request = load.ProveRequest(circuit, local, witness if on_host else None, count, parse_duration_s(timeout))
    check_out(out)
    files: dict[str, list[Path]] = {}
    numbers: dict[str, int] = {}  # of each job, in the order of their submission
    screen, begin_s = place.screen, time.monotonic()

    def keep(job: JobAnswer) -> None:
        screen.progress(f"prove: {far_text(len(files), count, time.monotonic() - begin_s)}; {job.id} {job.state}")
        number = numbers.setdefault(job.id, len(numbers) + 1)
        for proof in job.proofs:
            files[job.id] = write_proof(out if count == 1 else out / str(number), proof)
        place.session.interrupted = f"{kept_text(len(files), count, out)}; {_CANCELLED}"

    place.session.interrupted = f"no proof was written; {_CANCELLED}"
    try:
        with place.open() as (host, layout):
            jobs = load.prove(host, layout, request, keep)
    except OpsError:
        if files:
            screen.say(kept_text(len(files), count, out))
        raise
    written = [file for job in jobs for file in files[job.id]]
    screen.result({"jobs": jobs, "files": written}, proved_text(jobs, written))


def far_text(n_done: int, n_jobs: int, lasted_s: float) -> str:
    """How many of the proofs are here, and how long the others will take at that pace."""
    if not 0 < n_done < n_jobs:
        return f"{n_done} of {n_jobs} proofs"
    left_s = round(lasted_s / n_done * (n_jobs - n_done))
    return f"{n_done} of {n_jobs} proofs, {n_done / lasted_s:.3g}/s, about {format_duration_s(left_s)} left"


def local_witness(text: str) -> Path:
    """The witness file of this machine, looked at before anything is sent.

    Raises:
        UsageError: It cannot be read, or is no witness.
    """
    path = expanded(text, "the witness")
    if not (os.access(path, os.R_OK) and path.is_file()):
        raise UsageError(
            "witness", f"{text} is not a file of this machine that can be read", "add --on-host for one of the host"
        )
    if path.stat().st_size == 0:
        raise UsageError("witness", f"{text} is empty", "calculate the witness again")
    with path.open("rb") as file:
        begin = file.read(4)
    if begin != b"wtns":  # as snarkjs begins every witness; the daemon reads the rest
        what = "a proving key (.zkey)" if begin == b"zkey" else "something else"
        raise UsageError("witness", f"{text} is no witness (.wtns) but {what}", "name the file that was calculated")
    return path


def check_out(out: Path) -> None:
    """Make the folder of the proofs, and write there once: afterwards would be too late to learn that it fails.

    Raises:
        UsageError: Nothing can be written there.
    """
    import tempfile  # noqa: PLC0415 - `--help` writes nothing, and this loads the random numbers too

    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as error:
        message = f"proofs cannot be written to {out}: {error.strerror or error}"
        raise UsageError("out", message, "name another folder with --out") from error


def write_proof(folder: Path, proof: ProofRecord) -> list[Path]:
    """Write a proof and its public inputs; returns the files.

    Raises:
        OpsError: The folder cannot be written.
    """
    files = []
    for name, content in (("proof.json", proof.proof), ("public.json", proof.public)):
        try:
            write_atomically(folder / name, json.dumps(content, indent=1).encode() + b"\n", mode=0o644)
        except OpsError as error:
            raise OpsError("out", error.message, "name another folder with --out") from error
        files.append(folder / name)
    return files


def kept_text(n_written: int, count: int, out: Path) -> str:
    """How much of the work is kept, and where."""
    return f"{n_written} of {count} proofs were written to {out}" if n_written else "no proof was written"


def proved_text(jobs: list[JobAnswer], files: list[Path]) -> str:
    """What was proved, for people."""
    seconds = [(job.finished_unix_ns - job.submitted_unix_ns) / 1e9 for job in jobs if job.finished_unix_ns is not None]
    took = f", {min(seconds):.3f} to {max(seconds):.3f} s each" if len(seconds) > 1 else f" in {sum(seconds):.3f} s"
    proofs = "1 proof" if len(jobs) == 1 else f"{len(jobs)} proofs"
    where = ", ".join(map(str, files)) if len(files) == 2 else f"{files[0].parent} to {files[-1].parent}"
    return f"{proofs} of {jobs[0].circuit}, verified by the daemon{took}: {where}"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(epilog="Example: cuzkops prove mul60 witness.wtns root@gpu1 --out proofs")(prove)
