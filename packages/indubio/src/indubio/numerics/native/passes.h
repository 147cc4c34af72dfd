// Forward and backward through a network, for S examples at once, of which the first B are real; the others are zeros
// on the way in and have no gradient.
//
//     linear                   z = W^T x                  dW = x u^T               dx = W u
//     convolution              z = W windows(x)           dW = u windows(x)^T      dx = overlapped(W^T u)
//     transposed convolution   z = overlapped(W^T x)      dW = x windows(u)^T      dx = W windows(u)
//
// Sums over a layer's inputs, over features and over examples go in order, one after the other.
#pragma once
#include "bounded.h"
#include "jobs.h"
#include "network.h"
#include "product.h"
#include "random.h"

namespace {

constexpr int64_t BLOCK = 1 << 16;  // weights whose gradient is made, and used, together: it stays in the cache
constexpr int64_t FEW = 8;  // examples: fewer leave most of a vector empty
constexpr double NORM_EPSILON = 1e-5;  // torch.nn.LayerNorm's

// Examples for which there is room: few take just as much, more take whole lines.
static inline int64_t room_for(int64_t examples) { return examples < FEW ? examples : lines(examples); }

template <class T>
struct Pass {
    const Network& net;
    const T* weights;
    T* space;
    T* turned;  // room for a turned matrix
    T* packed;  // room for a product
    int64_t S, B;
    const T* example_masks;  // of dropout, (units, S) layer after layer; or null
    const T* unit_masks;     // of dropout, one for all examples; or null
    const T* example_noise;  // of a VAE's code, (latent, S); or null
    const T* unit_noise;     // one for all examples; or null
    T* corrupted;            // what the first layer is given instead of the data, (features, S); or null

    T* at(int64_t row) const { return space + row * S; }
    const Layer& layer(int64_t i) const { return net.layers[i]; }
    int64_t last() const { return net.count - 1; }

    // What layer i is given: the input, a sum with a skip, the code, or the output of the layer before.
    T* given(int64_t i) const {
        if (i == 0) return corrupted ? corrupted : at(net.x);
        if (layer(i).skip >= 0) return at(layer(i).sum);
        return i == net.depth && net.code_head >= 0 ? at(net.code) : at(layer(i - 1).out);
    }

    // Calls f(where the sample is among those of the longer side, or -1 where it is padding) for every row of the windows
    // of one channel: kernel by kernel, sample by sample, each downwards and then across.
    template <class F>
    static void each_window(const Layer& l, F f) {
        for (int64_t i = 0; i < l.kernel_height; i++)
            for (int64_t j = 0; j < l.kernel; j++)
                for (int64_t h = 0; h < l.shorter_high; h++) {
                    const int64_t row = h * l.stride_height + i - l.padding_height;
                    const bool inside = row >= 0 && row < l.longer_high;
                    for (int64_t t = 0; t < l.shorter_wide; t++) {
                        const int64_t column = t * l.stride + j - l.padding;
                        f(inside && column >= 0 && column < l.longer_wide ? row * l.longer_wide + column : -1);
                    }
                }
    }

    static int64_t long_channels(const Layer& l) { return l.columns / (l.kernel_height * l.kernel); }

    void windows(const Layer& l, const T* x, T* out) const {
        for (int64_t c = 0, channels = long_channels(l); c < channels; c++)
            each_window(l, [&](int64_t from) {
                if (from >= 0)
                    std::memcpy(out, x + (c * l.longer + from) * S, size_t(S) * sizeof(T));
                else
                    std::memset(out, 0, size_t(S) * sizeof(T));
                out += S;
            });
    }

    void overlapped(const Layer& l, const T* from, T* x) const {
        const int64_t channels = long_channels(l);
        std::memset(x, 0, size_t(channels * l.longer * S) * sizeof(T));
        for (int64_t c = 0; c < channels; c++)
            each_window(l, [&](int64_t to) {
                const T* more = from;
                from += S;
                if (to < 0) return;
                T* sum = x + (c * l.longer + to) * S;
                for (int64_t i = 0; i < S; i++) sum[i] += more[i];
            });
    }

    void apply(const Layer& l, const T* x, T* z, bool without_bias = false) const {
        const T* w = weights + l.weight_at;
        const int64_t wide = l.shorter * S;
        if (l.kind == LINEAR && (S < FEW || (S <= FEW_ROWS && l.rows * l.columns > UNPACKED))) {
            // Outputs side by side: the same sums, and weights that are read once, in order.
            const T* rows = x;
            T* out = z;
            if (S > 1) {
                turn(x, S, l.rows, S, turned, l.rows);
                rows = turned;
                out = turned + S * l.rows;
            }
            product(rows, l.rows, int64_t(1), w, l.columns, out, l.columns, S, l.columns, l.rows, packed);
            if (S > 1) turn(out, l.columns, S, l.columns, z, S);
        } else if (l.kind == LINEAR) {
            product(w, int64_t(1), l.columns, x, S, z, S, l.columns, S, l.rows, packed);
        } else if (l.kind == DOWN) {
            T* win = at(l.windows);
            windows(l, x, win);
            product(w, l.columns, int64_t(1), win, wide, z, wide, l.rows, wide, l.columns, packed);
        } else {
            T* win = at(l.windows);
            product(w, int64_t(1), l.columns, x, wide, win, wide, l.columns, wide, l.rows, packed);
            overlapped(l, win, z);
        }
        if (!l.bias || without_bias) return;
        const T* bias = weights + l.bias_at;
        const int64_t length = l.out_length * S;
        if (length == 1)
            for (int64_t c = 0; c < l.out_channels; c++) z[c] += bias[c];
        else
            for (int64_t c = 0; c < l.out_channels; c++)
                for (int64_t k = 0; k < length; k++) z[c * length + k] += bias[c];
    }

    void normalise(const Layer& l, T* z) const {
        T *mean = at(l.inverse + 1), *inverse = at(l.inverse), *normed = at(l.normed);
        const T share = T(1) / T(l.outputs);
        const T *gain = weights + l.gain_at, *shift = weights + l.shift_at;
        std::memset(mean, 0, size_t(S) * sizeof(T));
        std::memset(inverse, 0, size_t(S) * sizeof(T));
        for (int64_t f = 0; f < l.outputs; f++)
            for (int64_t i = 0; i < S; i++) mean[i] += z[f * S + i];
        for (int64_t i = 0; i < S; i++) mean[i] *= share;
        for (int64_t f = 0; f < l.outputs; f++)
            for (int64_t i = 0; i < S; i++) {
                const T off = z[f * S + i] - mean[i];
                normed[f * S + i] = off;
                inverse[i] += off * off;
            }
        for (int64_t i = 0; i < S; i++) {
            const T variance = inverse[i] * share + T(NORM_EPSILON);
            inverse[i] = T(1) / (sizeof(T) == 4 ? T(__builtin_sqrtf(float(variance))) : T(__builtin_sqrt(variance)));
        }
        for (int64_t f = 0; f < l.outputs; f++)
            for (int64_t i = 0; i < S; i++) {
                normed[f * S + i] *= inverse[i];
                z[f * S + i] = normed[f * S + i] * gain[f] + shift[f];
            }
    }

    // The biases, then e^(z - highest) over the layer's outputs. Its sum, added up in order, is left to the layer after
    // it, which has fewer values to divide: `divide`.
    void softmax(const Layer& l, T* z) const {
        T *highest = at(net.scratch), *sum = at(net.scratch + 1);
        const T* bias = weights + l.bias_at;
        for (int64_t f = 0; f < l.outputs; f++) {
            const T own = l.bias ? bias[f] : T(0);
            for (int64_t i = 0; i < S; i++) {
                const T value = z[f * S + i] + own;
                z[f * S + i] = value;
                highest[i] = f && !(value > highest[i]) ? highest[i] : value;
            }
        }
        std::memset(sum, 0, size_t(S) * sizeof(T));
        for (int64_t f = 0; f < l.outputs; f++) {
            T* row = z + f * S;
            for (int64_t i = 0; i < S; i++) row[i] = exp1(row[i] - highest[i]);
            for (int64_t i = 0; i < S; i++) sum[i] += row[i];
        }
        for (int64_t i = 0; i < S; i++) sum[i] = T(1) / sum[i];
    }

    // What the layer after a softmax makes of it, over the softmax's sum; then its biases.
    void divide(const Layer& l, T* z) const {
        const T *share = at(net.scratch + 1), *bias = weights + l.bias_at;
        for (int64_t f = 0; f < l.outputs; f++) {
            const T own = l.bias ? bias[f] : T(0);
            for (int64_t i = 0; i < S; i++) z[f * S + i] = z[f * S + i] * share[i] + own;
        }
    }

    // z (or its gradient) times the dropout mask of layer i, in place
    void mask(int64_t i, T* z) const {
        const Layer& l = layer(i);
        if (i == last()) return;
        if (example_masks) {
            const T* masks = example_masks + l.masks * S;
            for (int64_t c = 0; c < l.out_channels; c++)
                for (int64_t t = 0; t < l.out_length; t++, z += S)
                    for (int64_t k = 0; k < S; k++) z[k] *= masks[c * S + k];
        } else if (unit_masks) {
            const int64_t length = l.out_length * S;
            for (int64_t c = 0; c < l.out_channels; c++)
                for (int64_t k = 0; k < length; k++) z[c * length + k] *= unit_masks[l.masks + c];
        }
    }

    void draw_code() const {
        const Layer& head = layer(net.code_head);
        const T *mean = at(layer(net.depth - 1).out), *log_variance = at(head.out);
        T *code = at(net.code), *spread = at(net.spread);
        if (net.code_way == LOG_VARIANCE)
            for (int64_t k = 0; k < net.latent * S; k++) spread[k] = exp1(log_variance[k] * T(0.5));
        else
            for (int64_t k = 0; k < net.latent * S; k++) spread[k] = softplus1(log_variance[k]);
        for (int64_t f = 0; f < net.latent; f++)
            for (int64_t i = 0; i < S; i++) {
                const int64_t k = f * S + i;
                const T noise = example_noise ? example_noise[k] : unit_noise ? unit_noise[f] : T(0);
                code[k] = mean[k] + noise * spread[k];
            }
    }

    // From layer `first` on; what comes before it is in the work space already.
    void forward(int64_t first = 0) const {
        if (first == net.depth && net.code_head >= 0) draw_code();
        for (int64_t i = first; i < net.count; i++) {
            const Layer& l = layer(i);
            T *in = given(i), *z = at(l.out);
            if (l.skip >= 0) {
                const T *a = at(layer(i - 1).out), *b = at(layer(l.skip).out);
                for (int64_t k = 0; k < l.inputs * S; k++) in[k] = a[k] + b[k];
            }
            const bool attended = i > 0 && layer(i - 1).activation == SOFTMAX;
            apply(l, in, z, l.activation == SOFTMAX || attended);
            if (attended) divide(l, z);
            if (l.norm) normalise(l, z);
            if (l.activation == GELU) std::memcpy(at(l.before), z, size_t(l.outputs * S) * sizeof(T));
            if (l.activation == SOFTMAX)
                softmax(l, z);
            else
                activate(int(l.activation), T(net.slope), z, l.outputs * S);
            mask(i, z);
            if (i == net.depth - 1 && net.code_head >= 0) {
                const Layer& head = layer(net.code_head);
                apply(head, in, at(head.out));
                activate(int(head.activation), T(net.slope), at(head.out), net.latent * S);
                draw_code();
            }
            if (i == last() && net.output_head >= 0) apply(layer(net.output_head), in, at(layer(net.output_head).out));
        }
    }

    // Rows of data as columns, in the order of the network's features; zeros for examples that are not real.
    void gather(const T* rows, const int64_t* order, int64_t start) const {
        T* x = at(net.x);
        const int64_t features = net.features;
        auto row = [&](int64_t i) { return rows + (order ? order[start + i] : start + i) * features; };
        int64_t i = 0;
        for (; i + 16 <= B; i += 16) {
            const T* from[16];
            for (int k = 0; k < 16; k++) from[k] = row(i + k);
            for (int64_t f = 0; f < features; f++)
                for (int k = 0; k < 16; k++) x[f * S + i + k] = from[k][net.place[f]];
        }
        for (; i < S; i++) {
            const T* from = i < B ? row(i) : nullptr;
            for (int64_t f = 0; f < features; f++) x[f * S + i] = from ? from[net.place[f]] : T(0);
        }
    }

    // The gathered rows with normal noise for the first layer: of one scale, or of a scale for each row that is drawn
    // log-uniformly. The likelihood goes on to see the rows as they are.
    void corrupt(const TrainJob& job, uint32_t step, T* room) {
        const T *x = at(net.x), *factors = static_cast<const T*>(job.factors);
        T* scales = room + net.features * S;
        const T low = log1(T(job.lowest)), high = log1(T(job.highest));
        const T middle = T(0.5) * (low + high), half = T(0.5) * (high - low);
        random_uniforms(Stream{job.key, SCALES, step}, 0, S, 1.0f, scales);
        for (int64_t i = 0; i < S; i++)
            scales[i] = i >= B ? T(0) : job.lowest < job.highest ? exp1(middle + half * scales[i]) : T(job.lowest);
        random_normals(Stream{job.key, INPUTS, step}, 0, net.features * S, room);
        for (int64_t f = 0; f < net.features; f++) {
            const T factor = factors ? factors[net.place[f]] : T(1);
            for (int64_t i = 0; i < S; i++) room[f * S + i] = x[f * S + i] + factor * scales[i] * room[f * S + i];
        }
        corrupted = room;
    }
};

template <class T>
static inline T root(T x) {
    return sizeof(T) == 4 ? T(__builtin_sqrtf(float(x))) : T(__builtin_sqrt(double(x)));
}

// Student's t of a whole example: (nu + D) / 2 log(1 + Q / nu), Q the sum of its values' (x - m)^2 / s^2. Every value
// gets the share of it that it has of Q, and the log of its own scale.
template <class T, class F>
static void student_nlls(const Pass<T>& pass, F f) {
    const Network& net = pass.net;
    const int64_t S = pass.S;
    const T *x = pass.at(net.x), *location = pass.at(pass.layer(pass.last()).out);
    const T least_variance = T(net.smallest_variance), freedom = T(net.number), both = freedom + T(net.features);
    const bool unit = net.noise == UNIT, per_example = net.noise == PER_EXAMPLE;
    const T* logs = unit ? nullptr : per_example ? pass.at(pass.layer(net.output_head).out) : pass.weights + net.log_variance;
    auto raw_variance = [=, &net](int64_t r, int64_t i) { return exp1(logs[per_example ? r * S + i : net.place[r]]); };
    T *total = pass.at(net.scratch + net.features + 1), *part = total + S, *over = part + S;
    std::memset(total, 0, size_t(S) * sizeof(T));
    for (int64_t r = 0; r < net.features; r++)
        for (int64_t i = 0; i < S; i++) {
            const T off = location[r * S + i] - x[r * S + i];
            total[i] += unit ? off * off : off * off / (raw_variance(r, i) + least_variance);
        }
    for (int64_t i = 0; i < S; i++) {
        const T all = total[i];
        part[i] = all != 0 ? T(0.5) * both * log1(T(1) + all / freedom) / all : T(0);
        over[i] = both / (freedom + all);
    }
    for (int64_t r = 0; r < net.features; r++)
        for (int64_t i = 0; i < S; i++) {
            const T off = location[r * S + i] - x[r * S + i];
            const T raw = unit ? T(0) : raw_variance(r, i), variance = unit ? T(1) : raw + least_variance;
            const T own = off * off / variance;
            f(r, i, part[i] * own + (unit ? T(0) : T(0.5) * log1(variance)), over[i] * off / variance,
              unit ? T(0) : T(0.5) * raw * (T(1) - over[i] * own) / variance);
        }
}

// Likelihoods of values within [0, 1] beside Bernoulli's; where no variance is learned, it is the smallest one.
template <class T, class F>
static void bounded_nlls(const Pass<T>& pass, F f) {
    const Network& net = pass.net;
    const int64_t S = pass.S;
    const T *x = pass.at(net.x), *location = pass.at(pass.layer(pass.last()).out);
    if (net.likelihood == CONTINUOUS_BERNOULLI) {
        for (int64_t r = 0; r < net.features; r++)
            for (int64_t i = 0; i < S; i++) {
                const Said<T> said = continuous_bernoulli(x[r * S + i], location[r * S + i]);
                f(r, i, said.nll, said.of_location, said.of_log);
            }
        return;
    }
    const bool fixed = net.noise == UNIT, per_example = net.noise == PER_EXAMPLE;
    const double least_variance = net.smallest_variance, edge = net.number;
    const T* logs = fixed ? nullptr : per_example ? pass.at(pass.layer(net.output_head).out) : pass.weights + net.log_variance;
    auto each = [=, &net](auto say) {
        for (int64_t r = 0; r < net.features; r++)
            for (int64_t i = 0; i < S; i++) {
                const double raw = fixed ? 0.0 : double(exp1(logs[per_example ? r * S + i : net.place[r]]));
                const Said<double> said = say(double(x[r * S + i]), double(location[r * S + i]), raw, raw + least_variance);
                f(r, i, T(said.nll), T(said.of_location), T(said.of_log));
            }
    };
    if (net.likelihood == TRUNCATED_GAUSSIAN)
        each([](double v, double m, double raw, double variance) { return truncated_gaussian(v, m, raw, variance); });
    else
        each([=](double v, double m, double raw, double variance) { return beta(v, m, raw, variance, edge); });
}

// The negative log-likelihood of every value, up to a constant: f(feature, example, nll, d/dlocation, d/dlog variance).
template <class T, class F>
static void value_nlls(const Pass<T>& pass, F f) {
    const Network& net = pass.net;
    const int64_t S = pass.S;
    const T *x = pass.at(net.x), *location = pass.at(pass.layer(pass.last()).out);
    const T least_variance = T(net.smallest_variance);
    if (net.likelihood == BERNOULLI) {
        for (int64_t r = 0; r < net.features; r++)
            for (int64_t i = 0; i < S; i++) {
                const T v = x[r * S + i], m = location[r * S + i], flat = m * (T(1) - m);
                const T value = -(v * log_at_least(m) + (T(1) - v) * log_at_least(T(1) - m));
                f(r, i, value, (m - v) / (flat > T(1e-12) ? flat : T(1e-12)), T(0));
            }
        return;
    }
    if (net.likelihood == STUDENT) return student_nlls(pass, f);
    if (net.likelihood >= CONTINUOUS_BERNOULLI) return bounded_nlls(pass, f);
    if (net.noise == UNIT) {
        for (int64_t r = 0; r < net.features; r++) {
            if (net.likelihood == GAUSSIAN)
                for (int64_t i = 0; i < S; i++) {
                    const T off = location[r * S + i] - x[r * S + i];
                    f(r, i, T(0.5) * (off * off), off, T(0));
                }
            else
                for (int64_t i = 0; i < S; i++) {
                    const T off = location[r * S + i] - x[r * S + i];
                    f(r, i, off < 0 ? -off : off, off > 0 ? T(1) : off < 0 ? T(-1) : T(0), T(0));
                }
        }
        return;
    }
    const bool per_example = net.noise == PER_EXAMPLE;
    const T* logs = per_example ? pass.at(pass.layer(net.output_head).out) : pass.weights + net.log_variance;
    for (int64_t r = 0; r < net.features; r++)
        for (int64_t i = 0; i < S; i++) {
            const T raw = exp1(logs[per_example ? r * S + i : net.place[r]]), variance = raw + least_variance;
            const T off = location[r * S + i] - x[r * S + i], log_variance = log1(variance);
            if (net.likelihood == GAUSSIAN) {
                const T scaled = off / variance;
                f(r, i, T(0.5) * (off * scaled + log_variance), scaled, T(0.5) * raw * (T(1) / variance - scaled * scaled));
            } else {
                const T scale = root(variance), distance = off < 0 ? -off : off, sign = off > 0 ? T(1) : off < 0 ? T(-1) : T(0);
                f(r, i, distance / scale + T(0.5) * log_variance, sign / scale,
                  T(0.5) * raw * (T(1) - distance / scale) / variance);
            }
        }
}

// Scores: the mean over an example's values, their sum in the order of the network's features.
template <class T>
static void row_nlls(const Pass<T>& pass, T* totals, T* apart, T* reconstruction) {
    const Network& net = pass.net;
    const int64_t B = pass.B, S = pass.S, features = net.features;
    std::memset(totals, 0, size_t(S) * sizeof(T));
    if (apart)
        value_nlls(pass, [=, &net](int64_t r, int64_t i, T value, T, T) {
            totals[i] += value;
            if (i < B) apart[i * features + net.place[r]] = value;
        });
    else
        value_nlls(pass, [=](int64_t, int64_t i, T value, T, T) { totals[i] += value; });
    const T share = T(1) / T(features);
    for (int64_t i = 0; i < B; i++) totals[i] *= share;
    if (!reconstruction) return;
    const T* location = pass.at(pass.layer(pass.last()).out);
    for (int64_t r = 0; r < features; r++)
        for (int64_t i = 0; i < B; i++) reconstruction[i * features + net.place[r]] = location[r * S + i];
}

// The squared scale that the decoder gives for every value.
template <class T>
static void row_variances(const Pass<T>& pass, T* variance) {
    const Network& net = pass.net;
    const T *logs = pass.at(pass.layer(net.output_head).out), least_variance = T(net.smallest_variance);
    for (int64_t r = 0; r < net.features; r++)
        for (int64_t i = 0; i < pass.B; i++)
            variance[i * net.features + net.place[r]] = exp1(logs[r * pass.S + i]) + least_variance;
}

// Sums over the columns, of `rows` rows that are `stride` apart, each in order; eight at a time, for speed.
template <class T>
static void row_sums(const T* x, int64_t rows, int64_t stride, int64_t columns, T* out) {
    int64_t r = 0;
    for (; r + 8 <= rows; r += 8) {
        T sums[8] = {};
        for (int64_t k = 0; k < columns; k++)
            for (int j = 0; j < 8; j++) sums[j] += x[(r + j) * stride + k];
        for (int j = 0; j < 8; j++) out[r + j] = sums[j];
    }
    for (; r < rows; r++) {
        T sum = 0;
        for (int64_t k = 0; k < columns; k++) sum += x[r * stride + k];
        out[r] = sum;
    }
}

// The way back. `sink(place, count, gradient)` is given the gradient of so many weights from that place on, once for
// each of them, and may change weights and gradient: what is still needed of a weight was read before.
template <class T, class Sink>
struct Backward {
    const Pass<T>& pass;
    T* gradient;  // room for one block
    Sink& sink;

    void layer_back(const Layer& l, const T* in, const T* u, T* dx) const {
        const int64_t S = pass.S, B = pass.B, rows = l.rows, columns = l.columns, wide = l.shorter * S;
        const T* w = pass.weights + l.weight_at;
        if (l.bias) {
            row_sums(u, l.out_channels, l.out_length * S, l.out_length == 1 ? B : l.out_length * S, gradient);
            sink(l.bias_at, l.out_channels, gradient);
        }
        if (l.kind == LINEAR) {
            const int64_t across = lines(columns), tall = most(1, BLOCK / columns);
            turn(u, S, columns, B, pass.turned, across);
            for (int64_t r = 0; r < rows; r += tall) {
                const int64_t count = least(tall, rows - r);
                if (dx) product(w + r * columns, columns, int64_t(1), u, S, dx + r * S, S, count, S, columns, pass.packed);
                product(in + r * S, S, int64_t(1), pass.turned, across, gradient, columns, count, columns, B, pass.packed);
                sink(l.weight_at + r * columns, count * columns, gradient);
            }
            return;
        }
        T *win = pass.at(l.windows), *back = gradient + rows * columns;
        const T* shorter = l.kind == DOWN ? u : in;
        if (l.kind == UP) pass.windows(l, u, win);
        turn(shorter, wide, rows, wide, pass.turned, rows);
        product(win, wide, int64_t(1), pass.turned, rows, back, rows, columns, rows, wide, pass.packed);
        turn(back, rows, columns, rows, gradient, columns);
        if (dx && l.kind == DOWN) {  // the windows have served
            product(w, int64_t(1), columns, u, wide, win, wide, columns, wide, rows, pass.packed);
            pass.overlapped(l, win, dx);
        } else if (dx) {
            product(w, columns, int64_t(1), win, wide, dx, wide, rows, wide, columns, pass.packed);
        }
        sink(l.weight_at, rows * columns, gradient);
    }

    void normalise_back(const Layer& l, T* u) const {
        const int64_t S = pass.S, B = pass.B;
        const T *normed = pass.at(l.normed), *inverse = pass.at(l.inverse), *gain = pass.weights + l.gain_at;
        T *mean = pass.at(l.inverse + 1), *slope = pass.at(l.inverse + 2);
        std::memset(mean, 0, size_t(S) * sizeof(T));
        std::memset(slope, 0, size_t(S) * sizeof(T));
        const T share = T(1) / T(l.outputs);
        T *gains = gradient, *shifts = gradient + l.outputs;
        for (int64_t f = 0; f < l.outputs; f++) {
            T of_gain = 0, of_shift = 0;
            for (int64_t i = 0; i < B; i++) {
                of_gain += u[f * S + i] * normed[f * S + i];
                of_shift += u[f * S + i];
            }
            gains[f] = of_gain, shifts[f] = of_shift;
            for (int64_t i = 0; i < S; i++) {
                u[f * S + i] *= gain[f];
                mean[i] += u[f * S + i];
                slope[i] += u[f * S + i] * normed[f * S + i];
            }
        }
        for (int64_t i = 0; i < S; i++) mean[i] *= share, slope[i] *= share;
        for (int64_t f = 0; f < l.outputs; f++)
            for (int64_t i = 0; i < S; i++)
                u[f * S + i] = inverse[i] * (u[f * S + i] - mean[i] - normed[f * S + i] * slope[i]);
        sink(l.gain_at, l.outputs, gains);
        sink(l.shift_at, l.outputs, shifts);
    }

    void head_back(const Layer& head, const T* in, const T* u, T* dx, int64_t inputs) const {
        T* own = dx ? pass.at(head.up) : nullptr;
        layer_back(head, in, u, own);
        if (dx)
            for (int64_t k = 0; k < inputs * pass.S; k++) dx[k] += own[k];
    }

    // `scale` times d(sum of all values' NLL) plus `kl` times that of the code's KL; the sum of the examples' losses.
    double run(T scale, T kl) const {
        const Network& net = pass.net;
        const int64_t S = pass.S, B = pass.B, features = net.features;
        const Layer& output = pass.layer(pass.last());
        T *u = pass.at(net.scratch), *totals = pass.at(net.scratch + features);
        T* of_logs = net.output_head >= 0 ? pass.at(pass.layer(net.output_head).before) : nullptr;
        std::memset(totals, 0, size_t(S) * sizeof(T));
        if (net.noise == PER_FEATURE) {
            T* logs = gradient;
            std::memset(logs, 0, size_t(features) * sizeof(T));
            value_nlls(pass, [=, &net](int64_t r, int64_t i, T value, T slope, T of_log) {
                totals[i] += value;
                u[r * S + i] = i < B ? slope * scale : T(0);
                logs[net.place[r]] += i < B ? of_log * scale : T(0);
            });
        } else if (of_logs) {
            value_nlls(pass, [=](int64_t r, int64_t i, T value, T slope, T of_log) {
                totals[i] += value;
                u[r * S + i] = i < B ? slope * scale : T(0);
                of_logs[r * S + i] = i < B ? of_log * scale : T(0);
            });
        } else {
            value_nlls(pass, [=](int64_t r, int64_t i, T value, T slope, T) {
                totals[i] += value;
                u[r * S + i] = slope * scale;
            });
            for (int64_t r = 0; r < features; r++)
                for (int64_t i = B; i < S; i++) u[r * S + i] = T(0);
        }
        double loss = 0;
        for (int64_t i = 0; i < B; i++) loss += double(totals[i]);
        loss /= double(features);
        if (net.noise == PER_FEATURE) sink(net.log_variance, features, gradient);
        activate_back(int(output.activation), T(net.slope), u, pass.at(output.out), pass.at(output.before),
                      features * S, u);
        for (int64_t i = pass.last(); i >= 0; i--) {
            const Layer& l = pass.layer(i);
            if (i < pass.last()) u = arriving(i);
            if (l.norm) normalise_back(l, u);
            T *in = pass.given(i), *dx = i > 0 ? pass.at(l.up) : nullptr;
            layer_back(l, in, u, dx);
            if (i == pass.last() && of_logs) head_back(pass.layer(net.output_head), in, of_logs, dx, l.inputs);
            if (i == net.depth - 1 && net.code_head >= 0)
                head_back(pass.layer(net.code_head), in, pass.at(pass.layer(net.code_head).before), dx, l.inputs);
            if (i == net.depth && net.code_head >= 0) loss += code_back(dx, kl);
        }
        return loss;
    }

    // The gradient of the output of layer i, from the next layer and from skips, through mask and activation.
    T* arriving(int64_t i) const {
        const Layer& l = pass.layer(i);
        const int64_t count = l.outputs * pass.S;
        T *up = pass.at(pass.layer(i + 1).up), *u = pass.at(pass.net.scratch);
        for (int64_t j = i + 2; j < pass.net.count; j++)
            if (pass.layer(j).skip == i) {
                const T* more = pass.at(pass.layer(j).up);
                for (int64_t k = 0; k < count; k++) up[k] += more[k];
            }
        activate_back(int(l.activation), T(pass.net.slope), up, pass.at(l.out), pass.at(l.before), count, u);
        pass.mask(i, u);  // what was switched off has an output of 0, and its slope does not matter
        return u;
    }

    // dx comes as the gradient of the code, and becomes that of its mean; that of its spread goes to the head.
    double code_back(T* dx, T kl) const {
        const Network& net = pass.net;
        const int64_t S = pass.S, B = pass.B;
        const T *mean = pass.at(pass.layer(net.depth - 1).out), *spread = pass.at(net.spread);
        const Layer& head = pass.layer(net.code_head);
        const T* logs = pass.at(head.out);
        T* of_logs = pass.at(head.before);
        const bool plain = net.code_way == LOG_VARIANCE;
        double total = 0;
        for (int64_t f = 0; f < net.latent; f++)
            for (int64_t i = 0; i < S; i++) {
                const int64_t k = f * S + i;
                const T variance = spread[k] * spread[k], noise = pass.example_noise ? pass.example_noise[k] : T(0);
                const T log_variance = plain ? logs[k] : T(2) * log_at_least(spread[k]);
                if (i < B) total += double(T(0.5) * (mean[k] * mean[k] + variance - log_variance - T(1)));
                if (i >= B || net.code_way == FROZEN)
                    of_logs[k] = dx[k] = T(0);
                else {
                    of_logs[k] = plain ? T(0.5) * (dx[k] * noise * spread[k] + kl * (variance - T(1)))
                                       : (dx[k] * noise + kl * (spread[k] - T(1) / spread[k])) * sigmoid1(logs[k]);
                    dx[k] += kl * mean[k];
                }
            }
        if (!plain)
            activate_back(int(head.activation), T(net.slope), of_logs, logs, logs, net.latent * S, of_logs);
        return total * double(kl) * double(B);
    }
};

}  // namespace
