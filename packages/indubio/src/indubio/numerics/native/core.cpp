// The functions that the Python side calls. They check what they are given, once, and hand it to the variant of the
// instruction set in use. All give 0, or 1 with a message in `error`.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

#include "jobs.h"
#include "network.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define API extern "C" __attribute__((visibility("default")))

#if defined(__x86_64__)
extern const Variant variant_avx512, variant_avx2;
#elif defined(__aarch64__)
extern const Variant variant_neon;
#endif
extern const Variant variant_plain;

namespace {

constexpr int ERROR = 512;             // room for a message
constexpr int64_t MOST = int64_t(1) << 40;  // of any size; products of two such still fit where they are checked
constexpr size_t KEPT = size_t(64) << 20;  // bytes of work space that a thread keeps from call to call

int failed(char* error, const char* format, ...) {
    va_list values;
    va_start(values, format);
    std::vsnprintf(error, ERROR, format, values);
    va_end(values);
    return 1;
}

bool has(const Variant& variant) {
#if defined(__x86_64__)
    if (&variant == &variant_avx512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("fma");
    if (&variant == &variant_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    (void)variant;
    return true;
}

const Variant* const VARIANTS[] = {
#if defined(__x86_64__)
    &variant_avx512,
    &variant_avx2,
#elif defined(__aarch64__)
    &variant_neon,
#endif
    &variant_plain,
};

const Variant* in_use = nullptr;

// Denormal numbers count, and rounding is to nearest, whatever another library has set.
struct Rounding {
#if defined(__x86_64__)
    unsigned kept = _mm_getcsr();
    Rounding() { _mm_setcsr(0x1f80); }
    ~Rounding() { _mm_setcsr(kept); }
#elif defined(__aarch64__)
    uint64_t kept;
    Rounding() {
        __asm__ volatile("mrs %0, fpcr" : "=r"(kept));
        __asm__ volatile("msr fpcr, %0" : : "r"(uint64_t(0)));
    }
    ~Rounding() { __asm__ volatile("msr fpcr, %0" : : "r"(kept)); }
#endif
};

// Memory of a thread, at a cache line's border.
struct Space {
    void* memory = nullptr;
    size_t bytes = 0;
    ~Space() { std::free(memory); }
    void* of(size_t wanted) {
        if (wanted <= bytes) return memory;
        std::free(memory);
        bytes = 0;
        memory = std::aligned_alloc(64, (wanted + 4095) / 4096 * 4096);
        if (memory) {
            bytes = (wanted + 4095) / 4096 * 4096;
            std::memset(memory, 0, bytes);
        }
        return memory;
    }
    void trim() {
        if (bytes <= KEPT) return;
        std::free(memory);
        memory = nullptr;
        bytes = 0;
    }
};

thread_local Space space;

bool product_fits(int64_t a, int64_t b) { return a >= 0 && b >= 0 && (a == 0 || b <= MOST / a); }

// Sizes of one layer, and whether they belong together.
const char* measure(Layer& l) {
    for (int64_t size : {l.in_channels, l.in_length, l.out_channels, l.out_length})
        if (size < 1 || size > MOST) return "has a size that is not positive";
    if (!product_fits(l.in_channels, l.in_length) || !product_fits(l.out_channels, l.out_length)) return "is too large";
    l.inputs = l.in_channels * l.in_length;
    l.outputs = l.out_channels * l.out_length;
    if (l.activation < 0 || l.activation >= ACTIVATIONS) return "has an unknown activation";
    if (l.kind == LINEAR) {
        if (l.in_length != 1 || l.out_length != 1) return "is linear and has a length";
        l.rows = l.inputs, l.columns = l.outputs, l.shorter = l.longer = 1;
    } else if (l.kind == DOWN || l.kind == UP) {
        const bool up = l.kind == UP;
        for (int64_t size : {l.kernel, l.stride, l.kernel_height, l.stride_height, l.in_height, l.out_height})
            if (size < 1 || size > MOST) return "has an impossible kernel, stride or height";
        for (int64_t size : {l.padding, l.padding_height})
            if (size < 0 || size > MOST) return "has an impossible padding";
        if (l.in_length % l.in_height || l.out_length % l.out_height) return "has heights that do not belong to its lengths";
        const int64_t in_wide = l.in_length / l.in_height, out_wide = l.out_length / l.out_height;
        l.shorter = up ? l.in_length : l.out_length;
        l.longer = up ? l.out_length : l.in_length;
        l.shorter_wide = up ? in_wide : out_wide, l.shorter_high = up ? l.in_height : l.out_height;
        l.longer_wide = up ? out_wide : in_wide, l.longer_high = up ? l.out_height : l.in_height;
        const int64_t across = l.longer_wide + 2 * l.padding - l.kernel;
        const int64_t down = l.longer_high + 2 * l.padding_height - l.kernel_height;
        if (across < 0 || across / l.stride + 1 != l.shorter_wide || down < 0 ||
            down / l.stride_height + 1 != l.shorter_high)
            return "has lengths that do not belong together";
        l.rows = up ? l.in_channels : l.out_channels;
        if (!product_fits(l.kernel_height, l.kernel)) return "is too large";
        const int64_t area = l.kernel_height * l.kernel;
        if (!product_fits(up ? l.out_channels : l.in_channels, area)) return "is too large";
        l.columns = (up ? l.out_channels : l.in_channels) * area;
        if (!product_fits(l.columns, l.shorter)) return "is too large";
    } else {
        return "is of an unknown kind";
    }
    return product_fits(l.rows, l.columns) ? nullptr : "is too large";
}

struct Owned : Network {
    std::vector<Layer> all;
    std::vector<int64_t> places;
};

int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// Places of weights, and in the work space: what scores need first, then what training adds.
void lay_out(Owned& net) {
    int64_t weights = 0, rows = 0, units = 0;
    net.turned = net.largest = 1;
    net.scratch = 0;
    int64_t widest = net.features + 4;  // a gradient, and four numbers of every example
    for (const Layer& l : net.all) widest = larger(widest, l.outputs);
    rows += widest;
    net.x = rows;
    rows += net.features;
    for (size_t i = 0; i < net.all.size(); i++) {
        Layer& l = net.all[i];
        l.weight_at = weights;
        weights += l.rows * l.columns;
        l.bias_at = weights;
        weights += l.bias ? l.out_channels : 0;
        l.gain_at = weights;
        l.shift_at = weights + (l.norm ? l.outputs : 0);
        weights += l.norm ? 2 * l.outputs : 0;
        l.masks = units;
        if (int64_t(i) < net.count - 1) units += l.out_channels;
        l.out = rows;
        rows += l.outputs;
        l.sum = rows;
        rows += l.skip >= 0 ? l.inputs : 0;
        l.windows = rows;
        rows += l.kind == LINEAR ? 0 : l.columns * l.shorter;
        l.normed = rows;
        l.inverse = rows + l.outputs;
        rows += l.norm ? l.outputs + 3 : 0;
        l.before = rows;
        rows += l.activation == GELU ? l.outputs : 0;  // GELU's slope needs what it was of
        const bool linear = l.kind == LINEAR;
        net.turned = larger(net.turned, linear ? larger(lines(l.columns), l.rows + l.columns) : l.shorter * l.rows);
        net.largest = larger(net.largest, larger(linear ? l.columns : 2 * l.rows * l.columns, 2 * l.outputs));
    }
    net.largest = larger(net.largest, net.features);
    net.latent = net.layers[net.depth - 1].outputs;
    net.code = rows;
    net.spread = rows + net.latent;
    rows += net.code_head >= 0 ? 2 * net.latent : 0;
    net.forward_rows = rows;
    for (size_t i = 0; i < net.all.size(); i++) {
        Layer& l = net.all[i];
        l.up = rows;
        rows += l.inputs;
        if (int64_t(i) >= net.count) {  // a head's gradient
            l.before = rows;
            rows += l.outputs;
        }
    }
    net.all_rows = rows;
    net.units = units;
    net.log_variance = net.noise == PER_FEATURE ? weights : -1;
    net.weights = weights + (net.noise == PER_FEATURE ? net.features : 0);
}

int check(Owned& net, char* error) {
    for (size_t i = 0; i < net.all.size(); i++) {
        Layer& l = net.all[i];
        if (const char* wrong = measure(l)) return failed(error, "layer %d %s", int(i), wrong);
        const bool head = int64_t(i) >= net.count;
        if (l.activation == SOFTMAX && (l.kind != LINEAR || l.norm || int64_t(i) + 1 >= net.count ||
                                        net.all[i + 1].kind != LINEAR || net.all[i + 1].skip >= 0 ||
                                        net.code_head >= 0 || net.output_head >= 0))
            return failed(error, "layer %d must be linear, and so must the one after it", int(i));
        const bool activated = int64_t(i) == net.code_head && net.code_way != LOG_VARIANCE &&
                               l.activation <= TANH && l.activation != GELU;
        if (head && (l.norm || (l.activation && !activated) || l.skip >= 0))
            return failed(error, "layer %d is no plain head", int(i));
        const Layer* before = head || i == 0 ? nullptr : &net.all[i - 1];
        if (before && before->outputs != l.inputs)
            return failed(error, "layer %d does not take what the one before it gives", int(i));
        if (l.skip < -1 || (l.skip >= 0 && (int64_t(i) <= net.depth || l.skip >= net.depth - 1 ||
                                            net.all[size_t(l.skip)].outputs != l.inputs)))
            return failed(error, "layer %d has an impossible skip", int(i));
    }
    for (int64_t i = net.depth + 1; i < net.count; i++)
        for (int64_t j = net.depth + 1; j < i; j++)
            if (net.all[size_t(i)].skip >= 0 && net.all[size_t(i)].skip == net.all[size_t(j)].skip)
                return failed(error, "two layers share a skip");
    const Layer &code = net.all[size_t(net.depth - 1)], &last = net.all[size_t(net.count - 1)];
    if (net.all[0].inputs != net.features || last.outputs != net.features)
        return failed(error, "the first layer must take, and the last give, %lld values", (long long)net.features);
    struct {
        int64_t head;
        const Layer& beside;
    } heads[] = {{net.code_head, code}, {net.output_head, last}};
    for (auto& one : heads)
        if (one.head >= 0 && (net.all[size_t(one.head)].inputs != one.beside.inputs ||
                              net.all[size_t(one.head)].outputs != one.beside.outputs))
            return failed(error, "a head does not fit the layer beside it");
    if (net.code_way == LOG_VARIANCE && (code.activation || code.norm))
        return failed(error, "a VAE's code has an activation");
    for (int64_t place : net.places)
        if (place < 0 || place >= net.features) return failed(error, "a feature's place is outside of the row");
    return 0;
}

int size_of(int64_t precision) { return precision ? 8 : 4; }

}  // namespace

// Bytes of the two jobs and of a layer: the Python side compares them with its own.
API void indubio_sizes(int64_t* out) {
    out[0] = sizeof(TrainJob);
    out[1] = sizeof(ScoreJob);
    out[2] = sizeof(LayerGiven);
}

// Names of the instruction sets that this processor has, the widest first, separated by spaces.
API void indubio_instruction_sets(char* out, int64_t room) {
    std::string names;
    for (const Variant* variant : VARIANTS)
        if (has(*variant)) names += (names.empty() ? "" : " ") + std::string(variant->name);
    std::snprintf(out, size_t(room), "%s", names.c_str());
}

API int indubio_use(const char* name, char* error) {
    for (const Variant* variant : VARIANTS)
        if (!std::strcmp(variant->name, name) && has(*variant)) {
            in_use = variant;
            return 0;
        }
    return failed(error, "this processor has no instruction set \"%s\"", name);
}

// The network of these layers: `count` of them in a row, the first `depth` the encoder, then the heads.
API void* indubio_network(const LayerGiven* layers, int64_t count, int64_t depth, int64_t code_head, int64_t output_head,
                          int64_t features, const int64_t* place, int64_t likelihood, int64_t noise, double slope,
                          double smallest_variance, double number, char* error) {
    const int64_t heads = (code_head != 0) + (output_head != 0);
    if (count < 2 || count > 10000 || code_head < 0 || code_head > FROZEN || depth < 1 || depth >= count || features < 1 || features > MOST) {
        failed(error, "a network has an encoder and a decoder, and features");
        return nullptr;
    }
    if (likelihood < 0 || likelihood > BETA || noise < 0 || noise > PER_EXAMPLE ||
        ((likelihood == BERNOULLI || likelihood == CONTINUOUS_BERNOULLI) && noise) ||
        (noise == PER_EXAMPLE) != (output_head != 0) || (likelihood == STUDENT && !(number > 0)) ||
        (likelihood >= TRUNCATED_GAUSSIAN && !(smallest_variance > 0)) ||
        (likelihood == BETA && !(number > 0 && number < 0.5))) {
        failed(error, "unknown likelihood");
        return nullptr;
    }
    Owned* net = new (std::nothrow) Owned();
    if (!net) {
        failed(error, "out of memory");
        return nullptr;
    }
    net->count = count, net->depth = depth, net->features = features;
    net->code_head = code_head ? count : -1, net->code_way = code_head;
    net->output_head = output_head ? count + (code_head != 0) : -1;
    net->likelihood = likelihood, net->noise = noise, net->slope = slope;
    net->smallest_variance = smallest_variance, net->number = number;
    net->all.resize(size_t(count + heads));
    for (size_t i = 0; i < net->all.size(); i++) static_cast<LayerGiven&>(net->all[i]) = layers[i];
    net->places.assign(place, place + features);
    net->layers = net->all.data();
    net->place = net->places.data();
    if (check(*net, error)) {
        delete net;
        return nullptr;
    }
    lay_out(*net);
    if (net->all_rows > MOST || net->weights > MOST || net->turned > MOST) {
        failed(error, "the network is too large");
        delete net;
        return nullptr;
    }
    return static_cast<Network*>(net);
}

API void indubio_forget(void* net) { delete static_cast<Owned*>(static_cast<Network*>(net)); }

// Weights, units that dropout may switch, values of the code, and of the work space for an example that is scored.
API void indubio_network_sizes(const void* net, int64_t* out) {
    const Network& one = *static_cast<const Network*>(net);
    out[0] = one.weights, out[1] = one.units, out[2] = one.latent, out[3] = one.forward_rows;
}

API int indubio_train(const void* handle, int64_t precision, TrainJob* job, char* error) {
    const Network& net = *static_cast<const Network*>(handle);
    if (!in_use) return failed(error, "no instruction set was chosen");
    if (job->weights != net.weights) return failed(error, "the weights are not those of the network");
    if (job->batch < 1 || job->steps < 0 || job->ordered < 0 || !product_fits(job->steps, job->batch) ||
        (job->steps && (job->steps - 1) * job->batch >= job->ordered))
        return failed(error, "there are fewer rows than steps");
    if (job->objective < POINT || job->objective > CHAIN || (job->objective == VARIATIONAL && job->samples < 1))
        return failed(error, "unknown objective");
    for (int64_t i = 0; i < net.count; i++)
        if (net.layers[i].activation == COSINE || net.layers[i].activation == SOFTMAX)
            return failed(error, "cosines and softmax have no way back");
    if (job->objective != CHAIN && (!job->rates || !job->roots)) return failed(error, "there are no rates");
    if (job->objective == CHAIN && (!job->decays || !job->spreads)) return failed(error, "the chain has no decays or kicks");
    if (job->objective == VARIATIONAL && net.code_head >= 0)
        return failed(error, "a VAE is trained by point weights, or sampled by a chain");
    if (job->highest != 0 && !(job->lowest > 0 && job->lowest <= job->highest && job->highest < 1e18))
        return failed(error, "the noise of the inputs has no scale");
    for (int64_t k = 0; k < job->ordered; k++)
        if (job->order[k] < 0 || job->order[k] >= job->rows_count) return failed(error, "the order is of other rows");
    if (job->batch > job->ordered) job->batch = job->ordered > 0 ? job->ordered : 1;
    const int64_t values = in_use->training_values[precision != 0](net, *job);
    void* memory = values < 0 || values > MOST ? nullptr : space.of(size_t(values) * size_t(size_of(precision)));
    if (!memory) return failed(error, "out of memory: a step needs %lld values", (long long)values);
    Rounding rounding;
    in_use->train[precision != 0](net, *job, memory);
    space.trim();
    return 0;
}

API int indubio_score(const void* handle, int64_t precision, const ScoreJob* job, char* error) {
    const Network& net = *static_cast<const Network*>(handle);
    if (!in_use) return failed(error, "no instruction set was chosen");
    if (job->weights != net.weights) return failed(error, "the weights are not those of the network");
    if (job->draws < 1 || job->rows_count < 0 || job->at_once < 1) return failed(error, "nothing to score");
    if (job->noise && net.code_head < 0) return failed(error, "the network's code has no noise");
    if (job->variance && net.output_head < 0) return failed(error, "the decoder gives no variance");
    if (!job->rows_count) return 0;
    const int64_t values = in_use->scoring_values[precision != 0](net, *job);
    void* memory = values < 0 || values > MOST ? nullptr : space.of(size_t(values) * size_t(size_of(precision)));
    if (!memory) return failed(error, "out of memory: scores need %lld values", (long long)values);
    Rounding rounding;
    in_use->score[precision != 0](net, *job, memory);
    space.trim();
    return 0;
}

// Random numbers; `group` is the first of 64 numbers each.
API void indubio_normals(const Stream* stream, uint64_t group, int64_t count, float* out) {
    Rounding rounding;
    in_use->normals(*stream, group, count, out);
}

API void indubio_uniforms(const Stream* stream, uint64_t group, int64_t count, float bound, float* out) {
    Rounding rounding;
    in_use->uniforms(*stream, group, count, bound, out);
}

API void indubio_masks(const Stream* stream, uint64_t group, int64_t count, double keep, float* out) {
    in_use->masks(*stream, group, count, keep, out);
}

API void indubio_order(const Stream* stream, uint64_t group, int64_t count, int64_t* out) {
    in_use->order(*stream, group, count, out);
}

API void indubio_words(const Stream* stream, uint64_t counter, uint32_t* out) { in_use->words(*stream, counter, out); }

API void indubio_function(int64_t precision, int64_t which, int64_t count, void* values) {
    Rounding rounding;
    in_use->function[precision != 0](which, count, values);
}

// C = A B, of which least squares and closed forms are made; `rs` and `ps` are A's strides.
API int indubio_product(int64_t precision, const void* a, int64_t rs, int64_t ps, const void* b, void* c, int64_t rows,
                        int64_t columns, int64_t depth, char* error) {
    void* memory = space.of(size_t(1) << 20);
    if (!memory) return failed(error, "out of memory");
    Rounding rounding;
    in_use->product[precision != 0](a, rs, ps, b, c, rows, columns, depth, memory);
    return 0;
}

API void indubio_bets(int64_t examples, int64_t stakes, int64_t series, const double* off, const double* stake,
                      const double* unit, const double* weights, double most_wealth, double* wealth, double* mixed) {
    Rounding rounding;
    in_use->bets(examples, stakes, series, off, stake, unit, weights, most_wealth, wealth, mixed);
}
