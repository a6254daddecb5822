"""The keys in memory: loaded while they fit, else at their first use; the longest idle one gives way to another."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.interface import KernelError
from prover.check import PROCESS_BYTES
from prover.errors import InputError, ProverError
from prover.groth16 import load_key
from prover.protocol import CircuitStatus

if TYPE_CHECKING:
    from collections.abc import Callable

    from kernels.interface import Backend
    from prover.check import CircuitPlan
    from prover.checked_keys import CheckedKeys
    from prover.groth16 import LoadedKey
    from prover.memory.budget import MemoryBudget, Reservation
    from prover.timing_log import TimingLog

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class LoadedCircuit:
    """A circuit that is ready to prove.

    Args:
        plan: What it takes.
        key: Its key.
        reservation: The memory that the key holds.
        n_users: Partitions that are at work with it.
        used_s: When the last of them came or went, on the monotonic clock.
    """

    plan: CircuitPlan
    key: LoadedKey
    reservation: Reservation
    n_users: int = 0
    used_s: float = 0.0


class Circuits:
    """All circuits of a daemon; one thread loads, any may evict or look.

    Args:
        plans: The circuits, checked, with what they will take.
        backend: What holds the keys.
        budget: Where their memory is reserved.
        checked_keys: The keys that need no check of their subgroups any more.
        log: Gets the events.
        evict_idle_s: How long a key must be idle before it gives way.
    """

    def __init__(
        self,
        plans: list[CircuitPlan],
        *,
        backend: Backend,
        budget: MemoryBudget,
        checked_keys: CheckedKeys,
        log: TimingLog,
        evict_idle_s: float = 0,
    ) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._backend = backend
        self._budget = budget
        self._checked_keys = checked_keys
        self._log = log
        self._evict_idle_s = evict_idle_s
        self._lock = threading.Lock()
        self._loaded: dict[str, LoadedCircuit] = {}
        self._known: dict[str, CircuitStatus] = {}  # everything that was loaded once
        self._verification_keys: dict[str, dict[str, object]] = {}
        self.n_evicted = 0
        budget.make_room = self.evict_idle

    def preload(self, is_stopping: Callable[[], bool]) -> None:
        """Load circuits in the order of the configuration, as long as work fits beside them.

        Raises:
            ProverError: A key cannot be loaded.
        """
        work_bytes = max((plan.work_bytes for plan in self._plans.values()), default=0)
        for plan in self._plans.values():
            if is_stopping():
                return
            if max(plan.load_bytes, plan.held_bytes + work_bytes) <= self._budget.free_bytes:
                self._load(plan, 0)
            else:
                logger.warning("circuit %s does not fit beside the others: it is loaded when it is used", plan.name)

    def check_fits(self, name: str) -> None:
        """Refuse a circuit that is unknown, or that the whole budget has no room for.

        Raises:
            InputError: There is no such circuit.
            CapacityError: It does not fit, whatever is evicted.
        """
        self.check_known(name)
        plan = self._plans[name]
        need_bytes = PROCESS_BYTES + max(plan.load_bytes, plan.held_bytes + plan.work_bytes)
        if need_bytes > self._budget.total_bytes:
            raise self._budget.refusal(need_bytes, f"circuit {name} with the process", "can never fit")

    def use(self, name: str, deadline_s: float) -> LoadedCircuit:
        """Take a circuit for one partition, and load it where it is not; ``let_go`` ends the use.

        Raises:
            InputError: There is no such circuit: a job of an earlier process may name one that is gone.
            CapacityError: Others did not give back enough memory in time.
            ProverError: The key cannot be loaded.
        """
        self.check_known(name)
        with self._lock:
            circuit = self._loaded.get(name)
            if circuit is not None:
                circuit.n_users += 1
                return circuit
        return self._load(self._plans[name], deadline_s, n_users=1)

    def let_go(self, circuit: LoadedCircuit) -> None:
        """A partition no longer needs its circuit."""
        with self._lock:
            circuit.n_users -= 1
            circuit.used_s = time.monotonic()
            is_idle = circuit.n_users == 0
        if is_idle:
            self._budget.look_again()

    def evict_idle(self) -> bool:
        """Give up the key that was idle for the longest; returns whether there was one."""
        with self._lock:
            latest_s = time.monotonic() - self._evict_idle_s
            idle = [c for c in self._loaded.values() if c.n_users == 0 and c.used_s <= latest_s]
            if not idle:
                return False
            circuit = min(idle, key=lambda circuit: circuit.used_s)
            name = circuit.plan.name
            del self._loaded[name]
            self._known[name] = self._known[name].model_copy(update={"loaded_bytes": 0})
            self.n_evicted += 1
        self._log.event("CIRCUIT", "evicted", circuit=name, held_bytes=circuit.key.held_bytes)
        reservation = circuit.reservation
        del circuit, idle  # the key goes before its bytes are given to others
        reservation.drop()
        return True

    def status(self) -> list[CircuitStatus]:
        """Every circuit that is or was loaded, in the order of the configuration."""
        with self._lock:
            return [self._known[name] for name in self._plans if name in self._known]

    def verification_key(self, name: str) -> dict[str, object]:
        """What a proof of a circuit is verified with, as snarkjs writes it.

        Raises:
            InputError: There is no such circuit.
            ProverError: It was not loaded yet.
        """
        self.check_known(name)
        found = self._verification_keys.get(name)
        if found is None:
            raise ProverError("not-loaded", f"circuit {name} was not loaded yet", "prove something with it first")
        return found

    def check_known(self, name: str) -> None:
        """Refuse the name of no circuit.

        Raises:
            InputError: There is no such circuit.
        """
        if name not in self._plans:
            known = ", ".join(self._plans) or "none is configured"
            raise InputError("no-such-circuit", f"there is no circuit {name!r}", f"circuits here: {known}")

    def _load(self, plan: CircuitPlan, deadline_s: float, n_users: int = 0) -> LoadedCircuit:
        reservation = self._budget.reserve(plan.load_bytes, f"key {plan.name}", deadline_s=deadline_s)
        try:
            start_ns = time.monotonic_ns()
            key = self._read(plan)
            reservation.resize(plan.held_bytes)
        except BaseException:
            reservation.drop()
            raise
        circuit = LoadedCircuit(plan, key, reservation, n_users, time.monotonic())
        status = CircuitStatus(
            name=plan.name,
            sha256=key.sha256,
            n_constraints_domain=key.domain_size,
            n_public=key.n_public,
            loaded_bytes=key.held_bytes,
        )
        with self._lock:
            self._loaded[plan.name] = circuit
            self._known[plan.name] = status
            self._verification_keys[plan.name] = key.verification_key
        load_us = (time.monotonic_ns() - start_ns) // 1000
        self._log.event(
            "CIRCUIT", "loaded", circuit=plan.name, sha256=key.sha256, load_us=load_us, held_bytes=key.held_bytes
        )
        return circuit

    def _read(self, plan: CircuitPlan) -> LoadedKey:
        try:
            key = load_key(plan.path, self._backend, self._checked_keys)
        except KernelError as error:
            raise ProverError("kernel", f"the key of {plan.name} cannot be loaded: {error}") from error
        before = self._known.get(plan.name)
        expected = plan.sha256 or (before.sha256 if before else None)
        if expected not in (None, key.sha256):
            raise InputError(
                "circuit-digest",
                f"{plan.path} has the digest {key.sha256}, not {expected}",
                "remove this damaged file, and ship the circuit again",
            )
        return key
