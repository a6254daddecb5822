"""Text of ``kernels/src/include/limbs_x86.hpp``: field arithmetic in x86-64 assembly with mulx, adcx and adox.

Written by ``kernels.gen.constants``. The two carry flags let a row of products and the row of the reduction be added
in two chains at once: Intel, "New Instructions Supporting Large Integer Arithmetic", 2013. The order of the steps is
the coarsely integrated operand scanning of Koc, Acar and Kaliski (1996) without the extra limb.
"""

from __future__ import annotations

from pathlib import Path

HEADER = Path(__file__).parent.parent / "src" / "include" / "limbs_x86.hpp"
LINE_WIDTH = 118


class Assembly:
    """One asm statement: lines, and the registers that they use.

    Args:
        n: Limbs of an element.
        name: Of the C++ function.
        parameters: Of the C++ function: pointers to 64-bit words, out first.
        qualifiers: What stands before ``inline`` in the C++ function.
    """

    def __init__(self, n: int, name: str, parameters: tuple[str, ...], qualifiers: str = "") -> None:
        self.n = n
        self.name = name
        self.parameters = parameters
        self.qualifiers = qualifiers
        self.lines: list[str] = []
        self.temps: list[str] = []

    def temp(self, *names: str) -> list[str]:
        """Ask for registers of these names; returned as operands."""
        self.temps.extend(names)
        return [f"%[{name}]" for name in names]

    def do(self, line: str) -> None:
        """Append one instruction; ``$name`` is not touched, operands are ``%[name]``."""
        self.lines.append(line)

    def function(self, stores: list[tuple[int, str]]) -> str:
        """Return the C++ function, which at the end stores registers to ``out[index]``."""
        sources = [name for name in self.parameters if name != "out"]
        arguments = ", ".join(
            f"std::uint64_t* {name}" if name == "out" else f"const std::uint64_t* {name}" for name in self.parameters
        )
        body = "\n".join(f'        "{line}"' for line in self.packed())
        kept = [name for name in sources if name == "q"]
        changed = [f'[{name}] "+&r"({name})' for name in sources if name != "q"]
        outs = ", ".join([*(f'[{name}] "=&r"({name})' for name in self.temps), *changed])
        ins = ", ".join(f'[{name}] "r"({name})' for name in [*kept, *(["out"] if self.uses_out() else [])])
        declared = ", ".join(self.temps)
        saved = "    " + " ".join(f"out[{index}] = {name};" for index, name in stores) if stores else ""
        volatile = " volatile" if self.uses_out() else ""  # what it stores is invisible to the compiler
        clobbers = '"cc", "memory"' + (', "rdx"' if any("%%rdx" in line for line in self.lines) else "")
        return (
            f"{self.qualifiers}inline void {self.name}({arguments}) {{\n    std::uint64_t {declared};\n"
            f"    asm{volatile}(\n{body}\n        : {outs}\n        : {ins}\n        : {clobbers});\n{saved}\n}}\n"
        )

    def packed(self) -> list[str]:
        """Return the instructions, several a line, each with the semicolon that ends it."""
        lines = [""]
        for line in self.lines:
            if len(lines[-1]) + len(line) > LINE_WIDTH - 12:
                lines.append("")
            lines[-1] += f"{line}; "
        return lines

    def uses_out(self) -> bool:
        """Whether the assembly itself stores to ``out``."""
        return any("%[out]" in line for line in self.lines)


def _limbs(prefix: str, n: int) -> list[str]:
    return [f"{prefix}{i}" for i in range(n)]


def _reduction_round(asm: Assembly, t: list[str], scratch: tuple[str, str], top: str) -> None:
    """Make t = (t + m q) / 2^64 + top 2^(64 (n-1)), with m chosen so that the low limb becomes 0; n + 1 products."""
    n, (low, high) = asm.n, scratch
    asm.do(f"movq {t[0]}, %%rdx")
    asm.do(f"imulq {8 * n}(%[q]), %%rdx")
    asm.do(f"xorq {low}, {low}")  # clears both carries
    asm.do(f"mulxq 0(%[q]), {low}, {high}")
    asm.do(f"adcxq {t[0]}, {low}")
    asm.do(f"movq {high}, {t[0]}")
    for j in range(1, n):
        asm.do(f"adcxq {t[j]}, {t[j - 1]}")
        asm.do(f"mulxq {8 * j}(%[q]), {low}, {t[j]}")
        asm.do(f"adoxq {low}, {t[j - 1]}")
    asm.do(f"movq $0, {low}")
    asm.do(f"adcxq {low}, {t[n - 1]}")
    asm.do(f"adoxq {top or low}, {t[n - 1]}")


def _subtract_once(asm: Assembly, t: list[str], spare: list[str]) -> None:
    """Make t = t - q where t >= q, without a branch."""
    for j in range(asm.n):
        asm.do(f"movq {t[j]}, {spare[j]}")
    for j in range(asm.n):
        asm.do(f"{'subq' if j == 0 else 'sbbq'} {8 * j}(%[q]), {spare[j]}")
    for j in range(asm.n):
        asm.do(f"cmovncq {spare[j]}, {t[j]}")


def _multiply(n: int) -> str:
    """Montgomery product: 2 n^2 + n products."""
    asm = Assembly(n, f"montgomery_mul_{n}", ("out", "a", "b", "q"), "__attribute__((noinline)) ")
    t = asm.temp(*_limbs("t", n))
    low, high = asm.temp("low", "high")
    spare = [low, high, "%[a]", "%[b]", "%%rdx", *asm.temp("more")][:n]
    for i in range(n):
        asm.do(f"movq {8 * i}(%[b]), %%rdx")
        asm.do(f"xorq {low}, {low}")
        if i == 0:
            asm.do(f"mulxq 0(%[a]), {t[0]}, {t[1]}")
            for j in range(1, n):
                asm.do(f"mulxq {8 * j}(%[a]), {low}, {t[j + 1] if j + 1 < n else high}")
                asm.do(f"adoxq {low}, {t[j]}")
            asm.do(f"movq $0, {low}")
            asm.do(f"adoxq {low}, {high}")
        else:
            for j in range(n):
                if j:
                    asm.do(f"adcxq {high}, {t[j]}")
                asm.do(f"mulxq {8 * j}(%[a]), {low}, {high}")
                asm.do(f"adoxq {low}, {t[j]}")
            asm.do(f"movq $0, {low}")
            asm.do(f"adcxq {low}, {high}")
            asm.do(f"adoxq {low}, {high}")
        # the reduction needs a second scratch register while `high` holds the top limb
        _reduction_round(asm, t, (low, "%[more]"), high)
    _subtract_once(asm, t, spare)
    return asm.function(list(enumerate(_limbs("t", n))))


def _multiply_wide(n: int) -> str:
    """All 2 n limbs of a product: n^2 products."""
    asm = Assembly(n, f"multiply_wide_{n}", ("out", "a", "b"), "__attribute__((noinline)) ")
    t = asm.temp(*_limbs("t", n))
    low, high = asm.temp("low", "high")
    for i in range(n):
        asm.do(f"movq {8 * i}(%[b]), %%rdx")
        asm.do(f"xorq {low}, {low}")
        if i == 0:
            asm.do(f"mulxq 0(%[a]), {low}, {t[1]}")
            asm.do(f"movq {low}, 0(%[out])")
            for j in range(1, n):
                asm.do(f"mulxq {8 * j}(%[a]), {low}, {t[j + 1] if j + 1 < n else t[0]}")
                asm.do(f"{'addq' if j == 1 else 'adcq'} {low}, {t[j]}")
            asm.do(f"adcq $0, {t[0]}")
            t = [*t[1:], t[0]]
            continue
        for j in range(n):
            if j:
                asm.do(f"adcxq {high}, {t[j]}")
            asm.do(f"mulxq {8 * j}(%[a]), {low}, {high}")
            asm.do(f"adoxq {low}, {t[j]}")
        asm.do(f"movq {t[0]}, {8 * i}(%[out])")
        asm.do(f"movq $0, {low}")
        asm.do(f"adcxq {low}, {high}")
        asm.do(f"adoxq {low}, {high}")
        asm.do(f"movq {high}, {t[0]}")
        t = [*t[1:], t[0]]
    return asm.function([(n + j, name.strip("%[]")) for j, name in enumerate(t)])


def _square_wide(n: int) -> str:
    """All 2 n limbs of a square: n (n + 1) / 2 products."""
    asm = Assembly(n, f"square_wide_{n}", ("out", "a"), "__attribute__((noinline)) ")
    c = asm.temp(*_limbs("c", n))
    low, high = asm.temp("low", "high")
    # the products of different limbs, row by row: c holds limbs i + 1 .. i + n of the sum
    asm.do("movq 0(%[a]), %%rdx")
    asm.do(f"mulxq 8(%[a]), {c[0]}, {c[1]}")
    for j in range(2, n):
        asm.do(f"mulxq {8 * j}(%[a]), {low}, {c[j]}")
        asm.do(f"{'addq' if j == 2 else 'adcq'} {low}, {c[j - 1]}")
    asm.do(f"adcq $0, {c[n - 1]}")
    # now c[k] is limb k + 1; limbs 1 and 2 are final
    limb = {k + 1: c[k] for k in range(n)}
    free: list[str] = []
    asm.do(f"movq {limb[1]}, 8(%[out])")
    asm.do(f"movq {limb[2]}, 16(%[out])")
    free += [limb.pop(1), limb.pop(2)]
    for i in range(1, n - 1):
        asm.do(f"movq {8 * i}(%[a]), %%rdx")
        asm.do(f"xorq {low}, {low}")
        for j in range(i + 1, n):
            asm.do(f"mulxq {8 * j}(%[a]), {low}, {high}")
            for flag, word, at in (("adox", low, i + j), ("adcx", high, i + j + 1)):
                if at in limb:
                    asm.do(f"{flag}q {word}, {limb[at]}")
                else:
                    limb[at] = free.pop(0)
                    asm.do(f"movq {word}, {limb[at]}")
        asm.do(f"movq $0, {low}")
        asm.do(f"adoxq {low}, {limb[i + n]}")
        asm.do(f"adcxq {low}, {limb[i + n]}")
        for at in (2 * i + 1, 2 * i + 2):
            asm.do(f"movq {limb[at]}, {8 * at}(%[out])")
            free.append(limb.pop(at))
    _double_and_add_squares(asm, c[0], low, high)
    return asm.function([])


def _double_and_add_squares(asm: Assembly, word: str, low: str, high: str) -> None:
    """Make out = 2 out + the squares of the limbs: doubling in the carry chain, squares in the overflow chain."""
    n = asm.n
    asm.do(f"xorq {word}, {word}")
    for k in range(2 * n):
        if k % 2 == 0:
            asm.do(f"movq {4 * k}(%[a]), %%rdx")
            asm.do(f"mulxq %%rdx, {low}, {high}")
        if k > 0:
            asm.do(f"movq {8 * k}(%[out]), {word}" if k < 2 * n - 1 else f"movq $0, {word}")
            asm.do(f"adcxq {word}, {word}")
        asm.do(f"adoxq {low if k % 2 == 0 else high}, {word}")
        asm.do(f"movq {word}, {8 * k}(%[out])")


def _reduce_wide(n: int) -> str:
    """Montgomery reduction of 2 n limbs below q 2^(64 n): n^2 + n products."""
    asm = Assembly(n, f"reduce_wide_{n}", ("out", "a", "q"), "__attribute__((noinline)) ")
    t = asm.temp(*_limbs("t", n))
    low, high, more, last = asm.temp("low", "high", "more", "last")
    for j in range(n):
        asm.do(f"movq {8 * j}(%[a]), {t[j]}")
    for _ in range(n):
        _reduction_round(asm, t, (low, high), "")
    for j in range(n):
        asm.do(f"{'addq' if j == 0 else 'adcq'} {8 * (n + j)}(%[a]), {t[j]}")
    _subtract_once(asm, t, [low, high, more, last, "%[a]", "%%rdx"][:n])
    return asm.function(list(enumerate(_limbs("t", n))))


def _add(n: int) -> str:
    asm = Assembly(n, f"add_mod_{n}", ("out", "a", "b", "q"))
    t = asm.temp(*_limbs("t", n))
    spare = [*asm.temp(*_limbs("s", n - 2)), "%[a]", "%[b]"]
    for j in range(n):
        asm.do(f"movq {8 * j}(%[a]), {t[j]}")
    for j in range(n):
        asm.do(f"{'addq' if j == 0 else 'adcq'} {8 * j}(%[b]), {t[j]}")
    _subtract_once(asm, t, spare)
    return asm.function(list(enumerate(_limbs("t", n))))


def _subtract(n: int) -> str:
    asm = Assembly(n, f"sub_mod_{n}", ("out", "a", "b", "q"))
    t = asm.temp(*_limbs("t", n))
    spare = [*asm.temp(*_limbs("s", n - 2)), "%[a]", "%[b]"]
    for j in range(n):
        asm.do(f"movq {8 * j}(%[a]), {t[j]}")
    for j in range(n):
        asm.do(f"{'subq' if j == 0 else 'sbbq'} {8 * j}(%[b]), {t[j]}")
    _masked_modulus(asm, spare)
    for j in range(n):
        asm.do(f"{'addq' if j == 0 else 'adcq'} {spare[j]}, {t[j]}")
    return asm.function(list(enumerate(_limbs("t", n))))


def _masked_modulus(asm: Assembly, spare: list[str]) -> None:
    """Make spare = q where the carry flag is set, else 0."""
    for j in range(asm.n):
        asm.do(f"movq $0, {spare[j]}")
    for j in range(asm.n):
        asm.do(f"cmovcq {8 * j}(%[q]), {spare[j]}")


def _subtract_wide(n: int) -> str:
    """2 n limbs of a - b, plus q 2^(64 n) where that is negative."""
    asm = Assembly(n, f"subtract_wide_{n}", ("out", "a", "b", "q"))
    t = asm.temp(*_limbs("t", n))
    spare = [*asm.temp(*_limbs("s", n - 2)), "%[a]", "%[b]"]
    for half in (0, 1):
        for j in range(n):
            at = 8 * (n * half + j)
            word = t[j]
            asm.do(f"movq {at}(%[a]), {word}")
            asm.do(f"{'subq' if at == 0 else 'sbbq'} {at}(%[b]), {word}")
            if half == 0:
                asm.do(f"movq {word}, {at}(%[out])")
    _masked_modulus(asm, spare)
    for j in range(n):
        asm.do(f"{'addq' if j == 0 else 'adcq'} {spare[j]}, {t[j]}")
    return asm.function([(n + j, name) for j, name in enumerate(_limbs("t", n))])


_LEAF = """
// The leaf below field.hpp for x86-64 with BMI2 and ADX: see limbs64.hpp for what each function does.
struct Adx64 {
    template <class M> static void add(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        if constexpr (M::N == 4) x86::add_mod_4(out, a, b, M::words());
        else x86::add_mod_6(out, a, b, M::words());
    }
    template <class M> static void sub(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        if constexpr (M::N == 4) x86::sub_mod_4(out, a, b, M::words());
        else x86::sub_mod_6(out, a, b, M::words());
    }
    template <class M> static void mul(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        if constexpr (M::N == 4) x86::montgomery_mul_4(out, a, b, M::words());
        else x86::montgomery_mul_6(out, a, b, M::words());
    }
    // The wide functions are for Fp alone: Fp2 is made of them, and only there a square of its own is faster.
    template <class M> static void square(std::uint64_t* out, const std::uint64_t* a) {
        if constexpr (M::N == 4) {
            mul<M>(out, a, a);
        } else {
            std::uint64_t wide[2 * M::N];
            x86::square_wide_6(wide, a);
            reduce<M>(out, wide);
        }
    }
    template <class M> static void multiply_wide(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        static_assert(M::N == 6);
        x86::multiply_wide_6(out, a, b);
    }
    template <class M> static void subtract_wide(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
        static_assert(M::N == 6);
        x86::subtract_wide_6(out, a, b, M::words());
    }
    template <class M> static void reduce(std::uint64_t* out, const std::uint64_t* wide) {
        static_assert(M::N == 6);
        x86::reduce_wide_6(out, wide, M::words());
    }
};
"""


def header() -> str:
    """Return the text of limbs_x86.hpp."""
    parts = [maker(n) for n in (4, 6) for maker in (_add, _subtract, _multiply)]
    parts += [maker(6) for maker in (_multiply_wide, _square_wide, _subtract_wide, _reduce_wide)]
    functions = "\n".join(parts)
    return (
        "// Written by kernels/gen/x86.py: change that file, not this one. q points at a modulus and its INV.\n"
        "#pragma once\n#include <cstdint>\n\n#if defined(__x86_64__) && !defined(__CUDA_ARCH__)\n"
        f"#define CUZKOPS_HAVE_ADX64 1\n\nnamespace cuzkops {{\nnamespace x86 {{\n\n{functions}\n"
        f"}} // namespace x86\n{_LEAF}\n}} // namespace cuzkops\n#endif\n"
    )
