// Single operations over arrays: what tests compare with other arithmetic, and which leaf is the fastest here.
#include "abi.hpp"
#include "curve.hpp"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace cuzkops {
namespace {

enum FieldOperation : int { ADD = 0, SUBTRACT, MULTIPLY, SQUARE, NEGATE, INVERT, TO_MONTGOMERY, TO_PLAIN, FERMAT };
enum PointOperation : int { ADD_MIXED = 0, ADD_FULL, DOUBLE_AFFINE, DOUBLE_FULL };

template <class F> bool apply(int operation, const F& a, const F& b, F& out) {
    switch (operation) {
    case ADD: out = a + b; return true;
    case SUBTRACT: out = a - b; return true;
    case MULTIPLY: out = a * b; return true;
    case SQUARE: out = a.square(); return true;
    case NEGATE: out = a.negated(); return true;
    case INVERT: out = a.inverse(); return true;
    case TO_MONTGOMERY: out = a.to_montgomery(); return true;
    case TO_PLAIN: out = a.to_plain(); return true;
    case FERMAT: out = a.inverse_by_fermat(); return true;
    default: return false;
    }
}

template <class F>
int fields(int operation, const std::uint64_t* a, const std::uint64_t* b, std::size_t n, std::uint64_t* out) {
    F result;
    for (std::size_t i = 0; i < n; i++) {
        if (!apply(operation, F::load(a + F::LIMBS * i), F::load(b + F::LIMBS * i), result)) return BAD_ARGUMENT;
        result.store(out + F::LIMBS * i);
    }
    return OK;
}

// The same point with zz = factor^2, so that the formulas meet denominators other than 1.
template <class F> Xyzz<F> scaled(const Affine<F>& p, const F& factor) {
    if (p.is_infinity()) return Xyzz<F>::infinity();
    const F zz = factor.square(), zzz = zz * factor;
    return {p.x * zz, p.y * zzz, zz, zzz};
}

template <class F>
int points(int operation, const std::uint64_t* a, const std::uint64_t* b, std::size_t n, std::uint64_t* out) {
    const F two = F::one().doubled();
    for (std::size_t i = 0; i < n; i++) {
        const Affine<F> p = Affine<F>::load(a + Affine<F>::LIMBS * i), q = Affine<F>::load(b + Affine<F>::LIMBS * i);
        Xyzz<F> sum = scaled(p, two);
        switch (operation) {
        case ADD_MIXED: sum.add(q); break;
        case ADD_FULL: sum.add(scaled(q, two.doubled() + F::one())); break;
        case DOUBLE_AFFINE: sum = Xyzz<F>::doubled(p); break;
        case DOUBLE_FULL: sum = sum.doubled(); break;
        default: return BAD_ARGUMENT;
        }
        sum.to_affine().store(out + Affine<F>::LIMBS * i);
    }
    return OK;
}

// With any leaf, the device's included.
template <class Body> int with_any_leaf(int leaf, Body body) {
    if (leaf == CARRY32) return guarded([&] { return body(Carry32{}); });
    return leaf == CARRY32_LOOSE ? guarded([&] { return body(Carry32Loose{}); }) : with_leaf(leaf, body);
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

CUZKOPS_EXPORT int cuzkops_abi() { return ABI; }

// SHA-256 of the sources that this library was compiled from, and "unknown" outside kernels/build.py.
#ifndef CUZKOPS_SOURCES_SHA256
#define CUZKOPS_SOURCES_SHA256 "unknown"
#endif
CUZKOPS_EXPORT const char* cuzkops_sources_sha256() { return CUZKOPS_SOURCES_SHA256; }

// The fastest leaf that this CPU runs: ADX64 where it has mulx (BMI2) and adcx (ADX).
CUZKOPS_EXPORT int cuzkops_best_leaf() {
#if defined(CUZKOPS_HAVE_ADX64)
    unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
    constexpr unsigned BMI2 = 1u << 8, ADX = 1u << 19;
    if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & BMI2) && (ebx & ADX)) return ADX64;
#endif
    return PORTABLE64;
}

// field: 0 Fr, 1 Fp, 2 Fp2; arrays of n elements, Montgomery but for the input of TO_MONTGOMERY and output of TO_PLAIN.
CUZKOPS_EXPORT int cuzkops_field(int leaf, int field, int operation, const std::uint64_t* a, const std::uint64_t* b,
                                 std::size_t n, std::uint64_t* out) {
    return with_any_leaf(leaf, [&](auto chosen) -> int {
        using Leaf = decltype(chosen);
        switch (field) {
        case 0: return fields<FrOf<Leaf>>(operation, a, b, n, out);
        case 1: return fields<FpOf<Leaf>>(operation, a, b, n, out);
        case 2: return fields<Fp2<FpOf<Leaf>>>(operation, a, b, n, out);
        default: return BAD_ARGUMENT;
        }
    });
}

// group: 1 G1, 2 G2; arrays of n affine points; the second operand of a doubling is not looked at.
CUZKOPS_EXPORT int cuzkops_points(int leaf, int group, int operation, const std::uint64_t* a, const std::uint64_t* b,
                                  std::size_t n, std::uint64_t* out) {
    return with_any_leaf(leaf, [&](auto chosen) -> int {
        using Leaf = decltype(chosen);
        switch (group) {
        case 1: return points<FpOf<Leaf>>(operation, a, b, n, out);
        case 2: return points<Fp2<FpOf<Leaf>>>(operation, a, b, n, out);
        default: return BAD_ARGUMENT;
        }
    });
}
