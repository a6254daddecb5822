// G1 over Fp and G2 over Fp2: y^2 = x^3 + b with a = 0. Affine points for storage and batched sums, XYZZ points
// (x = X / ZZ, y = Y / ZZZ, ZZ^3 = ZZZ^2) for single sums. Costs count products (M) and squares (S) of the field.
// Formulas: Bernstein and Lange, Explicit-Formulas Database, https://hyperelliptic.org/EFD/g1p/auto-shortw-xyzz.html
// They are complete here: each function treats infinity, equal and opposite points itself.
#pragma once
#include "fp2.hpp"

namespace cuzkops {

// b of the curve over Fp, and of the twist over Fp2.
template <class F> struct CurveB;
template <class M, class L> struct CurveB<Field<M, L>> {
    CUZKOPS_FN static Field<M, L> value() { return Field<M, L>::constant(Constants::curve_b); }
};
template <class Fp> struct CurveB<Fp2<Fp>> {
    CUZKOPS_FN static Fp2<Fp> value() { return {CurveB<Fp>::value(), CurveB<Fp>::value()}; }
};

template <class F> struct Affine {
    static constexpr int LIMBS = 2 * F::LIMBS;
    F x, y; // (0, 0) is infinity: it is not on the curve, as b is not 0

    CUZKOPS_FN static Affine load(const std::uint64_t* words) { return {F::load(words), F::load(words + F::LIMBS)}; }
    CUZKOPS_FN void store(std::uint64_t* words) const {
        x.store(words);
        y.store(words + F::LIMBS);
    }
    CUZKOPS_FN static Affine infinity() { return {F::zero(), F::zero()}; }
    CUZKOPS_FN bool is_infinity() const { return x.is_zero() && y.is_zero(); }
    // Canonical coordinates, and infinity or on the curve. Cost: 1M + 2S. The subgroup is not looked at.
    CUZKOPS_FN bool is_valid() const {
        if (!x.is_canonical() || !y.is_canonical()) return false;
        return is_infinity() || y.square() == x.square() * x + CurveB<F>::value();
    }
};

template <class F> struct Xyzz {
    F x, y, zz, zzz; // zz = 0 is infinity

    CUZKOPS_FN static Xyzz infinity() { return {F::zero(), F::zero(), F::zero(), F::zero()}; }
    CUZKOPS_FN static Xyzz from(const Affine<F>& p) {
        return p.is_infinity() ? infinity() : Xyzz{p.x, p.y, F::one(), F::one()};
    }
    CUZKOPS_FN bool is_infinity() const { return zz.is_zero(); }

    // "dbl-2008-s-1" with a = 0: 6M + 3S. A point with y = 0 gives zz = 0, as it should.
    CUZKOPS_FN Xyzz doubled() const {
        const F u = y.doubled();
        const F v = u.square();
        const F w = u * v;
        const F s = x * v;
        const F xx = x.square();
        const F m = xx.doubled() + xx;
        const F x3 = m.square() - s.doubled();
        return {x3, F::difference_of_products(m, s - x3, w, y), v * zz, w * zzz};
    }

    // "mdbl-2008-s-1" with a = 0: 4M + 3S.
    CUZKOPS_FN static Xyzz doubled(const Affine<F>& p) {
        const F u = p.y.doubled();
        const F v = u.square();
        const F w = u * v;
        const F s = p.x * v;
        const F xx = p.x.square();
        const F m = xx.doubled() + xx;
        const F x3 = m.square() - s.doubled();
        return {x3, F::difference_of_products(m, s - x3, w, p.y), v, w};
    }

    CUZKOPS_RARE_FN static Xyzz doubled_apart(Affine<F> p) { return doubled(p); }
    CUZKOPS_RARE_FN static Xyzz doubled_apart(Xyzz p) { return p.doubled(); }

    // "madd-2008-s": 8M + 2S.
    CUZKOPS_BIG_FN void add(const Affine<F>& p) {
        if (p.is_infinity()) return;
        if (is_infinity()) {
            *this = from(p);
            return;
        }
        const F dx = p.x * zz - x;
        const F dy = p.y * zzz - y;
        if (dx.is_zero()) { // the same point, or its opposite
            *this = dy.is_zero() ? doubled_apart(p) : infinity();
            return;
        }
        const F pp = dx.square();
        const F ppp = dx * pp;
        const F q = x * pp;
        const F x3 = dy.square() - ppp - q.doubled();
        y = F::difference_of_products(dy, q - x3, y, ppp);
        x = x3;
        zz = zz * pp;
        zzz = zzz * ppp;
    }

    // The same with the code of a product twice and of a square once, in loops, so that the additions of a device's inner
    // loop fit its instruction cache: written out they are 62 KB of code in G1 and 190 KB in G2.
    CUZKOPS_BIG_FN void add_compactly(const Affine<F>& p) {
        if (p.is_infinity()) return;
        if (is_infinity()) {
            *this = from(p);
            return;
        }
        F dx = F::zero(), dy = F::zero();
        CUZKOPS_ROLLED for (int k = 0; k < 2; k++) {
            dx = dy;
            dy = F::choose(k == 0, p.x, p.y) * F::choose(k == 0, zz, zzz) - F::choose(k == 0, x, y);
        }
        if (dx.is_zero()) { // the same point, or its opposite
            *this = dy.is_zero() ? doubled_apart(p) : infinity();
            return;
        }
        F pp = F::zero(), rr = F::zero();
        CUZKOPS_ROLLED for (int k = 0; k < 2; k++) {
            pp = rr;
            rr = F::choose(k == 0, dx, dy).square();
        }
        F ppp = F::zero(), q = F::zero();
        CUZKOPS_ROLLED for (int k = 0; k < 4; k++) {
            const F product = F::choose(k < 2, F::choose(k == 0, dx, x), F::choose(k == 2, zz, zzz)) *
                              F::choose(k == 3, ppp, pp);
            ppp = F::choose(k == 0, product, ppp);
            q = F::choose(k == 1, product, q);
            zz = F::choose(k == 2, product, zz);
            zzz = F::choose(k == 3, product, zzz);
        }
        x = rr - ppp - q.doubled();
        y = F::difference_of_products(dy, q - x, y, ppp);
    }

    // "add-2008-s": 12M + 2S.
    CUZKOPS_BIG_FN void add(const Xyzz& p) {
        if (p.is_infinity()) return;
        if (is_infinity()) {
            *this = p;
            return;
        }
        const F u1 = x * p.zz;
        const F s1 = y * p.zzz;
        const F dx = p.x * zz - u1;
        const F dy = p.y * zzz - s1;
        if (dx.is_zero()) {
            *this = dy.is_zero() ? doubled_apart(*this) : infinity();
            return;
        }
        const F pp = dx.square();
        const F ppp = dx * pp;
        const F q = u1 * pp;
        const F x3 = dy.square() - ppp - q.doubled();
        y = F::difference_of_products(dy, q - x3, s1, ppp);
        x = x3;
        zz = zz * p.zz * pp;
        zzz = zzz * p.zzz * ppp;
    }

    // a + b as a call, where the size of the code counts more than the time of a call.
    CUZKOPS_RARE_FN static Xyzz sum_apart(Xyzz a, Xyzz b) {
        a.add(b);
        return a;
    }

    // This times a small number, by doubling and adding from its top bit.
    CUZKOPS_FN Xyzz times(std::uint64_t number) const {
        Xyzz out = infinity();
        for (int bit = 63; bit >= 0; bit--) {
            out = out.doubled();
            if (number >> bit & 1) out.add(*this);
        }
        return out;
    }

    // One inversion, 4M + 1S: ZZ / ZZZ is 1 / Z, and its square 1 / ZZ.
    CUZKOPS_FN Affine<F> to_affine() const {
        if (is_infinity()) return Affine<F>::infinity();
        const F inverse_zzz = zzz.inverse();
        return {x * (zz * inverse_zzz).square(), y * inverse_zzz};
    }
};

} // namespace cuzkops
