// Runs the exported functions of the host library on inputs that are the same everywhere, and prints a digest of all
// results: digest FILE LEAF, where FILE holds the generators of G1 and G2 as affine points. Exit status 0, or the number
// of the step that failed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

using Words = std::vector<std::uint64_t>;

extern "C" {
int cuzkops_field(int, int, int, const std::uint64_t*, const std::uint64_t*, std::size_t, std::uint64_t*);
int cuzkops_points(int, int, int, const std::uint64_t*, const std::uint64_t*, std::size_t, std::uint64_t*);
int cuzkops_msm_g1(int, const std::uint64_t*, const std::uint64_t*, std::size_t, int, std::uint64_t*);
int cuzkops_msm_g2(int, const std::uint64_t*, const std::uint64_t*, std::size_t, int, std::uint64_t*);
int cuzkops_ntt(int, const std::uint64_t*, std::uint64_t*, unsigned, int, unsigned, int, const std::uint64_t*, int);
}

namespace {

int leaf;
std::uint64_t state = 88172645463325252ull, digest = 1469598103934665603ull;

std::uint64_t random_word() { // xorshift64: Marsaglia, "Xorshift RNGs", 2003
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

// n elements of `width` words, below the modulus because the top words are short.
Words elements(std::size_t n, std::size_t width) {
    Words out(n * width);
    for (std::size_t i = 0; i < out.size(); i++) out[i] = random_word() >> (i % width == width - 1 ? 4 : 0);
    return out;
}

void add_to_digest(const Words& words) { // FNV-1a, by words
    for (std::uint64_t word : words) digest = (digest ^ word) * 1099511628211ull;
}

void require(int status, int step) {
    if (status != 0) std::exit(step);
}

void fields() {
    constexpr std::size_t N = 200, OPERATIONS = 9;
    for (int field = 0; field < 3; field++) {
        const std::size_t width = field == 0 ? 4 : 6, parts = field == 2 ? 2 : 1;
        const Words a = elements(N * parts, width), b = elements(N * parts, width);
        for (std::size_t operation = 0; operation < OPERATIONS; operation++) {
            Words out(a.size());
            require(cuzkops_field(leaf, field, static_cast<int>(operation), a.data(), b.data(), N, out.data()), 3);
            add_to_digest(out);
        }
    }
}

void sums(int group, const std::uint64_t* generator) {
    constexpr std::size_t N = 300;
    const std::size_t width = 12 * static_cast<std::size_t>(group);
    Words points(generator, generator + width); // 1, 2, 3, ... times the generator
    points.resize(N * width);
    for (std::size_t i = 1; i < N; i++) {
        const int add_mixed = 0;
        require(cuzkops_points(leaf, group, add_mixed, &points[(i - 1) * width], generator, 1, &points[i * width]), 4);
    }
    add_to_digest(points);
    const Words scalars = elements(N, 4);
    for (int threads : {1, 3}) {
        Words out(width);
        const auto msm = group == 1 ? cuzkops_msm_g1 : cuzkops_msm_g2;
        require(msm(leaf, points.data(), scalars.data(), N, threads, out.data()), 5);
        add_to_digest(out);
    }
}

void transforms() {
    Words values = elements(std::size_t{1} << 15, 4);
    const Words shift = elements(1, 4);
    require(cuzkops_ntt(leaf, values.data(), values.data(), 15, 0, 0, 5, shift.data(), 3), 6);
    add_to_digest(values);
    require(cuzkops_ntt(leaf, values.data(), values.data(), 15, 1, 2, 7, shift.data(), 1), 7);
    add_to_digest(values);
}

} // namespace

int main(int argc, char** argv) {
    std::uint64_t generators[36];
    std::FILE* file = argc == 3 ? std::fopen(argv[1], "rb") : nullptr;
    if (file == nullptr || std::fread(generators, sizeof generators, 1, file) != 1) return 2;
    leaf = std::atoi(argv[2]);
    fields();
    sums(1, generators);
    sums(2, generators + 12);
    transforms();
    std::printf("%016llx\n", static_cast<unsigned long long>(digest));
    return 0;
}
