// Written by kernels/gen/x86.py: change that file, not this one. q points at a modulus and its INV.
#pragma once
#include <cstdint>

#if defined(__x86_64__) && !defined(__CUDA_ARCH__)
#define CUZKOPS_HAVE_ADX64 1

namespace cuzkops {
namespace x86 {

inline void add_mod_4(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, s0, s1;
    asm(
        "movq 0(%[a]), %[t0]; movq 8(%[a]), %[t1]; movq 16(%[a]), %[t2]; movq 24(%[a]), %[t3]; addq 0(%[b]), %[t0]; "
        "adcq 8(%[b]), %[t1]; adcq 16(%[b]), %[t2]; adcq 24(%[b]), %[t3]; movq %[t0], %[s0]; movq %[t1], %[s1]; "
        "movq %[t2], %[a]; movq %[t3], %[b]; subq 0(%[q]), %[s0]; sbbq 8(%[q]), %[s1]; sbbq 16(%[q]), %[a]; "
        "sbbq 24(%[q]), %[b]; cmovncq %[s0], %[t0]; cmovncq %[s1], %[t1]; cmovncq %[a], %[t2]; cmovncq %[b], %[t3]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [s0] "=&r"(s0), [s1] "=&r"(s1), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q)
        : "cc", "memory");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3;
}

inline void sub_mod_4(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, s0, s1;
    asm(
        "movq 0(%[a]), %[t0]; movq 8(%[a]), %[t1]; movq 16(%[a]), %[t2]; movq 24(%[a]), %[t3]; subq 0(%[b]), %[t0]; "
        "sbbq 8(%[b]), %[t1]; sbbq 16(%[b]), %[t2]; sbbq 24(%[b]), %[t3]; movq $0, %[s0]; movq $0, %[s1]; "
        "movq $0, %[a]; movq $0, %[b]; cmovcq 0(%[q]), %[s0]; cmovcq 8(%[q]), %[s1]; cmovcq 16(%[q]), %[a]; "
        "cmovcq 24(%[q]), %[b]; addq %[s0], %[t0]; adcq %[s1], %[t1]; adcq %[a], %[t2]; adcq %[b], %[t3]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [s0] "=&r"(s0), [s1] "=&r"(s1), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q)
        : "cc", "memory");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3;
}

__attribute__((noinline)) inline void montgomery_mul_4(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, low, high, more;
    asm(
        "movq 0(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[t0], %[t1]; mulxq 8(%[a]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; mulxq 16(%[a]), %[low], %[t3]; adoxq %[low], %[t2]; mulxq 24(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t3]; movq $0, %[low]; adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 32(%[q]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; "
        "adcxq %[t1], %[t0]; mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; "
        "mulxq 16(%[q]), %[low], %[t2]; adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; "
        "adoxq %[low], %[t2]; movq $0, %[low]; adcxq %[low], %[t3]; adoxq %[high], %[t3]; movq 8(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t0]; adcxq %[high], %[t1]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t2]; adcxq %[high], %[t3]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; "
        "movq $0, %[low]; adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 32(%[q]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; "
        "adcxq %[t1], %[t0]; mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; "
        "mulxq 16(%[q]), %[low], %[t2]; adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; "
        "adoxq %[low], %[t2]; movq $0, %[low]; adcxq %[low], %[t3]; adoxq %[high], %[t3]; movq 16(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t0]; adcxq %[high], %[t1]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t2]; adcxq %[high], %[t3]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; "
        "movq $0, %[low]; adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 32(%[q]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; "
        "adcxq %[t1], %[t0]; mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; "
        "mulxq 16(%[q]), %[low], %[t2]; adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; "
        "adoxq %[low], %[t2]; movq $0, %[low]; adcxq %[low], %[t3]; adoxq %[high], %[t3]; movq 24(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t0]; adcxq %[high], %[t1]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t2]; adcxq %[high], %[t3]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; "
        "movq $0, %[low]; adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 32(%[q]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; "
        "adcxq %[t1], %[t0]; mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; "
        "mulxq 16(%[q]), %[low], %[t2]; adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; "
        "adoxq %[low], %[t2]; movq $0, %[low]; adcxq %[low], %[t3]; adoxq %[high], %[t3]; movq %[t0], %[low]; "
        "movq %[t1], %[high]; movq %[t2], %[a]; movq %[t3], %[b]; subq 0(%[q]), %[low]; sbbq 8(%[q]), %[high]; "
        "sbbq 16(%[q]), %[a]; sbbq 24(%[q]), %[b]; cmovncq %[low], %[t0]; cmovncq %[high], %[t1]; "
        "cmovncq %[a], %[t2]; cmovncq %[b], %[t3]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [low] "=&r"(low), [high] "=&r"(high), [more] "=&r"(more), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q)
        : "cc", "memory", "rdx");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3;
}

inline void add_mod_6(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, t4, t5, s0, s1, s2, s3;
    asm(
        "movq 0(%[a]), %[t0]; movq 8(%[a]), %[t1]; movq 16(%[a]), %[t2]; movq 24(%[a]), %[t3]; movq 32(%[a]), %[t4]; "
        "movq 40(%[a]), %[t5]; addq 0(%[b]), %[t0]; adcq 8(%[b]), %[t1]; adcq 16(%[b]), %[t2]; adcq 24(%[b]), %[t3]; "
        "adcq 32(%[b]), %[t4]; adcq 40(%[b]), %[t5]; movq %[t0], %[s0]; movq %[t1], %[s1]; movq %[t2], %[s2]; "
        "movq %[t3], %[s3]; movq %[t4], %[a]; movq %[t5], %[b]; subq 0(%[q]), %[s0]; sbbq 8(%[q]), %[s1]; "
        "sbbq 16(%[q]), %[s2]; sbbq 24(%[q]), %[s3]; sbbq 32(%[q]), %[a]; sbbq 40(%[q]), %[b]; cmovncq %[s0], %[t0]; "
        "cmovncq %[s1], %[t1]; cmovncq %[s2], %[t2]; cmovncq %[s3], %[t3]; cmovncq %[a], %[t4]; cmovncq %[b], %[t5]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q)
        : "cc", "memory");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3; out[4] = t4; out[5] = t5;
}

inline void sub_mod_6(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, t4, t5, s0, s1, s2, s3;
    asm(
        "movq 0(%[a]), %[t0]; movq 8(%[a]), %[t1]; movq 16(%[a]), %[t2]; movq 24(%[a]), %[t3]; movq 32(%[a]), %[t4]; "
        "movq 40(%[a]), %[t5]; subq 0(%[b]), %[t0]; sbbq 8(%[b]), %[t1]; sbbq 16(%[b]), %[t2]; sbbq 24(%[b]), %[t3]; "
        "sbbq 32(%[b]), %[t4]; sbbq 40(%[b]), %[t5]; movq $0, %[s0]; movq $0, %[s1]; movq $0, %[s2]; movq $0, %[s3]; "
        "movq $0, %[a]; movq $0, %[b]; cmovcq 0(%[q]), %[s0]; cmovcq 8(%[q]), %[s1]; cmovcq 16(%[q]), %[s2]; "
        "cmovcq 24(%[q]), %[s3]; cmovcq 32(%[q]), %[a]; cmovcq 40(%[q]), %[b]; addq %[s0], %[t0]; adcq %[s1], %[t1]; "
        "adcq %[s2], %[t2]; adcq %[s3], %[t3]; adcq %[a], %[t4]; adcq %[b], %[t5]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q)
        : "cc", "memory");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3; out[4] = t4; out[5] = t5;
}

__attribute__((noinline)) inline void montgomery_mul_6(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, t4, t5, low, high, more;
    asm(
        "movq 0(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[t0], %[t1]; mulxq 8(%[a]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; mulxq 16(%[a]), %[low], %[t3]; adoxq %[low], %[t2]; mulxq 24(%[a]), %[low], %[t4]; "
        "adoxq %[low], %[t3]; mulxq 32(%[a]), %[low], %[t5]; adoxq %[low], %[t4]; mulxq 40(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t5]; movq $0, %[low]; adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; "
        "adcxq %[t1], %[t0]; mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; "
        "mulxq 16(%[q]), %[low], %[t2]; adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; "
        "adoxq %[low], %[t2]; adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; "
        "adcxq %[t5], %[t4]; mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; "
        "adcxq %[low], %[t5]; adoxq %[high], %[t5]; movq 8(%[b]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 8(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t1]; adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; adoxq %[low], %[t2]; "
        "adcxq %[high], %[t3]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t5]; movq $0, %[low]; adcxq %[low], %[high]; "
        "adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[high], %[t5]; movq 16(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; "
        "adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; "
        "mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t5]; movq $0, %[low]; adcxq %[low], %[high]; "
        "adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[high], %[t5]; movq 24(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; "
        "adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; "
        "mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t5]; movq $0, %[low]; adcxq %[low], %[high]; "
        "adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[high], %[t5]; movq 32(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; "
        "adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; "
        "mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t5]; movq $0, %[low]; adcxq %[low], %[high]; "
        "adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[high], %[t5]; movq 40(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t1]; "
        "adcxq %[high], %[t2]; mulxq 16(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; "
        "mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t5]; movq $0, %[low]; adcxq %[low], %[high]; "
        "adoxq %[low], %[high]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[more]; adcxq %[t0], %[low]; movq %[more], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[high], %[t5]; movq %[t0], %[low]; movq %[t1], %[high]; movq %[t2], %[a]; movq %[t3], %[b]; "
        "movq %[t4], %%rdx; movq %[t5], %[more]; subq 0(%[q]), %[low]; sbbq 8(%[q]), %[high]; sbbq 16(%[q]), %[a]; "
        "sbbq 24(%[q]), %[b]; sbbq 32(%[q]), %%rdx; sbbq 40(%[q]), %[more]; cmovncq %[low], %[t0]; "
        "cmovncq %[high], %[t1]; cmovncq %[a], %[t2]; cmovncq %[b], %[t3]; cmovncq %%rdx, %[t4]; "
        "cmovncq %[more], %[t5]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [low] "=&r"(low), [high] "=&r"(high), [more] "=&r"(more), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q)
        : "cc", "memory", "rdx");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3; out[4] = t4; out[5] = t5;
}

__attribute__((noinline)) inline void multiply_wide_6(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b) {
    std::uint64_t t0, t1, t2, t3, t4, t5, low, high;
    asm volatile(
        "movq 0(%[b]), %%rdx; xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[t1]; movq %[low], 0(%[out]); "
        "mulxq 8(%[a]), %[low], %[t2]; addq %[low], %[t1]; mulxq 16(%[a]), %[low], %[t3]; adcq %[low], %[t2]; "
        "mulxq 24(%[a]), %[low], %[t4]; adcq %[low], %[t3]; mulxq 32(%[a]), %[low], %[t5]; adcq %[low], %[t4]; "
        "mulxq 40(%[a]), %[low], %[t0]; adcq %[low], %[t5]; adcq $0, %[t0]; movq 8(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t1]; adcxq %[high], %[t2]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t3]; adcxq %[high], %[t4]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t4]; "
        "adcxq %[high], %[t5]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t5]; adcxq %[high], %[t0]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t0]; movq %[t1], 8(%[out]); movq $0, %[low]; "
        "adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[high], %[t1]; movq 16(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t4]; adcxq %[high], %[t5]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t5]; "
        "adcxq %[high], %[t0]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t0]; adcxq %[high], %[t1]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t1]; movq %[t2], 16(%[out]); movq $0, %[low]; "
        "adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[high], %[t2]; movq 24(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t5]; adcxq %[high], %[t0]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t0]; "
        "adcxq %[high], %[t1]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t1]; adcxq %[high], %[t2]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t2]; movq %[t3], 24(%[out]); movq $0, %[low]; "
        "adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[high], %[t3]; movq 32(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t4]; adcxq %[high], %[t5]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t5]; adcxq %[high], %[t0]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t1]; "
        "adcxq %[high], %[t2]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t2]; adcxq %[high], %[t3]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t3]; movq %[t4], 32(%[out]); movq $0, %[low]; "
        "adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[high], %[t4]; movq 40(%[b]), %%rdx; "
        "xorq %[low], %[low]; mulxq 0(%[a]), %[low], %[high]; adoxq %[low], %[t5]; adcxq %[high], %[t0]; "
        "mulxq 8(%[a]), %[low], %[high]; adoxq %[low], %[t0]; adcxq %[high], %[t1]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[t1]; adcxq %[high], %[t2]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[t2]; "
        "adcxq %[high], %[t3]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[t3]; adcxq %[high], %[t4]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[t4]; movq %[t5], 40(%[out]); movq $0, %[low]; "
        "adcxq %[low], %[high]; adoxq %[low], %[high]; movq %[high], %[t5]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [low] "=&r"(low), [high] "=&r"(high), [a] "+&r"(a), [b] "+&r"(b)
        : [out] "r"(out)
        : "cc", "memory", "rdx");
    out[6] = t0; out[7] = t1; out[8] = t2; out[9] = t3; out[10] = t4; out[11] = t5;
}

__attribute__((noinline)) inline void square_wide_6(std::uint64_t* out, const std::uint64_t* a) {
    std::uint64_t c0, c1, c2, c3, c4, c5, low, high;
    asm volatile(
        "movq 0(%[a]), %%rdx; mulxq 8(%[a]), %[c0], %[c1]; mulxq 16(%[a]), %[low], %[c2]; addq %[low], %[c1]; "
        "mulxq 24(%[a]), %[low], %[c3]; adcq %[low], %[c2]; mulxq 32(%[a]), %[low], %[c4]; adcq %[low], %[c3]; "
        "mulxq 40(%[a]), %[low], %[c5]; adcq %[low], %[c4]; adcq $0, %[c5]; movq %[c0], 8(%[out]); "
        "movq %[c1], 16(%[out]); movq 8(%[a]), %%rdx; xorq %[low], %[low]; mulxq 16(%[a]), %[low], %[high]; "
        "adoxq %[low], %[c2]; adcxq %[high], %[c3]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[c3]; "
        "adcxq %[high], %[c4]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[c4]; adcxq %[high], %[c5]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[c5]; movq %[high], %[c0]; movq $0, %[low]; "
        "adoxq %[low], %[c0]; adcxq %[low], %[c0]; movq %[c2], 24(%[out]); movq %[c3], 32(%[out]); "
        "movq 16(%[a]), %%rdx; xorq %[low], %[low]; mulxq 24(%[a]), %[low], %[high]; adoxq %[low], %[c4]; "
        "adcxq %[high], %[c5]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[c5]; adcxq %[high], %[c0]; "
        "mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[c0]; movq %[high], %[c1]; movq $0, %[low]; "
        "adoxq %[low], %[c1]; adcxq %[low], %[c1]; movq %[c4], 40(%[out]); movq %[c5], 48(%[out]); "
        "movq 24(%[a]), %%rdx; xorq %[low], %[low]; mulxq 32(%[a]), %[low], %[high]; adoxq %[low], %[c0]; "
        "adcxq %[high], %[c1]; mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[c1]; movq %[high], %[c2]; "
        "movq $0, %[low]; adoxq %[low], %[c2]; adcxq %[low], %[c2]; movq %[c0], 56(%[out]); movq %[c1], 64(%[out]); "
        "movq 32(%[a]), %%rdx; xorq %[low], %[low]; mulxq 40(%[a]), %[low], %[high]; adoxq %[low], %[c2]; "
        "movq %[high], %[c3]; movq $0, %[low]; adoxq %[low], %[c3]; adcxq %[low], %[c3]; movq %[c2], 72(%[out]); "
        "movq %[c3], 80(%[out]); xorq %[c0], %[c0]; movq 0(%[a]), %%rdx; mulxq %%rdx, %[low], %[high]; "
        "adoxq %[low], %[c0]; movq %[c0], 0(%[out]); movq 8(%[out]), %[c0]; adcxq %[c0], %[c0]; "
        "adoxq %[high], %[c0]; movq %[c0], 8(%[out]); movq 8(%[a]), %%rdx; mulxq %%rdx, %[low], %[high]; "
        "movq 16(%[out]), %[c0]; adcxq %[c0], %[c0]; adoxq %[low], %[c0]; movq %[c0], 16(%[out]); "
        "movq 24(%[out]), %[c0]; adcxq %[c0], %[c0]; adoxq %[high], %[c0]; movq %[c0], 24(%[out]); "
        "movq 16(%[a]), %%rdx; mulxq %%rdx, %[low], %[high]; movq 32(%[out]), %[c0]; adcxq %[c0], %[c0]; "
        "adoxq %[low], %[c0]; movq %[c0], 32(%[out]); movq 40(%[out]), %[c0]; adcxq %[c0], %[c0]; "
        "adoxq %[high], %[c0]; movq %[c0], 40(%[out]); movq 24(%[a]), %%rdx; mulxq %%rdx, %[low], %[high]; "
        "movq 48(%[out]), %[c0]; adcxq %[c0], %[c0]; adoxq %[low], %[c0]; movq %[c0], 48(%[out]); "
        "movq 56(%[out]), %[c0]; adcxq %[c0], %[c0]; adoxq %[high], %[c0]; movq %[c0], 56(%[out]); "
        "movq 32(%[a]), %%rdx; mulxq %%rdx, %[low], %[high]; movq 64(%[out]), %[c0]; adcxq %[c0], %[c0]; "
        "adoxq %[low], %[c0]; movq %[c0], 64(%[out]); movq 72(%[out]), %[c0]; adcxq %[c0], %[c0]; "
        "adoxq %[high], %[c0]; movq %[c0], 72(%[out]); movq 40(%[a]), %%rdx; mulxq %%rdx, %[low], %[high]; "
        "movq 80(%[out]), %[c0]; adcxq %[c0], %[c0]; adoxq %[low], %[c0]; movq %[c0], 80(%[out]); movq $0, %[c0]; "
        "adcxq %[c0], %[c0]; adoxq %[high], %[c0]; movq %[c0], 88(%[out]); "
        : [c0] "=&r"(c0), [c1] "=&r"(c1), [c2] "=&r"(c2), [c3] "=&r"(c3), [c4] "=&r"(c4), [c5] "=&r"(c5), [low] "=&r"(low), [high] "=&r"(high), [a] "+&r"(a)
        : [out] "r"(out)
        : "cc", "memory", "rdx");

}

inline void subtract_wide_6(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* b, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, t4, t5, s0, s1, s2, s3;
    asm volatile(
        "movq 0(%[a]), %[t0]; subq 0(%[b]), %[t0]; movq %[t0], 0(%[out]); movq 8(%[a]), %[t1]; sbbq 8(%[b]), %[t1]; "
        "movq %[t1], 8(%[out]); movq 16(%[a]), %[t2]; sbbq 16(%[b]), %[t2]; movq %[t2], 16(%[out]); "
        "movq 24(%[a]), %[t3]; sbbq 24(%[b]), %[t3]; movq %[t3], 24(%[out]); movq 32(%[a]), %[t4]; "
        "sbbq 32(%[b]), %[t4]; movq %[t4], 32(%[out]); movq 40(%[a]), %[t5]; sbbq 40(%[b]), %[t5]; "
        "movq %[t5], 40(%[out]); movq 48(%[a]), %[t0]; sbbq 48(%[b]), %[t0]; movq 56(%[a]), %[t1]; "
        "sbbq 56(%[b]), %[t1]; movq 64(%[a]), %[t2]; sbbq 64(%[b]), %[t2]; movq 72(%[a]), %[t3]; "
        "sbbq 72(%[b]), %[t3]; movq 80(%[a]), %[t4]; sbbq 80(%[b]), %[t4]; movq 88(%[a]), %[t5]; "
        "sbbq 88(%[b]), %[t5]; movq $0, %[s0]; movq $0, %[s1]; movq $0, %[s2]; movq $0, %[s3]; movq $0, %[a]; "
        "movq $0, %[b]; cmovcq 0(%[q]), %[s0]; cmovcq 8(%[q]), %[s1]; cmovcq 16(%[q]), %[s2]; "
        "cmovcq 24(%[q]), %[s3]; cmovcq 32(%[q]), %[a]; cmovcq 40(%[q]), %[b]; addq %[s0], %[t0]; adcq %[s1], %[t1]; "
        "adcq %[s2], %[t2]; adcq %[s3], %[t3]; adcq %[a], %[t4]; adcq %[b], %[t5]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [s0] "=&r"(s0), [s1] "=&r"(s1), [s2] "=&r"(s2), [s3] "=&r"(s3), [a] "+&r"(a), [b] "+&r"(b)
        : [q] "r"(q), [out] "r"(out)
        : "cc", "memory");
    out[6] = t0; out[7] = t1; out[8] = t2; out[9] = t3; out[10] = t4; out[11] = t5;
}

__attribute__((noinline)) inline void reduce_wide_6(std::uint64_t* out, const std::uint64_t* a, const std::uint64_t* q) {
    std::uint64_t t0, t1, t2, t3, t4, t5, low, high, more, last;
    asm(
        "movq 0(%[a]), %[t0]; movq 8(%[a]), %[t1]; movq 16(%[a]), %[t2]; movq 24(%[a]), %[t3]; movq 32(%[a]), %[t4]; "
        "movq 40(%[a]), %[t5]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[high]; adcxq %[t0], %[low]; movq %[high], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[low], %[t5]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[high]; adcxq %[t0], %[low]; movq %[high], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[low], %[t5]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[high]; adcxq %[t0], %[low]; movq %[high], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[low], %[t5]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[high]; adcxq %[t0], %[low]; movq %[high], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[low], %[t5]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[high]; adcxq %[t0], %[low]; movq %[high], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[low], %[t5]; movq %[t0], %%rdx; imulq 48(%[q]), %%rdx; xorq %[low], %[low]; "
        "mulxq 0(%[q]), %[low], %[high]; adcxq %[t0], %[low]; movq %[high], %[t0]; adcxq %[t1], %[t0]; "
        "mulxq 8(%[q]), %[low], %[t1]; adoxq %[low], %[t0]; adcxq %[t2], %[t1]; mulxq 16(%[q]), %[low], %[t2]; "
        "adoxq %[low], %[t1]; adcxq %[t3], %[t2]; mulxq 24(%[q]), %[low], %[t3]; adoxq %[low], %[t2]; "
        "adcxq %[t4], %[t3]; mulxq 32(%[q]), %[low], %[t4]; adoxq %[low], %[t3]; adcxq %[t5], %[t4]; "
        "mulxq 40(%[q]), %[low], %[t5]; adoxq %[low], %[t4]; movq $0, %[low]; adcxq %[low], %[t5]; "
        "adoxq %[low], %[t5]; addq 48(%[a]), %[t0]; adcq 56(%[a]), %[t1]; adcq 64(%[a]), %[t2]; "
        "adcq 72(%[a]), %[t3]; adcq 80(%[a]), %[t4]; adcq 88(%[a]), %[t5]; movq %[t0], %[low]; movq %[t1], %[high]; "
        "movq %[t2], %[more]; movq %[t3], %[last]; movq %[t4], %[a]; movq %[t5], %%rdx; subq 0(%[q]), %[low]; "
        "sbbq 8(%[q]), %[high]; sbbq 16(%[q]), %[more]; sbbq 24(%[q]), %[last]; sbbq 32(%[q]), %[a]; "
        "sbbq 40(%[q]), %%rdx; cmovncq %[low], %[t0]; cmovncq %[high], %[t1]; cmovncq %[more], %[t2]; "
        "cmovncq %[last], %[t3]; cmovncq %[a], %[t4]; cmovncq %%rdx, %[t5]; "
        : [t0] "=&r"(t0), [t1] "=&r"(t1), [t2] "=&r"(t2), [t3] "=&r"(t3), [t4] "=&r"(t4), [t5] "=&r"(t5), [low] "=&r"(low), [high] "=&r"(high), [more] "=&r"(more), [last] "=&r"(last), [a] "+&r"(a)
        : [q] "r"(q)
        : "cc", "memory", "rdx");
    out[0] = t0; out[1] = t1; out[2] = t2; out[3] = t3; out[4] = t4; out[5] = t5;
}

} // namespace x86

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

} // namespace cuzkops
#endif
