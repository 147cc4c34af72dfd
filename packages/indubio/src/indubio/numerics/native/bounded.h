// Likelihoods of values within [0, 1], one value at a time: its negative log-likelihood and the slopes by the
// reconstruction m and by the log variance. What would lose digits in single precision is computed in double.
#pragma once
#include "functions.h"

namespace {

template <class T>
struct Said {
    T nll, of_location, of_log;
};

// -v log m - (1 - v) log(1 - m) - log C, C = 2 atanh(t) / t with t = 1 - 2 m. Near m = 1/2 by the series of atanh(t) / t.
template <class T>
static inline Said<T> continuous_bernoulli(T v, T m) {
    const T yes = log_at_least(m), no = log_at_least(T(1) - m), odds = no - yes, t = T(1) - T(2) * m, square = t * t;
    const T flat = m * (T(1) - m), part = flat > T(1e-12) ? flat : T(1e-12);
    constexpr int TERMS = Format<T>::LOG1P_TERMS;
    T ratio = T(1.0 / (2 * TERMS + 1)), slope = T(2.0 * TERMS / (2 * TERMS + 1));
#pragma GCC unroll 20
    for (int k = TERMS - 1; k > 0; k--) {
        ratio = fma1(ratio, square, T(1.0 / (2 * k + 1)));
        slope = fma1(slope, square, T(2.0 * k / (2 * k + 1)));
    }
    ratio = fma1(ratio, square, T(1));
    const bool near = square < T(1.0 / 9);
    const T constant = near ? T(2) * ratio : odds / t;
    const T of_constant = near ? T(2) * t * slope / ratio : T(1) / (part * odds) - T(2) / t;
    return {-(v * yes + (T(1) - v) * no) - log1(constant), (m - v) / part + of_constant, T(0)};
}

// off^2 / (2 s^2) + log s + log Z, Z = Phi((1 - m) / s) - Phi(-m / s). `raw` is what of the variance is learned.
static inline Said<double> truncated_gaussian(double v, double m, double raw, double variance) {
    const double one_over = 1.0 / __builtin_sqrt(variance), off = m - v;
    const double low = -m * one_over, high = (1.0 - m) * one_over;
    const double inside = normal_cdf(high) - normal_cdf(low), mass = inside > 1e-15 ? inside : 1e-15;
    const double at_low = normal_density(low), at_high = normal_density(high), scaled = off / variance;
    return {0.5 * (off * scaled + log1(variance)) + log1(mass), scaled + (at_low - at_high) * one_over / mass,
            0.5 * raw / variance * (1.0 - off * scaled - (high * at_high - low * at_low) / mass)};
}

struct GammaParts {
    double log, slope;  // log Gamma, and its derivative digamma
};

// Of x > 0: Stirling's series at x + 8, and what the recurrence makes of the steps in between.
static inline GammaParts gamma_parts(double x) {
    double product = 1, slope = 0;  // x (x + 1) ... (x + 7), and its derivative
#pragma GCC unroll 8
    for (int k = 0; k < 8; k++) {
        slope = fma1(slope, x + k, product);
        product *= x + k;
    }
    const bool large = x > 1e10;  // where the product would overflow in the end, and the series needs no help
    product = large ? 1.0 : product, slope = large ? 0.0 : slope;
    const double y = large ? x : x + 8, log_y = log1(y), over = 1.0 / y, square = over * over;
    // Bernoulli's numbers B_2k over 2k (2k - 1), and over 2k, highest first
    constexpr double OF_LOG[] = {-3617.0 / 122400, 1.0 / 156,  -691.0 / 360360, 1.0 / 1188,
                                 -1.0 / 1680,      1.0 / 1260, -1.0 / 360,      1.0 / 12};
    constexpr double OF_SLOPE[] = {-3617.0 / 8160, 1.0 / 12,  -691.0 / 32760, 1.0 / 132,
                                   -1.0 / 240,     1.0 / 252, -1.0 / 120,     1.0 / 12};
    double sum = OF_LOG[0], slopes = OF_SLOPE[0];
#pragma GCC unroll 8
    for (int k = 1; k < 8; k++) {
        sum = fma1(sum, square, OF_LOG[k]);
        slopes = fma1(slopes, square, OF_SLOPE[k]);
    }
    return {fma1(y - 0.5, log_y, -y) + 0.91893853320467274178 + sum * over - log1(product),
            log_y - 0.5 * over - slopes * square - slope / product};
}

// Beta of mean m and concentration c = 1 / variance: log Gamma(a) + log Gamma(b) - log Gamma(c) - (a - 1) log v
// - (b - 1) log(1 - v), a = c m, b = c (1 - m); v and m first leave 0 and 1 by `edge`.
static inline Said<double> beta(double v, double m, double raw, double variance, double edge) {
    const double shrunk = 1.0 - 2.0 * edge, x = fma1(shrunk, v, edge), mean = fma1(shrunk, m, edge), rest = 1.0 - mean;
    const double all = 1.0 / variance, yes = log_at_least(x), no = log_at_least(1.0 - x);
    const GammaParts of_a = gamma_parts(all * mean), of_b = gamma_parts(all * rest), of_all = gamma_parts(all);
    const double a = of_a.slope - yes, b = of_b.slope - no;
    return {of_a.log + of_b.log - of_all.log - (all * mean - 1.0) * yes - (all * rest - 1.0) * no,
            shrunk * all * (a - b), -raw * all * all * (mean * a + rest * b - of_all.slope)};
}

}  // namespace
