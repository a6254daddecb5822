// Sparse matrix times vector over Fr, rows shared out between threads.
#include "abi.hpp"
#include "pool.hpp"

namespace cuzkops {
namespace {

// out[row] = sum of values[e] * x[columns[e]] over the entries of the row. The values are v R^2 and x is plain, so that
// one Montgomery product of each pair gives v x R: Montgomery form, without a conversion. Indices were checked before.
template <class Fr>
void multiply(const std::uint64_t* row_starts, const std::uint32_t* columns, const std::uint64_t* values,
              const std::uint64_t* x, std::uint64_t* out, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; row++) {
        Fr sum = Fr::zero();
        for (std::uint64_t e = row_starts[row]; e < row_starts[row + 1]; e++)
            sum = sum + Fr::load(values + 4 * e) * Fr::load(x + 4 * std::size_t{columns[e]});
        sum.store(out + 4 * row);
    }
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

CUZKOPS_EXPORT int cuzkops_multiply(int leaf, const std::uint64_t* row_starts, const std::uint32_t* columns,
                                    const std::uint64_t* values, std::size_t n_rows, const std::uint64_t* x,
                                    int threads, std::uint64_t* out) {
    return with_leaf(leaf, [&](auto chosen) -> int {
        if (threads < 1) return BAD_ARGUMENT;
        over_range(n_rows, threads, 1024, [&](std::size_t begin, std::size_t end) {
            multiply<FrOf<decltype(chosen)>>(row_starts, columns, values, x, out, begin, end);
        });
        return OK;
    });
}
