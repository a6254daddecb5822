// From buckets to one sum for each bit of their numbers. The buckets of a module are a matrix of `rows` times `columns`,
// bucket b in row b / columns; the sum of (b + 1) times bucket b is made of the sums of the lines:
//   sum over rows r of columns * r * row[r]  +  sum over columns k of k * column[k]  +  the sum of everything.
// Each of these is a plain sum for each bit of r and of k: "slot" 0 of a module is the sum of everything, slot s > 0 what
// counts 2^(s-1) times. Two additions a bucket in all, and no chain of additions longer than a part of a line.
#pragma once
#include "msm_shape.cuh"

namespace cuzkops {

struct Lines {
    std::uint32_t window_bits, modules;
    std::uint32_t parts; // pieces in which the sum of a line comes

    CUZKOPS_FN std::uint32_t column_bits() const { return window_bits / 2; } // half of window_bits - 1, rounded up
    CUZKOPS_FN std::uint32_t columns() const { return 1u << column_bits(); }
    CUZKOPS_FN std::uint32_t rows() const { return 1u << (window_bits - 1 - column_bits()); }
    CUZKOPS_FN std::uint32_t lines_per_module() const { return rows() + columns(); } // rows first
    CUZKOPS_FN std::uint64_t n_sums() const { return static_cast<std::uint64_t>(modules) * lines_per_module() * parts; }
};

// One part of one line; `parts` divides both rows() and columns().
template <class F>
CUZKOPS_FN void sum_line(const Lines& lines, const std::uint64_t* buckets, const std::uint32_t* offsets,
                         std::uint64_t* sums, std::uint64_t number) {
    if (number >= lines.n_sums()) return;
    // Neighbouring threads take neighbouring columns.
    const std::uint64_t per_part = static_cast<std::uint64_t>(lines.modules) * lines.lines_per_module();
    const std::uint32_t part = static_cast<std::uint32_t>(number / per_part);
    const std::uint64_t line_of_all = number % per_part;
    const std::uint32_t module = static_cast<std::uint32_t>(line_of_all / lines.lines_per_module());
    const std::uint32_t line = static_cast<std::uint32_t>(line_of_all % lines.lines_per_module());
    const bool is_row = line < lines.rows();
    const std::uint32_t length = (is_row ? lines.columns() : lines.rows()) / lines.parts;
    const std::uint32_t step = is_row ? 1 : lines.columns();
    std::uint32_t bucket = module << (lines.window_bits - 1);
    bucket += is_row ? line * lines.columns() : line - lines.rows();
    bucket += part * length * step;
    Xyzz<F> sum = Xyzz<F>::infinity();
    for (std::uint32_t i = 0; i < length; i++, bucket += step)
        if (offsets[bucket] != offsets[bucket + 1]) sum.add(load_sum<F>(buckets, bucket));
    store_sum(sums, line_of_all * lines.parts + part, sum);
}

// out[number] = the sum of `count` neighbours.
template <class F>
CUZKOPS_FN void sum_neighbours(const std::uint64_t* sums, std::uint64_t* out, std::uint32_t count, std::uint64_t n_out,
                               std::uint64_t number) {
    if (number >= n_out) return;
    Xyzz<F> sum = load_sum<F>(sums, number * count);
    for (std::uint32_t i = 1; i < count; i++) sum.add(load_sum<F>(sums, number * count + i));
    store_sum(out, number, sum);
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

inline constexpr std::uint32_t SLOT_THREADS = 128;

// A block for each slot of each module.
template <class F> __device__ void sum_slot(const Lines& lines, const std::uint64_t* sums, std::uint64_t* slots) {
    __shared__ std::uint64_t shared[SLOT_THREADS / 2 * 4 * F::LIMBS];
    const std::uint32_t module = blockIdx.x / lines.window_bits;
    const Slot slot = Slot::of(lines, blockIdx.x % lines.window_bits);
    const std::uint64_t base = static_cast<std::uint64_t>(module) * lines.lines_per_module();
    Xyzz<F> sum = Xyzz<F>::infinity();
    for (std::uint32_t i = threadIdx.x; i < slot.n_lines * lines.parts; i += SLOT_THREADS)
        sum.add(load_sum<F>(sums, (base + slot.line(i / lines.parts)) * lines.parts + i % lines.parts));
    for (std::uint32_t half = SLOT_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x >= half && threadIdx.x < 2 * half) store_sum(shared, threadIdx.x - half, sum);
        __syncthreads();
        if (threadIdx.x < half) sum.add(load_sum<F>(shared, threadIdx.x));
        __syncthreads();
    }
    if (threadIdx.x == 0) store_sum(slots, blockIdx.x, sum);
}

#endif

} // namespace cuzkops
