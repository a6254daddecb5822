"""The machine code of the device's kernels, counted: ``python bench/device_code.py [--arch sm_90]``.

Needs cuobjdump of the CUDA toolkit, and no device. What stands in a loop is counted once: this is the code, not the
work. ``wide`` are the multiply-adds of 32 x 32 + 64 bits that decide how fast a field product can be.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
NATIVE = Path(os.environ.get("CUZKOPS_NATIVE_DIR") or ROOT / "kernels" / "_native")
INSTRUCTION_BYTES = 16
CLASSES = {
    "wide": ("IMAD.WIDE", "UIMAD.WIDE"),
    "other IMAD": ("IMAD", "UIMAD"),
    "additions": ("IADD", "UIADD", "VIADD"),
    "selects": ("SEL", "LOP3", "ISETP", "PLOP3", "USEL", "ULOP3"),
    "shuffles": ("SHFL",),
    "memory": ("LD", "ST", "ATOM", "RED", "ULDC"),
}
"""Class -> beginnings of opcodes; the first class that fits counts."""


@dataclass
class Code:
    """The code of one kernel.

    Args:
        registers: Of a thread.
        stack_bytes: Of a thread; spills lie there.
        counts: Instructions of each class, and ``"all"``.
    """

    registers: int = 0
    stack_bytes: int = 0
    counts: Counter[str] = field(default_factory=Counter)


def class_of(opcode: str) -> str:
    """Name the class of an opcode such as ``IMAD.WIDE.U32.X``."""
    return next((name for name, starts in CLASSES.items() if opcode.startswith(starts)), "other")


def parse(sass: str, usage: str) -> dict[str, Code]:
    """Read what ``cuobjdump -sass`` and ``cuobjdump -res-usage`` print.

    Returns:
        Name of the kernel -> its code. Lines of other kinds say nothing here.
    """
    found: dict[str, Code] = {}
    code = Code()
    for line in sass.splitlines():
        if name := re.match(r"\s*Function : (\S+)", line):
            code = found.setdefault(name[1], Code())
        elif instruction := re.match(r"\s*/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)", line):
            code.counts[class_of(instruction[1])] += 1
            code.counts["all"] += 1
    for name, registers, stack in re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+)", usage):
        if name in found:
            found[name].registers, found[name].stack_bytes = int(registers), int(stack)
    return found


def dump(fatbin: Path, *options: str) -> str:
    """Return what cuobjdump says of a file."""
    command = ["cuobjdump", *options, str(fatbin)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def code_of_all(arch: str) -> dict[str, Code]:
    """Read all fatbins: stage and name of the kernel -> its code."""
    found = {}
    for fatbin in sorted(NATIVE.glob("cuzkops_*.fatbin")):
        stage = fatbin.stem.removeprefix("cuzkops_")
        codes = parse(dump(fatbin, "-arch", arch, "-sass"), dump(fatbin, "-arch", arch, "-res-usage"))
        for kernel, code in codes.items():
            found[f"{stage}: {kernel.removeprefix('cuzkops_').removeprefix('msm_')}"] = code
    return found


def table(found: dict[str, Code]) -> str:
    """Write a table in Markdown, a kernel a line."""
    names = [*CLASSES, "other"]
    lines = [
        "| kernel | registers | stack, bytes | code, KB | instructions | " + " | ".join(names) + " |",
        "|---" * (5 + len(names)) + "|",
    ]
    for kernel, code in sorted(found.items()):
        counts = [code.counts[name] for name in ("all", *names)]
        size = f"{code.counts['all'] * INSTRUCTION_BYTES / 1000:.1f}"
        cells = [kernel, code.registers, code.stack_bytes, size, *counts]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def main() -> int:
    """Print the table of all fatbins; 1 where there is no cuobjdump, or no kernel that it can read."""
    parser = argparse.ArgumentParser(description="Count the instructions of the device's kernels.")
    parser.add_argument("--arch", default="sm_90", help="architecture (default: %(default)s)")
    options = parser.parse_args()
    try:
        found = code_of_all(options.arch)
    except FileNotFoundError:
        sys.stderr.write("device_code: there is no cuobjdump (it comes with the CUDA toolkit)\n")
        return 1
    except subprocess.CalledProcessError as error:
        said = str(error.stderr).strip().rpartition("\n")[2] or f"cuobjdump ended with status {error.returncode}"
        sys.stderr.write(f"device_code: {error.cmd[-1]} cannot be read for {options.arch}: {said}\n")
        return 1
    if not found:
        sys.stderr.write(f"device_code: {NATIVE} holds no kernels for {options.arch}: make cuda\n")
        return 1
    print(f"# Kernels for {options.arch}, by `python bench/device_code.py --arch {options.arch}`\n")
    print(table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
