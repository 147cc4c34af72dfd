// Random numbers by counter: Philox 4x32 with 10 rounds (Salmon et al. 2011). A number depends on the key, the stream
// and its place in the stream, and on nothing that was drawn before it.
//
// Numbers come in groups of 64, from 16 counters side by side: number 16 w + k of a group is word w of its counter k.
#pragma once
#include "functions.h"
#include "jobs.h"

namespace {

constexpr int COUNTERS = 16, GROUP = 4 * COUNTERS;

// What a stream is for; a part of the counter.
enum Purpose : uint32_t { GIVEN = 0, MASKS = 1, CODE = 2, WEIGHTS = 3, KICKS = 4, INPUTS = 5, SCALES = 6 };

// Counters as 64-bit lanes whose low halves count; products are of the low halves, and what stands above does not
// matter.
typedef uint64_t Words __attribute__((vector_size(BYTES)));
constexpr int WORDS = BYTES / 8;

static inline Words low_product(Words a, uint32_t b) {
#if defined(__AVX512F__)
    return (Words)_mm512_maskz_mul_epu32(0xff, (__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
    return (Words)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
    return (a & 0xffffffffu) * uint64_t(b);
#endif
}

static void random_group(const Stream& stream, uint64_t group, uint32_t (&words)[4][COUNTERS]) {
    for (int part = 0; part < COUNTERS; part += WORDS) {
        uint32_t k0 = uint32_t(stream.key), k1 = uint32_t(stream.key >> 32);
        Words a, b, c = Words{} + uint64_t(stream.part), d = Words{} + uint64_t(stream.purpose);
        for (int j = 0; j < WORDS; j++) a[j] = group * COUNTERS + uint64_t(part + j);
        b = a >> 32;
#pragma GCC unroll 10
        for (int round = 0; round < 10; round++) {
            const Words one = low_product(a, 0xD2511F53u), two = low_product(c, 0xCD9E8D57u);
            a = (two >> 32) ^ b ^ uint64_t(k0);
            b = two;
            c = (one >> 32) ^ d ^ uint64_t(k1);
            d = one;
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        for (int j = 0; j < WORDS; j++) {
            words[0][part + j] = uint32_t(a[j]);
            words[1][part + j] = uint32_t(b[j]);
            words[2][part + j] = uint32_t(c[j]);
            words[3][part + j] = uint32_t(d[j]);
        }
    }
}

// f(words of a group, 64 values out) for all groups that `count` values need, from group `group` on.
template <class T, class F>
static void fill(const Stream& stream, uint64_t group, int64_t count, T* out, F f) {
    uint32_t words[4][COUNTERS];
    T values[GROUP];
    for (int64_t at = 0; at < count; at += GROUP, group++) {
        random_group(stream, group, words);
        if (at + GROUP <= count) {
            f(words, out + at);
        } else {
            f(words, values);
            for (int64_t k = 0; k < count - at; k++) out[at + k] = values[k];
        }
    }
}

template <class T>
static void random_normals(const Stream& stream, uint64_t group, int64_t count, T* out) {
    fill(stream, group, count, out, [](const uint32_t(&words)[4][COUNTERS], T* to) {
        for (int pair = 0; pair < 4; pair += 2) {
            for (int j = 0; j < COUNTERS; j++) {
                // Box and Muller's way; the first is never 0 or 1, and both are exact.
                const float u = (float(int32_t(words[pair][j] >> 9)) + 0.5f) * 0x1p-23f;
                const float turns = float(int32_t(words[pair + 1][j] >> 8)) * 0x1p-24f;
                const float radius = __builtin_sqrtf(-2.0f * log1(u));
                float sine, cosine;
                sin_cos(turns, sine, cosine);
                to[pair * COUNTERS + j] = T(radius * cosine);
                to[(pair + 1) * COUNTERS + j] = T(radius * sine);
            }
        }
    });
}

// Evenly between -bound and bound, in steps of bound / 2^23.
template <class T>
static void random_uniforms(const Stream& stream, uint64_t group, int64_t count, float bound, T* out) {
    fill(stream, group, count, out, [bound](const uint32_t(&words)[4][COUNTERS], T* to) {
        for (int w = 0; w < 4; w++)
            for (int j = 0; j < COUNTERS; j++)
                to[w * COUNTERS + j] = T(bound * (float(int32_t(words[w][j] >> 8) - (1 << 23)) * 0x1p-23f));
    });
}

// 1 with a probability of `keep`, in steps of 2^-32, else 0.
template <class T>
static void random_masks(const Stream& stream, uint64_t group, int64_t count, double keep, T* out) {
    const double scaled = keep * 4294967296.0;
    const uint32_t most = scaled >= 4294967295.0 ? 4294967295u : uint32_t(scaled);
    const T whole = keep >= 1 ? T(1) : T(0);
    fill(stream, group, count, out, [most, whole](const uint32_t(&words)[4][COUNTERS], T* to) {
        for (int w = 0; w < 4; w++)
            for (int j = 0; j < COUNTERS; j++) to[w * COUNTERS + j] = words[w][j] < most ? T(1) : whole;
    });
}

// 0 to count - 1 in a random order, by exchanges from the end.
static void random_order(const Stream& stream, uint64_t group, int64_t count, int64_t* out) {
    for (int64_t k = 0; k < count; k++) out[k] = k;
    uint32_t words[4][COUNTERS];
    for (int64_t left = count, used = GROUP; left > 1; left--, used++) {
        if (used == GROUP) {
            random_group(stream, group++, words);
            used = 0;
        }
        const int64_t chosen = int64_t(uint64_t(words[used / COUNTERS][used % COUNTERS]) * uint64_t(left) >> 32);
        const int64_t kept = out[left - 1];
        out[left - 1] = out[chosen];
        out[chosen] = kept;
    }
}

}  // namespace
