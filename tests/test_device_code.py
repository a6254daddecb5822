"""The count of the device's instructions: what cuobjdump prints, and what it says where it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "bench" / "device_code.py"
SASS = """
\t\tFunction : cuzkops_ntt_pass
\t.headerflags\t@"EF_CUDA_SM90"
        /*0000*/                   LDC R1, c[0x0][0x28] ;               /* 0x00000a00ff017b82 */
                                                                        /* 0x000fe20000000800 */
        /*0010*/              @!P0 IMAD.WIDE.U32.X R2, R3, R4, R5, P1 ; /* 0x0000000403027225 */
        /*0020*/              @UP1 UIADD3 UR4, UR4, 0x1, URZ ;          /* 0x0000000104047890 */
        /*0030*/                   BRA `(.L_x_0) ;                      /* 0xfffffffc00fc7947 */
"""
USAGE = " Function cuzkops_ntt_pass:\n  REG:40 STACK:8 SHARED:0 LOCAL:0\n"


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run the script on one fatbin with a cuobjdump of our own."""
    (folder / "sass").write_text(SASS)
    (folder / "usage").write_text(USAGE)
    (folder / "cuzkops_ntt.fatbin").write_bytes(b"x")
    (folder / "cuobjdump").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "cuobjdump").chmod(0o755)
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "CUZKOPS_NATIVE_DIR": str(folder)}
    return subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False)


def test_instructions_are_counted_by_class(tmp_path: Path) -> None:
    done = run(tmp_path, f"case $* in *-sass*) cat {tmp_path}/sass ;; *) cat {tmp_path}/usage ;; esac")
    assert done.returncode == 0
    row = [cell.strip() for cell in done.stdout.splitlines()[-1].strip("|").split("|")]
    assert row == ["ntt: ntt_pass", "40", "8", "0.1", "4", "1", "0", "1", "0", "0", "1", "1"]


def test_what_cuobjdump_cannot_read_is_a_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, "echo 'cuobjdump fatal   : No matching device code' >&2; exit 255")
    said = f"{tmp_path}/cuzkops_ntt.fatbin cannot be read for sm_90: cuobjdump fatal   : No matching device code"
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"device_code: {said}\n")
