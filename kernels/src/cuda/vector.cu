// Vectors of Fr element by element, powers of roots, bit reversal, sparse products, and transforms of up to 4 elements.
#include "pass.cuh"

using namespace cuzkops;
using Fr = FrOf<Carry32>;

namespace {

__device__ std::size_t thread_number() { return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ std::size_t n_threads() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

enum VectorOperation : unsigned { ADD = 0, SUBTRACT, MULTIPLY };

// Sum of values[e] x[columns[e]] over every step-th entry from begin on. Two at a time: their loads are under way together.
__device__ Fr sum_of_entries(const std::uint32_t* columns, const Fr* values, const Fr* x, std::uint64_t begin,
                             std::uint64_t end, unsigned step) {
    Fr sum = Fr::zero();
    std::uint64_t e = begin;
    for (; e + step < end; e += 2 * step) {
        const std::uint32_t first = __ldg(columns + e), second = __ldg(columns + e + step);
        const Fr value = load_constant(values + e), other = load_constant(values + e + step);
        const Fr factor = load_constant(x + first), other_factor = load_constant(x + second);
        sum = sum + value * factor;
        sum = sum + other * other_factor;
    }
    if (e < end) sum = sum + load_constant(values + e) * load_constant(x + columns[e]);
    return sum;
}

} // namespace

// out[i] = a[i] + b[i] (operation 0), a[i] - b[i] (1) or a[i] b[i] (2); any may be the same memory.
extern "C" __global__ void cuzkops_combine(unsigned operation, const Fr* a, const Fr* b, Fr* out, std::size_t n) {
    for (std::size_t i = thread_number(); i < n; i += n_threads()) {
        const Fr x = load_element(a + i), y = load_element(b + i);
        store_element(out + i, operation == ADD ? x + y : operation == SUBTRACT ? x - y : x * y);
    }
}

// The scalars of section 9 from transforms that were not divided by n: out = (a b / n - c) factor, factor plain 1 / n.
extern "C" __global__ void cuzkops_h_scalars(const Fr* a, const Fr* b, const Fr* c, const Fr* factor, Fr* out,
                                             unsigned log2_n) {
    const std::size_t n = std::size_t{1} << log2_n;
    const Fr plain = load_constant(factor);
    for (std::size_t i = thread_number(); i < n; i += n_threads()) {
        const Fr product = divided_by_power_of_two(load_element(a + i) * load_element(b + i), log2_n);
        store_element(out + i, (product - load_element(c + i)) * plain);
    }
}

// table[half + i] = table[i] factor, i < half: doubles a table of powers, in natural or in bit-reversed order.
extern "C" __global__ void cuzkops_extend(Fr* table, const Fr* factor, std::size_t half) {
    const Fr f = load_constant(factor);
    for (std::size_t i = thread_number(); i < half; i += n_threads())
        store_element(table + half + i, load_element(table + i) * f);
}

// Element i goes where its bits read backwards say. in and out are the same memory, or apart.
extern "C" __global__ void cuzkops_reverse(const Fr* in, Fr* out, unsigned log2_n) {
    const std::size_t n = std::size_t{1} << log2_n;
    for (std::size_t i = thread_number(); i < n; i += n_threads()) {
        const std::size_t other = log2_n ? reversed_bits(i, log2_n) : 0;
        if (in != out) {
            store_element(out + other, load_element(in + i));
        } else if (i < other) { // each pair belongs to its smaller index
            const Fr x = load_element(in + i), y = load_element(in + other);
            store_element(out + other, x);
            store_element(out + i, y);
        }
    }
}

// n = 1, 2 or 4 elements: thread i adds up what output i is, out = scale_out[i] sum_j in[j] scale_in[j] powers[i j mod n].
// A scale may be missing. orders: 1 the input, 2 the output is in bit-reversed order. One block of n threads a vector.
extern "C" __global__ void cuzkops_small(const Fr* in, Fr* out, const Fr* powers, const Fr* scale_in, const Fr* scale_out,
                                         unsigned log2_n, unsigned orders, unsigned halvings) {
    const unsigned n = 1u << log2_n, i = threadIdx.x;
    const unsigned swapped[4] = {0, n == 4 ? 2u : 1u, 1, 3};
    const Fr* vector = in + static_cast<std::size_t>(blockIdx.x) * n;
    Fr sum = Fr::zero();
    for (unsigned j = 0; j < n; j++) {
        Fr x = load_element(vector + (orders & 1 ? swapped[j] : j));
        if (scale_in) x = x * load_constant(scale_in + j);
        sum = sum + x * load_constant(powers + (i * j & (n - 1)));
    }
    if (scale_out) sum = sum * load_constant(scale_out + i);
    if (halvings) sum = divided_by_power_of_two(sum, halvings);
    __syncthreads(); // the output may be the input
    store_element(out + static_cast<std::size_t>(blockIdx.x) * n + (orders & 2 ? swapped[i] : i), sum);
}

// out[row] = sum of values[e] x[columns[e]] over the entries of the row; the values are v R^2 and x is plain, so that a
// Montgomery product of each pair is v x R. One thread a row; rows of more than `longest` entries are left to the next.
extern "C" __global__ void cuzkops_multiply_rows(const std::uint64_t* row_starts, const std::uint32_t* columns,
                                                 const Fr* values, const Fr* x, Fr* out, std::size_t n_rows,
                                                 std::uint64_t longest) {
    for (std::size_t row = thread_number(); row < n_rows; row += n_threads()) {
        const std::uint64_t begin = row_starts[row], end = row_starts[row + 1];
        if (end - begin <= longest) store_element(out + row, sum_of_entries(columns, values, x, begin, end, 1));
    }
}

// The same for the rows of a list, a block of 128 threads each.
extern "C" __global__ void __launch_bounds__(128)
    cuzkops_multiply_long_rows(const std::uint64_t* row_starts, const std::uint32_t* columns, const Fr* values,
                               const Fr* x, Fr* out, const std::uint64_t* rows) {
    __shared__ Fr sums[128];
    const std::uint64_t row = rows[blockIdx.x];
    sums[threadIdx.x] = sum_of_entries(columns, values, x, row_starts[row] + threadIdx.x, row_starts[row + 1], 128);
    for (unsigned half = 64; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half];
    }
    if (threadIdx.x == 0) store_element(out + row, sums[0]);
}
