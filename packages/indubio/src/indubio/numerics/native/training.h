// Training steps and scores, on the passes.
//
// A step makes the gradient of a block of weights and uses it at once, so that of a large layer it is never written to
// memory:
//
//     POINT        Adam on NLL + decay / 2 ||theta - anchor||^2
//     VARIATIONAL  Bayes by Backprop: Adam on means and rhos, from the gradients of some samples of the weights
//     CHAIN        stochastic gradient Hamiltonian Monte Carlo: v <- (1 - a) v - e g + kick, theta <- theta + v,
//                  with a decay and a kick of its own for every weight
#pragma once
#include "jobs.h"
#include "passes.h"

namespace {

template <class T>
struct Adam {
    T decay, rate, root;  // rate over the first correction, one over the root of the second

    void operator()(int64_t count, T* __restrict w, const T* __restrict g, T* __restrict first, T* __restrict second,
                    const T* __restrict anchor) const {
        constexpr T b1 = T(0.9), b2 = T(0.999), r1 = T(1 - 0.9), r2 = T(1 - 0.999), epsilon = T(1e-8);
        const T over = rate, share = decay, inverse = root;
        auto move = [=](T weight, T gradient, T& m, T& v) {
            m = b1 * m + r1 * gradient;
            v = b2 * v + r2 * gradient * gradient;
            return weight - over * m / (::root(v) * inverse + epsilon);
        };
        if (anchor)
            for (int64_t k = 0; k < count; k++) w[k] = move(w[k], g[k] + share * (w[k] - anchor[k]), first[k], second[k]);
        else
            for (int64_t k = 0; k < count; k++) w[k] = move(w[k], g[k] + share * w[k], first[k], second[k]);
    }
};

// A sum of doubles in 16 lanes, in a fixed order.
struct Lanes {
    double sums[16] = {};

    // f(0) + ... + f(count - 1), number k to lane k mod 16
    template <class T, class F>
    void add(int64_t count, F f) {
        T values[16];
        int64_t at = 0;
        for (; at + 16 <= count; at += 16) {
            for (int k = 0; k < 16; k++) values[k] = f(at + k);
            for (int k = 0; k < 16; k++) sums[k] += double(values[k]);
        }
        for (int k = 0; at < count; at++, k++) sums[k] += double(f(at));
    }

    double total() const {
        double all = 0;
        for (double sum : sums) all += sum;
        return all;
    }
};

template <class T>
struct PointSink {
    const TrainJob& job;
    Adam<T> adam;

    void operator()(int64_t place, int64_t count, T* gradient) const {
        T *values = static_cast<T*>(job.values), *moments = static_cast<T*>(job.moments);
        const T* anchors = static_cast<const T*>(job.anchors);
        adam(count, values + place, gradient, moments + place, moments + job.weights + place,
             anchors ? anchors + place : nullptr);
    }
};

template <class T>
struct ChainSink {
    const TrainJob& job;
    const T* kicks;

    void operator()(int64_t place, int64_t count, T* gradient) const {
        T* __restrict w = static_cast<T*>(job.values) + place;
        T* __restrict momentum = static_cast<T*>(job.moments) + place;
        const T* __restrict kick = kicks + place;
        const T* __restrict decay = static_cast<const T*>(job.decays) + place;
        const T* __restrict spread = static_cast<const T*>(job.spreads) + place;
        const T keep = T(1 - job.friction), step = T(job.step_size);
        for (int64_t k = 0; k < count; k++) {
            momentum[k] = keep * momentum[k] - step * (gradient[k] + decay[k] * w[k]) + spread[k] * kick[k];
            w[k] += momentum[k];
        }
    }
};

// Log of the narrow over the wide part of the prior's density at 0.
static inline double log_odds(const TrainJob& job) {
    return log1((1 - job.mixture) / job.mixture) + log1(job.wide / job.narrow);
}

// Adds what one sample says of means and spreads; the prior is the log of a mixture of two Gaussians around 0.
template <class T>
struct SampleSink {
    const TrainJob& job;
    const T *theta, *noise;
    T *of_mean, *of_spread;
    Lanes& log_prior;

    void operator()(int64_t place, int64_t count, T* gradient) const {
        const T *at = theta + place, *eps = noise + place;
        T *mean = of_mean + place, *spread = of_spread + place;
        if (job.prior_scale > 0) {
            const T wide = T(1 / (job.wide * job.wide)), narrow = T(1 / (job.narrow * job.narrow));
            const T scale = T(job.prior_scale), start = T(log_odds(job)), slope = T(0.5) * (wide - narrow);
            log_prior.add<T>(count, [=](int64_t k) {
                const T square = at[k] * at[k], odds = start + slope * square;  // log of narrow over wide at theta
                const T small = exp1(odds > 0 ? -odds : odds), share = (odds > 0 ? T(1) : small) / (T(1) + small);
                gradient[k] += scale * at[k] * (wide + share * (narrow - wide));
                const T over = (odds > 0 ? odds : T(0)) +
                               twice_atanh<T, Format<T>::LOG1P_TERMS>(small / (T(2) + small));  // log(1 + e^odds)
                return over - T(0.5) * wide * square;
            });
        }
        for (int64_t k = 0; k < count; k++) {
            mean[k] += gradient[k];
            spread[k] += gradient[k] * eps[k];
        }
    }
};

// Rooms of a call, one after the other in the memory that the caller lends.
template <class T>
struct Rooms {
    T *space, *turned, *packed, *gradient, *noise, *more;

    static int64_t aligned(int64_t values) { return (values + 15) / 16 * 16; }

    static int64_t values(const Network& net, int64_t S, bool training, int64_t noise, int64_t more) {
        return aligned((training ? net.all_rows : net.forward_rows) * S) + aligned(net.turned * S) + aligned(PACKED) +
               aligned(training ? most(BLOCK, net.largest) : 0) + aligned(noise) + aligned(more);
    }

    Rooms(const Network& net, int64_t S, bool training, int64_t noise_values, T* memory) {
        space = memory;
        turned = space + aligned((training ? net.all_rows : net.forward_rows) * S);
        packed = turned + aligned(net.turned * S);
        gradient = packed + aligned(PACKED);
        noise = gradient + aligned(training ? most(BLOCK, net.largest) : 0);
        more = noise + aligned(noise_values);
    }
};

// Noisy inputs and their scales come first.
static inline int64_t corrupted_values(const Network& net, const TrainJob& job) {
    return job.highest > 0 ? (net.features + 1) * room_for(job.batch) : 0;
}

static inline int64_t noise_values(const Network& net, const TrainJob& job) {
    const int64_t S = room_for(job.batch);
    const int64_t inputs = corrupted_values(net, job);
    if (job.objective == VARIATIONAL) return inputs;
    const int64_t code = net.code_head >= 0 ? net.latent * S : 0;
    if (job.objective == CHAIN) return inputs + code + net.weights;
    return inputs + code + (job.keep < 1 ? net.units * S : 0);
}

static inline int64_t more_values(const Network& net, const TrainJob& job) {
    return job.objective == VARIATIONAL ? 6 * net.weights : 0;
}

template <class T>
static int64_t training_values(const Network& net, const TrainJob& job) {
    return Rooms<T>::values(net, room_for(job.batch), true, noise_values(net, job), more_values(net, job));
}

// One step on the samples of the weights; the loss.
template <class T>
static double variational_step(Pass<T>& pass, const TrainJob& job, const Rooms<T>& rooms, const Adam<T>& adam,
                               uint32_t step) {
    const int64_t P = job.weights;
    T *means = static_cast<T*>(job.values), *rhos = means + P, *moments = static_cast<T*>(job.moments);
    T *theta = rooms.more, *noise = theta + P, *sigma = noise + P, *of_mean = sigma + P, *of_spread = of_mean + P;
    const T share = T(1) / T(job.samples), scale = T(job.prior_scale);
    Lanes log_prior, log_sigma;
    double loss = 0;
    for (int64_t k = 0; k < P; k++) sigma[k] = softplus1(rhos[k]);
    std::memset(of_mean, 0, size_t(2 * P) * sizeof(T));
    pass.weights = theta;
    for (int64_t sample = 0; sample < job.samples; sample++) {
        random_normals(Stream{job.key, WEIGHTS + uint32_t(sample) * 16u, step}, 0, P, noise);
        for (int64_t k = 0; k < P; k++) theta[k] = means[k] + sigma[k] * noise[k];
        pass.forward();
        SampleSink<T> sink{job, theta, noise, of_mean, of_spread, log_prior};
        Backward<T, SampleSink<T>> back{pass, rooms.gradient, sink};
        loss += back.run(T(1) / T(pass.net.features * pass.B), T(0)) / double(pass.B);
    }
    loss /= double(job.samples);
    for (int64_t k = 0; k < P; k++) {
        of_mean[k] *= share;
        of_spread[k] = (of_spread[k] * share - scale / sigma[k]) * sigmoid1(rhos[k]);
    }
    if (job.prior_scale > 0) {
        log_sigma.add<T>(P, [=](int64_t k) { return log1(sigma[k]); });
        // (log(2 pi) + 1) / 2 of q, and the wide part's log density at 0, where 2 pi falls out
        const double each = 0.5 + log1(job.mixture) - log1(job.wide);
        loss += job.prior_scale * (-log_sigma.total() - each * double(P) - log_prior.total() / double(job.samples));
    }
    adam(P, means, of_mean, moments, moments + 2 * P, nullptr);
    adam(P, rhos, of_spread, moments + P, moments + 3 * P, nullptr);
    return loss;
}

// All steps of one network; the losses' sum, and the last one, go to the job. `memory` holds `training_values`.
template <class T>
static void train(const Network& net, TrainJob& job, T* memory) {
    const Rooms<T> rooms(net, room_for(job.batch), true, noise_values(net, job), memory);
    const T* rows = static_cast<const T*>(job.rows);
    // A VAE's code has fresh noise for every row; the room after it is for what else a step draws.
    auto draw_code = [&](Pass<T>& pass, uint32_t part, T* noise) {
        if (net.code_head < 0) return noise;
        random_normals(Stream{job.key, CODE, part}, 0, net.latent * pass.S, noise);
        pass.example_noise = noise;
        return noise + net.latent * pass.S;
    };
    job.loss = 0;
    for (int64_t step = 0, start = 0; step < job.steps; step++, start += job.batch) {
        const int64_t B = least(job.batch, job.ordered - start), S = room_for(B);
        const uint32_t part = uint32_t(job.first_step + uint64_t(step));
        Pass<T> pass{net, static_cast<const T*>(job.values), rooms.space, rooms.turned, rooms.packed, S, B,
                     nullptr, nullptr, nullptr, nullptr, nullptr};
        pass.gather(rows, job.order, start);
        T* noise = rooms.noise + corrupted_values(net, job);
        if (job.highest > 0) pass.corrupt(job, part, rooms.noise);
        const T scale = T(1) / T(net.features * B), kl = T(job.kl_weight / double(B));
        const Adam<T> adam{T(job.decay), job.objective == CHAIN ? T(0) : T(job.rates[step]),
                           job.objective == CHAIN ? T(0) : T(job.roots[step])};
        double loss;
        if (job.objective == VARIATIONAL) {
            loss = variational_step(pass, job, rooms, adam, part);
        } else if (job.objective == CHAIN) {
            noise = draw_code(pass, part, noise);
            random_normals(Stream{job.key, KICKS, part}, 0, net.weights, noise);
            pass.forward();
            ChainSink<T> sink{job, noise};
            Backward<T, ChainSink<T>> back{pass, rooms.gradient, sink};
            loss = back.run(scale, kl) / double(B);
        } else {
            if (job.keep < 1) {
                random_masks(Stream{job.key, MASKS, part}, 0, net.units * S, job.keep, noise);
                pass.example_masks = noise;
                noise += net.units * S;
            }
            draw_code(pass, part, noise);
            pass.forward();
            PointSink<T> sink{job, adam};
            Backward<T, PointSink<T>> back{pass, rooms.gradient, sink};
            loss = back.run(scale, kl) / double(B);
        }
        job.loss += loss;
        job.last_loss = loss;
    }
}

template <class T>
static int64_t scoring_values(const Network& net, const ScoreJob& job) {
    return Rooms<T>::values(net, room_for(least(job.at_once, job.rows_count)), false, room_for(job.at_once), 0);
}

template <class T>
static void score(const Network& net, const ScoreJob& job, T* memory) {
    const int64_t S_most = room_for(least(job.at_once, job.rows_count));
    const Rooms<T> rooms(net, S_most, false, room_for(job.at_once), memory);
    const T *rows = static_cast<const T*>(job.rows), *values = static_cast<const T*>(job.values);
    T *nll = static_cast<T*>(job.nll), *apart = static_cast<T*>(job.apart);
    T *reconstruction = static_cast<T*>(job.reconstruction), *variance = static_cast<T*>(job.variance);
    const int64_t N = job.rows_count, F = net.features;
    for (int64_t start = 0; start < N; start += job.at_once) {
        const int64_t B = least(job.at_once, N - start), S = room_for(B);
        Pass<T> pass{net, values, rooms.space, rooms.turned, rooms.packed, S, B, nullptr, nullptr, nullptr, nullptr, nullptr};
        pass.gather(rows, nullptr, start);
        for (int64_t draw = 0; draw < job.draws; draw++) {
            if (!job.shared) pass.weights = values + draw * net.weights;
            if (job.masks) pass.unit_masks = static_cast<const T*>(job.masks) + draw * net.units;
            if (job.noise) pass.unit_noise = static_cast<const T*>(job.noise) + draw * net.latent;
            // Draws that differ in the code's noise alone share the encoder's pass.
            pass.forward(draw && job.shared && !job.masks ? net.depth : 0);
            const int64_t to = draw * N + start;
            row_nlls(pass, rooms.noise, apart ? apart + to * F : nullptr, reconstruction ? reconstruction + to * F : nullptr);
            if (nll) std::memcpy(nll + to, rooms.noise, size_t(B) * sizeof(T));
            if (variance) row_variances(pass, variance + to * F);
        }
    }
}

// Drift's bets: wealth_t = min((wealth_{t-1} + weight_t) bet_t, most), bet_t = (1 + stake off_t) / unit; the mean over the
// stakes after every example goes to `mixed`.
static void bets(int64_t examples, int64_t stakes, int64_t series, const double* off, const double* stake,
                 const double* unit, const double* weights, double most_wealth, double* wealth, double* mixed) {
    for (int64_t t = 0; t < examples; t++) {
        double* mean = mixed + t * series;
        for (int64_t s = 0; s < series; s++) mean[s] = 0;
        for (int64_t b = 0; b < stakes; b++)
            for (int64_t s = 0; s < series; s++) {
                const int64_t k = b * series + s;
                const double away = off[t * series + s];
                const double made = away != away ? 1.0 : (1.0 + stake[k] * away) / unit[k];
                double now = (wealth[k] + weights[t]) * made;
                now = now > most_wealth ? most_wealth : now;
                wealth[k] = now;
                mean[s] += now;
            }
        for (int64_t s = 0; s < series; s++) mean[s] /= double(stakes);
    }
}

}  // namespace
