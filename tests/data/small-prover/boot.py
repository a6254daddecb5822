"""A daemon that does nothing but what every prover does for its operator, honestly: for tests of the tool alone.

It reads its configuration, locks its home, writes daemon.json about itself, logs, answers `ctl`, drains on SIGTERM, and
ends at once on a second one, which loses its jobs. The table `[small]` of the configuration makes it misbehave in one
way: `crash`, `exit`, `never-ready`, `wrong-config`. Jobs are files in state/jobs: the daemon finishes each at once,
but one of circuit `stuck` never, and of circuit `slow` only as many as state/go says. Nothing is proved.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path
from typing import Any


def start_ticks() -> int:
    return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(path: Path, document: object) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document))
    temporary.replace(path)


def begin_drain(home: Path, config: dict[str, Any]) -> float:
    """Settle when the drain ends, once; returns that time."""
    path = home / "run" / "drain"
    if not path.exists():
        write(path, time.time() + config["daemon"].get("drain_timeout_s", 600))
    return float(path.read_text())


def read_jobs(home: Path) -> list[tuple[Path, dict[str, Any]]]:
    return [(path, json.loads(path.read_text())) for path in (home / "state" / "jobs").glob("*.json")]


def n_queued(home: Path) -> int:
    return sum(job["state"] == "queued" for _, job in read_jobs(home))


class Daemon:
    def __init__(self, options: argparse.Namespace, config: dict[str, Any]) -> None:
        self.options, self.config = options, config
        self.home = Path(options.remote_dir) / config["daemon"]["name"]
        self.misbehave = config.get("small", {}).get("mode", "")
        self.log = self.home / "logs" / f"{options.launch_id}.log"
        self.n_signals = 0

    def say(self, line: str) -> None:
        with self.log.open("a") as file:
            file.write(line + "\n")

    def record(self, state: str) -> dict[str, Any]:
        config_sha256 = digest(Path(self.options.config))
        return {
            "schema": 1,
            "name": self.config["daemon"]["name"],
            "release_id": self.options.release_id,
            "launch_id": self.options.launch_id,
            "state": state,
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text().strip(),
            "pid": os.getpid(),
            "start_ticks": start_ticks(),
            "session_id": os.getsid(0),
            "exe_sha256": digest(Path("/proc/self/exe")),
            "build_id": json.loads((Path(os.environ["PROVER_RELEASE_DIR"]) / "manifest.json").read_text())["build_id"],
            "config_sha256": "0" * 64 if self.misbehave == "wrong-config" else config_sha256,
            "api": str(self.home / "run" / "api.sock"),
            "logs": [str(self.log)],
            "started_unix_ns": time.time_ns(),
        }

    def serve(self) -> int:
        (self.home / "run").mkdir(parents=True, exist_ok=True)
        (self.home / "state" / "jobs").mkdir(parents=True, exist_ok=True)
        lock = os.open(self.home / "run" / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        drain = self.home / "run" / "drain"
        drain.unlink(missing_ok=True)
        signal.signal(signal.SIGTERM, self.stop)
        record = self.home / "run" / "daemon.json"
        write(record, self.record("starting"))
        self.say(f"HEADER run={self.options.launch_id} t_ns={time.monotonic_ns()} event=run schema=1")
        if self.misbehave == "crash":
            self.say("DAEMON loading")
            sys.stderr.write("cannot load the key: it is not there\n")
            sys.stderr.flush()
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.misbehave == "exit":
            sys.stderr.write("this daemon never wanted to live\n")
            return 3
        held = bytearray(self.config.get("small", {}).get("hold_bytes", 0))
        held[::4096] = b"\1" * len(held[::4096])
        if self.misbehave != "never-ready":
            write(record, self.record("ready"))
            self.say(f"DAEMON run={self.options.launch_id} t_ns={time.monotonic_ns()} event=ready pid={os.getpid()}")
        try:
            while not drain.exists() or n_queued(self.home):
                if drain.exists() and time.time() > begin_drain(self.home, self.config):
                    self.lose_jobs()
                    return 1
                self.finish_jobs()
                time.sleep(0.02)
            return 0
        finally:
            drain.unlink(missing_ok=True)
            record.unlink()

    def stop(self, *_: object) -> None:
        self.n_signals += 1
        if self.n_signals > 1:
            self.lose_jobs()
            sys.exit(128 + signal.SIGTERM)
        begin_drain(self.home, self.config)

    def lose_jobs(self) -> None:
        for path, job in read_jobs(self.home):
            if job["state"] == "queued":
                write(path, job | {"state": "failed"})

    def finish_jobs(self) -> None:
        for path, job in read_jobs(self.home):
            if job["state"] == "queued" and self.may_finish(job["circuit"]):
                job |= {"state": "done", "n_partitions_done": 1, "finished_unix_ns": time.time_ns()}
                job["proofs"] = [{"proof": {"small": job["witness"]}, "public": ["1"]}]
                write(path, job)
                self.say(f"JOB run={self.options.launch_id} job={job['id']} t_ns={time.monotonic_ns()} event=done")

    def may_finish(self, circuit: str) -> bool:
        go = self.home / "state" / "go"
        if circuit == "slow":
            n_done = sum(job["state"] == "done" for _, job in read_jobs(self.home))
            return go.exists() and n_done < int(go.read_text() or 0)
        return circuit != "stuck"


def check(options: argparse.Namespace, config: dict[str, Any]) -> int:
    problems = []
    for index, circuit in enumerate(config.get("circuits", [])):
        key = Path(options.remote_dir) / "circuits" / circuit["sha256"]
        if not key.is_file():
            problems.append({"where": f"circuits.{index}", "message": f"{key} is not there"})
    config_sha256 = digest(Path(options.config))
    need_host_bytes = config.get("small", {}).get("need_host_bytes", 50 * 2**20)
    answer = {"ok": not problems, "problems": problems, "need_host_bytes": need_host_bytes, "need_gpu_bytes": 0}
    sys.stdout.write(json.dumps(answer | {"config_sha256": config_sha256}) + "\n")
    return 2 if problems else 0


class Refused(Exception):  # noqa: N818 - what the daemon says
    """An answer that is an error."""


def ctl(options: argparse.Namespace) -> dict[str, Any]:
    home = Path(options.home)
    try:
        record = json.loads((home / "run" / "daemon.json").read_text())
    except FileNotFoundError:
        raise Refused("no daemon runs in this home") from None
    jobs = home / "state" / "jobs"
    if options.verb == "ready":
        if record["state"] != "ready":
            raise Refused(f"the daemon is {record['state']}")
        return {"ready": True, "state": "ready"}
    if options.verb == "put-witness":
        data = sys.stdin.buffer.read()
        sha256 = hashlib.sha256(data).hexdigest()
        (jobs / f"{sha256}.wtns").write_bytes(data)
        return {"sha256": sha256, "n_bytes": len(data)}
    if options.verb in ("submit", "bench", "status"):
        verbs = {"submit": submit, "bench": bench, "status": status}
        return verbs[options.verb](options, jobs, record)
    if options.verb == "drain":
        config = tomllib.loads((home / "releases" / record["release_id"] / "config.toml").read_text())
        time_left_s = max(0.0, begin_drain(home, config) - time.time())
        return {"state": "draining", "n_jobs_left": n_queued(home), "time_left_s": time_left_s}
    job: dict[str, Any] = json.loads((jobs / f"{options.id}.json").read_text())
    if options.verb == "cancel":
        job["state"] = "cancelled"
        write(jobs / f"{options.id}.json", job)
    end_s = time.monotonic() + float(options.wait_s)
    while job["state"] == "queued" and time.monotonic() < end_s:
        time.sleep(0.02)
        job = json.loads((jobs / f"{options.id}.json").read_text())
    job.pop("witness")
    return job


def bench(options: argparse.Namespace, jobs: Path, record: dict[str, Any]) -> dict[str, Any]:
    """One job after the other, each timed; the small daemon has no device and no proofs to verify."""
    samples = []
    if not options.witness_path:
        options.witness_sha256 = hashlib.sha256(sys.stdin.buffer.read()).hexdigest()
        (jobs / f"{options.witness_sha256}.wtns").touch()
    started_ns, begin_ns = time.time_ns(), time.monotonic_ns()
    for n in range(options.jobs):
        sys.stderr.write(f"measuring: {100 * n // options.jobs} %\n")
        submitted_ns = time.monotonic_ns()
        file = jobs / f"{submit(options, jobs, record)['id']}.json"
        while json.loads(file.read_text())["state"] == "queued":
            time.sleep(0.005)
        latency_us = (time.monotonic_ns() - submitted_ns) // 1000
        samples.append({"job": file.stem, "latency_us": latency_us, "queue_us": 0, "run_us": latency_us})
    wall_us = (time.monotonic_ns() - begin_ns) // 1000
    figures = {name: percentiles([sample[f"{name}_us"] for sample in samples]) for name in ("latency", "queue", "run")}
    config = tomllib.loads((jobs.parents[1] / "releases" / record["release_id"] / "config.toml").read_text())
    sha256 = next((c["sha256"] for c in config.get("circuits", []) if c["name"] == options.circuit), None)
    if sha256 is None:
        raise Refused(f"no circuit {options.circuit}")
    numbers = {"n_jobs": options.jobs, "n_partitions": 1, "concurrency": 1, "n_warmup": 0, "n_done": options.jobs}
    numbers |= {"n_failed": 0, "n_proofs": options.jobs, "n_verified": 0, "domain_size": 1, "n_public": 1}
    times = {"started_unix_ns": started_ns, "finished_unix_ns": time.time_ns(), "wall_us": wall_us}
    answer = {"schema": 1, "circuit": options.circuit, "circuit_sha256": sha256, "daemon": record, "errors": []}
    return answer | numbers | times | figures | {"samples": samples, "proofs_per_s": options.jobs / wall_us * 1e6}


def percentiles(values: list[int]) -> dict[str, int | None]:
    ordered = sorted(values)
    n = len(ordered)
    mean, middle = sum(ordered) // n, (ordered[(n - 1) // 2] + ordered[n // 2]) // 2
    ends = {"min_us": ordered[0], "max_us": ordered[-1]}
    return {"n": n, "mean_us": mean, "p50_us": middle, "p95_us": None, "p99_us": None, **ends}


def status(_options: argparse.Namespace, _jobs: Path, record: dict[str, Any]) -> dict[str, Any]:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{record['pid']}/status").read_text().splitlines())
    rss, peak = (int(lines[key].split()[0]) * 1024 for key in ("VmRSS", "VmHWM"))
    memory = {"budget_bytes": 0, "reserved_bytes": 0, "rss_bytes": rss, "peak_rss_bytes": peak}
    head = {"version": "0", "backend": "host", "uptime_s": 1.0, "daemon": record}
    return head | {"jobs": {}, "circuits": [], "memory": memory}


def submit(options: argparse.Namespace, jobs: Path, _record: dict[str, Any]) -> dict[str, Any]:
    if options.witness_sha256 and not (jobs / f"{options.witness_sha256}.wtns").is_file():
        raise Refused("this witness was not put")
    job = {
        "id": f"{time.monotonic_ns():016x}",
        "circuit": options.circuit,
        "state": "queued",
        "n_partitions": 1,
        "n_partitions_done": 0,
        "submitted_unix_ns": time.time_ns(),
    }
    answer = dict(job)
    job["witness"] = options.witness_sha256 or options.witness_path
    write(jobs / f"{job['id']}.json", job)
    return answer


def main() -> int:
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    verbs = commands.add_parser("ctl")
    verbs.add_argument("verb")
    verbs.add_argument("id", nargs="?")
    for name in ("--home", "--circuit", "--witness-sha256", "--witness-path", "--key"):
        verbs.add_argument(name)
    verbs.add_argument("--wait-s", default="0")
    for name in ("--jobs", "--concurrency", "--warmup", "--count"):
        verbs.add_argument(name, type=int)
    verbs.add_argument("--timeout-s", type=float)
    verbs.add_argument("--json", action="store_true")
    serve = commands.add_parser("serve")
    for name in ("--config", "--remote-dir", "--release-id", "--launch-id"):
        serve.add_argument(name)
    serve.add_argument("--check-config", action="store_true")
    serve.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.command == "ctl":
        try:
            sys.stdout.write(json.dumps(ctl(options)) + "\n")
        except Refused as error:
            sys.stdout.write(json.dumps({"error": {"code": "refused", "message": str(error)}}) + "\n")
            return 1
        return 0
    config = tomllib.loads(Path(options.config).read_text())
    return check(options, config) if options.check_config else Daemon(options, config).serve()


if __name__ == "__main__":
    sys.exit(main())
