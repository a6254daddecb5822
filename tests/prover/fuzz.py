"""Mutation fuzzing of every format through the commands: ``python tests/prover/fuzz.py --cases 100000 --seed 1``.

Each case is made from the seed, the format and its number, so that one can be repeated (``--only N``). A command may
end with 0, 2, 3 or 4 and one sentence. Anything else is a failure: another status, a traceback, a crash, more than two
seconds, output where the status is not 0, or a proof that does not verify.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

from mutations import mutate

import prover.commands
import prover.info  # noqa: F401 - the same
from prover import cli
from prover.errors import ProverError
from prover.formats.snarkjs import read_proof, read_public, read_verification_key

if TYPE_CHECKING:
    from collections.abc import Iterable

CORPUS = Path(__file__).parents[1] / "data" / "corpus"
FORMATS = ("zkey", "wtns", "r1cs", "ptau", "proof", "public", "vkey")
BASES = {
    "zkey": "base.zkey",
    "wtns": "base.wtns",
    "r1cs": "base.r1cs",
    "ptau": "base.ptau",
    "proof": "proof.json",
    "public": "public.json",
    "vkey": "verification_key.json",
}
SLOW_S = 2.0
CASES_A_PROCESS = 2000

_parser_once = functools.cache(cli._parser)  # made anew it costs more than most cases


@dataclass(frozen=True)
class Outcome:
    """How a command took a file.

    Args:
        statuses: Of each command that was run.
        sentences: What the commands said on standard error, numbers taken out: two files with the same were refused
            for the same reason.
    """

    statuses: tuple[int, ...]
    sentences: str


class Failed(AssertionError):  # noqa: N818 - it is what a case does
    """A command did with a file what no command may do."""


def case(seed: int, kind: str, number: int) -> bytes:
    """The file of one case."""
    rng = random.Random(f"{seed}:{kind}:{number}")
    others = [(CORPUS / name).read_bytes() for name in BASES.values()]
    return mutate((CORPUS / BASES[kind]).read_bytes(), rng, others, is_json=BASES[kind].endswith(".json"))


def try_file(kind: str, data: bytes, folder: Path) -> Outcome:
    """Give a file to every command that reads its format.

    Raises:
        Failed: One of them did what it may not do.
    """
    file = folder / f"mutated{Path(BASES[kind]).suffix}"
    file.write_bytes(data)
    statuses, sentences = [], []
    for command in _commands(kind, file, folder):
        before = sorted(path.name for path in folder.iterdir())
        status, said = _run([str(part) for part in command])
        statuses.append(status)
        sentences.append(said)
        new = sorted(path.name for path in folder.iterdir())
        if status != 0 and new != before:
            raise Failed(f"{command[0]} ended with {status} and left {set(new) - set(before)}")
        if status == 0 and command[0] == "prove":
            _check_proof(kind, file, folder)
        if status == 0 and command[0] == "setup":
            _check_key(folder)
        if status == 0 and command[0] == "verify":
            _check_same_meaning(kind, data)
        for name in set(new) - set(before):
            (folder / name).unlink()
    shown = re.sub(r"\d+", "#", re.sub(r"'[^']*'", "'?'", " | ".join(sentences).replace(str(folder), "")))
    return Outcome(tuple(statuses), shown)


def _commands(kind: str, file: Path, folder: Path) -> Iterable[list[Any]]:
    base = {name: CORPUS / path for name, path in BASES.items()}
    base[kind] = file
    outputs = [folder / "out-proof.json", folder / "out-public.json"]
    yield ["info", file, "--json"]
    if kind == "zkey":
        yield ["vkey", file, folder / "out-vkey.json"]
    if kind in {"zkey", "wtns"}:
        yield ["prove", base["zkey"], base["wtns"], *outputs, "--threads", "1"]
    if kind in {"wtns", "r1cs"}:
        yield ["prove", base["zkey"], base["wtns"], *outputs, "--threads", "1", "--r1cs", base["r1cs"]]
    if kind == "r1cs":
        yield ["setup", "--insecure", file, folder / "out.zkey", "--threads", "1"]
    if kind in {"proof", "public", "vkey"}:
        yield ["verify", base["vkey"], base["public"], base["proof"]]


def _run(arguments: list[str]) -> tuple[int, str]:
    stdout, stderr = io.StringIO(), io.StringIO()
    start_s, cpu_s, queued_s = time.monotonic(), time.process_time(), _queued_s()
    quiet = contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr)
    with quiet[0], quiet[1], mock.patch.object(cli, "_parser", _parser_once):
        status = cli.main(arguments)
    # On a machine with other work the time on the wall says little; a wait that burns nothing shows on the wall alone.
    cpu_s = time.process_time() - cpu_s
    wall_s = time.monotonic() - start_s - (_queued_s() - queued_s)
    said = stderr.getvalue()
    if cpu_s > SLOW_S or wall_s > 5 * SLOW_S:
        raise Failed(f"{arguments[0]} took {cpu_s:.1f} s of CPU and {wall_s:.1f} s on the wall")
    if status not in {0, 2, 3, 4} or "Traceback" in said:
        raise Failed(f"{arguments[0]} ended with {status}: {said}")
    if status != 0:
        errors = [line for line in said.splitlines() if line.startswith("error: ")]
        if len(errors) != 1:
            raise Failed(f"{arguments[0]} ended with {status} and these errors: {said}")
        return status, errors[0]
    if arguments[0] == "info":
        json.loads(stdout.getvalue())
    return status, ""


def _queued_s() -> float:
    """How long this thread was ready to run and no CPU was free for it (the second field of schedstat, proc(5))."""
    return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9


def _check_proof(kind: str, file: Path, folder: Path) -> None:
    """A proof that was written verifies from its files, with the key that it was made for."""
    vkey = CORPUS / BASES["vkey"]
    if kind == "zkey":
        vkey = folder / "check-vkey.json"
        status, said = _run(["vkey", str(file), str(vkey)])
        if status != 0:
            raise Failed(f"a proof was made with a key that has no verification key: {said}")
    try:
        status, said = _run(["verify", str(vkey), str(folder / "out-public.json"), str(folder / "out-proof.json")])
    finally:
        (folder / "check-vkey.json").unlink(missing_ok=True)
    if status != 0:
        raise Failed(f"an invalid proof was written: {said}")


def _check_key(folder: Path) -> None:
    """A key that was made can be read."""
    status, said = _run(["vkey", str(folder / "out.zkey")])
    if status != 0:
        raise Failed(f"setup wrote a key that cannot be read: {said}")


def _check_same_meaning(kind: str, data: bytes) -> None:
    """A document that verifies in place of another one says the same."""
    base = (CORPUS / BASES[kind]).read_bytes()
    read = {"proof": read_proof, "public": read_public, "vkey": read_verification_key}[kind]
    if read(json.loads(data), "mutated") != read(json.loads(base), "base"):
        raise Failed("another document verifies as well")


def run_cases(kind: str, seed: int, numbers: Iterable[int], keep: Path | None) -> int:
    """Run cases in this process, and keep one file for each new reason to be refused.

    Returns:
        How many failed; each is named on standard output, and its file is kept.
    """
    n_failed = 0
    seen: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="prover-fuzz-") as name:
        for number in numbers:
            data = case(seed, kind, number)
            print(f"{kind} {seed} {number}", file=sys.stderr, flush=True)  # noqa: T201 - the last one tells of a crash
            try:
                outcome = try_file(kind, data, Path(name))
            except (Failed, ProverError) as error:
                n_failed += 1
                print(f"FAILED {kind} seed {seed} case {number}: {error}", flush=True)  # noqa: T201 - a script
                if keep:
                    (keep / f"failed-{kind}-{seed}-{number}").write_bytes(data)
                shutil.rmtree(name)
                Path(name).mkdir()
                continue
            signature = f"{outcome.statuses} {outcome.sentences}"
            if keep and signature not in seen:
                seen.add(signature)
                (keep / f"{kind}-{seed}-{number}").write_bytes(data)
    return n_failed


def run_all(kinds: list[str], seed: int, n_cases: int, keep: Path | None) -> int:
    """Run cases in processes of their own, so that a crash is one failure among others; returns how many failed."""
    n_failed = 0
    for kind in kinds:
        done = 0
        start_s = time.monotonic()
        while done < n_cases:
            n = min(CASES_A_PROCESS, n_cases - done)
            command = [sys.executable, __file__, "--format", kind, "--seed", str(seed)]
            command += ["--from", str(done), "--cases", str(n), "--here", *(["--keep", str(keep)] if keep else [])]
            child = subprocess.run(command, capture_output=True, text=True, check=False)
            sys.stdout.write(child.stdout)
            if child.returncode not in {0, 1}:
                tail = child.stderr.splitlines()[-3:]
                print(f"FAILED {kind} seed {seed}: the process ended with {child.returncode} after {tail}")  # noqa: T201
                n_failed += 1
            n_failed += child.stdout.count("FAILED")
            done += n
        print(f"{kind}: {n_cases} cases in {time.monotonic() - start_s:.0f} s", flush=True)  # noqa: T201 - a script
    return n_failed


def command_line() -> int:
    parser = argparse.ArgumentParser(description="Fuzz the readers of the prover through its commands.")
    parser.add_argument("--cases", type=int, default=2000, help="of each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--format", choices=FORMATS, help="default: each one")
    parser.add_argument("--from", type=int, default=0, dest="first", help="number of the first case")
    parser.add_argument("--only", type=int, help="run one case and say what came of it")
    parser.add_argument("--keep", type=Path, help="folder for one file of each outcome, and for what failed")
    parser.add_argument("--here", action="store_true", help="in this process")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    kinds = [options.format] if options.format else list(FORMATS)
    if options.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            print(try_file(kinds[0], case(options.seed, kinds[0], options.only), Path(folder)))  # noqa: T201 - a script
        return 0
    if options.here:
        numbers = range(options.first, options.first + options.cases)
        return min(1, sum(run_cases(kind, options.seed, numbers, options.keep) for kind in kinds))
    return min(1, run_all(kinds, options.seed, options.cases, options.keep))


if __name__ == "__main__":
    sys.exit(command_line())
