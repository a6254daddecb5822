"""Whether a configuration can work on this host: every problem at once, and what the daemon will take."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import kernels
from kernels.interface import KernelError
from prover.check_keys import LIMIT_S, read_keys
from prover.config import ConfigProblemsError, circuits_in_order, load_config
from prover.errors import CapacityError, InputError
from prover.formats.zkey import read_header
from prover.memory.available import available_bytes, rss_and_peak_bytes
from prover.memory.estimate import DeviceNeed, estimate_of, least_on_device
from prover.output import show
from prover.protocol import CheckAnswer, Problem

if TYPE_CHECKING:
    from prover.check_keys import KeysRead
    from prover.config import CircuitFile, Config

AUTO_SHARE = 0.8
# Interpreter, libraries and server of a daemon without circuits: VmHWM measured, see docs/PROVER.md.
PROCESS_BYTES = 128 << 20
_WITNESS_OVERHEAD_BYTES = 4096  # container, section heads and the prime of a .wtns file; snarkjs writes 76 bytes


@dataclass(frozen=True)
class CircuitPlan:
    """A circuit whose key can be read, and what it takes of the budget.

    Args:
        name: What requests call it.
        path: Its zkey.
        sha256: What the file's digest must be, or None.
        load_bytes: While the key is being loaded, the loaded key included.
        held_bytes: Once it is loaded.
        work_bytes: For one partition.
        witness_bytes: Of its .wtns file.
        on_device: Of the memory of an NVIDIA device, where one computes.
    """

    name: str
    path: Path
    sha256: str | None
    load_bytes: int
    held_bytes: int
    work_bytes: int
    witness_bytes: int
    on_device: DeviceNeed


@dataclass(frozen=True)
class Plan:
    """What a daemon with this configuration will do with memory.

    Args:
        circuits: In the order of the configuration.
        budget_bytes: What all reservations together may take.
        is_auto: Whether the machine says so, and may say something else later.
    """

    circuits: list[CircuitPlan]
    budget_bytes: int
    is_auto: bool = False

    @property
    def witness_limit_bytes(self) -> int:
        """Size of the largest witness file that is taken."""
        return max((circuit.witness_bytes for circuit in self.circuits), default=0) + _WITNESS_OVERHEAD_BYTES


@dataclass(frozen=True)
class Findings:
    """Everything that a check found.

    Args:
        plan: Circuits that can be read, and the budget.
        problems: What is wrong with files.
        misfits: What is wrong with sizes.
    """

    plan: Plan
    problems: list[Problem]
    misfits: list[Problem]


def examine(config: Config) -> Findings:
    """Read the header of every circuit's key, and hold the sizes against the budget."""
    threads = config.settings.synthesis.threads or len(os.sched_getaffinity(0))
    plans: list[CircuitPlan] = []
    problems: list[Problem] = []
    for i, circuit in enumerate(config.circuits):
        try:
            plans.append(plan_circuit(circuit, threads))
        except InputError as error:
            problems.append(_circuit_problem(i, circuit, error))
    if (problem := _backend_problem(config)) is not None:
        problems.append(problem)
    budget_bytes = config.settings.memory.budget_bytes
    plan = Plan(plans, auto_budget_bytes(), is_auto=True) if budget_bytes is None else Plan(plans, budget_bytes)
    return Findings(plan, problems, _misfits(plan))


def _header_problems(circuits: dict[int, CircuitFile]) -> list[Problem]:
    """What is wrong with keys, where the configuration around them is wrong too: all of it at once."""
    problems = []
    for i, circuit in circuits.items():
        try:
            read_header(circuit.path)
        except InputError as error:
            problems.append(_circuit_problem(i, circuit, error))
    return problems


def auto_budget_bytes() -> int:
    """The share of the memory that this process has or could have which it may plan with."""
    return int(AUTO_SHARE * (available_bytes() + rss_and_peak_bytes()[0]))


def _circuit_problem(i: int, circuit: CircuitFile, error: InputError) -> Problem:
    return Problem(where=f"circuits.{i} ({circuit.name})", message=error.message, hint=error.hint)


def _key_problems(config: Config, keys: KeysRead) -> list[Problem]:
    return [
        _circuit_problem(i, circuit, keys.problems[circuit.path])
        for i, circuit in enumerate(config.circuits)
        if circuit.path in keys.problems
    ]


def _backend_problem(config: Config) -> Problem | None:
    name = config.settings.gpus.backend
    if name == "host":  # opened by every start; here it would only cost time
        return None
    release = os.environ.get("PROVER_RELEASE_DIR")
    if release and not Path(release, "gpu").is_dir():
        hint = 'write backend = "host", or deploy an artifact that was built for GPUs (`cuzkops build --gpu-archs all`)'
        return Problem(where="gpus.backend", message="this release was built without kernels for GPUs", hint=hint)
    try:
        kernels.backend(name).close()
    except KernelError as error:
        hint = 'see what `nvidia-smi` says (CUDA 13 needs a driver of branch 580 or newer), or write backend = "host"'
        return Problem(where="gpus.backend", message=str(error), hint=hint)
    return None


def plan_of(config: Config) -> Plan:
    """Return the plan of a configuration that can work.

    Raises:
        ConfigProblemsError: A circuit's key is missing or wrong; names every such circuit.
        CapacityError: The circuits do not fit the budget.
    """
    findings = examine(config)
    if findings.problems:
        raise ConfigProblemsError(config.file, config.sha256, [*findings.problems, *findings.misfits])
    if findings.misfits:
        messages = "; ".join(f"{problem.where}: {problem.message}" for problem in findings.misfits)
        raise CapacityError("budget", f"{config.file}: {messages}", findings.misfits[0].hint)
    return findings.plan


def check_command(file: Path, remote_dir: Path, *, as_json: bool) -> int:
    """Print what is wrong and what will be needed; returns the exit status.

    Args:
        file: The configuration.
        remote_dir: Folder that all daemons of this host share.
        as_json: Print one ``CheckAnswer``.

    Raises:
        InputError: The configuration cannot be read at all.
    """
    try:
        config = load_config(file, remote_dir)
    except ConfigProblemsError as error:
        problems = [*error.problems, *_header_problems(circuits_in_order(file, remote_dir))]
        answer = CheckAnswer(
            ok=False, problems=problems, need_host_bytes=0, need_gpu_bytes=0, config_sha256=error.sha256
        )
        _show(answer, as_json=as_json)
        return InputError.exit_status
    findings = examine(config)
    keys = read_keys(config, findings.plan.circuits)
    wrong = [*findings.problems, *_key_problems(config, keys)]
    problems = [*wrong, *findings.misfits]
    answer = CheckAnswer(
        ok=not problems,
        problems=problems,
        need_host_bytes=need_host_bytes(config, findings.plan),
        need_gpu_bytes=need_gpu_bytes(config, findings.plan),
        config_sha256=config.sha256,
        keys_bytes=keys.n_bytes,
        keys_read_bytes=keys.read_bytes,
    )
    _show(answer, as_json=as_json)
    if wrong:
        return InputError.exit_status
    return CapacityError.exit_status if findings.misfits else 0


def need_host_bytes(config: Config, plan: Plan) -> int:
    """An explicit budget, else what the process and its circuits take at their highest."""
    explicit = config.settings.memory.budget_bytes
    return _need_bytes(plan.circuits) if explicit is None else explicit


def need_gpu_bytes(config: Config, plan: Plan) -> int:
    """What the keys and one partition take on a device at least; 0 on the host backend.

    Keys for which the budget has no room beside each other take turns, on the device, too.
    """
    if config.settings.gpus.backend == "host" or not plan.circuits:
        return 0
    loaded: list[DeviceNeed] = []
    free_bytes = plan.budget_bytes - PROCESS_BYTES
    work_bytes = max(circuit.work_bytes for circuit in plan.circuits)
    for circuit in plan.circuits:  # as ``Circuits.preload`` does it
        if max(circuit.load_bytes, circuit.held_bytes + work_bytes) <= free_bytes:
            free_bytes -= circuit.held_bytes
            loaded.append(circuit.on_device)
    together = sum(need.held_bytes for need in loaded) + max((need.work_bytes for need in loaded), default=0)
    return max(together, *(circuit.on_device.held_bytes + circuit.on_device.work_bytes for circuit in plan.circuits))


def plan_circuit(circuit: CircuitFile, threads: int) -> CircuitPlan:
    """Read the header of a circuit's key, and bound what it takes.

    Raises:
        InputError: It cannot be read.
    """
    header = read_header(circuit.path)
    estimate = estimate_of(header, threads)
    return CircuitPlan(
        name=circuit.name,
        path=circuit.path,
        sha256=circuit.sha256,
        load_bytes=estimate.load_bytes,
        held_bytes=estimate.held_bytes,
        work_bytes=estimate.work_bytes,
        witness_bytes=32 * header.n_vars,
        on_device=least_on_device(header),
    )


def _need_bytes(circuits: list[CircuitPlan]) -> int:
    """The highest sum on the way: each key is loaded beside those before it, then partitions beside all of them."""
    highest = held = PROCESS_BYTES
    for circuit in circuits:
        highest = max(highest, held + circuit.load_bytes)
        held += circuit.held_bytes
    return max(highest, held + max((circuit.work_bytes for circuit in circuits), default=0))


def _misfits(plan: Plan) -> list[Problem]:
    """Circuits that have no room even alone; those that have none beside each other take turns."""
    return [
        Problem(
            where=f"circuit {circuit.name}",
            message=f"it takes {need} bytes at its highest, and the budget is {plan.budget_bytes} bytes",
            hint="raise memory.budget",
        )
        for circuit in plan.circuits
        if (need := _need_bytes([circuit])) > plan.budget_bytes
    ]


def _show(answer: CheckAnswer, *, as_json: bool) -> None:
    if as_json:
        show(answer.model_dump_json() + "\n")
        return
    for problem in answer.problems:
        sys.stderr.write(
            f"{problem.where}: {problem.message}\n" + (f"  hint: {problem.hint}\n" if problem.hint else "")
        )
    if answer.ok:
        show(f"in order; the daemon will need {answer.need_host_bytes} bytes of host memory\n")
        if answer.keys_read_bytes < answer.keys_bytes:
            read = f"{answer.keys_read_bytes} of {answer.keys_bytes} bytes"
            show(f"of the keys {read} were read in {LIMIT_S:g} s: a start reads the rest\n")
