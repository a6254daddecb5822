// One 32-bit instruction of the device a function: additions and products that pass a carry on. On the device they are
// PTX; elsewhere the same functions in C++, with the carry flag in the chain, so that the device's arithmetic runs in
// tests without a device. PTX ISA, "Extended-Precision Integer Arithmetic Instructions".
#pragma once
#include <cstdint>

#include "platform.hpp"

namespace cuzkops {

#ifdef __CUDA_ARCH__

// `volatile` keeps the instructions of a chain in order: the flag between them is invisible to the compiler.
struct CarryChain {
    CUZKOPS_FN std::uint32_t add_cc(std::uint32_t a, std::uint32_t b) {
        std::uint32_t out;
        asm volatile("add.cc.u32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
        return out;
    }
    CUZKOPS_FN std::uint32_t addc_cc(std::uint32_t a, std::uint32_t b) {
        std::uint32_t out;
        asm volatile("addc.cc.u32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
        return out;
    }
    CUZKOPS_FN std::uint32_t addc(std::uint32_t a, std::uint32_t b) {
        std::uint32_t out;
        asm volatile("addc.u32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
        return out;
    }
    CUZKOPS_FN std::uint32_t sub_cc(std::uint32_t a, std::uint32_t b) {
        std::uint32_t out;
        asm volatile("sub.cc.u32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
        return out;
    }
    CUZKOPS_FN std::uint32_t subc_cc(std::uint32_t a, std::uint32_t b) {
        std::uint32_t out;
        asm volatile("subc.cc.u32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
        return out;
    }
    CUZKOPS_FN std::uint32_t subc(std::uint32_t a, std::uint32_t b) {
        std::uint32_t out;
        asm volatile("subc.u32 %0, %1, %2;" : "=r"(out) : "r"(a), "r"(b));
        return out;
    }
    CUZKOPS_FN std::uint32_t mad_lo_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t out;
        asm volatile("mad.lo.cc.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
        return out;
    }
    CUZKOPS_FN std::uint32_t madc_lo_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t out;
        asm volatile("madc.lo.cc.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
        return out;
    }
    CUZKOPS_FN std::uint32_t mad_hi_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t out;
        asm volatile("mad.hi.cc.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
        return out;
    }
    CUZKOPS_FN std::uint32_t madc_hi_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t out;
        asm volatile("madc.hi.cc.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
        return out;
    }
    CUZKOPS_FN std::uint32_t madc_hi(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        std::uint32_t out;
        asm volatile("madc.hi.u32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(c));
        return out;
    }
    // ~a in a form that ptxas does not see through: it turns products with a negated word into separate low and high
    // halves, which cost half as much again as one wide product.
    CUZKOPS_FN std::uint32_t inverted(std::uint32_t a) {
        std::uint32_t out;
        asm volatile("not.b32 %0, %1;" : "=r"(out) : "r"(a));
        return out;
    }
};

#else

class CarryChain {
public:
    CUZKOPS_FN std::uint32_t add_cc(std::uint32_t a, std::uint32_t b) { return sum(a, b, 0); }
    CUZKOPS_FN std::uint32_t addc_cc(std::uint32_t a, std::uint32_t b) { return sum(a, b, flag_); }
    CUZKOPS_FN std::uint32_t addc(std::uint32_t a, std::uint32_t b) const { return a + b + flag_; }
    CUZKOPS_FN std::uint32_t sub_cc(std::uint32_t a, std::uint32_t b) { return difference(a, b, 0); }
    CUZKOPS_FN std::uint32_t subc_cc(std::uint32_t a, std::uint32_t b) { return difference(a, b, flag_); }
    CUZKOPS_FN std::uint32_t subc(std::uint32_t a, std::uint32_t b) const { return a - b - flag_; }
    CUZKOPS_FN std::uint32_t mad_lo_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        return sum(low(a, b), c, 0);
    }
    CUZKOPS_FN std::uint32_t madc_lo_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        return sum(low(a, b), c, flag_);
    }
    CUZKOPS_FN std::uint32_t mad_hi_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        return sum(high(a, b), c, 0);
    }
    CUZKOPS_FN std::uint32_t madc_hi_cc(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
        return sum(high(a, b), c, flag_);
    }
    CUZKOPS_FN std::uint32_t madc_hi(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
        return high(a, b) + c + flag_;
    }
    CUZKOPS_FN std::uint32_t inverted(std::uint32_t a) const { return ~a; }

private:
    std::uint32_t flag_ = 0; // carry of the last addition, borrow of the last subtraction

    CUZKOPS_FN static std::uint32_t low(std::uint32_t a, std::uint32_t b) { return a * b; }
    CUZKOPS_FN static std::uint32_t high(std::uint32_t a, std::uint32_t b) {
        return static_cast<std::uint32_t>(static_cast<std::uint64_t>(a) * b >> 32);
    }
    CUZKOPS_FN std::uint32_t sum(std::uint32_t a, std::uint32_t b, std::uint32_t carry) {
        const std::uint64_t s = static_cast<std::uint64_t>(a) + b + carry;
        flag_ = static_cast<std::uint32_t>(s >> 32);
        return static_cast<std::uint32_t>(s);
    }
    CUZKOPS_FN std::uint32_t difference(std::uint32_t a, std::uint32_t b, std::uint32_t borrow) {
        const std::uint64_t d = static_cast<std::uint64_t>(a) - b - borrow;
        flag_ = static_cast<std::uint32_t>(d >> 63);
        return static_cast<std::uint32_t>(d);
    }
};

#endif

} // namespace cuzkops
