"""``prover ctl``: talk to the daemon of this host through its socket.

Each verb is one request, but ``prove``, which puts, submits and waits. ``--json`` prints the daemon's answer.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any

from prover.client import Client, NobodyAnswersError, dump, find_home, job_path, refusal
from prover.errors import InputError, ProverError
from prover.output import show

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

_POLL_S = 0.25
_LONG_POLL_S = 20.0  # below the daemon's limit
_SPARE_S = 15.0
_WAIT_DEFAULT_S = 600.0
_BLOCK_BYTES = 1 << 20

Answer = dict[str, Any]


def add_verbs(parser: argparse.ArgumentParser) -> None:
    """Add every verb to the parser of ``prover ctl``."""
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, run: Callable[[argparse.Namespace], None], text: str) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text)
        added.add_argument("--json", action="store_true", help="print one JSON document")
        added.add_argument("--home", help="folder of the daemon (default: of this release, else ~/.cuzkops/prover)")
        added.set_defaults(run=_run, verb=run)
        return added

    ready = verb("ready", _ready, "whether the daemon takes jobs and has loaded the circuits that fit")
    ready.add_argument("--wait-s", type=_seconds, default=0.0, help="wait this long for it (default: not at all)")
    verb("status", _status, "who runs, its circuits, jobs and memory")
    verb("put-witness", _put_witness, "store the witness that comes on standard input; prints its digest")
    _add_request(verb("submit", _submit, "submit a job and return at once"))
    job = verb("job", _job, "a job as it stands")
    job.add_argument("id")
    job.add_argument("--wait-s", type=_seconds, default=0.0, help="wait this long for its end (default: not at all)")
    prove = verb(
        "prove", _prove, "submit a job and wait for its proofs; without a witness option it comes on standard input"
    )
    _add_request(prove)
    prove.add_argument("--count", type=int, default=1, help="prove the witnesses this many times, in one job")
    prove.add_argument(
        "--wait-s", type=_seconds, default=_WAIT_DEFAULT_S, help="give up after this (default: %(default)s)"
    )
    verb("cancel", _cancel, "cancel a job; one with partitions at work ends after these").add_argument("id")
    verb("drain", _drain, "take no new jobs, finish the others, then end the daemon")
    vkey = verb("vkey", _vkey, "the verification key of a circuit, as snarkjs writes it")
    vkey.add_argument("--circuit", required=True, help="name of a configured circuit")
    load = verb("bench", _bench, "put a load of equal jobs on the daemon, and say how fast it was")
    _add_witnesses(load)
    add_load(load)
    verb("metrics", _metrics, "the daemon's numbers, as Prometheus reads them")


def _run(options: argparse.Namespace) -> int:
    options.verb(options)
    return 0


def add_load(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how much load there is."""
    parser.add_argument("--jobs", type=int, default=20, help="measured jobs (default: %(default)s)")
    parser.add_argument("--concurrency", type=int, default=2, help="jobs in flight at most (default: %(default)s)")
    parser.add_argument("--warmup", type=int, default=1, help="jobs before the measured ones (default: %(default)s)")
    parser.add_argument("--count", type=int, default=1, help="proofs of one job (default: %(default)s)")
    parser.add_argument("--timeout-s", type=_seconds, default=3600.0, help="give up after this (default: %(default)s)")


def _add_request(parser: argparse.ArgumentParser) -> None:
    _add_witnesses(parser)
    parser.add_argument("--key", help="idempotency key: the same request with the same key is the same job")
    parser.add_argument("--priority", type=int, default=0, help="from -100 to 100, higher ones first (default: 0)")


def _add_witnesses(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--circuit", required=True, help="name of a configured circuit")
    parser.add_argument(
        "--witness-path",
        dest="witnesses",
        action="append",
        type=lambda path: {"path": os.path.abspath(path)},  # noqa: PTH100 - Path.absolute keeps "..", the daemon should not see it
        help="a .wtns file on this host; may be repeated",
    )
    parser.add_argument(
        "--witness-sha256",
        dest="witnesses",
        action="append",
        type=lambda sha256: {"sha256": sha256},
        help="digest of a witness that was put; may be repeated",
    )


def _seconds(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 86400 * 7:
        raise ValueError(text)
    return value


def _ready(options: argparse.Namespace) -> None:
    end_s = time.monotonic() + options.wait_s
    said = ""
    while True:
        state, error = _state_of(options)
        if state == "ready":
            _show(options, {"ready": True, "state": state}, "ready")
            return
        if state == "draining" or time.monotonic() >= end_s:
            raise error or ProverError(
                "not-ready", f"the daemon is {state}, not ready, after {options.wait_s:g} s", "ask again later"
            )
        if (now := state or str(error)) != said:
            said = now
            sys.stderr.write(f"waiting: {said}\n")
        time.sleep(min(_POLL_S, max(0.0, end_s - time.monotonic())))


def _state_of(options: argparse.Namespace) -> tuple[str, ProverError | None]:
    try:
        _, body = Client(find_home(options.home)).call("GET", "/v1/ready")
    except NobodyAnswersError as error:
        return "", error
    return str(json.loads(body)["state"]), None


def _status(options: argparse.Namespace) -> None:
    answer = json.loads(_client(options).ask("GET", "/status"))
    daemon, memory = answer["daemon"], answer["memory"]
    who = f"{daemon['name']} is {daemon['state']}: process {daemon['pid']}, up {answer['uptime_s']:.0f} s"
    lines = [
        f"{who}, release {daemon['release_id']}, build {daemon['build_id']}, backend {answer['backend']}",
        "jobs: " + ", ".join(f"{n} {state}" for state, n in answer["jobs"].items()),
    ]
    lines += [f"circuit {circuit['name']}: domain {circuit['n_constraints_domain']}" for circuit in answer["circuits"]]
    reserved = f"{memory['reserved_bytes']} of {memory['budget_bytes']} bytes reserved"
    lines.append(f"memory: {memory['rss_bytes']} bytes resident, peak {memory['peak_rss_bytes']}, {reserved}")
    _show(options, answer, "\n".join(lines))


def _put_witness(options: argparse.Namespace) -> None:
    answer = _put_standard_input(_client(options))
    _show(options, answer, answer["sha256"])


def _submit(options: argparse.Namespace) -> None:
    if not options.witnesses:
        raise InputError("usage", "prover ctl submit: no witness", "give --witness-path or --witness-sha256")
    answer = _post_job(_client(options), options, options.witnesses)
    _show(options, answer, answer["id"])


def _job(options: argparse.Namespace) -> None:
    answer = _wait(_client(options), options.id, options.wait_s)
    _show(options, answer, _job_sentence(answer))


def _prove(options: argparse.Namespace) -> None:
    if not 1 <= options.count <= 256:
        raise InputError("usage", "prover ctl prove: --count is not from 1 to 256", "submit several jobs for more")
    client = _client(options)
    witnesses = options.witnesses or [{"sha256": _put_standard_input(client)["sha256"]}]
    job_id = _post_job(client, options, witnesses * options.count)["id"]
    with _naming(job_id):
        answer = _wait(client, job_id, options.wait_s)
    if answer["state"] == "failed":
        raise _failure(answer)
    if answer["state"] == "cancelled":
        raise ProverError("job-cancelled", f"job {job_id} was cancelled", "", {"job": job_id})
    if answer["state"] != "done":
        raise ProverError(
            "not-finished",
            f"{_job_sentence(answer)} after {options.wait_s:g} s; it goes on",
            f"prover ctl job {job_id} --wait-s S, or prover ctl cancel {job_id}",
            {"job": job_id},
        )
    _show(options, answer, _job_sentence(answer))


def _cancel(options: argparse.Namespace) -> None:
    answer = json.loads(_client(options).ask("DELETE", job_path(options.id)))
    how = "" if answer["state"] == "cancelled" else ": it ends after the partitions at work"
    _show(options, answer, f"job {options.id} is {answer['state']}{how}")


def _drain(options: argparse.Namespace) -> None:
    answer = json.loads(_client(options).ask("POST", "/v1/drain"))
    _show(options, answer, f"draining: {answer['n_jobs_left']} jobs are left")


def _vkey(options: argparse.Namespace) -> None:
    found = _client(options).verification_key(options.circuit)
    show(json.dumps(found, indent=None if options.json else 1) + "\n")


def _bench(options: argparse.Namespace) -> None:
    from prover.bench import render  # noqa: PLC0415 - see prover.instance.read_record
    from prover.ctl_bench import run  # noqa: PLC0415 - the same

    answer = run(_client(options), options)
    _show(options, answer.model_dump(mode="json", by_alias=True), render(answer))


def _metrics(options: argparse.Namespace) -> None:
    text = _client(options).ask("GET", "/metrics").decode()
    _show(options, {"metrics": text}, text.rstrip("\n"))


def _client(options: argparse.Namespace) -> Client:
    return Client(find_home(options.home))


def _post_job(client: Client, options: argparse.Namespace, witnesses: list[dict[str, str]]) -> Answer:
    request: Answer = {"circuit": options.circuit, "witnesses": witnesses}
    if options.key:
        request["idempotency_key"] = options.key
    if options.priority:
        request["priority"] = options.priority
    answer: Answer = json.loads(client.ask("POST", "/v1/jobs", dump(request)))
    return answer


def _wait(client: Client, job_id: str, wait_s: float) -> Answer:
    from prover.protocol import JobState  # noqa: PLC0415 - see prover.instance.read_record

    end_s = time.monotonic() + wait_s
    while True:
        left_s = max(0.0, end_s - time.monotonic())
        step_s = min(left_s, _LONG_POLL_S)
        answer: Answer = json.loads(client.ask("GET", job_path(job_id, step_s), timeout_s=step_s + _SPARE_S))
        if JobState(answer["state"]).is_final or left_s <= step_s:
            return answer
        sys.stderr.write(_job_sentence(answer) + "\n")


@contextlib.contextmanager
def _naming(job_id: str) -> Iterator[None]:
    """A wait that is interrupted, or whose daemon ends, names the job that goes on."""
    try:
        yield
    except NobodyAnswersError as error:
        hint = f"job {job_id} is in its journal: the next daemon there proves it, then see prover ctl job {job_id}"
        raise NobodyAnswersError(error.code, error.message, hint, {"job": job_id}) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"job {job_id} goes on; stop it with prover ctl cancel {job_id}") from None


def _put_standard_input(client: Client) -> Answer:
    if sys.stdin.isatty():
        raise InputError(
            "usage", "the witness is expected on standard input", "redirect a .wtns file into this command"
        )
    with tempfile.TemporaryFile() as spool:
        sha256, n_bytes = _spool(sys.stdin.buffer, spool)
        if n_bytes == 0:
            raise InputError(
                "witness-empty", "nothing came on standard input", "redirect a .wtns file into this command"
            )
        answer: Answer = json.loads(client.put(sha256, spool, n_bytes))
        return answer


def _spool(source: IO[bytes], spool: IO[bytes]) -> tuple[str, int]:
    """Copy to a file, because the digest goes ahead of the bytes; returns digest and length."""
    digest = hashlib.sha256()
    while block := source.read(_BLOCK_BYTES):
        digest.update(block)
        spool.write(block)
    n_bytes = spool.tell()
    spool.seek(0)
    return digest.hexdigest(), n_bytes


def _failure(answer: Answer) -> ProverError:
    from prover.protocol import ErrorBody  # noqa: PLC0415 - see prover.instance.read_record

    return refusal(ErrorBody.model_validate(answer["error"]), job=answer["id"])


def _job_sentence(answer: Answer) -> str:
    done = f"{answer['n_partitions_done']} of {answer['n_partitions']} partitions done"
    why = f": {answer['error']['message']}" if answer["error"] else ""
    return f"job {answer['id']} is {answer['state']}, {done}{why}"


def _show(options: argparse.Namespace, answer: Answer, text: str) -> None:
    show((json.dumps(answer) if options.json else text) + "\n")
