"""``cuzkops prove``: prove a witness through the deployed daemon."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cuzkops.commands.options import Timeout, duration_s, on_host
from cuzkops.errors import OpsError, UsageError
from cuzkops.paths import expanded
from cuzkops.session import Place
from cuzkops.state import write_atomically

if TYPE_CHECKING:
    from prover.protocol import JobAnswer, ProofRecord


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

    local = None if on_host else expanded(witness, "the witness")
    if local is not None and not (os.access(local, os.R_OK) and local.is_file()):
        raise UsageError(
            "witness", f"{witness} is not a file of this machine that can be read", "add --on-host for one of the host"
        )
    request = load.ProveRequest(circuit, local, witness if on_host else None, count, duration_s(timeout))
    place.session.interrupted = "the jobs that were submitted are cancelled; the daemon runs on"
    with place.open() as (host, layout):
        jobs = load.prove(host, layout, request, lambda job: place.screen.progress(f"prove: {job.id} {job.state}"))
    files = write_proofs(out, [proof for job in jobs for proof in job.proofs])
    place.screen.result({"jobs": jobs, "files": files}, proved_text(jobs, files))


def write_proofs(out: Path, proofs: list[ProofRecord]) -> list[Path]:
    """Write each proof and its public inputs; returns the files.

    Raises:
        OpsError: The folder cannot be written.
    """
    files = []
    for number, proof in enumerate(proofs, 1):
        folder = out if len(proofs) == 1 else out / str(number)
        for name, content in (("proof.json", proof.proof), ("public.json", proof.public)):
            try:
                write_atomically(folder / name, json.dumps(content, indent=1).encode() + b"\n", mode=0o644)
            except OpsError as error:
                raise OpsError("out", error.message, "name another folder with --out") from error
            files.append(folder / name)
    return files


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
