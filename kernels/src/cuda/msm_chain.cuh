// The chain of doublings at the end of an MSM in G1, by 5 warps that share each step (msm_wide.cuh). A point is
// (X, W, Z) with x = X / Z and y = W / Z^2. With b = 4,
//   X' = X^4 - 32 X Z^3,  Z' = 4 (X^3 Z + 4 Z^4),  W' = W * 2 (X^6 + 80 X^3 Z^3 - 128 Z^6),
// so that X and Z, two products deep, go on without W, whose factors follow behind. (The formula of 2P's x, and of the
// quotient of both y; brought to the denominator Z'^2 = 16 Z^2 (X^3 + 4 Z^3)^2.) No point but infinity, Z = 0, has
// double Z = 0: the group has odd order.
//
// What each warp does in a step is in a table, so that all warps run the same code, which is short. A doubling takes 1.6 us; by
// the 4 lanes of msm_together.cuh it took 3.6.
#pragma once
#include "msm_finish.cuh"
#include "msm_wide.cuh"

#ifdef __CUDACC__

namespace cuzkops {

inline constexpr std::uint32_t CHAIN_WARPS = 5, CHAIN_THREADS = 32 * CHAIN_WARPS, MOST_TERMS = 5;

// Numbers of a chain. The first eight come in pairs that change places with each doubling: those of this point and of the
// one before or after it.
enum ChainNumber : std::uint8_t {
    X, NEXT_X, Z, NEXT_Z, U, LAST_U, V, LAST_V, // U = X^3, V = 16 Z^3
    W, XX, ZZ, XZ, FACTOR, FACTOR_2, OTHER_X, OTHER_W, OTHER_Z, IN_X, IN_Y, IN_ZZ, IN_ZZZ, ENTER, ONE, OUT_X, OUT_Z, OUT_W, N_CHAIN_NUMBERS
};

// to = sum of factor a b over the terms, or whether a and b are the same. Terms are packed, and picked without an index, so
// that they may be in registers.
struct ChainTerm {
    std::uint32_t packed = 0;

    CUZKOPS_FN constexpr ChainTerm() {}
    CUZKOPS_FN constexpr ChainTerm(ChainNumber a, ChainNumber b, int factor)
        : packed(a | b << 8 | static_cast<std::uint32_t>(factor) << 16) {}
    CUZKOPS_FN std::uint32_t a() const { return packed & 0xff; }
    CUZKOPS_FN std::uint32_t b() const { return packed >> 8 & 0xff; }
    CUZKOPS_FN std::int32_t factor() const { return static_cast<std::int32_t>(packed) >> 16; }
};
struct ChainOperation {
    enum Kind : std::uint32_t { NOTHING, SUM, IS_SAME_X, IS_SAME_Y };
    std::uint32_t packed = NOTHING; // the kind, where to, how many terms
    ChainTerm terms[MOST_TERMS] = {};

    CUZKOPS_FN constexpr ChainOperation() {}
    template <class... Terms>
    CUZKOPS_FN constexpr ChainOperation(ChainNumber where, Terms... all)
        : packed(SUM | where << 8 | static_cast<std::uint32_t>(sizeof...(all)) << 16), terms{all...} {}
    CUZKOPS_FN constexpr ChainOperation(Kind what, ChainTerm both) : packed(what), terms{both} {}
    CUZKOPS_FN std::uint32_t kind() const { return packed & 0xff; }
    CUZKOPS_FN std::uint32_t to() const { return packed >> 8 & 0xff; }
    CUZKOPS_FN std::uint32_t n_terms() const { return packed >> 16; }
    CUZKOPS_FN static ChainOperation choose(bool first, const ChainOperation& a, const ChainOperation& b) {
        ChainOperation out;
        out.packed = first ? a.packed : b.packed;
        CUZKOPS_UNROLL for (std::uint32_t i = 0; i < MOST_TERMS; i++)
            out.terms[i].packed = first ? a.terms[i].packed : b.terms[i].packed;
        return out;
    }
};

enum ChainStep : std::uint32_t { DOUBLE_1, DOUBLE_2, ENTER_1, ENTER_2, ADD_1, ADD_2, ADD_3, ADD_4, ADD_5, LEAVE, N_CHAIN_STEPS };

struct ChainTable {
    ChainOperation of[N_CHAIN_STEPS][CHAIN_WARPS] = {};

    CUZKOPS_FN constexpr void set(ChainStep step, ChainOperation a, ChainOperation b, ChainOperation c, ChainOperation d,
                                  ChainOperation e) {
        of[step][0] = a, of[step][1] = b, of[step][2] = c, of[step][3] = d, of[step][4] = e;
    }

    CUZKOPS_FN static constexpr ChainTable make() {
        using O = ChainOperation;
        using T = ChainTerm;
        ChainTable t;
        t.set(DOUBLE_1, O(XX, T{X, X, 1}), O(ZZ, T{Z, Z, 4}), O(XZ, T{X, Z, 1}),
              O(FACTOR, T{LAST_U, LAST_U, 2}, T{LAST_U, LAST_V, 10}), O(FACTOR_2, T{LAST_V, LAST_V, -1}));
        t.set(DOUBLE_2, O(NEXT_X, T{XX, XX, 1}, T{XZ, ZZ, -8}), O(NEXT_Z, T{XZ, XX, 4}, T{ZZ, ZZ, 1}), O(U, T{XX, X, 1}),
              O(V, T{ZZ, Z, 4}), O(W, T{W, FACTOR, 1}, T{W, FACTOR_2, 1}));
        t.set(ENTER_1, O(IN_X, T{IN_X, ENTER, 1}), O(IN_Y, T{IN_Y, ENTER, 1}), O(IN_ZZ, T{IN_ZZ, ENTER, 1}),
              O(IN_ZZZ, T{IN_ZZZ, ENTER, 1}), O());
        t.set(ENTER_2, O(OTHER_X, T{IN_X, IN_ZZZ, 1}), O(OTHER_Z, T{IN_ZZ, IN_ZZZ, 1}), O(FACTOR, T{IN_Y, IN_ZZ, 1}),
              O(V, T{Z, Z, 1}), O());
        // u1, u2, Z1 Z2
        t.set(ADD_1, O(XX, T{X, OTHER_Z, 1}), O(ZZ, T{OTHER_X, Z, 1}), O(XZ, T{Z, OTHER_Z, 1}),
              O(OTHER_W, T{FACTOR, OTHER_Z, 1}), O(LAST_V, T{OTHER_Z, OTHER_Z, 1}));
        // s1, s2, (u2 - u1)^2, c = (u2 - u1) Z1 Z2
        t.set(ADD_2, O(U, T{W, LAST_V, 1}), O(LAST_U, T{OTHER_W, V, 1}),
              O(FACTOR, T{ZZ, ZZ, 1}, T{XX, ZZ, -2}, T{XX, XX, 1}), O(IN_X, T{ZZ, XZ, 1}, T{XX, XZ, -1}),
              O(O::IS_SAME_X, T{XX, ZZ, 0}));
        // t = (u2 - u1)^2 Z1 Z2, (s2 - s1) c, s1 (u2 - u1)^2
        t.set(ADD_3, O(IN_Y, T{FACTOR, XZ, 1}), O(IN_ZZ, T{LAST_U, IN_X, 1}, T{U, IN_X, -1}), O(IN_ZZZ, T{U, FACTOR, 1}), O(),
              O(O::IS_SAME_Y, T{U, LAST_U, 0}));
        t.set(ADD_4, O(X, T{LAST_U, LAST_U, 1}, T{U, LAST_U, -2}, T{U, U, 1}, T{IN_Y, XX, -1}, T{IN_Y, ZZ, -1}),
              O(OTHER_X, T{IN_Y, XX, 1}), O(Z, T{IN_X, IN_X, 1}), O(), O());
        t.set(ADD_5, O(W, T{IN_ZZ, OTHER_X, 1}, T{IN_ZZ, X, -1}, T{IN_ZZZ, Z, -1}), O(), O(), O(), O());
        t.set(LEAVE, O(OUT_X, T{X, ONE, 1}), O(OUT_Z, T{Z, ONE, 1}), O(OUT_W, T{W, ONE, 1}), O(), O());
        return t;
    }
    __device__ static const ChainOperation& operation(std::uint32_t number) {
        static constexpr ChainTable all = make();
        return all.of[number / CHAIN_WARPS][number % CHAIN_WARPS];
    }
};

struct ChainMemory {
    Wide numbers[N_CHAIN_NUMBERS], scratch[2 * CHAIN_WARPS];
    ChainOperation operations[N_CHAIN_STEPS * CHAIN_WARPS];
    bool is_same[2];
};

template <class F> struct Chain {
    ChainMemory& at;
    WideLane lane;
    std::uint32_t warp, now;
    bool is_infinity; // the same for all threads

    // All threads of a block of CHAIN_THREADS; the point is infinity.
    __device__ __forceinline__ static Chain of(ChainMemory& at) {
        for (std::uint32_t i = threadIdx.x; i < sizeof at.numbers / 4; i += CHAIN_THREADS) at.numbers[i / 48].word[i % 48] = 0;
        for (std::uint32_t i = threadIdx.x; i < N_CHAIN_STEPS * CHAIN_WARPS; i += CHAIN_THREADS)
            at.operations[i] = ChainTable::operation(i);
        __syncthreads();
        const auto k = static_cast<int>(threadIdx.x);
        if (k < WIDE_LIMBS) {
            at.numbers[ENTER].limb(k) = WideConstants::enter_limb(k);
            at.numbers[ONE].limb(k) = WideConstants::one_limb(k);
        }
        __syncthreads();
        const std::uint32_t warp = threadIdx.x / 32;
        return {at, WideLane::of(at.scratch + 2 * warp), warp, 0, true};
    }

    __device__ __forceinline__ void double_times(std::uint32_t times) {
        if (is_infinity) return;
        const ChainOperation first = at.operations[DOUBLE_1 * CHAIN_WARPS + warp];
        const ChainOperation second = at.operations[DOUBLE_2 * CHAIN_WARPS + warp];
        // W is one doubling behind. Of what the last steps compute of X and Z nothing is used.
        CUZKOPS_ROLLED for (std::uint32_t step = 0; step < 2 * times + 2; step++) {
            const bool waits = warp == 4 && step == 1; // for a factor
            if (!waits) run(ChainOperation::choose(step % 2 == 0, first, second));
            __syncthreads();
            now ^= step % 2;
        }
        now ^= 1; // the last two steps were for W alone
    }

    // Adds a sum in XYZZ form, whatever both points are.
    __device__ __forceinline__ void add(const std::uint64_t* sums, std::uint64_t index) {
        const std::uint64_t* const from = sums + 4 * F::LIMBS * index;
        if (F::load(from + 2 * F::LIMBS).is_zero()) return;
        if (warp < 4 && lane.lane < WIDE_LIMBS)
            at.numbers[IN_X + warp].limb(lane.lane) = static_cast<std::int32_t>(WideConstants::limb(from + F::LIMBS * warp, lane.lane));
        __syncthreads();
        CUZKOPS_ROLLED for (std::uint32_t step = ENTER_1; step <= ADD_5; step++) {
            run(at.operations[step * CHAIN_WARPS + warp]);
            __syncthreads();
            if (step == ADD_1 && is_infinity) {
                take();
                return;
            }
            if (step == ADD_3 && at.is_same[0]) break;
        }
        if (!at.is_same[0]) return;
        is_infinity = !at.is_same[1];
        double_times(1);
    }

    __device__ __forceinline__ void store(std::uint64_t* result) {
        run(at.operations[LEAVE * CHAIN_WARPS + warp]);
        __syncthreads();
        if (threadIdx.x != 0) return;
        Affine<F> point = Affine<F>::infinity();
        if (!is_infinity) {
            const F inverse = canonical<F>(at.numbers[OUT_Z]).inverse();
            point = {canonical<F>(at.numbers[OUT_X]) * inverse, canonical<F>(at.numbers[OUT_W]) * inverse.square()};
        }
        point.store(result);
    }

private:
    __device__ __forceinline__ Wide& number(std::uint32_t named) const {
        return at.numbers[named < W ? named ^ now : named];
    }
    __device__ __forceinline__ void run(const ChainOperation operation) const {
        const auto* const terms = operation.terms;
        if (operation.kind() == ChainOperation::NOTHING) return;
        if (operation.kind() != ChainOperation::SUM) {
            const bool found = is_same(number(terms[0].a()), number(terms[0].b()));
            if (lane.lane == 0) at.is_same[operation.kind() == ChainOperation::IS_SAME_Y] = found;
            return;
        }
        const std::uint32_t n = operation.n_terms();
        std::int64_t column = n == 1 ? of(terms[0]) : of(terms[0]) + of(terms[1]); // at once, most steps have no more
        if (n > 2) column += of(terms[2]);
        if (n > 3) column += of(terms[3]) + of(terms[4]);
        lane.reduce(number(operation.to()), column);
    }
    __device__ __forceinline__ std::int64_t of(ChainTerm term) const {
        return term.factor() * lane.column(number(term.a()), number(term.b()));
    }
    // The other point instead of infinity.
    __device__ __forceinline__ void take() {
        if (threadIdx.x < WIDE_LIMBS) {
            const auto k = static_cast<int>(threadIdx.x);
            number(X).limb(k) = at.numbers[OTHER_X].limb(k);
            number(Z).limb(k) = at.numbers[OTHER_Z].limb(k);
            at.numbers[W].limb(k) = at.numbers[OTHER_W].limb(k);
        }
        is_infinity = false;
        __syncthreads();
    }
};

// A block for each result: after combine_slots, the sum of all modules as an affine point, from the top module down.
template <class F>
__device__ void combine_modules_by_chain(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits,
                                         std::uint64_t* results) {
    __shared__ ChainMemory memory;
    const std::uint64_t first = static_cast<std::uint64_t>(blockIdx.x) * modules * window_bits;
    std::uint64_t* const result = results + Affine<F>::LIMBS * blockIdx.x;
    if (modules == 1) {
        if (threadIdx.x == 0) load_sum<F>(slots, first + window_bits - 1).to_affine().store(result);
        return;
    }
    auto sum = Chain<F>::of(memory);
    CUZKOPS_ROLLED for (std::uint32_t module = modules; module-- > 0;) {
        sum.double_times(window_bits);
        sum.add(slots, first + static_cast<std::uint64_t>(module + 1) * window_bits - 1);
    }
    sum.store(result);
}

// What is quickest in each group.
template <class F>
__device__ void finish_modules(std::uint64_t* slots, std::uint32_t modules, std::uint32_t window_bits,
                               std::uint64_t* results) {
    if constexpr (F::LIMBS == 6) combine_modules_by_chain<F>(slots, modules, window_bits, results);
    else combine_modules<F>(slots, modules, window_bits, results);
}

} // namespace cuzkops

#endif
