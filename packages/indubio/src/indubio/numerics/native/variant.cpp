// All that is compiled once per instruction set: INDUBIO_VARIANT is its name, the compiler's flags allow it.
// Everything is local to the file: nothing of it may be shared with a file of other flags.
#include "training.h"

namespace {

template <class T>
int64_t training_room(const Network& net, const TrainJob& job) {
    return training_values<T>(net, job);
}

template <class T>
void train_any(const Network& net, TrainJob& job, void* memory) {
    train<T>(net, job, static_cast<T*>(memory));
}

template <class T>
int64_t scoring_room(const Network& net, const ScoreJob& job) {
    return scoring_values<T>(net, job);
}

template <class T>
void score_any(const Network& net, const ScoreJob& job, void* memory) {
    score<T>(net, job, static_cast<T*>(memory));
}

template <class T>
void product_any(const void* a, int64_t rs, int64_t ps, const void* b, void* c, int64_t rows, int64_t columns,
                 int64_t depth, void* room) {
    product<T>(static_cast<const T*>(a), rs, ps, static_cast<const T*>(b), columns, static_cast<T*>(c), columns, rows,
               columns, depth, static_cast<T*>(room));
}

// For the tests: one function, in place. Activations by their numbers, then the others.
template <class T>
void function_any(int64_t which, int64_t count, void* values) {
    T* x = static_cast<T*>(values);
    switch (which - ACTIVATIONS) {
        case 0: return each(x, count, [](T v) { return exp1(v); });
        case 1: return each(x, count, [](T v) { return log1(v); });
        case 2: return each(x, count, [](T v) { return softplus1(v); });
        case 3: return each(x, count, [](T v) { return T(gamma_parts(double(v)).log); });
        case 4: return each(x, count, [](T v) { return T(gamma_parts(double(v)).slope); });
        default: return activate(int(which), T(0.01), x, count);
    }
}

// For the tests: the four words of one counter.
void random_words(const Stream& stream, uint64_t counter, uint32_t* out) {
    uint32_t found[4][COUNTERS];
    random_group(stream, counter / COUNTERS, found);
    for (int w = 0; w < 4; w++) out[w] = found[w][counter % COUNTERS];
}

}  // namespace

#define TEXT(x) #x
#define TEXT_OF(x) TEXT(x)
#define JOINED(a, b) a##b
#define JOINED_OF(a, b) JOINED(a, b)

extern const Variant JOINED_OF(variant_, INDUBIO_VARIANT);
const Variant JOINED_OF(variant_, INDUBIO_VARIANT) = {
    TEXT_OF(INDUBIO_VARIANT),
    {training_room<float>, training_room<double>},
    {train_any<float>, train_any<double>},
    {scoring_room<float>, scoring_room<double>},
    {score_any<float>, score_any<double>},
    random_normals<float>,
    random_uniforms<float>,
    random_masks<float>,
    random_order,
    random_words,
    {function_any<float>, function_any<double>},
    {product_any<float>, product_any<double>},
    bets,
};
