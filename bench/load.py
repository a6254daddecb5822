"""Mixed load on a real daemon for minutes, with kill -9 in between: what it must survive, counted.

``python bench/load.py --minutes 30`` and ``--minutes 5 --kills 20`` are the two ways in which it is used. Valid jobs of
two circuits, by path and by put, some of several partitions, some cancelled; requests that are malformed, cut off or
wrong; clients that connect and say nothing. In the end every accepted job must be done with valid proofs (or cancelled,
where that was asked), every result must be the one that was seen first, and memory must be flat.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from prover.client import Client, NobodyAnswersError, dump, job_path  # noqa: E402 - the tree that this file belongs to
from prover.errors import ProverError  # noqa: E402 - the same
from prover.instance import Home  # noqa: E402 - the same
from prover.protocol import JobAnswer, JobState, StatusAnswer  # noqa: E402 - the same
from prover.verify import verify  # noqa: E402 - the same

FIXTURES = ROOT / "tests" / "data" / "groth16"
CIRCUITS = ("mul60", "cube500")
KEYS = {name: json.loads((FIXTURES / name / "verification_key.json").read_text()) for name in CIRCUITS}
MEMORY_EVERY_S = 5.0
BAD_REQUESTS: list[tuple[str, str, bytes]] = [
    ("POST", "/v1/jobs", b"{"),
    ("POST", "/v1/jobs", b'{"circuit": "nothing", "witnesses": [{"path": "/w"}]}'),
    ("POST", "/v1/jobs", b'{"circuit": "mul60", "witnesses": [{"path": "relative"}]}'),
    ("POST", "/v1/jobs", b'{"circuit": "mul60", "witnesses": []}'),
    ("PUT", f"/v1/witnesses/{'0' * 64}", b"another digest"),
    ("GET", "/v1/jobs/unknown", b""),
    ("DELETE", "/v1/jobs/unknown", b""),
    ("GET", "/nothing", b""),
]


@dataclass
class Daemon:
    """The daemon under load."""

    remote_dir: Path
    process: subprocess.Popen[bytes] | None = None
    n_starts: int = 0

    @property
    def home(self) -> Home:
        """Its folder."""
        return Home(self.remote_dir / "prover")

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.n_starts += 1
        circuits = [f'[[circuits]]\nname = "{c}"\npath = "{FIXTURES / c / "circuit.zkey"}"\n' for c in CIRCUITS]
        config = self.remote_dir / "config.toml"
        config.write_text(
            "[daemon]\nqueue_limit = 32\nidle_timeout_s = 5.0\nkeep_results_s = 86400.0\n" + "".join(circuits)
        )
        command = [sys.executable, "-m", "prover", "serve", "--config", config, "--remote-dir", self.remote_dir]
        with (self.remote_dir / "stderr.txt").open("ab") as stderr:
            self.process = subprocess.Popen(
                [*map(str, command), "--launch-id", f"l{self.n_starts}"],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )
        wait = ["ctl", "ready", "--wait-s", "120", "--home", str(self.home.root)]
        subprocess.run([sys.executable, "-m", "prover", *wait], check=True, cwd=ROOT, capture_output=True)

    def end(self, number: signal.Signals) -> int:
        """End it by a signal; returns its status."""
        if self.process is None:
            return 0
        self.process.send_signal(number)
        return self.process.wait(120)


@dataclass
class Book:
    """Everything that was asked and answered; threads share it."""

    accepted: dict[str, str] = field(default_factory=dict)  # job -> circuit
    cancelled: set[str] = field(default_factory=set)
    results: dict[str, str] = field(default_factory=dict)  # job -> its proofs when they were first seen
    counts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    rss_bytes: list[tuple[float, int]] = field(default_factory=list)
    expected: tuple[str, ...] = ("queue-full", "job-finished", "too-many-connections")
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: threading.Event = field(default_factory=threading.Event)

    def note(self, what: str) -> None:
        """Count something."""
        with self.lock:
            self.counts[what] += 1

    def fault(self, what: str) -> None:
        """Note what must not happen."""
        with self.lock:
            self.faults.append(what)


def submit_some(daemon: Daemon, book: Book, seed: int) -> None:
    """Submit jobs, wait for some, cancel some, look at the others later."""
    draw = random.Random(seed)
    later: list[str] = []
    while not book.stop.is_set():
        try:
            client = Client(daemon.home)
            job_id = submit(client, draw.choice(CIRCUITS), draw, f"{seed}-{draw.getrandbits(60)}", book)
            later.append(job_id)  # at once: a kill may come before its result
            if draw.random() < 0.1:
                book.cancelled.add(job_id)
                client.ask("DELETE", job_path(job_id))
            elif draw.random() < 0.7:
                see(client, job_id, 20, book)
            while later and see(client, later[0], 0, book).state.is_final:  # before it is too old to be kept
                later.pop(0)
        except NobodyAnswersError:
            book.note("nobody answered")
            time.sleep(0.1)
        except ProverError as error:
            book.note(error.code)
            if error.code not in book.expected:
                book.fault(f"{error.code}: {error.message}")
            time.sleep(0.05)


def submit(client: Client, circuit: str, draw: random.Random, key: str, book: Book) -> str:
    """Submit one job of some partitions; returns its id once it is accepted."""
    witness = FIXTURES / circuit / "witness.wtns"
    references: list[dict[str, str]] = [{"path": str(witness)}] * draw.choice((1, 1, 1, 2, 5))
    if draw.random() < 0.5:
        data = witness.read_bytes()
        sha256 = hashlib.sha256(data).hexdigest()
        client.ask("PUT", f"/v1/witnesses/{sha256}", data)
        references = [{"sha256": sha256}] * len(references)
    body = {"circuit": circuit, "witnesses": references, "idempotency_key": key, "priority": draw.randint(-1, 1)}
    job_id = JobAnswer.model_validate_json(client.ask("POST", "/v1/jobs", dump(body))).id
    with book.lock:
        book.accepted[job_id] = circuit
    book.note("accepted")
    return job_id


def see(client: Client, job_id: str, wait_s: float, book: Book) -> JobAnswer:
    """Look at a job; a result must be valid, and what it was when it was first seen."""
    answer = JobAnswer.model_validate_json(client.ask("GET", job_path(job_id, wait_s), timeout_s=wait_s + 60))
    if answer.state is not JobState.DONE:
        return answer
    digest = hashlib.sha256(answer.model_dump_json(include={"proofs"}).encode()).hexdigest()
    with book.lock:
        is_new = job_id not in book.results
        if book.results.setdefault(job_id, digest) != digest:
            book.faults.append(f"job {job_id} has two results")
    if is_new:
        for proof in answer.proofs:
            verify(KEYS[answer.circuit], proof.public, proof.proof)
            book.note("proofs verified")
    return answer


def disturb(daemon: Daemon, book: Book, seed: int) -> None:
    """Send what no client should send, and hold connections that say nothing."""
    draw = random.Random(seed)
    silent: list[socket.socket] = []
    while not book.stop.wait(0.02):
        with contextlib.suppress(OSError):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(daemon.home.socket))
            half = f"PUT /v1/witnesses/{'1' * 64} HTTP/1.1\r\nHost: x\r\nContent-Length: 400\r\n\r\nhalf"
            client.sendall(draw.choice((b"", b"GET /sta", half.encode(), b"\x00\xff\r\n\r\n")))
            silent.append(client)
        while len(silent) > 40:
            silent.pop(0).close()
        try:
            status, _ = Client(daemon.home).call(*draw.choice(BAD_REQUESTS))
        except NobodyAnswersError:
            continue
        book.note(f"malformed -> {status}")
        if status >= 500 and status != 503:
            book.fault(f"a malformed request was answered {status}")
    for client in silent:
        client.close()


def watch_memory(daemon: Daemon, book: Book) -> None:
    """Note the daemon's resident memory every few seconds."""
    start_s = time.monotonic()
    while not book.stop.wait(MEMORY_EVERY_S):
        with contextlib.suppress(ProverError):
            status = StatusAnswer.model_validate_json(Client(daemon.home).ask("GET", "/status"))
            book.rss_bytes.append((time.monotonic() - start_s, status.memory.rss_bytes))


def settle(daemon: Daemon, book: Book) -> None:
    """Every accepted job must be over as it should be, with valid proofs."""
    client = Client(daemon.home)
    for job_id in book.accepted:
        try:
            answer = see(client, job_id, 30, book)
            while not answer.state.is_final:
                answer = see(client, job_id, 30, book)
        except ProverError as error:
            book.note(f"{error.code} in the end")  # it aged out, after it was seen
            if error.code != "no-such-job" or not {job_id} <= book.results.keys() | book.cancelled:
                book.fault(f"job {job_id}: {error.message}")
            continue
        book.note(f"job {answer.state} in the end")
        if answer.state is not JobState.DONE and not (answer.state is JobState.CANCELLED and job_id in book.cancelled):
            book.fault(f"job {job_id} is {answer.state}: {answer.error}")


def main() -> int:
    """Run the load; status 1 where something happened that must not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--kills", type=int, default=0, help="kill -9 so often, spread over the time")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, help="JSON to write")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    daemon, book = Daemon(folder), Book()
    if options.kills:
        book.expected += ("witness-missing",)  # it was put, and the daemon killed before a job claimed it
    draw = random.Random(options.seed)
    daemon.start()
    threads = [threading.Thread(target=submit_some, args=(daemon, book, i)) for i in range(options.clients)]
    threads += [
        threading.Thread(target=disturb, args=(daemon, book, 99)),
        threading.Thread(target=watch_memory, args=(daemon, book)),
    ]
    for thread in threads:
        thread.start()
    try:
        end_s = time.monotonic() + 60 * options.minutes
        slice_s = 60 * options.minutes / max(1, options.kills)
        for _ in range(options.kills):
            time.sleep(slice_s * draw.uniform(0.5, 1.0))
            daemon.end(signal.SIGKILL)
            daemon.start()
        time.sleep(max(0.0, end_s - time.monotonic()))
    finally:
        book.stop.set()
        for thread in threads:
            thread.join()
    settle(daemon, book)
    status = daemon.end(signal.SIGTERM)
    left = [path.name for path in daemon.home.witnesses.iterdir()]
    stderr = (folder / "stderr.txt").read_text()
    if status != 0 or left or "Traceback" in stderr:
        book.fault(f"the end: status {status}, witnesses left {left}, traceback {'Traceback' in stderr}")
    report(options, daemon, book)
    if not book.faults:
        shutil.rmtree(folder)
    return bool(book.faults)


def report(options: argparse.Namespace, daemon: Daemon, book: Book) -> None:
    """Print the figures as JSON."""
    third = len(book.rss_bytes) // 3
    early, late = ([n for _, n in part] for part in (book.rss_bytes[third : 2 * third], book.rss_bytes[2 * third :]))
    found: dict[str, Any] = {
        "minutes": options.minutes,
        "kills": options.kills,
        "starts": daemon.n_starts,
        "counts": dict(sorted(book.counts.items())),
        "rss_median_second_third_bytes": sorted(early)[len(early) // 2] if early else None,
        "rss_median_last_third_bytes": sorted(late)[len(late) // 2] if late else None,
        "rss_peak_bytes": max((n for _, n in book.rss_bytes), default=None),
        "faults": book.faults,
    }
    print(json.dumps(found, indent=1))
    if options.out:
        options.out.write_text(json.dumps({**found, "rss": book.rss_bytes}) + "\n")


if __name__ == "__main__":
    sys.exit(main())
