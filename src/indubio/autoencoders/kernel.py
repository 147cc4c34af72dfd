r"""The training step and the scores of one block network, compiled by Numba; imported only where Numba is installed.

An example is a column: all values are (features, examples), a signal is (channels, length, examples). Then a linear
layer, a convolution over the windows of its input and a transposed one are plain products, nothing is ever turned
around, and every other loop runs over neighbouring examples.

    linear                   z = W^T x                  dW = x u^T               dx = W u
    convolution              z = W windows(x)           dW = u windows(x)^T      dx = overlapped(W^T u)
    transposed convolution   z = overlapped(W^T x)      dW = x windows(u)^T      dx = W windows(u)

One call does all steps of one network in an epoch, so that its weights stay in the cache, and Adam follows each
gradient at once, block by block: the gradient of a large layer is never written to memory. Numbers are those of torch
but for rounding; tests compare both in float64.
"""

from math import factorial, log

import numpy as np
from numba import njit

from indubio.autoencoders.products import CUT, SMALL, added_product, product, product_of_columns

LINEAR, DOWN, UP = 0, 1, 2

# Columns of the plan, one row per layer. Sizes: of an example coming in and going out, of the weight as a matrix, of
# the long side of a convolution. Places: of weight and bias among a network's weights (-1: none), the layer whose
# output is added to the input (-1: none), and places in the work space, in values per example.
(KIND, INPUTS, OUTPUTS, ROWS, COLUMNS, KERNEL, STRIDE, PADDING, SHORT, LONG, CHANNELS) = range(11)
(WEIGHT, BIAS, SKIP, GIVEN, ACTIVE, UPSTREAM, WINDOWS) = range(11, 18)
FIELDS = 18

# Places of the numbers that come in the precision of the data: a literal would make every product with it float64.
SLOPE, DECAY, BETA1, BETA2, REST1, REST2, EPSILON, ZERO, ONE = range(9)

BLOCK = 2**16  # weights whose gradient and Adam are done together, at most: they stay in a core's cache
FEWEST_ADDED, FEWEST_APART = 16, 8  # rows of weights from which on small products pay; less so where they add up
FULL = 8  # rows that the small kernels take at a time: what is left over is slower
TURNED_FROM = 1200  # values of a sum over examples up to which OpenBLAS has a kernel for them as they are
TURNED_AT_ONCE = 16

# The parts of the exponential in single precision.
EXP_LOWEST, EXP_HIGHEST = np.float32(-87), np.float32(88)  # beyond them it is 0 or infinite, or nearly so
EXP_PER_WHOLE, EXP_WHOLE, EXP_ONE = np.float32(1 / log(2)), np.float32(1.5 * 2**23), np.int32(127 << 23)
EXP_LOG2 = (np.float32(0.693359375), np.float32(log(2) - 0.693359375))  # times n, the first is exact
EXP_SERIES = tuple(np.float32(1 / factorial(k)) for k in range(7, -1, -1))

# Sums may be reordered and products contracted, which vector code needs; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract", "arcp", "nsz"}
_compiled = njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")


@_compiled
def _values(space, start, count):
    return space[start : start + count]


@_compiled
def _matrix(space, start, rows, columns):
    return space[start : start + rows * columns].reshape(rows, columns)


@njit(cache=True, nogil=True, fastmath={"contract"}, error_model="numpy")
def _exp(x):
    """E to the x in single precision, in operations that vector code has: a library's takes one value at a time.

    x = n log 2 + r with an integer n; e^r by its series, 2^n by its bits. Adding EXP_WHOLE leaves n in the last bits.
    """
    x = EXP_LOWEST if x < EXP_LOWEST else (EXP_HIGHEST if x > EXP_HIGHEST else x)  # NaN stays
    shifted = x * EXP_PER_WHOLE + EXP_WHOLE
    n = shifted - EXP_WHOLE
    r = x - n * EXP_LOG2[0] - n * EXP_LOG2[1]
    power = EXP_SERIES[0]
    for coefficient in EXP_SERIES[1:]:
        power = power * r + coefficient
    bits = (np.float32(shifted).view(np.int32) << 23) + EXP_ONE
    return power * np.int32(bits).view(np.float32)


@_compiled
def _sigmoid(z, one):
    if z.itemsize == 4:
        for k in range(z.size):
            z[k] = one / (one + _exp(np.float32(-z[k])))
    else:
        for k in range(z.size):
            z[k] = one / (one + np.exp(-z[k]))


@_compiled
def _leaky(z, slope, zero):
    for k in range(z.size):
        z[k] = z[k] if z[k] > zero else slope * z[k]


@_compiled
def _sum(a, b, out):
    for k in range(out.size):
        out[k] = a[k] + b[k]


@_compiled
def _leaky_upstream(upstream, active, slope, zero, out):
    for k in range(out.size):
        out[k] = upstream[k] if active[k] > zero else slope * upstream[k]


@_compiled
def _masked(z, layer, masks, end, examples):
    """Z times the layer's mask, in place; that is (examples, units) and ends at `end`, and where it begins is given."""
    units = _units(layer)
    start, length = end - units * examples, layer[OUTPUTS] // units
    for unit in range(units):
        for t in range(length):
            at = (unit * length + t) * examples
            for i in range(examples):
                z[at + i] *= masks[start + i * units + unit]
    return start


@_compiled
def _windows(x, layer, examples, windows):
    """(channels, long, examples) -> (channels, kernel, short, examples)."""
    kernel, stride, padding, short, long = layer[KERNEL], layer[STRIDE], layer[PADDING], layer[SHORT], layer[LONG]
    for c in range(layer[CHANNELS]):
        for j in range(kernel):
            for t in range(short):
                to = ((c * kernel + j) * short + t) * examples
                at = t * stride + j - padding
                if 0 <= at < long:
                    start = (c * long + at) * examples
                    windows[to : to + examples] = x[start : start + examples]
                else:
                    windows[to : to + examples] = 0


@_compiled
def _overlapped(windows, layer, examples, x):
    """(channels, kernel, short, examples) -> (channels, long, examples): added up where windows overlap."""
    kernel, stride, padding, short, long = layer[KERNEL], layer[STRIDE], layer[PADDING], layer[SHORT], layer[LONG]
    x[:] = 0
    for c in range(layer[CHANNELS]):
        for j in range(kernel):
            for t in range(short):
                at = t * stride + j - padding
                if 0 <= at < long:
                    start = ((c * kernel + j) * short + t) * examples
                    to = (c * long + at) * examples
                    for i in range(examples):
                        x[to + i] += windows[start + i]


@_compiled
def _gather(rows, order, place, spare, x):
    """The rows of this order as columns, their values in the order of the network's features."""
    together = _matrix(spare, 0, len(order), len(place))
    for i in range(len(order)):
        row = rows[order[i]]
        for f in range(len(place)):
            together[i, f] = row[place[f]]
    _turn(together, x)


@_compiled
def _linear(weight, x, z, spare):
    """W^T x, to z; by parts of z while the weights stay in the cache, and larger ones in blocks, added up."""
    rows, columns = weight.shape
    size = _rows_at_once(columns, x.shape[1], FEWEST_ADDED)
    if size >= rows:
        product(weight, True, x, False, z)
        return
    if weight.size <= BLOCK and SMALL // (rows * x.shape[1]) >= FEWEST_ADDED:
        size = _rows_at_once(rows, x.shape[1], FEWEST_ADDED)
        for at in range(0, columns, size):
            product_of_columns(weight, at, x, z[at : at + size])
        return
    for at in range(0, rows, size):
        spare[0] = _read(weight[at : at + size])
        added_product(weight[at : at + size], True, x[at : at + size], False, z, min(at, 1))


@_compiled
def _read(block):
    """The weights, read in order into the cache: the product asks for them in one that the processor does not foresee.

    Their sum says nothing. It is there because a loop that gives nothing is left out by the compiler.
    """
    values = block.reshape(block.size)
    total = values[0]
    for k in range(1, values.size):
        total += values[k]
    return total


@_compiled
def _rows_at_once(columns, examples, fewest):
    """How many rows of a layer's weights to take at a time.

    As many as a small product may have, where the library has kernels that read them where they are; if that is less
    than the fewest that pay, as many as stay in the cache while the library copies them.
    """
    cached, small = max(1, BLOCK // columns), SMALL // (columns * examples)
    whole = small - small % FULL if small > FULL else small
    return min(whole, cached) if CUT and small >= fewest else cached


@_compiled
def _turn(u, turned):
    """(values, examples) -> (examples, values).

    In parts of a size the compiler knows: else it gathers them, which takes three times as long.
    """
    rest = len(u) % TURNED_AT_ONCE
    for start in range(0, len(u) - rest, TURNED_AT_ONCE):
        for i in range(len(turned)):
            for k in range(TURNED_AT_ONCE):
                turned[i, start + k] = u[start + k, i]
    for k in range(len(u) - rest, len(u)):
        for i in range(len(turned)):
            turned[i, k] = u[k, i]


@_compiled
def _layer(layer, weights, space, capacity, examples, given, z):
    """The layer's output without activation, to z."""
    rows, columns = layer[ROWS], layer[COLUMNS]
    weight = _matrix(weights, layer[WEIGHT], rows, columns)
    if layer[KIND] == LINEAR:
        _linear(weight, given.reshape(rows, examples), z.reshape(columns, examples), space)  # its front is free here
    else:
        start, wide = layer[WINDOWS] * capacity, layer[SHORT] * examples
        windows = _matrix(space, start, columns, wide)
        flat = space[start : start + columns * wide]
        if layer[KIND] == DOWN:
            _windows(given, layer, examples, flat)
            product(weight, False, windows, False, z.reshape(rows, wide))
        else:
            product(weight, True, given.reshape(rows, wide), False, windows)
            _overlapped(flat, layer, examples, z)
    if layer[BIAS] >= 0:
        channels = _units(layer)
        each = z.reshape(channels, z.size // channels)
        for c in range(channels):
            bias = weights[layer[BIAS] + c]
            for i in range(each.shape[1]):
                each[c, i] += bias


@_compiled
def _units(layer):
    """Outputs of a linear layer, channels of a convolution."""
    if layer[KIND] == LINEAR:
        return layer[OUTPUTS]
    return layer[OUTPUTS] // (layer[SHORT] if layer[KIND] == DOWN else layer[LONG])


@_compiled
def _forward(plan, numbers, weights, space, capacity, examples, squash, masks):
    """From the first layer's input to the reconstruction, which is given; activations stay in the work space.

    `masks` are those of this batch, layer after layer, or of no size.
    """
    last, end = len(plan) - 1, 0
    for i in range(len(plan)):
        layer = plan[i]
        start = layer[GIVEN] * capacity
        given = space[start : start + layer[INPUTS] * examples]
        if layer[SKIP] >= 0:
            before = _values(space, plan[i - 1, ACTIVE] * capacity, given.size)
            _sum(before, _values(space, plan[layer[SKIP], ACTIVE] * capacity, given.size), given)
        start = layer[ACTIVE] * capacity
        z = space[start : start + layer[OUTPUTS] * examples]
        _layer(layer, weights, space, capacity, examples, given, z)
        if i < last:
            _leaky(z, numbers[SLOPE], numbers[ZERO])
            if masks.size:
                end += _units(layer) * examples
                _masked(z, layer, masks, end, examples)
        elif squash:
            _sigmoid(z, numbers[ONE])
    return z


@_compiled
def _adam(weight, gradient, first, second, anchor, numbers, rate, root):
    """Adam as torch has it, with decay towards the anchor; an anchor of no size is zero."""
    beta1, beta2, rest1, rest2 = numbers[BETA1], numbers[BETA2], numbers[REST1], numbers[REST2]
    decay, epsilon = numbers[DECAY], numbers[EPSILON]
    anchored = anchor.size > 0
    for k in range(weight.size):
        from_prior = weight[k] - anchor[k] if anchored else weight[k]
        g = gradient[k] + decay * from_prior
        m = beta1 * first[k] + rest1 * g
        v = beta2 * second[k] + rest2 * g * g
        first[k], second[k] = m, v
        weight[k] -= rate * m / (np.sqrt(v) / root + epsilon)


@_compiled
def _update(start, count, weights, gradient, first, second, anchors, numbers, rate, root):
    end = start + count
    anchor = anchors[start:end] if anchors.size else anchors
    _adam(weights[start:end], gradient[:count], first[start:end], second[start:end], anchor, numbers, rate, root)


@_compiled
def _layer_step(i, plan, numbers, weights, moments, anchors, space, capacity, examples, u, gradient, rate, root):
    """The gradient of the layer's input, if a layer comes before it, and Adam on its weights; u is that of z."""
    layer = plan[i]
    rows, columns, start = layer[ROWS], layer[COLUMNS], layer[WEIGHT]
    first, second = moments[0], moments[1]
    weight = _matrix(weights, start, rows, columns)
    given = space[layer[GIVEN] * capacity : layer[GIVEN] * capacity + layer[INPUTS] * examples]
    dx = space[layer[UPSTREAM] * capacity : layer[UPSTREAM] * capacity + layer[INPUTS] * examples]
    if layer[BIAS] >= 0:
        channels = _units(layer)
        each = u.reshape(channels, u.size // channels)
        for c in range(channels):
            total = numbers[ZERO]
            for k in range(each.shape[1]):
                total += each[c, k]
            gradient[c] = total
        _update(layer[BIAS], channels, weights, gradient, first, second, anchors, numbers, rate, root)
    if layer[KIND] == LINEAR:
        x, d, up = given.reshape(rows, examples), dx.reshape(rows, examples), u.reshape(columns, examples)
        size = min(rows, _rows_at_once(columns, examples, FEWEST_APART))
        turned = _matrix(gradient, gradient.size - up.size, examples, columns)
        turns = CUT and size * columns > TURNED_FROM and size * columns * examples <= SMALL
        if turns:
            _turn(up, turned)
        cached = max(size, BLOCK // columns // size * size)  # Adam likes long stretches
        for block in range(0, rows, cached):
            end = min(block + cached, rows)
            for at in range(block, end, size):
                count = min(size, end - at)
                if i > 0:
                    product(weight[at : at + count], False, up, False, d[at : at + count])
                part = _matrix(gradient, (at - block) * columns, count, columns)
                if turns:
                    product(x[at : at + count], False, turned, False, part)
                else:
                    product(x[at : at + count], False, up, True, part)
            there, many = start + block * columns, (end - block) * columns
            _update(there, many, weights, gradient, first, second, anchors, numbers, rate, root)
        return
    wide = layer[SHORT] * examples
    flat = space[layer[WINDOWS] * capacity : layer[WINDOWS] * capacity + columns * wide]
    windows = flat.reshape(columns, wide)
    whole = _matrix(gradient, 0, rows, columns)
    if layer[KIND] == DOWN:
        up = u.reshape(rows, wide)
        product(up, False, windows, True, whole)
        if i > 0:  # the windows have served
            product(weight, True, up, False, windows)
            _overlapped(flat, layer, examples, dx)
    else:
        _windows(u, layer, examples, flat)
        product(given.reshape(rows, wide), False, windows, True, whole)
        if i > 0:
            product(weight, False, windows, False, dx.reshape(rows, wide))
    _update(start, rows * columns, weights, gradient, first, second, anchors, numbers, rate, root)


@_compiled
def _backward(plan, numbers, weights, moments, anchors, space, capacity, examples, u, gradient, rate, root, masks):
    """Gradients and Adam from the last layer to the first; u comes as the gradient of the last layer's z."""
    end = masks.size
    for i in range(len(plan) - 1, -1, -1):
        if i < len(plan) - 1:
            u = space[: plan[i, OUTPUTS] * examples]
            upstream = _values(space, plan[i + 1, UPSTREAM] * capacity, u.size)
            for j in range(i + 2, len(plan)):
                if plan[j, SKIP] == i:
                    _sum(upstream, _values(space, plan[j, UPSTREAM] * capacity, u.size), upstream)
            active = _values(space, plan[i, ACTIVE] * capacity, u.size)
            _leaky_upstream(upstream, active, numbers[SLOPE], numbers[ZERO], u)
            if masks.size:  # what was switched off is not positive, and its slope does not matter
                end = _masked(u, plan[i], masks, end, examples)
        _layer_step(i, plan, numbers, weights, moments, anchors, space, capacity, examples, u, gradient, rate, root)


@_compiled
def train(
    plan, place, numbers, squash, weights, moments, anchors, rows, order, batch, rates, roots, space, gradient, masks
):
    """All steps of one network in one epoch, in place; the sum of the batches' losses.

    Args:
        plan: the layers, (layers, FIELDS).
        place: where the network's features are in a row.
        numbers: constants in the precision of the data, as the places above say.
        squash: whether the output is a sigmoid.
        weights: of the network, one after the other.
        moments: Adam's two, (2, weights).
        anchors: like the weights, or of no size.
        rows: (N, features).
        order: in which the rows come.
        batch: rows of a step.
        rates: learning rate of each step, over Adam's first correction.
        roots: of Adam's second correction, for each step.
        space: room for a batch; `space_per_example` values for each of its examples.
        gradient: room for the gradient of a block of weights, and for that of a layer's output.
        masks: dropout masks of the rows in this order, batch after batch, (examples, units) for each layer but the
            last; or of no size.
    """
    features, zero, one = len(place), numbers[ZERO], numbers[ONE]
    total, masked = 0.0, 0
    per_example = masks.size // len(order)
    for step in range(len(rates)):
        part = order[step * batch : (step + 1) * batch]
        examples = len(part)
        start = plan[0, GIVEN] * batch
        x = space[start : start + features * examples]
        _gather(rows, part, place, space, x.reshape(features, examples))
        own = masks[masked : masked + per_example * examples]
        masked += own.size
        z = _forward(plan, numbers, weights, space, batch, examples, squash, own)
        share = one / x.dtype.type(x.size)
        squares = zero
        for k in range(x.size):
            residual = z[k] - x[k]
            squares += residual * residual
            if squash:
                residual *= z[k] * (one - z[k])
            z[k] = residual * share
        total += squares * share / 2
        rate, root = rates[step], roots[step]
        _backward(plan, numbers, weights, moments, anchors, space, batch, examples, z, gradient, rate, root, own)
    return total


@_compiled
def _halves(z, x, place, half, out):
    """Half the squared residual of every value, back in its place in its row: out (examples, features)."""
    half = z.dtype.type(half)
    for f in range(len(place)):
        to = place[f]
        for k in range(len(out)):
            residual = z[f, k] - x[f, k]
            out[k, to] = half * residual * residual


@_compiled
def score(plan, place, numbers, squash, weights, rows, size, space, out, apart):
    """Half the mean squared residual of every row under every network: out (networks, N).

    And of every value: apart (networks, N, features), where it has a size. The sums are the same to the bit without.
    """
    features, zero = len(place), numbers[ZERO]
    order = np.arange(len(rows))
    half = numbers[ONE] / rows.dtype.type(2 * features)
    for start in range(0, len(rows), size):
        part = order[start : start + size]
        examples = len(part)
        x = _matrix(space, plan[0, GIVEN] * size, features, examples)
        _gather(rows, part, place, space, x)
        for network in range(len(weights)):
            flat = _forward(plan, numbers, weights[network], space, size, examples, squash, out[0, :0])
            z = flat.reshape(features, examples)
            found = out[network, start : start + examples]
            found[:] = zero
            for f in range(features):
                for k in range(examples):
                    residual = z[f, k] - x[f, k]
                    found[k] += residual * residual
            for k in range(examples):
                found[k] *= half
            if apart.size:
                _halves(z, x, place, numbers[ONE] / 2, apart[network, start : start + examples])
