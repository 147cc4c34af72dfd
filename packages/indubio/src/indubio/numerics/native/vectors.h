// Vectors of one instruction set, and the only operations on them that the language does not spell.
//
// A file that includes this one is compiled once per instruction set, with that set's flags. The vector types are
// those of GCC and Clang: + - * / and comparisons work on them, lane by lane, exactly rounded. What is added here is
// the fused multiply-add and loads and stores of the first n lanes.
//
// Tiles: a product keeps ROWS x VECTORS vectors of sums in registers. Their shape changes nothing but the time.
#pragma once
#include <cstdint>
#include <cstring>

#if defined(__AVX512F__) || defined(__AVX2__)
#include <immintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__) && !defined(INDUBIO_PLAIN)
#include <arm_neon.h>
#define INDUBIO_NEON
#endif

namespace {

template <class T, int LANES>
struct Vector;

template <int LANES>
struct Vector<float, LANES> {
    typedef float type __attribute__((vector_size(LANES * 4)));
};

template <int LANES>
struct Vector<double, LANES> {
    typedef double type __attribute__((vector_size(LANES * 8)));
};

#if defined(__AVX512F__)
constexpr int BYTES = 64, ROWS = 12, VECTORS = 2;
#elif defined(__AVX2__)
constexpr int BYTES = 32, ROWS = 6, VECTORS = 2;
#elif defined(INDUBIO_NEON)
constexpr int BYTES = 16, ROWS = 6, VECTORS = 4;
#else
constexpr int BYTES = 16, ROWS = 4, VECTORS = 1;
#endif

template <class T>
constexpr int LANES = BYTES / sizeof(T);

template <class T>
using V = typename Vector<T, LANES<T>>::type;

// a * b + c, rounded once.
#if defined(__FMA__) || defined(__AVX512F__) || defined(INDUBIO_NEON) || defined(__ARM_FEATURE_FMA)
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
// The product of two floats is exact in double. The sum is rounded to odd (if it was inexact, its last bit is made 1),
// so that rounding it again to float gives what rounding once would have given.
static inline float fma1(float a, float b, float c) {
    const double product = double(a) * double(b), sum = product + double(c);
    const double back = sum - product, lost = (product - (sum - back)) + (double(c) - back);
    uint64_t bits;
    std::memcpy(&bits, &sum, 8);
    // NaN and infinities lose NaN, which is neither above nor below 0.
    const bool inexact = lost > 0 || lost < 0;
    if (inexact && !(bits & 1)) bits += ((lost > 0) == (sum > 0)) ? 1 : uint64_t(-1);
    double odd;
    std::memcpy(&odd, &bits, 8);
    return float(odd);
}
#endif
static inline double fma1(double a, double b, double c) { return __builtin_fma(a, b, c); }

#if defined(__AVX512F__)
static inline V<float> fma(V<float> a, V<float> b, V<float> c) { return (V<float>)_mm512_fmadd_ps(a, b, c); }
static inline V<double> fma(V<double> a, V<double> b, V<double> c) { return (V<double>)_mm512_fmadd_pd(a, b, c); }
static inline V<float> load(const float* p) { return (V<float>)_mm512_loadu_ps(p); }
static inline V<double> load(const double* p) { return (V<double>)_mm512_loadu_pd(p); }
static inline void store(float* p, V<float> v) { _mm512_storeu_ps(p, v); }
static inline void store(double* p, V<double> v) { _mm512_storeu_pd(p, v); }
static inline V<float> load(const float* p, int n) {
    return (V<float>)_mm512_maskz_loadu_ps(__mmask16((1u << n) - 1), p);
}
static inline V<double> load(const double* p, int n) {
    return (V<double>)_mm512_maskz_loadu_pd(__mmask8((1u << n) - 1), p);
}
static inline void store(float* p, V<float> v, int n) { _mm512_mask_storeu_ps(p, __mmask16((1u << n) - 1), v); }
static inline void store(double* p, V<double> v, int n) { _mm512_mask_storeu_pd(p, __mmask8((1u << n) - 1), v); }
#elif defined(__AVX2__)
static inline V<float> fma(V<float> a, V<float> b, V<float> c) { return (V<float>)_mm256_fmadd_ps(a, b, c); }
static inline V<double> fma(V<double> a, V<double> b, V<double> c) { return (V<double>)_mm256_fmadd_pd(a, b, c); }
static inline V<float> load(const float* p) { return (V<float>)_mm256_loadu_ps(p); }
static inline V<double> load(const double* p) { return (V<double>)_mm256_loadu_pd(p); }
static inline void store(float* p, V<float> v) { _mm256_storeu_ps(p, v); }
static inline void store(double* p, V<double> v) { _mm256_storeu_pd(p, v); }
alignas(32) constexpr int32_t FIRST[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
static inline __m256i first(int n) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(FIRST + 8 - n)); }
static inline V<float> load(const float* p, int n) { return (V<float>)_mm256_maskload_ps(p, first(n)); }
static inline V<double> load(const double* p, int n) { return (V<double>)_mm256_maskload_pd(p, first(2 * n)); }
static inline void store(float* p, V<float> v, int n) { _mm256_maskstore_ps(p, first(n), v); }
static inline void store(double* p, V<double> v, int n) { _mm256_maskstore_pd(p, first(2 * n), v); }
#else
template <class T>
static inline V<T> load(const T* p) {
    V<T> v;
    std::memcpy(&v, p, sizeof v);
    return v;
}
static inline void store(float* p, V<float> v) { std::memcpy(p, &v, sizeof v); }
static inline void store(double* p, V<double> v) { std::memcpy(p, &v, sizeof v); }
template <class T>
static inline V<T> load(const T* p, int n) {
    V<T> v = {};
    for (int k = 0; k < n; k++) v[k] = p[k];
    return v;
}
static inline void store(float* p, V<float> v, int n) {
    for (int k = 0; k < n; k++) p[k] = v[k];
}
static inline void store(double* p, V<double> v, int n) {
    for (int k = 0; k < n; k++) p[k] = v[k];
}
#if defined(INDUBIO_NEON)
static inline V<float> fma(V<float> a, V<float> b, V<float> c) {
    return (V<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
static inline V<double> fma(V<double> a, V<double> b, V<double> c) {
    return (V<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
static inline V<float> fma(V<float> a, V<float> b, V<float> c) {
    V<float> v = {};
    for (int k = 0; k < LANES<float>; k++) v[k] = fma1(a[k], b[k], c[k]);
    return v;
}
#else
// As fma1 does it, four at a time.
static inline V<float> fma(V<float> a, V<float> b, V<float> c) {
    typedef double Doubles __attribute__((vector_size(32)));
    typedef int64_t Bits __attribute__((vector_size(32)));
    const Doubles product = __builtin_convertvector(a, Doubles) * __builtin_convertvector(b, Doubles);
    const Doubles added = __builtin_convertvector(c, Doubles), sum = product + added;
    const Doubles back = sum - product, lost = (product - (sum - back)) + (added - back);
    const Bits above = lost > 0.0, inexact = above | (lost < 0.0), away = above ^ (sum > 0.0);  // each 0 or -1
    const Bits bits = (Bits)sum, even = (bits & 1) - 1;
    return __builtin_convertvector((Doubles)(bits + ((inexact & even) & (away | 1))), V<float>);
}
#endif
static inline V<double> fma(V<double> a, V<double> b, V<double> c) {
    V<double> v = {};
    for (int k = 0; k < LANES<double>; k++) v[k] = fma1(a[k], b[k], c[k]);
    return v;
}
#endif
#endif

template <class T>
static inline V<T> all(T value) {
    return value - V<T>{};
}

static inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

}  // namespace
