// Written by kernels/gen/constants.py from the moduli of BLS12-381: change that file, not this one.
#pragma once
#include <cstdint>

#include "platform.hpp"

namespace cuzkops {

// Scalar field.
inline constexpr std::uint64_t FR_WORDS[5] = {0xffffffff00000001ull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull, 0x73eda753299d7d48ull, 0xfffffffeffffffffull};
struct FrModulus {
    static constexpr int N = 4;
    static constexpr std::uint64_t INV = 0xfffffffeffffffffull; // -1 / modulus mod 2^64
    static const std::uint64_t* words() { return FR_WORDS; } // the modulus and INV, in the host's memory
    // the modulus
    CUZKOPS_FN static constexpr std::uint64_t modulus(int i) {
        constexpr std::uint64_t words[4] = {0xffffffff00000001ull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull, 0x73eda753299d7d48ull};
        return words[i];
    }
    // R mod the modulus, R = 2^256: the number 1
    CUZKOPS_FN static constexpr std::uint64_t one(int i) {
        constexpr std::uint64_t words[4] = {0x00000001fffffffeull, 0x5884b7fa00034802ull, 0x998c4fefecbc4ff5ull, 0x1824b159acc5056full};
        return words[i];
    }
    // R^2: takes a plain number into Montgomery form
    CUZKOPS_FN static constexpr std::uint64_t r2(int i) {
        constexpr std::uint64_t words[4] = {0xc999e990f3f29c6dull, 0x2b6cedcb87925c23ull, 0x05d314967254398full, 0x0748d9d99f59ff11ull};
        return words[i];
    }
    // R^3: takes the inverse of a Montgomery form into Montgomery form
    CUZKOPS_FN static constexpr std::uint64_t r3(int i) {
        constexpr std::uint64_t words[4] = {0xc62c1807439b73afull, 0x1b3e0d188cf06990ull, 0x73d13c71c7b5f418ull, 0x6e2a5bb9c8db33e9ull};
        return words[i];
    }
    // modulus - 2, plain: the exponent of an inversion
    CUZKOPS_FN static constexpr std::uint64_t minus_two(int i) {
        constexpr std::uint64_t words[4] = {0xfffffffeffffffffull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull, 0x73eda753299d7d48ull};
        return words[i];
    }
};

// Base field.
inline constexpr std::uint64_t FP_WORDS[7] = {0xb9feffffffffaaabull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull, 0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull, 0x89f3fffcfffcfffdull};
struct FpModulus {
    static constexpr int N = 6;
    static constexpr std::uint64_t INV = 0x89f3fffcfffcfffdull; // -1 / modulus mod 2^64
    static const std::uint64_t* words() { return FP_WORDS; } // the modulus and INV, in the host's memory
    // the modulus
    CUZKOPS_FN static constexpr std::uint64_t modulus(int i) {
        constexpr std::uint64_t words[6] = {0xb9feffffffffaaabull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull, 0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull};
        return words[i];
    }
    // R mod the modulus, R = 2^384: the number 1
    CUZKOPS_FN static constexpr std::uint64_t one(int i) {
        constexpr std::uint64_t words[6] = {0x760900000002fffdull, 0xebf4000bc40c0002ull, 0x5f48985753c758baull, 0x77ce585370525745ull, 0x5c071a97a256ec6dull, 0x15f65ec3fa80e493ull};
        return words[i];
    }
    // R^2: takes a plain number into Montgomery form
    CUZKOPS_FN static constexpr std::uint64_t r2(int i) {
        constexpr std::uint64_t words[6] = {0xf4df1f341c341746ull, 0x0a76e6a609d104f1ull, 0x8de5476c4c95b6d5ull, 0x67eb88a9939d83c0ull, 0x9a793e85b519952dull, 0x11988fe592cae3aaull};
        return words[i];
    }
    // R^3: takes the inverse of a Montgomery form into Montgomery form
    CUZKOPS_FN static constexpr std::uint64_t r3(int i) {
        constexpr std::uint64_t words[6] = {0xed48ac6bd94ca1e0ull, 0x315f831e03a7adf8ull, 0x9a53352a615e29ddull, 0x34c04e5e921e1761ull, 0x2512d43565724728ull, 0x0aa6346091755d4dull};
        return words[i];
    }
    // modulus - 2, plain: the exponent of an inversion
    CUZKOPS_FN static constexpr std::uint64_t minus_two(int i) {
        constexpr std::uint64_t words[6] = {0xb9feffffffffaaa9ull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull, 0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull};
        return words[i];
    }
};

struct Constants {
    static constexpr unsigned FR_TWO_ADICITY = 32;
    // 5^((r-1)/4294967296), Montgomery
    CUZKOPS_FN static constexpr std::uint64_t root5(int i) {
        constexpr std::uint64_t words[4] = {0x9cab6d5c0c17f47cull, 0x1ce1e93dfd4b71e5ull, 0x0d6db230471dd505ull, 0x3f0ee990743a3b6aull};
        return words[i];
    }
    // 7^((r-1)/4294967296), Montgomery
    CUZKOPS_FN static constexpr std::uint64_t root7(int i) {
        constexpr std::uint64_t words[4] = {0xb9b58d8c5f0e466aull, 0x5b1b4c801819d7ecull, 0x0af53ae352a31e64ull, 0x5bf3adda19e9b27bull};
        return words[i];
    }
    // 1/2, Montgomery
    CUZKOPS_FN static constexpr std::uint64_t half(int i) {
        constexpr std::uint64_t words[4] = {0x00000000ffffffffull, 0xac425bfd0001a401ull, 0xccc627f7f65e27faull, 0x0c1258acd66282b7ull};
        return words[i];
    }
    // b of y^2 = x^3 + b; b of the twist is b (1 + u), Montgomery
    CUZKOPS_FN static constexpr std::uint64_t curve_b(int i) {
        constexpr std::uint64_t words[6] = {0xaa270000000cfff3ull, 0x53cc0032fc34000aull, 0x478fe97a6b0a807full, 0xb1d37ebee6ba24d7ull, 0x8ec9733bbf78ab2full, 0x09d645513d83de7eull};
        return words[i];
    }
    // z^2 (x, y) = (beta x, -y) on G1, Montgomery
    CUZKOPS_FN static constexpr std::uint64_t g1_beta(int i) {
        constexpr std::uint64_t words[6] = {0x30f1361b798a64e8ull, 0xf3b8ddab7ece5a2aull, 0x16a8ca3ac61577f7ull, 0xc26a2ff874fd029bull, 0x3636b76660701c6eull, 0x051ba4ab241b6160ull};
        return words[i];
    }
    // z^2 (x, y) = (beta x, -y) on G2, Montgomery
    CUZKOPS_FN static constexpr std::uint64_t g2_beta(int i) {
        constexpr std::uint64_t words[6] = {0xcd03c9e48671f071ull, 0x5dab22461fcda5d2ull, 0x587042afd3851b95ull, 0x8eb60ebe01bacb9eull, 0x03f97d6e83d050d2ull, 0x18f0206554638741ull};
        return words[i];
    }
    // |z| (x, y) = (conj(x) cx, conj(y) cy) on G2: cx is this times u, Montgomery
    CUZKOPS_FN static constexpr std::uint64_t psi_x_c1(int i) {
        constexpr std::uint64_t words[6] = {0x890dc9e4867545c3ull, 0x2af322533285a5d5ull, 0x50880866309b7e2cull, 0xa20d1b8c7e881024ull, 0x14e4f04fe2db9068ull, 0x14e56d3f1564853aull};
        return words[i];
    }
    // cy.c0, Montgomery
    CUZKOPS_FN static constexpr std::uint64_t psi_y_c0(int i) {
        constexpr std::uint64_t words[6] = {0x7bcfa7a25aa30fdaull, 0xdc17dec12a927e7cull, 0x2f088dd86b4ebef1ull, 0xd1ca2087da74d4a7ull, 0x2da2596696cebc1dull, 0x0e2b7eedbbfd87d2ull};
        return words[i];
    }
    // cy.c1, Montgomery
    CUZKOPS_FN static constexpr std::uint64_t psi_y_c1(int i) {
        constexpr std::uint64_t words[6] = {0x3e2f585da55c9ad1ull, 0x4294213d86c18183ull, 0x382844c88b623732ull, 0x92ad2afd19103e18ull, 0x1d794e4fac7cf0b9ull, 0x0bd592fc7d825ec8ull};
        return words[i];
    }
    static constexpr std::uint64_t Z = 0xd201000000010000ull; // |z|; z is negative
    // z^2, plain
    CUZKOPS_FN static constexpr std::uint64_t z2(int i) {
        constexpr std::uint64_t words[2] = {0x0000000100000000ull, 0xac45a4010001a402ull};
        return words[i];
    }
    // floor(2^255 / z^2), plain
    CUZKOPS_FN static constexpr std::uint64_t z2_barrett(int i) {
        constexpr std::uint64_t words[2] = {0xb1fb72917b67f717ull, 0xbe35f678f00fd56eull};
        return words[i];
    }
    static constexpr std::uint64_t Z_BARRETT = 0x9c0902652b66ab5aull; // floor(2^127 / |z|)
};

} // namespace cuzkops
