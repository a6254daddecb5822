// Written by kernels/gen/constants.py from the moduli of BLS12-381: change that file, not this one.
#pragma once
#include <cstdint>

namespace cuzkops::constants {

// Scalar field Fr, 4 limbs.
inline constexpr std::uint64_t FR_MODULUS[4] = {0xffffffff00000001ull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull, 0x73eda753299d7d48ull}; // the modulus
inline constexpr std::uint64_t FR_ONE[4] = {0x00000001fffffffeull, 0x5884b7fa00034802ull, 0x998c4fefecbc4ff5ull, 0x1824b159acc5056full}; // R mod the modulus, R = 2^256: the number 1
inline constexpr std::uint64_t FR_R2[4] = {0xc999e990f3f29c6dull, 0x2b6cedcb87925c23ull, 0x05d314967254398full, 0x0748d9d99f59ff11ull}; // R^2: takes a plain number into Montgomery form
inline constexpr std::uint64_t FR_MINUS_TWO[4] = {0xfffffffeffffffffull, 0x53bda402fffe5bfeull, 0x3339d80809a1d805ull, 0x73eda753299d7d48ull}; // modulus - 2, plain: the exponent of an inversion
inline constexpr std::uint64_t FR_INV = 0xfffffffeffffffffull; // -1 / modulus mod 2^64
inline constexpr unsigned FR_TWO_ADICITY = 32;
inline constexpr std::uint64_t FR_ROOT[4] = {0x9cab6d5c0c17f47cull, 0x1ce1e93dfd4b71e5ull, 0x0d6db230471dd505ull, 0x3f0ee990743a3b6aull}; // 5^((r-1)/2^32), Montgomery
inline constexpr std::uint64_t FR_HALF[4] = {0x00000000ffffffffull, 0xac425bfd0001a401ull, 0xccc627f7f65e27faull, 0x0c1258acd66282b7ull}; // 1/2, Montgomery

// Base field Fp, 6 limbs.
inline constexpr std::uint64_t FP_MODULUS[6] = {0xb9feffffffffaaabull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull, 0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull}; // the modulus
inline constexpr std::uint64_t FP_ONE[6] = {0x760900000002fffdull, 0xebf4000bc40c0002ull, 0x5f48985753c758baull, 0x77ce585370525745ull, 0x5c071a97a256ec6dull, 0x15f65ec3fa80e493ull}; // R mod the modulus, R = 2^384: the number 1
inline constexpr std::uint64_t FP_R2[6] = {0xf4df1f341c341746ull, 0x0a76e6a609d104f1ull, 0x8de5476c4c95b6d5ull, 0x67eb88a9939d83c0ull, 0x9a793e85b519952dull, 0x11988fe592cae3aaull}; // R^2: takes a plain number into Montgomery form
inline constexpr std::uint64_t FP_MINUS_TWO[6] = {0xb9feffffffffaaa9ull, 0x1eabfffeb153ffffull, 0x6730d2a0f6b0f624ull, 0x64774b84f38512bfull, 0x4b1ba7b6434bacd7ull, 0x1a0111ea397fe69aull}; // modulus - 2, plain: the exponent of an inversion
inline constexpr std::uint64_t FP_INV = 0x89f3fffcfffcfffdull; // -1 / modulus mod 2^64
inline constexpr std::uint64_t FP_CURVE_B[6] = {0xaa270000000cfff3ull, 0x53cc0032fc34000aull, 0x478fe97a6b0a807full, 0xb1d37ebee6ba24d7ull, 0x8ec9733bbf78ab2full, 0x09d645513d83de7eull}; // b of y^2 = x^3 + b, Montgomery; b of the twist is b (1 + u)

} // namespace cuzkops::constants
