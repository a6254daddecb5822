// Sums of pairs of affine points, whose inversions are shared: Montgomery, "Speeding the Pollard and elliptic curve methods
// of factorization", Math. Comp. 48 (1987), section 10.3.1. Each thread runs over a chain of pairs twice: forwards it
// multiplies the denominators and keeps each product but the last, which is inverted; backwards it takes one inverse after
// the other from that. An addition costs 5 products and 1 square, against 8 and 2 in XYZZ.
//
// Over Fp2 the chain is made of the norms of the denominators, which are in Fp: 1 / d = conjugate(d) / norm(d).
#pragma once
#include "msm_affine_plan.cuh"

namespace cuzkops {

// How inverses are shared: norm(d) is in Base, and inverse(d, 1 / norm(d)) is 1 / d.
template <class F> struct Shared;
template <class M, class L> struct Shared<Field<M, L>> {
    using Base = Field<M, L>;
    static constexpr bool KEEPS_NORMS = false, IS_LARGE = false;
    CUZKOPS_FN static Base norm(const Base& d) { return d; }
    CUZKOPS_FN static Base inverse(const Base&, const Base& of_norm) { return of_norm; }
    CUZKOPS_FN static bool has_only_zeros(const Base& a) {
        std::uint64_t any = 0;
        for (int j = 0; j < Base::LIMBS; j++) any |= a.limb[j];
        return any == 0;
    }
};
template <class Fp> struct Shared<Fp2<Fp>> {
    using Base = Fp;
    static constexpr bool KEEPS_NORMS = true; // a second product is more than 96 bytes to and from memory
    static constexpr bool IS_LARGE = true;    // its products share their code, which is 1.5 % faster here, and slower in G1
    CUZKOPS_FN static Base norm(const Fp2<Fp>& d) { return Fp::sum_of_squares(d.c0, d.c1); }
    CUZKOPS_FN static Fp2<Fp> inverse(const Fp2<Fp>& d, const Base& of_norm) {
        Fp2<Fp> out = Fp2<Fp>::zero();
        CUZKOPS_ROLLED for (int k = 0; k < 2; k++) {
            out.c0 = out.c1;
            out.c1 = Fp::choose(k == 0, d.c0, d.c1) * of_norm;
        }
        return out.conjugate();
    }
    CUZKOPS_FN static bool has_only_zeros(const Fp2<Fp>& a) {
        return Shared<Fp>::has_only_zeros(a.c0) && Shared<Fp>::has_only_zeros(a.c1);
    }
};

// Coordinates of the pairs that a thread adds now and next, in shared memory: they come while the multiplier works, and take
// no registers. Each thread has its own places, so that none waits for another. turn: number of the pair in its chain.
template <class F, int TURNS, int COORDINATES> struct PairBuffer {
    static constexpr int UNITS = F::LIMBS / 2; // of 16 bytes in a coordinate
    static constexpr int BYTES = TURNS * COORDINATES * UNITS * 16;
    static constexpr std::uint32_t AHEAD = TURNS - 1; // turns that a pair is fetched before it is added
    std::uint64_t* mine;
    std::uint32_t n_threads;

    CUZKOPS_FN std::uint64_t* address(std::uint32_t turn, int coordinate, int unit) const {
        const std::uint32_t number = turn % TURNS * COORDINATES + static_cast<std::uint32_t>(coordinate);
        return mine + 2 * n_threads * (number * UNITS + static_cast<std::uint32_t>(unit));
    }
    CUZKOPS_FN void fetch(std::uint32_t turn, int coordinate, const std::uint64_t* from, std::uint64_t step) const {
        CUZKOPS_UNROLL for (int unit = 0; unit < UNITS; unit++) {
            std::uint64_t* const to = address(turn, coordinate, unit);
#ifdef __CUDA_ARCH__
            const auto there = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(there), "l"(from + step * unit) : "memory");
#else
            to[0] = from[step * unit];
            to[1] = from[step * unit + 1];
#endif
        }
    }
    CUZKOPS_FN static void end_fetch() {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.commit_group;" ::: "memory");
#endif
    }
    // For all fetches but the last TURNS - 1.
    CUZKOPS_FN static void wait() {
#ifdef __CUDA_ARCH__
        asm volatile("cp.async.wait_group %0;" ::"n"(TURNS - 1) : "memory");
#endif
    }
    CUZKOPS_FN F get(std::uint32_t turn, int coordinate) const {
        std::uint64_t limbs[F::LIMBS];
        CUZKOPS_UNROLL for (int unit = 0; unit < UNITS; unit++) {
            const std::uint64_t* const from = address(turn, coordinate, unit);
#ifdef __CUDA_ARCH__
            const ulonglong2 pair = *reinterpret_cast<const ulonglong2*>(from);
            limbs[2 * unit] = pair.x;
            limbs[2 * unit + 1] = pair.y;
#else
            limbs[2 * unit] = from[0];
            limbs[2 * unit + 1] = from[1];
#endif
        }
        return F::load(limbs);
    }
};

template <class F> struct AffineRound {
    using Source = NamedPoints<F>;
    using Base = typename Shared<F>::Base;
    using Xs = PairBuffer<F, 4, 2>;     // of both points; on the way forwards
    using Points = PairBuffer<F, 2, 4>; // x, y and x, y; on the way backwards
    static_assert(Xs::BYTES == Points::BYTES);
    static constexpr int INVERTED_TOGETHER = 4; // chains

    Source source;
    PairList pairs;
    std::uint32_t n_chains;
    std::uint64_t* prefixes; // of each pair, the product of the denominators before it in its chain; in planes
    std::uint64_t* norms;    // of each pair, where they are kept; in planes
    std::uint64_t* products; // of each chain
    Source sums;

    // What a pair of points divides by, and what it divides. Rare cases: infinity, equal and opposite points, x = 0.
    struct Slope {
        F denominator, numerator;
    };
    CUZKOPS_FN static bool may_be_special(const F& x1, const F& x2, const F& dx) {
        return Shared<F>::has_only_zeros(x1) || Shared<F>::has_only_zeros(x2) || Shared<F>::has_only_zeros(dx);
    }
    CUZKOPS_RARE_FN static Slope special_slope(Source source, std::uint32_t a, std::uint32_t b) {
        const Affine<F> p = source.point(a), q = source.point(b);
        if (p.is_infinity() || q.is_infinity()) return {F::one(), F::zero()};
        if (p.x != q.x) return {q.x - p.x, q.y - p.y};
        if (p.y != q.y || p.y.is_zero()) return {F::one(), F::zero()};
        const F xx = p.x.square();
        return {p.y.doubled(), xx.doubled() + xx};
    }
    // sum: by the formula, which holds for different and equal points.
    CUZKOPS_RARE_FN static Affine<F> special_sum(Source source, std::uint32_t a, std::uint32_t b, Affine<F> sum) {
        const Affine<F> p = source.point(a), q = source.point(b);
        if (p.is_infinity()) return q;
        if (q.is_infinity()) return p;
        if (p.x == q.x && (p.y != q.y || p.y.is_zero())) return Affine<F>::infinity();
        return sum;
    }

    CUZKOPS_FN void fetch_xs(const Xs& buffer, std::uint32_t turn, std::uint32_t a, std::uint32_t b) const {
        buffer.fetch(turn, 0, source.address_of_x(a), source.step());
        buffer.fetch(turn, 1, source.address_of_x(b), source.step());
    }
    CUZKOPS_FN void go_forwards(std::uint32_t chain, const Xs& buffer) const {
        const std::uint32_t n = *pairs.count;
        if (chain >= n) return;
        const std::uint64_t plane = 2ull * pairs.capacity;
        const std::uint32_t last = chain + (n - 1 - chain) / n_chains * n_chains;
        const auto ahead = [&](std::uint32_t from, std::uint32_t turns) {
            const std::uint64_t at = from + static_cast<std::uint64_t>(turns) * n_chains;
            return at < last ? static_cast<std::uint32_t>(at) : last; // the last one again, which is not used
        };
        for (std::uint32_t turn = 0; turn < Xs::AHEAD; turn++) {
            const std::uint32_t at = ahead(chain, turn);
            fetch_xs(buffer, turn, pairs.first(at), pairs.second(at));
            Xs::end_fetch();
        }
        std::uint32_t a = pairs.first(ahead(chain, Xs::AHEAD)), b = pairs.second(ahead(chain, Xs::AHEAD));
        Base product = Base::one();
        for (std::uint32_t i = chain, turn = 0;; i += n_chains, turn++) {
            fetch_xs(buffer, turn + Xs::AHEAD, a, b);
            Xs::end_fetch();
            const std::uint32_t at = ahead(i, Xs::AHEAD + 1); // named before it is fetched
            a = pairs.first(at), b = pairs.second(at);
            Xs::wait();
            const F x1 = buffer.get(turn, 0), x2 = buffer.get(turn, 1);
            F dx = x2 - x1;
            if (may_be_special(x1, x2, dx)) dx = special_slope(source, pairs.first(i), pairs.second(i)).denominator;
            const Base norm = Shared<F>::norm(dx);
            store_limbs<Base::LIMBS>(prefixes + 2ull * i, product.limb, plane);
            if constexpr (Shared<F>::KEEPS_NORMS) store_limbs<Base::LIMBS>(norms + 2ull * i, norm.limb, plane);
            product = product * norm;
            if (i == last) break;
        }
        store_limbs<Base::LIMBS>(products + static_cast<std::uint64_t>(Base::LIMBS) * chain, product.limb);
    }

    // The products of up to INVERTED_TOGETHER chains, with one inversion.
    CUZKOPS_FN void invert(std::uint32_t inverter) const {
        const std::uint32_t n = *pairs.count < n_chains ? *pairs.count : n_chains;
        const std::uint32_t n_inverters = (n_chains + INVERTED_TOGETHER - 1) / INVERTED_TOGETHER;
        if (inverter >= n || inverter >= n_inverters) return;
        Base product[INVERTED_TOGETHER], before[INVERTED_TOGETHER], all = Base::one();
        CUZKOPS_UNROLL for (std::uint32_t j = 0; j < INVERTED_TOGETHER; j++) {
            const std::uint64_t chain = inverter + j * n_inverters;
            product[j] = chain < n ? Base::load(products + Base::LIMBS * chain) : Base::one();
            before[j] = all;
            all = all * product[j];
        }
        std::uint64_t canonical[Base::LIMBS];
        all.store(canonical);
        all = Base::load(canonical).inverse();
        CUZKOPS_UNROLL for (int j = INVERTED_TOGETHER - 1; j >= 0; j--) {
            const std::uint64_t chain = inverter + static_cast<std::uint32_t>(j) * n_inverters;
            const Base inverse = all * before[j];
            if (chain < n) store_limbs<Base::LIMBS>(products + Base::LIMBS * chain, inverse.limb);
            all = all * product[j];
        }
    }

    enum Coordinate { X1, Y1, X2, Y2 };
    CUZKOPS_FN void fetch_points(const Points& buffer, std::uint32_t turn, std::uint32_t a, std::uint32_t b) const {
        buffer.fetch(turn, X1, source.address_of_x(a), source.step());
        buffer.fetch(turn, Y1, source.address_of_y(a), source.step());
        buffer.fetch(turn, X2, source.address_of_x(b), source.step());
        buffer.fetch(turn, Y2, source.address_of_y(b), source.step());
    }
    CUZKOPS_FN static F y_of(const Points& buffer, std::uint32_t turn, Coordinate coordinate, std::uint32_t name) {
        const F y = buffer.get(turn, coordinate);
        return Record<F>::has_other_y(name) ? y.negated() : y;
    }
    CUZKOPS_FN void go_backwards(std::uint32_t chain, const Points& buffer) const {
        const std::uint32_t n = *pairs.count;
        if (chain >= n) return;
        const std::uint64_t plane = 2ull * pairs.capacity;
        Base inverse = load_element<Base>(products + static_cast<std::uint64_t>(Base::LIMBS) * chain);
        std::uint32_t i = chain + (n - 1 - chain) / n_chains * n_chains;
        std::uint32_t a = pairs.first(i), b = pairs.second(i);
        fetch_points(buffer, 0, a, b);
        Points::end_fetch();
        std::uint32_t next = i == chain ? i : i - n_chains, next_a = pairs.first(next), next_b = pairs.second(next);
        for (std::uint32_t turn = 0;; turn++) {
            fetch_points(buffer, turn + 1, next_a, next_b); // at the end the same again, which is not used
            Points::end_fetch();
            const std::uint32_t to = pairs.place(i), after = next == chain ? next : next - n_chains;
            const std::uint32_t after_a = pairs.first(after), after_b = pairs.second(after); // named before they are fetched
            Base factor = load_element<Base>(prefixes + 2ull * i, plane), norm = Base::zero(), own = Base::zero();
            if constexpr (Shared<F>::KEEPS_NORMS) norm = load_element<Base>(norms + 2ull * i, plane);
            Points::wait();
            const F x1 = buffer.get(turn, X1), x2 = buffer.get(turn, X2);
            Slope slope = {x2 - x1, F::zero()};
            const bool special = may_be_special(x1, x2, slope.denominator);
            if (special) slope = special_slope(source, a, b);
            if constexpr (!Shared<F>::KEEPS_NORMS) norm = slope.denominator;
            CUZKOPS_ROLLED_IF(Shared<F>::IS_LARGE) for (int k = 0; k < 2; k++) {
                const Base product = inverse * factor;
                if (k == 0) own = product;
                else inverse = product;
                factor = norm;
            }
            if (!special) slope.numerator = y_of(buffer, turn, Y2, b) - y_of(buffer, turn, Y1, a);
            F left = slope.numerator, right = Shared<F>::inverse(slope.denominator, own);
            Affine<F> sum = Affine<F>::infinity();
            CUZKOPS_ROLLED_IF(Shared<F>::IS_LARGE) for (int k = 0; k < 2; k++) {
                const F product = left * right; // the slope; then y + y1
                if (k == 0) {
                    sum.x = product.square() - buffer.get(turn, X1) - buffer.get(turn, X2);
                    left = product;
                    right = buffer.get(turn, X1) - sum.x;
                } else {
                    sum.y = product - y_of(buffer, turn, Y1, a);
                }
            }
            if (special) sum = special_sum(source, a, b, sum);
            sums.put(to, sum);
            if (i == chain) return;
            i = next, a = next_a, b = next_b;
            next = after, next_a = after_a, next_b = after_b;
        }
    }
};

} // namespace cuzkops
