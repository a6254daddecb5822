"""Circuits of any size for measuring: a chain of products, with a key from ``prover.setup`` and a witness that fits it.

Wires: ONE, the public result, v_0 .. v_(n-1); constraint i says (v_i + i + 1) * v_i = v_(i+1), and the last one gives
the result. So A has two entries a row, B and C have one, and every value of the witness is as large as the field.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernels.interface import FrPlain
from prover.errors import InputError
from prover.formats.field import R
from prover.formats.prime import Prime
from prover.formats.r1cs import Combinations, R1cs, R1csHeader
from prover.output import replacing
from prover.setup import MAX_DOMAIN_SIZE, fresh_trapdoor, write_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kernels.interface import Backend
    from prover.setup import Stage

_N_PUBLIC = 1
_SEED = 3
_VERSION = 1  # of the circuit and of its files: another one has other names in the cache
_SIZE = re.compile(r"(?:synthetic:)?(?:2\^([0-9]{1,2})|([0-9]{1,10}))")


@dataclass(frozen=True)
class SyntheticFiles:
    """Where a circuit lies.

    Args:
        zkey: Its key. Insecure: whoever made it could have kept the trapdoor.
        wtns: A witness for it.
    """

    zkey: Path
    wtns: Path


def parse_size(text: str) -> int:
    """Read ``2^K`` or a number, with or without ``synthetic:`` before it; returns the number of constraints.

    ``2^K`` fills a domain of 2^K rows: two rows less, for ONE and the public value.

    Raises:
        InputError: It is something else, or no domain is that large.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        message = f"{text[:80]!r} is not the size of a circuit"
        raise InputError("synthetic", message, "write synthetic:2^16, or a number of constraints")
    n_constraints = 2 ** int(match[1]) - 1 - _N_PUBLIC if match[1] else int(match[2])
    if not 1 <= n_constraints < MAX_DOMAIN_SIZE - _N_PUBLIC:
        raise InputError("synthetic", f"a circuit of {text} cannot be made", "from 2^2 to 2^28, or a number")
    return n_constraints


def cache_folder() -> Path:
    """Where circuits are kept between runs: ``$XDG_CACHE_HOME/prover/synthetic``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "prover" / "synthetic"


def cached(n_constraints: int, backend: Backend, stage: Stage) -> SyntheticFiles:
    """Find a circuit in the cache, or make it there.

    Args:
        n_constraints: Its size.
        backend: What computes the key.
        stage: Is told what is done, and which share of it.

    Raises:
        InputError: The files cannot be written.
        KernelError: There is not enough memory.
    """
    folder = cache_folder()
    files = SyntheticFiles(folder / f"{n_constraints}-v{_VERSION}.zkey", folder / f"{n_constraints}-v{_VERSION}.wtns")
    if not (files.zkey.is_file() and files.wtns.is_file()):
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise InputError("output", f"{folder} cannot be made: {error.strerror}", "set XDG_CACHE_HOME") from None
        make(n_constraints, files, backend, stage)
    return files


def make(n_constraints: int, files: SyntheticFiles, backend: Backend, stage: Stage) -> None:
    """Make a circuit's key and witness; arguments and errors as for ``cached``."""
    stage("computing the witness", None)
    with replacing(files.wtns) as file:
        file.write(wtns_bytes(witness(n_constraints)))
    circuit = constraints(n_constraints)
    with replacing(files.zkey) as file:
        write_key(file, circuit, fresh_trapdoor(circuit.header.domain_size), backend, stage)


def constraints(n: int) -> R1cs:
    """The circuit of n constraints."""
    rows = np.arange(n, dtype=np.int64)
    chain = np.arange(2, n + 2, dtype=np.uint32)  # wire of v_i
    ones = _limbs(np.ones(n, dtype=np.uint64))
    a_wires = np.empty(2 * n, dtype=np.uint32)
    a_wires[0::2], a_wires[1::2] = 0, chain
    a_values = _limbs(np.ones(2 * n, dtype=np.uint64))
    a_values[0::2, 0] = rows.astype(np.uint64) + 1
    results = np.append(chain[1:], np.uint32(1)).astype(np.uint32)
    header = R1csHeader(
        prime=Prime(R, 32, 0),
        n_wires=n + 2,
        n_public_outputs=_N_PUBLIC,
        n_public_inputs=0,
        n_private_inputs=1,
        n_labels=n + 2,
        n_constraints=n,
    )
    return R1cs(
        name=f"synthetic circuit of {n} constraints",
        header=header,
        a=Combinations(np.repeat(rows, 2), a_wires, FrPlain(a_values)),
        b=Combinations(rows, chain, FrPlain(ones)),
        c=Combinations(rows, results, FrPlain(ones.copy())),
    )


def witness(n: int) -> list[int]:
    """Values of all wires: ONE, the result, then the chain."""
    chain = [_SEED]
    for i in range(n):
        chain.append((chain[i] + i + 1) * chain[i] % R)
    return [1, chain[n], *chain[:n]]


def wtns_bytes(values: list[int]) -> bytes:
    """Write a .wtns file, as snarkjs does."""
    header = (32).to_bytes(4, "little") + R.to_bytes(32, "little") + len(values).to_bytes(4, "little")
    body = b"".join(value.to_bytes(32, "little") for value in values)
    sections = b"".join(
        kind.to_bytes(4, "little") + len(payload).to_bytes(8, "little") + payload
        for kind, payload in ((1, header), (2, body))
    )
    return b"wtns" + (2).to_bytes(4, "little") + (2).to_bytes(4, "little") + sections


def _limbs(low: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = np.zeros((len(low), 4), dtype=np.uint64)
    values[:, 0] = low
    return values
