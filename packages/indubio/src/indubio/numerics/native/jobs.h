// What a call is given, as the Python side lays it out; all pointers are to arrays without gaps, in the call's precision.
#pragma once
#include <cstdint>

enum Objective { POINT, VARIATIONAL, CHAIN };

struct TrainJob {
    void* values;         // what is trained: weights, or means and rhos
    void* moments;        // Adam's two, each like the values; a chain's momentum
    const void* anchors;  // like the weights; or null
    const void* rows;     // (rows_count, features)
    const void* factors;  // of the inputs' noise, one for each value of a row; or null for 1
    const void *decays, *spreads;  // of a chain, one for each weight: 2 lambda, standard deviation of the kick
    const int64_t* order;  // the rows of the steps, one after the other
    const double *rates, *roots;  // of each step: rate over Adam's first correction, one over the root of its second
    int64_t objective, weights, rows_count, ordered, batch, steps;
    double decay;                                 // 2 lambda, of point weights
    double keep, kl_weight;                       // of dropout, 1 for none; of a VAE's code
    double lowest, highest;                       // of the scale of the inputs' noise; 0 for none
    int64_t samples;                              // of the weights in a step
    double prior_scale, mixture, wide, narrow;    // lambda, share of the prior's wide part, standard deviations of both
    double step_size, friction;                   // of a chain
    uint64_t key, first_step;                     // of its random numbers
    double loss, last_loss;                       // given back: the sum over the steps, and of the last one
};

struct ScoreJob {
    const void* values;  // (draws, weights), or (1, weights) where `shared`
    const void *masks, *noise;  // (draws, units), (draws, latent); or null
    const void* rows;           // (rows_count, features)
    void *nll, *apart, *reconstruction;  // (draws, rows_count), twice (draws, rows_count, features); or null
    void* variance;  // that the decoder gives for every value, (draws, rows_count, features); or null
    int64_t weights, draws, shared, rows_count, at_once;
};

// Random numbers that follow from a key, what they are for, and the training step (or 0).
struct Stream {
    uint64_t key;
    uint32_t purpose, part;
};

// One instruction set's functions, for single [0] and double [1] precision.
struct Variant {
    const char* name;
    int64_t (*training_values[2])(const struct Network&, const TrainJob&);
    void (*train[2])(const struct Network&, TrainJob&, void*);
    int64_t (*scoring_values[2])(const struct Network&, const ScoreJob&);
    void (*score[2])(const struct Network&, const ScoreJob&, void*);
    void (*normals)(const Stream& stream, uint64_t group, int64_t count, float* out);
    void (*uniforms)(const Stream& stream, uint64_t group, int64_t count, float bound, float* out);
    void (*masks)(const Stream& stream, uint64_t group, int64_t count, double keep, float* out);
    void (*order)(const Stream& stream, uint64_t group, int64_t count, int64_t* out);
    void (*words)(const Stream& stream, uint64_t counter, uint32_t* out);
    void (*function[2])(int64_t which, int64_t count, void* values);
    void (*product[2])(const void* a, int64_t rs, int64_t ps, const void* b, void* c, int64_t rows, int64_t columns,
                       int64_t depth, void* room);
    void (*bets)(int64_t examples, int64_t stakes, int64_t series, const double* off, const double* stake,
                 const double* unit, const double* weights, double most_wealth, double* wealth, double* mixed);
};
