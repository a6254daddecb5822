// One pass of a transform over memory: up to ten layers of butterflies on tiles of a block of threads, 2^E
// elements a thread and E layers between two exchanges through shared memory. The two halves and their factors are those of
// host/transform.hpp: down takes natural order to bit-reversed, up back, and a block of a layer has a single factor, so
// that a transform of n elements takes n (log2(n) / 2 - 1) products, the least that there is without special roots.
//
// All between two barriers is one function, `pass_window`: tests run it thread by thread with g++.
#pragma once
#include <cstddef>
#include <cstdint>

#include "field.hpp"
#include "loose.cuh"

namespace cuzkops {

// Where the factors of a scaling stand: none, or by the index in memory of what is read first or written last.
enum Scaling : int { UNSCALED = 0, SCALED_INPUT, SCALED_OUTPUT };

// A pass by threads of 2^E elements. Layer l of the transform (0 has the largest blocks) has 2^l blocks; the pass does layers `above` and on.
template <class Fr, unsigned E> struct Pass {
    const Fr* in;
    Fr* out;            // may be `in`, unless permuted
    const Fr* factors;  // in bit-reversed order: see Factors in host/transform.hpp
    const Fr* scale;    // n factors, or nothing
    unsigned log2_n;    // of the transform
    unsigned above;     // layers above this pass
    unsigned layers;    // of this pass: E or more
    unsigned log2_tile; // elements of a block of threads
    unsigned prefix;    // 0; 1 transforms to and from the odd points of the domain of 2 n
    unsigned is_end;    // the results are wanted below r
    unsigned permuted;  // write element i where its bits read backwards say
    unsigned halvings;  // of what is written last: log2(n) divides by n

    // A tile holds all 2^layers rows of 2^log2_columns columns: element e stands in row e >> log2_columns.
    CUZKOPS_FN unsigned log2_columns() const { return log2_tile - layers; }
    CUZKOPS_FN unsigned log2_distance() const { return log2_n - above - layers; } // between rows in memory
    CUZKOPS_FN unsigned windows() const { return (layers + E - 1) / E; }
    CUZKOPS_FN bool is_strided() const { return log2_distance() >= log2_columns(); }

    // The block of the first layer that a column belongs to. The columns of a tile are neighbours in one block, or,
    // where a block has one column, as many blocks that are neighbours once their bits are read backwards.
    CUZKOPS_FN std::size_t block(unsigned tile, unsigned column) const {
        if (is_strided()) return tile >> (log2_distance() - log2_columns());
        return (static_cast<std::size_t>(column) << (above - log2_columns())) + tile;
    }
    CUZKOPS_FN std::size_t index(unsigned tile, unsigned e) const {
        const unsigned column = e & ((1u << log2_columns()) - 1);
        const std::size_t row = e >> log2_columns();
        std::size_t at = (block(tile, column) << (layers + log2_distance())) + (row << log2_distance());
        if (is_strided()) {
            const unsigned tiles = 1u << (log2_distance() - log2_columns()); // of a block
            at += ((tile & (tiles - 1)) << log2_columns()) + column;
        }
        return at;
    }
};

// One element as two 16-byte words, the widest load and store that there is.
template <class Fr> CUZKOPS_FN Fr load_element(const Fr* at) {
#ifdef __CUDA_ARCH__
    Fr out;
    const ulonglong2* words = reinterpret_cast<const ulonglong2*>(at);
    const ulonglong2 low = words[0], high = words[1];
    out.limb[0] = low.x, out.limb[1] = low.y, out.limb[2] = high.x, out.limb[3] = high.y;
    return out;
#else
    return *at;
#endif
}
// The same for memory that no thread writes meanwhile.
template <class Fr> CUZKOPS_FN Fr load_constant(const Fr* at) {
#ifdef __CUDA_ARCH__
    Fr out;
    const ulonglong2* words = reinterpret_cast<const ulonglong2*>(at);
    const ulonglong2 low = __ldg(words), high = __ldg(words + 1);
    out.limb[0] = low.x, out.limb[1] = low.y, out.limb[2] = high.x, out.limb[3] = high.y;
    return out;
#else
    return *at;
#endif
}
template <class Fr> CUZKOPS_FN void store_element(Fr* at, const Fr& x) {
#ifdef __CUDA_ARCH__
    ulonglong2* words = reinterpret_cast<ulonglong2*>(at);
    words[0] = make_ulonglong2(x.limb[0], x.limb[1]);
    words[1] = make_ulonglong2(x.limb[2], x.limb[3]);
#else
    *at = x;
#endif
}

// A tile in shared memory: the low and the high halves of the elements apart, so that 8 threads fill the banks with 16
// bytes each. Position e of a plane is at e xor (e / 8 mod 8): then 8 threads whose elements are 2, 4 or 8 apart fill
// them, too.
template <class Fr> struct Tile {
#ifdef __CUDA_ARCH__
    ulonglong2* words;
    unsigned log2_tile;
    __device__ unsigned at(unsigned e) const { return e ^ (e >> 3 & 7); }
    __device__ Fr load(unsigned e) const {
        Fr out;
        const ulonglong2 low = words[at(e)], high = words[at(e) + (1u << log2_tile)];
        out.limb[0] = low.x, out.limb[1] = low.y, out.limb[2] = high.x, out.limb[3] = high.y;
        return out;
    }
    __device__ void store(unsigned e, const Fr& x) const {
        words[at(e)] = make_ulonglong2(x.limb[0], x.limb[1]);
        words[at(e) + (1u << log2_tile)] = make_ulonglong2(x.limb[2], x.limb[3]);
    }
#else
    Fr* elements;
    Fr load(unsigned e) const { return elements[e]; }
    void store(unsigned e, const Fr& x) const { elements[e] = x; }
#endif
};

CUZKOPS_FN inline std::size_t reversed_bits(std::size_t i, unsigned log2_n) {
#ifdef __CUDA_ARCH__
    return __brevll(i) >> (64 - log2_n); // log2_n is 3 or more here
#else
    std::size_t out = 0;
    for (unsigned bit = 0; bit < log2_n; bit++) out |= (i >> bit & 1) << (log2_n - 1 - bit);
    return out;
#endif
}

// x / 2^count modulo r, count <= 32: the multiple of r that makes the low bits 0 is known at once, as r is 1 modulo 2^32.
template <class Fr> CUZKOPS_FN Fr divided_by_power_of_two(const Fr& x, unsigned count) {
    const std::uint64_t mask = (std::uint64_t{1} << count) - 1;
    const std::uint64_t multiple = (0 - x.limb[0]) & mask;
    std::uint32_t words[9];
    std::uint64_t carry = 0;
    for (int j = 0; j < 8; j++) {
        const std::uint64_t modulus = static_cast<std::uint32_t>(Fr::Modulus::modulus(j / 2) >> (32 * (j % 2)));
        carry += multiple * modulus;
        const std::uint64_t sum = (carry & 0xffffffffu) + static_cast<std::uint32_t>(x.limb[j / 2] >> (32 * (j % 2)));
        words[j] = static_cast<std::uint32_t>(sum);
        carry = (carry >> 32) + (sum >> 32);
    }
    words[8] = static_cast<std::uint32_t>(carry);
    Fr out;
    for (int j = 0; j < 4; j++) {
        const std::uint64_t low = (std::uint64_t{words[2 * j + 1]} << 32 | words[2 * j]) >> count;
        const std::uint64_t high = (std::uint64_t{words[2 * j + 2]} << 32 | words[2 * j + 1]) >> count;
        out.limb[j] = (high & 0xffffffffu) << 32 | (low & 0xffffffffu);
    }
    return out;
}

// (x, y) becomes (x + f y, x - f y) down, (x + y, f (x - y)) up. Where f is known to be 1, nothing is multiplied. Down
// the elements are any numbers of 256 bits, up they are below 2 r: see loose.cuh.
template <bool UP, class Fr> CUZKOPS_FN void butterfly(Fr& x, Fr& y, const Fr* factor, bool is_one) {
    using L = Loose<Fr>;
    if (UP) {
        const Fr difference = L::difference(x, y);
        x = L::sum_modulo(x, y);
        y = is_one ? difference : L::product(load_constant(factor), difference);
    } else {
        const Fr product = is_one ? L::below_twice(y) : L::product(load_constant(factor), y);
        y = L::difference(x, product);
        x = L::sum(x, product);
    }
}

// The layers of a window, but for the `done` that are run first. `block` is that of the elements in layer 0. With is_first
// the first block of each layer has the factor 1.
template <bool UP, unsigned E, class Fr>
CUZKOPS_FN void run_layers(Fr (&x)[1u << E], const Fr* factors, std::size_t block, unsigned done, bool is_first) {
#pragma unroll
    for (unsigned step = 0; step < E; step++) {
        const unsigned layer = UP ? E - 1 - step : step, half = (1u << E) >> (layer + 1);
        if (step < done) continue;
#pragma unroll
        for (unsigned q = 0; q < 1u << layer; q++)
#pragma unroll
            for (unsigned i = 2 * half * q; i < 2 * half * q + half; i++)
                butterfly<UP>(x[i], x[i + half], factors + ((block << layer) + q), is_first && q == 0);
    }
}

// What one thread does between two barriers: read 2^E elements, up to E layers, write them. The first window reads
// the pass's input, the last one writes its output, the others go through the tile. A thread writes to the places of the
// tile that it read from, so that one barrier between windows is enough.
template <bool UP, Scaling SCALING, class Fr, unsigned E>
CUZKOPS_FN void pass_window(const Pass<Fr, E>& pass, unsigned tile, unsigned thread, unsigned window, const Tile<Fr>& shared) {
    constexpr unsigned EACH = 1u << E;
    const unsigned n_windows = pass.windows(), log2_columns = pass.log2_columns();
    const bool is_first = window == 0, is_last = window + 1 == n_windows;
    // The lowest bit of the row that this window's layers work on; the last window overlaps the one before.
    const unsigned step = E * window, top = pass.layers - E;
    const unsigned bit = UP ? (step < top ? step : top) : (step < top ? top - step : 0);
    const unsigned done = is_last ? E * n_windows - pass.layers : 0;

    const unsigned shift = bit + log2_columns;
    const unsigned high = thread >> shift, low = thread & ((1u << shift) - 1);
    const unsigned first = (high << (shift + E)) | low;
    Fr x[EACH];
    if (is_first) {
#pragma unroll
        for (unsigned r = 0; r < EACH; r++) {
            const std::size_t at = pass.index(tile, first | r << shift);
            x[r] = load_element(pass.in + at);
            if (SCALING == SCALED_INPUT) x[r] = Loose<Fr>::product(load_constant(pass.scale + at), x[r]);
        }
    } else {
#pragma unroll
        for (unsigned r = 0; r < EACH; r++) x[r] = shared.load(first | r << shift);
    }

    const std::size_t column_block = pass.block(tile, low & ((1u << log2_columns) - 1));
    const std::size_t from = (static_cast<std::size_t>(pass.prefix) << pass.above) + column_block;
    const std::size_t block = (from << (top - bit)) + high;
    // All of a warp decides the same: it would take both ways otherwise.
    const bool is_trivial = pass.prefix == 0 && pass.above == 0 && (thread | 31) >> shift == 0;
    run_layers<UP, E>(x, pass.factors, block, done, is_trivial);

    if (!is_last) {
#pragma unroll
        for (unsigned r = 0; r < EACH; r++) shared.store(first | r << shift, x[r]);
        return;
    }
#pragma unroll
    for (unsigned r = 0; r < EACH; r++) {
        std::size_t at = pass.index(tile, first | r << shift);
        if (pass.permuted) at = reversed_bits(at, pass.log2_n);
        if (SCALING == SCALED_OUTPUT)
            x[r] = load_constant(pass.scale + at) * x[r];
        else if (pass.is_end)
            x[r] = Loose<Fr>::canonical(x[r]);
        if (pass.halvings) x[r] = divided_by_power_of_two(x[r], pass.halvings);
        store_element(pass.out + at, x[r]);
    }
}

} // namespace cuzkops
