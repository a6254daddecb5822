// Modular inverses by division steps: Bernstein, Yang, "Fast constant-time gcd computation and modular inversion", 2019,
// https://gcd.cr.yp.to/papers.html, with 62 steps at a time on the low words. Not in constant time: it takes fewer
// steps where it can.
#pragma once
#include <cstdint>

#include "platform.hpp"

namespace cuzkops {

__extension__ typedef __int128 i128;

// 2^62 times the transition matrix of 62 division steps: (f, g) becomes (u f + v g, q f + r g) / 2^62.
struct DivstepMatrix {
    std::int64_t u, v, q, r;
};

// Signed numbers of n limbs of 62 bits; all limbs but the top one are in [0, 2^62) between steps.
template <int N> struct Limbs62 {
    std::int64_t limb[N];
};

inline constexpr std::uint64_t MASK62 = (std::uint64_t{1} << 62) - 1;

struct Limbs64 {
    const std::uint64_t* limb;
    CUZKOPS_FN std::uint64_t operator()(int i) const { return limb[i]; }
};
template <class M> struct ModulusLimbs {
    CUZKOPS_FN std::uint64_t operator()(int i) const { return M::modulus(i); }
};

CUZKOPS_FN inline int trailing_zeros(std::uint64_t x) { // x is not 0
#ifdef __CUDA_ARCH__
    return __ffsll(static_cast<long long>(x)) - 1;
#else
    return __builtin_ctzll(x);
#endif
}

// Runs 62 steps on the low bits of f (odd) and g. eta is minus the paper's delta.
CUZKOPS_FN inline std::int64_t divsteps62(std::int64_t eta, std::uint64_t f, std::uint64_t g, DivstepMatrix& t) {
    std::uint64_t u = 1, v = 0, q = 0, r = 1;
    int left = 62;
    for (;;) {
        const int zeros = trailing_zeros(g | ~std::uint64_t{0} << left); // halvings of an even g
        g >>= zeros;
        u <<= zeros;
        v <<= zeros;
        eta -= zeros;
        left -= zeros;
        if (left == 0) break;
        if (eta < 0) { // (f, g) becomes (g, -f)
            std::uint64_t old = f;
            f = g, g = 0 - old;
            old = u, u = q, q = 0 - old;
            old = v, v = r, r = 0 - old;
            eta = -eta;
        }
        // Adding w f clears up to 6 low bits of g at once, as long as no exchange can happen: eta + 1 steps.
        const int limit = eta + 1 > left ? left : static_cast<int>(eta + 1);
        const std::uint64_t mask = (~std::uint64_t{0} >> (64 - limit)) & 63;
        const std::uint64_t w = f * g * (f * f - 2) & mask; // -g / f mod 64, as f (2 - f^2) is 1 / f mod 64
        g += f * w;
        q += u * w;
        r += v * w;
    }
    t = {static_cast<std::int64_t>(u), static_cast<std::int64_t>(v), static_cast<std::int64_t>(q),
         static_cast<std::int64_t>(r)};
    return eta;
}

// (f, g) = t (f, g) / 2^62, which is exact.
template <int N> CUZKOPS_FN void update_fg(Limbs62<N>& f, Limbs62<N>& g, const DivstepMatrix& t) {
    i128 cf = static_cast<i128>(t.u) * f.limb[0] + static_cast<i128>(t.v) * g.limb[0];
    i128 cg = static_cast<i128>(t.q) * f.limb[0] + static_cast<i128>(t.r) * g.limb[0];
    cf >>= 62;
    cg >>= 62;
    for (int i = 1; i < N; i++) {
        cf += static_cast<i128>(t.u) * f.limb[i] + static_cast<i128>(t.v) * g.limb[i];
        cg += static_cast<i128>(t.q) * f.limb[i] + static_cast<i128>(t.r) * g.limb[i];
        f.limb[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(cf) & MASK62);
        g.limb[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(cg) & MASK62);
        cf >>= 62;
        cg >>= 62;
    }
    f.limb[N - 1] = static_cast<std::int64_t>(cf);
    g.limb[N - 1] = static_cast<std::int64_t>(cg);
}

// (d, e) = t (d, e) / 2^62 modulo the modulus; d and e stay in (-2 modulus, modulus).
template <int N>
CUZKOPS_FN void update_de(Limbs62<N>& d, Limbs62<N>& e, const DivstepMatrix& t, const Limbs62<N>& modulus, std::uint64_t inverse62) {
    const std::int64_t sd = d.limb[N - 1] >> 63, se = e.limb[N - 1] >> 63; // add the modulus to what is negative
    std::int64_t md = (t.u & sd) + (t.v & se), me = (t.q & sd) + (t.r & se);
    i128 cd = static_cast<i128>(t.u) * d.limb[0] + static_cast<i128>(t.v) * e.limb[0];
    i128 ce = static_cast<i128>(t.q) * d.limb[0] + static_cast<i128>(t.r) * e.limb[0];
    // and the multiple of it that makes the low 62 bits 0
    md -= static_cast<std::int64_t>((inverse62 * static_cast<std::uint64_t>(cd) + static_cast<std::uint64_t>(md)) & MASK62);
    me -= static_cast<std::int64_t>((inverse62 * static_cast<std::uint64_t>(ce) + static_cast<std::uint64_t>(me)) & MASK62);
    cd = (cd + static_cast<i128>(modulus.limb[0]) * md) >> 62;
    ce = (ce + static_cast<i128>(modulus.limb[0]) * me) >> 62;
    for (int i = 1; i < N; i++) {
        cd += static_cast<i128>(t.u) * d.limb[i] + static_cast<i128>(t.v) * e.limb[i];
        ce += static_cast<i128>(t.q) * d.limb[i] + static_cast<i128>(t.r) * e.limb[i];
        cd += static_cast<i128>(modulus.limb[i]) * md;
        ce += static_cast<i128>(modulus.limb[i]) * me;
        d.limb[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(cd) & MASK62);
        e.limb[i - 1] = static_cast<std::int64_t>(static_cast<std::uint64_t>(ce) & MASK62);
        cd >>= 62;
        ce >>= 62;
    }
    d.limb[N - 1] = static_cast<std::int64_t>(cd);
    e.limb[N - 1] = static_cast<std::int64_t>(ce);
}

template <int N, class Words> CUZKOPS_FN Limbs62<N> to_limbs62(Words words, int n_words) {
    Limbs62<N> out = {};
    for (int i = 0; i < N; i++) {
        const int word = 62 * i / 64, shift = 62 * i % 64;
        if (word >= n_words) break;
        std::uint64_t bits = words(word) >> shift;
        if (shift > 2 && word + 1 < n_words) bits |= words(word + 1) << (64 - shift);
        out.limb[i] = static_cast<std::int64_t>(bits & MASK62);
    }
    return out;
}

// d = d times sign, plus the modulus until it is in [0, modulus); d in (-2 modulus, modulus).
template <int N> CUZKOPS_FN void normalise62(Limbs62<N>& d, std::int64_t sign, const Limbs62<N>& modulus) {
    for (int pass = 0; pass < 3; pass++) {
        const std::int64_t add = d.limb[N - 1] >> 63; // all ones where d is negative
        const std::int64_t flip = pass == 1 ? sign >> 63 : 0;
        std::int64_t carry = 0;
        for (int i = 0; i < N; i++) {
            std::int64_t limb = d.limb[i] + (modulus.limb[i] & add);
            limb = ((limb ^ flip) - flip) + carry;
            carry = limb >> 62;
            d.limb[i] = i + 1 < N ? static_cast<std::int64_t>(static_cast<std::uint64_t>(limb) & MASK62) : limb;
        }
    }
}

// out = 1 / x mod the modulus of x as a plain number; 0 for 0.
template <class M> CUZKOPS_FN void invert_by_divsteps(std::uint64_t* out, const std::uint64_t* x) {
    constexpr int N = (64 * M::N + 2 + 61) / 62; // room for a sign and for twice the modulus
    const Limbs62<N> modulus = to_limbs62<N>(ModulusLimbs<M>{}, M::N);
    Limbs62<N> f = modulus, g = to_limbs62<N>(Limbs64{x}, M::N), d = {}, e = {};
    e.limb[0] = 1;
    const std::uint64_t inverse62 = (0 - M::INV) & MASK62;
    std::int64_t eta = -1;
    for (;;) {
        std::int64_t any = 0;
        for (int i = 0; i < N; i++) any |= g.limb[i];
        if (any == 0) break;
        DivstepMatrix t;
        const std::uint64_t low_f = static_cast<std::uint64_t>(f.limb[0]) | static_cast<std::uint64_t>(f.limb[1]) << 62;
        const std::uint64_t low_g = static_cast<std::uint64_t>(g.limb[0]) | static_cast<std::uint64_t>(g.limb[1]) << 62;
        eta = divsteps62(eta, low_f, low_g, t);
        update_de(d, e, t, modulus, inverse62);
        update_fg(f, g, t);
    }
    normalise62(d, f.limb[N - 1], modulus); // f is 1 or -1
    for (int j = 0; j < M::N; j++) {
        const int limb = 64 * j / 62, shift = 64 * j % 62;
        std::uint64_t bits = static_cast<std::uint64_t>(d.limb[limb]) >> shift;
        if (limb + 1 < N) bits |= static_cast<std::uint64_t>(d.limb[limb + 1]) << (62 - shift);
        if (limb + 2 < N && 124 - shift < 64) bits |= static_cast<std::uint64_t>(d.limb[limb + 2]) << (124 - shift);
        out[j] = bits;
    }
}

} // namespace cuzkops
