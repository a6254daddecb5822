// Many affine additions at the price of one inversion: Montgomery, "Speeding the Pollard and elliptic curve methods of
// factorization", 1987, section 10.3.1. An addition costs 5M + 1S, a doubling 5M + 2S, beside the shared inversion.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "curve.hpp"

namespace cuzkops {

template <class F> class BatchAdder {
public:
    // out = left + right; out may be an operand of this pair or of an earlier one.
    struct Pair {
        const Affine<F>*left, *right;
        Affine<F>* out;
    };

    std::vector<Pair> pairs; // what `add` adds: filled by the caller, emptied by `add`

    void add() {
        const std::size_t n = pairs.size();
        if (steps_.size() < n) steps_.resize(n);
        F product = F::one();
        for (std::size_t i = n; i-- > 0;) {
            steps_[i].kind = denominator(*pairs[i].left, *pairs[i].right, steps_[i].denominator);
            if (steps_[i].kind == NO_DIVISION) continue;
            steps_[i].later = product;
            product = product * steps_[i].denominator;
        }
        F inverse = product.inverse(); // of the product of all denominators from i on
        for (std::size_t i = 0; i < n; i++) {
            const Affine<F>&left = *pairs[i].left, &right = *pairs[i].right;
            if (steps_[i].kind == NO_DIVISION) {
                *pairs[i].out = left.is_infinity() ? right : right.is_infinity() ? left : Affine<F>::infinity();
                continue;
            }
            const F inverse_here = inverse * steps_[i].later;
            inverse = inverse * steps_[i].denominator;
            F numerator;
            if (steps_[i].kind == SECANT) {
                numerator = right.y - left.y;
            } else {
                const F xx = left.x.square();
                numerator = xx.doubled() + xx;
            }
            const F slope = numerator * inverse_here;
            const F x = slope.square() - left.x - right.x;
            *pairs[i].out = {x, slope * (left.x - x) - left.y};
        }
        pairs.clear();
    }

private:
    enum Kind : std::uint8_t { SECANT, TANGENT, NO_DIVISION };
    struct Step {
        F denominator, later;
        Kind kind;
    };
    std::vector<Step> steps_;

    static Kind denominator(const Affine<F>& left, const Affine<F>& right, F& out) {
        if (left.is_infinity() || right.is_infinity()) return NO_DIVISION;
        out = right.x - left.x;
        if (!out.is_zero()) return SECANT;
        if (left.y != right.y) return NO_DIVISION; // opposite points
        out = left.y.doubled();
        return out.is_zero() ? NO_DIVISION : TANGENT;
    }
};

// A run of points that stand one after the other: `count` of them from `begin` on.
struct Run {
    std::uint32_t begin, count;
};

// Adds up each run; the sum of a run ends up at its begin. All runs halve together, so that each round of additions
// shares one inversion. Runs have at least one point.
template <class F> void reduce_runs(Affine<F>* points, std::vector<Run>& runs, BatchAdder<F>& adder) {
    std::size_t n_open = runs.size(); // the first n_open may still have more than one point
    while (n_open > 0) {
        std::size_t kept = 0;
        for (std::size_t i = 0; i < n_open; i++) {
            if (runs[i].count < 2) continue;
            Affine<F>* run = points + runs[i].begin;
            for (std::uint32_t j = 0; j < runs[i].count / 2; j++)
                adder.pairs.push_back({run + 2 * j, run + 2 * j + 1, run + j});
            runs[kept++] = runs[i];
        }
        n_open = kept;
        if (n_open == 0) return;
        adder.add();
        for (std::size_t i = 0; i < n_open; i++) {
            Affine<F>* run = points + runs[i].begin;
            if (runs[i].count % 2) run[runs[i].count / 2] = run[runs[i].count - 1];
            runs[i].count = (runs[i].count + 1) / 2;
        }
    }
}

} // namespace cuzkops
