// A network as the passes read it: its layers, where their weights are, and where everything is in the work space.
//
// An example is a column: all values are (rows, examples), S examples side by side; a signal is (channels, length,
// examples), an image the same, with one row of its pixels after the other along the length. Places in the work space
// are counted in such rows.
#pragma once
#include <cstdint>

enum Kind { LINEAR, DOWN, UP };  // DOWN: a convolution, UP: a transposed one
// By the numbers that the Python side gives them. COSINE and SOFTMAX (over a layer's outputs) are those of networks whose
// weights are found in closed form: they have no way back.
enum Activation { NONE, LEAKY_RELU, RELU, ELU, SELU, GELU, TANH, SIGMOID, COSINE, SOFTMAX, ACTIVATIONS };
enum Likelihood { GAUSSIAN, LAPLACE, BERNOULLI, STUDENT, CONTINUOUS_BERNOULLI, TRUNCATED_GAUSSIAN, BETA };
// LOG_VARIANCE: exp(h / 2). SOFTPLUS: softplus(h). FROZEN: the same, and no gradient goes through the code.
enum CodeWay { NO_CODE_NOISE, LOG_VARIANCE, SOFTPLUS, FROZEN };
enum Noise { UNIT, PER_FEATURE, PER_EXAMPLE };

// What the Python side says of a layer.
struct LayerGiven {
    int64_t kind, in_channels, in_length, out_channels, out_length, kernel, stride, padding;
    int64_t bias, norm, activation;
    int64_t skip;  // the layer whose output is added to the input; -1: none
    // Of convolutions, downwards; those above are across. A signal has a height of 1, and a kernel that is 1 high.
    int64_t in_height, out_height, kernel_height, stride_height, padding_height;
};

struct Layer : LayerGiven {
    int64_t inputs, outputs;
    int64_t rows, columns;  // of the weights as a matrix: inputs x outputs, or channels of the short side x the rest
    int64_t shorter, longer;  // samples of the two sides of a convolution, rows of
    int64_t shorter_wide, longer_wide, shorter_high, longer_high;
    int64_t weight_at, bias_at, gain_at, shift_at;                // among the weights
    int64_t sum, out, windows, before, normed, inverse;           // in the work space, written on the way forward
    int64_t up;                                                   // the gradient of the input
    int64_t masks;                                                // units before it that a dropout mask may switch
};

// Values in whole cache lines, but no multiple of 8 lines: the rows of a matrix then spread over the whole cache.
static inline int64_t lines(int64_t values) {
    const int64_t whole = (values + 15) / 16;
    return (whole + (whole % 8 == 0)) * 16;
}

struct Network {
    int64_t count, depth;  // layers in a row, and how many of them are the encoder
    Layer* layers;         // `count` of them, then the heads
    int64_t code_head, output_head;  // log variance of the code and of the output; -1: none
    int64_t code_way;                // how the head tells the code's spread
    int64_t features;
    int64_t* place;  // where the network's features are in a row of data
    int64_t likelihood, noise;
    double slope, smallest_variance, number;  // number: Student's degrees of freedom, the beta's edge
    int64_t weights, log_variance;  // how many, and where those of the likelihood are; -1: none
    int64_t latent, units;
    int64_t scratch, x, code, spread;  // in the work space: room for a gradient, the input, a VAE's code
    int64_t forward_rows, all_rows;    // of the work space: for scores, for training
    int64_t turned, largest;  // values per example of a turned gradient; of the largest gradient that is kept whole
};
