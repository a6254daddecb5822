// From buckets to one sum for each bit of their numbers. The buckets of a module are a matrix of `rows` times `columns`,
// bucket b in row b / columns; the sum of (b + 1) times bucket b is made of the sums of the lines:
//   sum over rows r of columns * r * row[r]  +  sum over columns k of k * column[k]  +  the sum of everything.
// Each of these is a plain sum for each bit of r and of k: "slot" 0 of a module is the sum of everything, slot s > 0 what
// counts 2^(s-1) times. Two additions a bucket in all, and no chain of additions longer than a part of a line.
#pragma once
#include "msm_together.cuh"

namespace cuzkops {

struct Lines {
    std::uint32_t window_bits, modules;
    std::uint32_t row_parts, column_parts; // pieces in which the sum of a line comes

    CUZKOPS_FN std::uint32_t column_bits() const { return window_bits / 2; } // half of window_bits - 1, rounded up
    CUZKOPS_FN std::uint32_t columns() const { return 1u << column_bits(); }
    CUZKOPS_FN std::uint32_t rows() const { return 1u << (window_bits - 1 - column_bits()); }
    CUZKOPS_FN std::uint32_t per_module() const { return rows() * row_parts + columns() * column_parts; }
    CUZKOPS_FN std::uint64_t n_sums() const { return static_cast<std::uint64_t>(modules) * per_module(); }
    // Where the parts of a line begin; rows come first.
    CUZKOPS_FN std::uint64_t sum_of(std::uint32_t module, std::uint32_t line) const {
        const std::uint32_t within = line < rows() ? line * row_parts : rows() * row_parts + (line - rows()) * column_parts;
        return static_cast<std::uint64_t>(module) * per_module() + within;
    }
};

// One part of one line: `length` buckets, `step` apart, and where their sum goes.
struct LinePart {
    std::uint32_t bucket, length, step;
    std::uint64_t to;

    // number < lines.n_sums(). row_parts divides columns(), column_parts rows().
    CUZKOPS_FN static LinePart of(const Lines& lines, std::uint64_t number) {
        const std::uint32_t module = static_cast<std::uint32_t>(number / lines.per_module());
        const std::uint32_t within = static_cast<std::uint32_t>(number % lines.per_module());
        const std::uint32_t row_sums = lines.rows() * lines.row_parts, first = module << (lines.window_bits - 1);
        if (within < row_sums) { // parts of a row follow each other
            const std::uint32_t length = lines.columns() / lines.row_parts;
            return {first + within * length, length, 1, number};
        }
        // Neighbouring threads take neighbouring columns.
        const std::uint32_t column = (within - row_sums) % lines.columns(), part = (within - row_sums) / lines.columns();
        const std::uint32_t length = lines.rows() / lines.column_parts;
        return {first + part * length * lines.columns() + column, length, lines.columns(),
                lines.sum_of(module, lines.rows() + column) + part};
    }
};

// By a thread. Most buckets of a large sum are affine points as the rounds have left them: those are added with 10
// products instead of 14, where the whole warp has such ones.
template <class F>
CUZKOPS_FN void sum_line(const Lines& lines, const std::uint64_t* buckets, const std::uint32_t* offsets,
                         std::uint64_t* sums, std::uint64_t number) {
    if (number >= lines.n_sums()) return;
    const LinePart part = LinePart::of(lines, number);
    Xyzz<F> sum = Xyzz<F>::infinity();
    std::uint32_t bucket = part.bucket;
    for (std::uint32_t i = 0; i < part.length; i++, bucket += part.step) {
        Xyzz<F> p = Xyzz<F>::infinity();
        if (offsets[bucket] != offsets[bucket + 1]) p = load_sum<F>(buckets, bucket);
        bool are_affine = p.is_infinity() || (p.zz == F::one() && p.zzz == F::one());
#ifdef __CUDA_ARCH__
        are_affine = __all_sync(__activemask(), are_affine);
#endif
        if (!are_affine) sum.add(p);
        else if (p.is_infinity()) continue;
        else if constexpr (Record<F>::ADDED_COMPACTLY) sum.add_compactly(Affine<F>{p.x, p.y});
        else sum.add(Affine<F>{p.x, p.y});
    }
    store_sum(sums, part.to, sum);
}

// The lines of a slot, and the number of its i-th one.
struct Slot {
    std::uint32_t first_line, bit, n_lines; // bit 32: all lines

    CUZKOPS_FN static Slot of(const Lines& lines, std::uint32_t slot) {
        if (slot == 0) return {0, 32, lines.rows()};
        const std::uint32_t bit = slot - 1;
        if (bit < lines.column_bits()) return {lines.rows(), bit, lines.columns() / 2};
        return {0, bit - lines.column_bits(), lines.rows() / 2};
    }
    CUZKOPS_FN std::uint32_t line(std::uint32_t i) const {
        if (bit == 32) return first_line + i;
        const std::uint32_t below = i & ((1u << bit) - 1);
        return first_line + ((i >> bit) << (bit + 1) | 1u << bit | below);
    }
};

#ifdef __CUDACC__

// As sum_line, by a group of lanes.
template <class F>
__device__ void sum_line_together(GroupScratch<F>* scratch, const Lines& lines, const std::uint64_t* buckets,
                                  const std::uint32_t* offsets, std::uint64_t* sums, std::uint64_t group) {
    const bool is_there = group < lines.n_sums();
    const LinePart part = LinePart::of(lines, is_there ? group : 0);
    auto sum = Together<F>::of(scratch);
    std::uint32_t bucket = part.bucket;
    for (std::uint32_t i = 0; __any_sync(ALL_LANES, i < part.length); i++, bucket += part.step) {
        const bool is_wanted = is_there && i < part.length && offsets[bucket] != offsets[bucket + 1];
        sum.add(buckets, bucket, is_wanted);
    }
    if (is_there) sum.store(sums, part.to);
}

// out[group] = the sum of `count` neighbours, by groups of lanes.
template <class F>
__device__ void sum_neighbours(GroupScratch<F>* scratch, const std::uint64_t* sums, std::uint64_t* out, std::uint32_t count,
                               std::uint64_t n_out, std::uint64_t group) {
    const bool is_there = group < n_out;
    const std::uint64_t first = is_there ? group * count : 0;
    auto sum = Together<F>::of(scratch);
    sum.load(sums, first);
    for (std::uint32_t i = 1; i < count; i++) sum.add(sums, first + i);
    if (is_there) sum.store(out, group);
}

// A block of THREADS for each slot of each module.
template <class F, std::uint32_t THREADS>
__device__ void sum_slot(const Lines& lines, const std::uint64_t* sums, std::uint64_t* slots) {
    constexpr std::uint32_t GROUPS = THREADS / GROUP_LANES;
    __shared__ GroupScratch<F> scratch[GROUPS];
    __shared__ std::uint64_t shared[GROUPS / 2 * 4 * F::LIMBS];
    const std::uint32_t module = blockIdx.x / lines.window_bits, group = threadIdx.x / GROUP_LANES;
    const Slot slot = Slot::of(lines, blockIdx.x % lines.window_bits);
    const std::uint32_t parts = slot.first_line == 0 ? lines.row_parts : lines.column_parts, n = slot.n_lines * parts;
    auto sum = Together<F>::of(scratch);
    for (std::uint32_t from = 0; from < n; from += GROUPS) {
        const std::uint32_t i = from + group < n ? from + group : 0;
        sum.add(sums, lines.sum_of(module, slot.line(i / parts)) + i % parts, from + group < n);
    }
    for (std::uint32_t half = GROUPS / 2; half > 0; half /= 2) {
        if (group >= half && group < 2 * half) sum.store(shared, group - half);
        __syncthreads();
        if (threadIdx.x / 32 * 8 < half) sum.add(shared, group, group < half); // whole warps
        __syncthreads();
    }
    if (group == 0) sum.store(slots, blockIdx.x);
}

#endif

} // namespace cuzkops
