// Number-theoretic transforms over Fr and the H scalars of Groth16. Decimation in time, radix 2, in place after a bit
// reversal: Cooley and Tukey (1965). Roots are powers of 5^((r-1)/2^k), as in zkey files.
#include <chrono>
#include <memory>
#include <utility>

#include "abi.hpp"
#include "field.hpp"
#include "parallel.hpp"

namespace cuzkops {
namespace {

constexpr std::size_t GRAIN = 4096; // products a thread should have before it is worth starting

// Uninitialised memory for n elements.
std::unique_ptr<Fr[]> elements(std::size_t n) { return std::unique_ptr<Fr[]>(new Fr[n]); }

// The 2^log2_order-th root of unity.
Fr root_of_order(unsigned log2_order) {
    Fr root = Fr::load(constants::FR_ROOT);
    for (unsigned k = constants::FR_TWO_ADICITY; k > log2_order; k--) root = root.square();
    return root;
}

// table[i] = w^i for i < n, with w of order 2n: the even ones are the roots of order n, all of them the coset shifts.
void fill_roots(Fr* table, unsigned log2_n, int threads) {
    const Fr root = root_of_order(log2_n + 1);
    over_range(std::size_t{1} << log2_n, threads, GRAIN, [&](std::size_t begin, std::size_t end) {
        const std::uint64_t exponent = begin;
        Fr power = root.pow(&exponent, 1);
        for (std::size_t i = begin; i < end; i++) {
            table[i] = power;
            power = power * root;
        }
    });
}

void bit_reverse(Fr* values, unsigned log2_n, int threads) {
    if (log2_n == 0) return;
    over_range(std::size_t{1} << log2_n, threads, GRAIN, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            std::size_t reversed = 0;
            for (unsigned bit = 0; bit < log2_n; bit++) reversed |= (i >> bit & 1) << (log2_n - 1 - bit);
            if (i < reversed) std::swap(values[i], values[reversed]); // each pair belongs to its smaller index
        }
    });
}

// In place, natural order in and out: n/2 log2(n) products.
void transform(Fr* values, const Fr* table, unsigned log2_n, int threads) {
    bit_reverse(values, log2_n, threads);
    const std::size_t n = std::size_t{1} << log2_n;
    for (unsigned stage = 0; stage < log2_n; stage++) {
        const std::size_t half = std::size_t{1} << stage;
        const unsigned stride = log2_n - stage; // table step of the root of order 2 half
        over_range(n / 2, threads, GRAIN, [&](std::size_t begin, std::size_t end) {
            for (std::size_t q = begin; q < end; q++) {
                const std::size_t j = q & (half - 1);
                Fr& low = values[(q - j) * 2 + j];
                Fr& high = values[(q - j) * 2 + j + half];
                const Fr product = j == 0 ? high : high * table[j << stride];
                high = low - product;
                low = low + product;
            }
        });
    }
}

Fr inverse_of_size(unsigned log2_n) {
    Fr scale = Fr::one();
    for (unsigned k = 0; k < log2_n; k++) scale = scale * Fr::load(constants::FR_HALF);
    return scale;
}

// Values to coefficients: a forward transform gives n times coefficient -i mod n at i. Coefficient i is multiplied by
// shift[i] as well, where shift is not null.
void inverse_transform(Fr* values, const Fr* table, const Fr* shift, unsigned log2_n, int threads) {
    transform(values, table, log2_n, threads);
    const std::size_t n = std::size_t{1} << log2_n;
    const Fr scale = inverse_of_size(log2_n);
    over_range(n / 2 + 1, threads, GRAIN, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) { // i and n - i change places
            const std::size_t mirror = (n - i) & (n - 1);
            if (mirror < i) continue;
            const Fr at_i = values[mirror] * scale, at_mirror = values[i] * scale;
            values[i] = shift ? at_i * shift[i] : at_i;
            if (mirror != i) values[mirror] = shift ? at_mirror * shift[mirror] : at_mirror;
        }
    });
}

std::uint64_t now_ns() {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

int ntt(const std::uint64_t* in, std::uint64_t* out, unsigned log2_n, int inverse, int threads) {
    if (threads < 1 || log2_n >= constants::FR_TWO_ADICITY) return BAD_ARGUMENT;
    const std::size_t n = std::size_t{1} << log2_n;
    const std::unique_ptr<Fr[]> table = elements(n);
    Fr* values = reinterpret_cast<Fr*>(out);
    if (in != out) std::memcpy(out, in, n * sizeof(Fr));
    fill_roots(table.get(), log2_n, threads);
    if (inverse)
        inverse_transform(values, table.get(), nullptr, log2_n, threads);
    else
        transform(values, table.get(), log2_n, threads);
    return OK;
}

int h(const std::uint64_t* a_in, const std::uint64_t* b_in, std::uint64_t* out, unsigned log2_n, int threads,
      std::uint64_t* ntt_ns, std::uint64_t* pointwise_ns) {
    if (threads < 1 || log2_n >= constants::FR_TWO_ADICITY) return BAD_ARGUMENT;
    const std::size_t n = std::size_t{1} << log2_n;
    const std::unique_ptr<Fr[]> table = elements(n), a = elements(n), b = elements(n);
    Fr* c = reinterpret_cast<Fr*>(out);
    const std::uint64_t start = now_ns();
    over_range(n, threads, GRAIN, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) {
            a[i] = Fr::load(a_in + 4 * i);
            b[i] = Fr::load(b_in + 4 * i);
            c[i] = a[i] * b[i];
        }
    });
    const std::uint64_t transforms = now_ns();
    fill_roots(table.get(), log2_n, threads);
    for (Fr* values : {a.get(), b.get(), c}) {
        inverse_transform(values, table.get(), table.get(), log2_n, threads);
        transform(values, table.get(), log2_n, threads);
    }
    const std::uint64_t last = now_ns();
    over_range(n, threads, GRAIN, [&](std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; i++) c[i] = (a[i] * b[i] - c[i]).to_plain();
    });
    *ntt_ns = last - transforms;
    *pointwise_ns = transforms - start + now_ns() - last;
    return OK;
}

} // namespace
} // namespace cuzkops

using namespace cuzkops;

// in and out: 2^log2_n Montgomery elements, may be the same memory.
CUZKOPS_EXPORT int cuzkops_ntt(const std::uint64_t* in, std::uint64_t* out, unsigned log2_n, int inverse, int threads) {
    return guarded([&] { return ntt(in, out, log2_n, inverse, threads); });
}

// a, b: 2^log2_n Montgomery values on the domain; out: as many plain scalars, other memory than a and b.
CUZKOPS_EXPORT int cuzkops_h(const std::uint64_t* a, const std::uint64_t* b, std::uint64_t* out, unsigned log2_n,
                             int threads, std::uint64_t* ntt_ns, std::uint64_t* pointwise_ns) {
    return guarded([&] { return h(a, b, out, log2_n, threads, ntt_ns, pointwise_ns); });
}
