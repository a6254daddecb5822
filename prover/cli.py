"""The command ``prover``: reads arguments, calls one function, and turns errors into sentences and statuses.

Only argparse is imported at the start: ``prover ctl`` runs often, on hosts far away, and must answer at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NoReturn

from prover import __version__
from prover.errors import InputError, ProverError
from prover.interruptible import is_abandoned
from prover.output import show

_FAULT = 70
_INTERRUPTED = 130
_THREADS = "CPU threads (default: every CPU that this process may use)"
_BACKEND = "CPU threads, or an NVIDIA device"
BACKENDS = ("host", "cuda")
_INSECURE = (
    "INSECURE: this key is for tests only. Its trapdoor existed on this machine: whoever had it can prove anything.\n"
)


class _Parser(argparse.ArgumentParser):
    """Reports a wrong command line like every other mistake, so that ``--json`` holds for it too."""

    def error(self, message: str) -> NoReturn:
        raise InputError("usage", f"{self.prog}: {message}", f"{self.prog} --help shows what is possible")


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns the exit status of docs/PROVER.md.

    Args:
        argv: Arguments without the program's name; None takes those of the process.
    """
    _open_standard_streams()
    arguments = sys.argv[1:] if argv is None else argv
    try:
        options = _parser().parse_args(arguments)
        if options.run is not _serve:
            _interrupt_on_sigterm()
        status: int = options.run(options)
        sys.stdout.flush()
        _settle_stderr()
    except ProverError as error:
        _report(error, as_json="--json" in arguments)
        return error.exit_status
    except KeyboardInterrupt as interrupt:
        _report_interrupt(interrupt, as_json="--json" in arguments)
        if is_abandoned():
            sys.stderr.flush()
            os._exit(_INTERRUPTED)  # nothing was written, and a kernel in the middle of its work cannot be stopped
        return _INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone; the interpreter would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 1
    except Exception:  # noqa: BLE001 - whatever is left is our own fault, and the traceback goes to a file
        path = _write_traceback()
        fault = ProverError("internal", f"a fault of this program; the traceback is in {path}", "please report it")
        _report(fault, as_json="--json" in arguments)
        return _FAULT
    return status


def _report(error: ProverError, *, as_json: bool) -> None:
    with contextlib.suppress(OSError):  # nobody may be left to read it: the status still says it
        sys.stderr.write(f"error: {error.message}\n" + (f"hint: {error.hint}\n" if error.hint else ""))
        if as_json:
            body = {"code": error.code, "message": error.message, "hint": error.hint, "details": error.details}
            sys.stdout.write(json.dumps({"error": body}) + "\n")
            sys.stdout.flush()


def _report_interrupt(interrupt: KeyboardInterrupt, *, as_json: bool) -> None:
    sentence = f"interrupted{f': {interrupt}' if interrupt.args else ''}"
    with contextlib.suppress(OSError):  # nobody may be left to read it
        sys.stderr.write(f"{sentence}\n")
        if as_json:
            body = {"code": "interrupted", "message": sentence, "hint": "", "details": {}}
            sys.stdout.write(json.dumps({"error": body}) + "\n")
            sys.stdout.flush()


def _write_traceback() -> str:
    fd, path = tempfile.mkstemp(prefix="prover-fault-", suffix=".txt")
    with os.fdopen(fd, "w") as file:
        file.write(f"prover {__version__} {sys.argv}\n{traceback.format_exc()}")
    return path


def _open_standard_streams() -> None:
    """Point closed standard streams at /dev/null: else the next file that is opened would take their number."""
    for fd, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, open(fd, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - lives as long as we


def _settle_stderr() -> None:
    """Drop what a full disk kept of the standard error: the interpreter would turn it into status 120 at exit."""
    try:
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def _interrupt_on_sigterm() -> None:
    """End a command that is terminated as one that is interrupted: it tidies up and names what goes on."""

    def interrupt(_signal: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="prover", description="Groth16 proofs over BLS12-381: a daemon, its client, and single proofs."
    )
    parser.add_argument("--version", action="version", version=f"prover {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    prove = commands.add_parser("prove", help="prove one witness; writes nothing unless the proof verifies")
    prove.add_argument("zkey", type=Path, help="proving key (snarkjs .zkey)")
    prove.add_argument("wtns", type=Path, help="witness (.wtns)")
    prove.add_argument("proof", type=Path, help="proof.json to write")
    prove.add_argument("public", type=Path, help="public.json to write")
    prove.add_argument("--r1cs", type=Path, help="the circuit: names the first constraint that does not hold")
    prove.add_argument("--threads", type=int, help=_THREADS)
    prove.add_argument("--backend", choices=BACKENDS, default="host", help=_BACKEND)
    prove.set_defaults(run=_prove)
    verify = commands.add_parser("verify", help="verify one proof")
    verify.add_argument("vkey", type=Path, help="verification_key.json")
    verify.add_argument("public", type=Path, help="public.json")
    verify.add_argument("proof", type=Path, help="proof.json")
    verify.set_defaults(run=_verify)
    _add_files(commands)
    _add_bench(commands)
    _add_serve(commands)
    ctl = commands.add_parser("ctl", help="talk to the daemon of this host")
    from prover.ctl import add_verbs  # noqa: PLC0415 - argparse only, but --version need not read it twice

    add_verbs(ctl)
    return parser


def _add_files(commands: argparse._SubParsersAction[_Parser]) -> None:
    vkey = commands.add_parser("vkey", help="write the verification key of a proving key")
    vkey.add_argument("zkey", type=Path, help="proving key (snarkjs .zkey)")
    vkey.add_argument("out", type=Path, nargs="?", help="verification_key.json to write (default: standard output)")
    vkey.set_defaults(run=_vkey)
    info = commands.add_parser("info", help="say what a file is: .zkey, .wtns, .r1cs, .ptau, or JSON, of any curve")
    info.add_argument("file", type=Path, help="the file")
    info.add_argument("--json", action="store_true", help="one JSON document")
    info.set_defaults(run=_info)
    setup = commands.add_parser("setup", help="make an INSECURE proving key for tests, without a ceremony")
    setup.add_argument("r1cs", type=Path, help="circuit (.r1cs)")
    setup.add_argument("zkey", type=Path, help="proving key to write")
    setup.add_argument("--insecure", action="store_true", help="needed: whoever makes such a key could forge proofs")
    setup.add_argument("--threads", type=int, help=_THREADS)
    setup.add_argument("--backend", choices=BACKENDS, default="host", help=_BACKEND)
    setup.set_defaults(run=_setup)


def _add_bench(commands: argparse._SubParsersAction[_Parser]) -> None:
    from prover.ctl import add_load  # noqa: PLC0415 - as in _parser

    bench = commands.add_parser("bench", help="prove a load of equal jobs in this process, and say how fast it was")
    bench.add_argument("--circuit", help="synthetic:2^K (default: synthetic:2^12), or a name for --zkey")
    bench.add_argument("--zkey", type=Path, help="proving key, instead of a synthetic circuit")
    bench.add_argument("--wtns", type=Path, help="witness for --zkey")
    add_load(bench)
    bench.add_argument("--threads", type=int, help=_THREADS)
    bench.add_argument("--workers", type=int, default=1, help="threads that take partitions to the device (default: 1)")
    bench.add_argument("--lookahead", type=int, default=1, help="partitions synthesised ahead (default: 1)")
    bench.add_argument("--log", type=Path, help="timing log to append to")
    bench.add_argument("--json", action="store_true", help="one JSON document")
    bench.set_defaults(run=_bench)
    synthetic = commands.add_parser("synthetic", help="make an INSECURE circuit of any size for measuring")
    synthetic.add_argument("size", help="2^K, which fills a domain of 2^K, or a number of constraints")
    synthetic.add_argument("folder", type=Path, help="where circuit.zkey and witness.wtns go")
    synthetic.add_argument("--threads", type=int, help=_THREADS)
    synthetic.set_defaults(run=_synthetic)


def _add_serve(commands: argparse._SubParsersAction[_Parser]) -> None:
    serve = commands.add_parser("serve", help="run the daemon in the foreground")
    serve.add_argument("--config", type=Path, required=True, help="configuration (playbooks/reference.toml)")
    serve.add_argument("--remote-dir", type=Path, default=Path("~/.cuzkops"), help="default: %(default)s")
    serve.add_argument("--release-id", help="default: the name of the release folder, or source")
    serve.add_argument("--launch-id", help="names the timing log; default: the time and the PID")
    serve.add_argument("--check-config", action="store_true", help="only say what is wrong and what it will need")
    serve.add_argument("--json", action="store_true", help="with --check-config: one JSON document")
    serve.set_defaults(run=_serve)


def _prove(options: argparse.Namespace) -> int:
    from prover.commands import prove_files  # noqa: PLC0415 - numpy and the kernels are loaded only to compute

    files = (options.zkey, options.wtns, options.proof, options.public)
    prove_files(*files, options.threads, r1cs=options.r1cs, backend_name=options.backend)
    return 0


def _verify(options: argparse.Namespace) -> int:
    from prover.commands import verify_files  # noqa: PLC0415 - the same

    verify_files(options.vkey, options.public, options.proof)
    show("the proof is valid\n")
    return 0


def _vkey(options: argparse.Namespace) -> int:
    from prover.commands import export_verification_key  # noqa: PLC0415 - the same

    text = export_verification_key(options.zkey, options.out)
    if options.out is None:
        show(f"{text}\n")
    return 0


def _info(options: argparse.Namespace) -> int:
    from prover.info import describe, render  # noqa: PLC0415 - the same

    facts = describe(options.file)
    show(json.dumps(facts) + "\n" if options.json else render(facts))
    return 0


def _setup(options: argparse.Namespace) -> int:
    if not options.insecure:
        raise InputError(
            "insecure",
            "this makes a key without a ceremony, and whoever makes it could forge proofs",
            "for tests add --insecure; a key of use comes from snarkjs groth16 setup with contributions",
        )
    from prover.commands import setup_files  # noqa: PLC0415 - the same

    sys.stderr.write(_INSECURE)
    setup_files(options.r1cs, options.zkey, options.threads, options.backend)
    sys.stderr.write(f"{options.zkey} is written. {_INSECURE}")
    return 0


def _bench(options: argparse.Namespace) -> int:
    from prover.bench_here import Setting, bench_command  # noqa: PLC0415 - the same
    from prover.ctl_bench import load_of  # noqa: PLC0415 - the same

    setting = Setting(
        circuit=options.circuit or (options.zkey.stem if options.zkey else "synthetic:2^12"),
        zkey=options.zkey,
        wtns=options.wtns,
        threads=options.threads,
        workers=options.workers,
        lookahead=options.lookahead,
        log=options.log,
    )
    return bench_command(setting, load_of(options), as_json=options.json)


def _synthetic(options: argparse.Namespace) -> int:
    from prover.commands import synthetic_files  # noqa: PLC0415 - the same

    sys.stderr.write(_INSECURE)
    synthetic_files(options.size, options.folder, options.threads)
    return 0


def _serve(options: argparse.Namespace) -> int:
    if options.check_config:
        from prover.check import check_command  # noqa: PLC0415 - the same

        return check_command(options.config, options.remote_dir, as_json=options.json)
    from prover.config import load_config  # noqa: PLC0415 - the same

    config = load_config(options.config, options.remote_dir)  # may be interrupted: a pipe, or a server that is dead
    wanted = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
    signals = {number for number in wanted if signal.getsignal(number) is not signal.SIG_IGN}
    # Before numpy starts threads of its own: a signal goes to any thread that does not block it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    from prover.check import plan_of  # noqa: PLC0415 - the same
    from prover.daemon import LaunchIds, serve  # noqa: PLC0415 - the same

    launch_id = options.launch_id or f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}"
    return serve(config, plan_of(config), LaunchIds(_release_id(options.release_id), launch_id), signals)


def _release_id(given: str | None) -> str:
    from prover.instance import release_folder  # noqa: PLC0415 - the same

    folder = release_folder()
    return given or (folder.name if folder else "source")
