// Sparse matrix times vector over Fr, rows shared out between threads.
#include "abi.hpp"
#include "field.hpp"
#include "parallel.hpp"

using namespace cuzkops;

// out[row] = sum of values[e] * x[columns[e]] over the entries of the row. The values are v R^2 and x is plain, so that
// one Montgomery product of each pair gives v x R: Montgomery form, without a conversion. Indices were checked before.
CUZKOPS_EXPORT int cuzkops_multiply(const std::uint64_t* row_starts, const std::uint32_t* columns,
                                    const std::uint64_t* values, std::size_t n_rows, const std::uint64_t* x,
                                    int threads, std::uint64_t* out) {
    return guarded([&]() -> int {
        if (threads < 1) return BAD_ARGUMENT;
        over_range(n_rows, threads, 1024, [&](std::size_t begin, std::size_t end) {
            for (std::size_t row = begin; row < end; row++) {
                Fr sum = Fr::zero();
                for (std::uint64_t e = row_starts[row]; e < row_starts[row + 1]; e++)
                    sum = sum + Fr::load(values + 4 * e) * Fr::load(x + 4 * std::size_t{columns[e]});
                sum.store(out + 4 * row);
            }
        });
        return OK;
    });
}
