// Functions of one value, each a fixed sequence of exactly rounded operations: the same bits on every machine, and loops
// over them become vector code. No function of a C library is called, whose last bits differ from one to the next.
#pragma once
#include "network.h"
#include "vectors.h"

namespace {

template <class T>
struct Format;

template <>
struct Format<float> {
    typedef int32_t Bits;
    typedef uint32_t Plain;
    static constexpr int MANTISSA = 23, TERMS = 8, LOG_TERMS = 6, LOG1P_TERMS = 8;
    static constexpr float WHOLE = 12582912.0f;  // 1.5 * 2^23: what is added to it is rounded to a whole number
    static constexpr float LOWEST = -87.0f, HIGHEST = 88.0f;
    static constexpr float LOG2_HIGH = 0.693359375f, LOG2_LOW = -2.12194440e-4f;
    static constexpr Bits ONE = 127 << 23, HALF_ROOT = 0x3f3504f3;  // of 1, and of sqrt(1/2)
    static constexpr int TURN_TERMS = 5;
    static constexpr float FARTHEST = 1e5f, QUARTER_HIGH = 1.57079637050628662f, QUARTER_LOW = -4.37113900018624283e-8f;
};

template <>
struct Format<double> {
    typedef int64_t Bits;
    typedef uint64_t Plain;
    static constexpr int MANTISSA = 52, TERMS = 14, LOG_TERMS = 12, LOG1P_TERMS = 18;
    static constexpr double WHOLE = 6755399441055744.0;  // 1.5 * 2^52
    static constexpr double LOWEST = -708.0, HIGHEST = 709.0;
    static constexpr double LOG2_HIGH = 0.693147180369123816490, LOG2_LOW = 1.90821492927058770002e-10;
    static constexpr Bits ONE = Bits(1023) << 52, HALF_ROOT = 0x3fe6a09e667f3bcd;
    static constexpr int TURN_TERMS = 9;
    static constexpr double FARTHEST = 1e9, QUARTER_HIGH = 1.57079632679489655800, QUARTER_LOW = 6.12323399573676603587e-17;
};

template <class T>
static inline T from_bits(typename Format<T>::Bits bits) {
    return __builtin_bit_cast(T, bits);
}

template <class T>
static inline typename Format<T>::Bits to_bits(T x) {
    return __builtin_bit_cast(typename Format<T>::Bits, x);
}

// 1 / n!: a table that the compiler makes, for compilers leave a recursive function to be called.
struct Factorials {
    static constexpr int MOST_TERMS = 20;
    double one_over[MOST_TERMS + 1] = {1.0};
    constexpr Factorials() {
        for (int n = 1; n <= MOST_TERMS; n++) one_over[n] = one_over[n - 1] / n;
    }
    // With the signs of the series of cosine (even n) and sine (odd n).
    constexpr double signed_one_over(int n) const { return n & 2 ? -one_over[n] : one_over[n]; }
};
constexpr Factorials FACTORIALS;

// e^x = 2^n (1 + q), where x = n log 2 + r and q = e^r - 1 by its series. Beyond the format's range x is cut.
template <class T>
static inline void exp_parts(T x, T& power, T& q) {
    typedef Format<T> F;
    x = x < F::LOWEST ? F::LOWEST : (x > F::HIGHEST ? F::HIGHEST : x);  // NaN stays
    const T shifted = fma1(x, T(1.44269504088896340736), F::WHOLE), n = shifted - F::WHOLE;
    const T r = fma1(n, -F::LOG2_LOW, fma1(n, -F::LOG2_HIGH, x));
    T sum = T(FACTORIALS.one_over[F::TERMS]);
#pragma GCC unroll 16
    for (int k = F::TERMS - 1; k > 0; k--) sum = fma1(sum, r, T(FACTORIALS.one_over[k]));
    q = sum * r;
    typedef typename F::Bits Bits;
    power = from_bits<T>(Bits(uint64_t(to_bits(shifted)) << F::MANTISSA) + F::ONE);
}

template <class T>
static inline T exp1(T x) {
    T power, q;
    exp_parts(x, power, q);
    return fma1(q, power, power);
}

// e^x - 1, small for a small x
template <class T>
static inline T expm11(T x) {
    T power, q;
    exp_parts(x, power, q);
    return fma1(q, power, power - T(1));
}

// log x of a normal x above 0: 2 atanh(s) with s = (m - 1) / (m + 1), m between sqrt(1/2) and sqrt(2)
template <class T, int TERMS>
static inline T twice_atanh(T s) {
    const T square = s * s;
    T sum = T(1.0 / (2 * TERMS + 1));
#pragma GCC unroll 20
    for (int k = TERMS - 1; k > 0; k--) sum = fma1(sum, square, T(1.0 / (2 * k + 1)));
    return fma1(sum * square, s + s, s + s);
}

template <class T>
static inline T log1(T x) {
    typedef Format<T> F;
    typedef typename F::Bits Bits;
    const Bits exponent = (to_bits(x) - F::HALF_ROOT) >> F::MANTISSA;
    const T m = from_bits<T>(Bits(uint64_t(to_bits(x)) - (uint64_t(exponent) << F::MANTISSA))), n = T(exponent);
    const T part = twice_atanh<T, F::LOG_TERMS>((m - T(1)) / (m + T(1)));
    return fma1(n, F::LOG2_HIGH, fma1(n, F::LOG2_LOW, part));
}

template <class T>
static inline T log_at_least(T x) {  // as torch bounds it
    return x > T(1e-37) ? log1(x) : x == x ? T(-100) : x;
}

template <class T>
static inline T sigmoid1(T x) {
    return T(1) / (T(1) + exp1(-x));
}

// log(1 + e^x)
template <class T>
static inline T softplus1(T x) {
    const T small = exp1(x > 0 ? -x : x);
    return (x > 0 ? x : T(0)) + twice_atanh<T, Format<T>::LOG1P_TERMS>(small / (T(2) + small));
}

// Nothing here negates what a fused multiply-add gave: compilers make one instruction of it on aarch64 (FNMADD), which
// gives the other zero where the sum is 0.
template <class T>
static inline T tanh1(T x) {
    const T less = expm11(x > 0 ? T(-2) * x : T(2) * x), y = less / (T(2) + less);
    return x > 0 ? -y : y;
}

// e^(a^2) erfc(a) (1 + 2 a) for a >= 0 is smooth in t = (a - 3.75) / (a + 3.75), which goes from -1 to 1: the polynomial
// in t was fitted at Chebyshev's points, highest power first; it is off by less than 1e-18.
constexpr double ERFC[] = {
    -7.339505008452789e-11, -3.7531582779292394e-11, 9.022149700291814e-10, 5.457157304686048e-10, -6.5455602124665845e-09,
    -4.389284159981309e-09, 4.0971223152680705e-08, 2.4289762925480908e-08, -2.6114702359898616e-07, -5.8262810788000034e-08,
    1.7534434251106169e-06, -9.72849582211127e-07, -1.1445049125831302e-05, 2.238391203655068e-05, 5.164940777546398e-05,
    -0.00029015397928986765, 0.00029371359480570737, 0.0017556258324217529, -0.009746579547619623, 0.0283622774215156,
    -0.05869339859054762, 0.09230432116019834, -0.10880393014170746, 0.08227673849015102, 0.00358541548546369,
    -0.14024059858554702, 1.2375126308378275,
};

// P(Z <= x) of a standard normal Z
static inline double normal_cdf(double x) {
    const double a = (x > 0 ? x : -x) * 0.70710678118654752440, t = (a - 3.75) / (a + 3.75);
    double sum = ERFC[0];
#pragma GCC unroll 32
    for (unsigned k = 1; k < sizeof ERFC / sizeof *ERFC; k++) sum = fma1(sum, t, ERFC[k]);
    const double tail = 0.5 * exp1(-a * a) * sum / (1 + 2 * a);
    return x > 0 ? 1 - tail : tail;
}

static inline double normal_density(double x) { return 0.39894228040143267794 * exp1(-0.5 * x * x); }

// sin and cos of `turns` full turns, 0 <= turns < 1, in single precision
static inline void sin_cos(float turns, float& sine, float& cosine) {
    const float quarters = 4.0f * turns, shifted = quarters + Format<float>::WHOLE;
    const int32_t quadrant = to_bits(shifted) & 3;
    const float r = (quarters - (shifted - Format<float>::WHOLE)) * 1.57079632679489661923f, square = r * r;
    float s = fma1(fma1(fma1(2.75573192e-6f, square, -1.98412698e-4f), square, 8.33333333e-3f), square, -1.66666667e-1f);
    s = fma1(s * square, r, r);
    float c = fma1(fma1(fma1(fma1(-2.75573192e-7f, square, 2.48015873e-5f), square, -1.38888889e-3f), square,
                        4.16666667e-2f), square, -0.5f);
    c = fma1(c, square, 1.0f);
    const float first = quadrant & 1 ? c : s, second = quadrant & 1 ? s : c;
    sine = from_bits<float>(to_bits(first) ^ int32_t(uint32_t(quadrant & 2) << 30));
    cosine = from_bits<float>(to_bits(second) ^ int32_t(uint32_t((quadrant + 1) & 2) << 30));
}

// cos x = +-cos r or +-sin r, where x = n pi / 2 + r, by their series. Beyond what n can count exactly, x is cut: so far
// out the last bit of x is worth several turns.
template <class T>
static inline T cos1(T x) {
    typedef Format<T> F;
    x = x < -F::FARTHEST ? -F::FARTHEST : (x > F::FARTHEST ? F::FARTHEST : x);  // NaN stays
    const T shifted = fma1(x, T(0.63661977236758134308), F::WHOLE), n = shifted - F::WHOLE;
    const T r = fma1(n, -F::QUARTER_LOW, fma1(n, -F::QUARTER_HIGH, x)), square = r * r;
    T c = T(FACTORIALS.signed_one_over(2 * F::TURN_TERMS)), s = T(FACTORIALS.signed_one_over(2 * F::TURN_TERMS + 1));
#pragma GCC unroll 10
    for (int k = F::TURN_TERMS - 1; k > 0; k--) {
        c = fma1(c, square, T(FACTORIALS.signed_one_over(2 * k)));
        s = fma1(s, square, T(FACTORIALS.signed_one_over(2 * k + 1)));
    }
    c = fma1(c, square, T(1));
    s = fma1(s * square, r, r);
    typedef typename F::Plain Plain;
    const Plain quadrant = Plain(to_bits(shifted)) & 3, sign = ((quadrant + 1) & 2) << (8 * sizeof(T) - 2);
    return from_bits<T>(typename F::Bits(Plain(to_bits(quadrant & 1 ? s : c)) ^ sign));
}


constexpr double SELU_SCALE = 1.0507009873554804934193349852946, SELU_ALPHA = 1.6732632423543772848170429916717;

template <class T, class F>
static inline void each(T* x, int64_t count, F f) {
    for (int64_t k = 0; k < count; k++) x[k] = f(x[k]);
}

template <class T>
static void activate(int activation, T slope, T* z, int64_t count) {
    constexpr T up = T(SELU_SCALE), down = T(SELU_SCALE * SELU_ALPHA);
    switch (activation) {
        case LEAKY_RELU: return each(z, count, [slope](T x) { return x > 0 ? x : slope * x; });
        case RELU: return each(z, count, [](T x) { return x > 0 ? x : x == x ? T(0) : x; });
        case ELU: return each(z, count, [](T x) { return x > 0 ? x : expm11(x); });
        case SELU: return each(z, count, [](T x) { return x > 0 ? up * x : down * expm11(x); });
        case GELU: return each(z, count, [](T x) { return T(double(x) * normal_cdf(double(x))); });
        case TANH: return each(z, count, [](T x) { return tanh1(x); });
        case SIGMOID: return each(z, count, [](T x) { return sigmoid1(x); });
        case COSINE: return each(z, count, [](T x) { return cos1(x); });
        default: return;
    }
}

// u times the derivative, to `out`; y is the activation's output, z (for GELU alone) what it was of.
template <class T>
static void activate_back(int activation, T slope, const T* u, const T* y, const T* z, int64_t count, T* out) {
    constexpr T up = T(SELU_SCALE), down = T(SELU_SCALE * SELU_ALPHA);
    switch (activation) {
        case LEAKY_RELU:
            for (int64_t k = 0; k < count; k++) out[k] = y[k] > 0 ? u[k] : slope * u[k];
            return;
        case RELU:
            for (int64_t k = 0; k < count; k++) out[k] = y[k] > 0 ? u[k] : T(0);
            return;
        case ELU:
            for (int64_t k = 0; k < count; k++) out[k] = y[k] > 0 ? u[k] : u[k] * (y[k] + T(1));
            return;
        case SELU:
            for (int64_t k = 0; k < count; k++) out[k] = u[k] * (y[k] > 0 ? up : y[k] + down);
            return;
        case GELU:
            for (int64_t k = 0; k < count; k++) {
                const double x = double(z[k]);
                out[k] = T(double(u[k]) * (normal_cdf(x) + x * normal_density(x)));
            }
            return;
        case TANH:
            for (int64_t k = 0; k < count; k++) out[k] = u[k] * (T(1) - y[k] * y[k]);
            return;
        case SIGMOID:
            for (int64_t k = 0; k < count; k++) out[k] = u[k] * (y[k] * (T(1) - y[k]));
            return;
        default:
            for (int64_t k = 0; k < count; k++) out[k] = u[k];
    }
}

}  // namespace
