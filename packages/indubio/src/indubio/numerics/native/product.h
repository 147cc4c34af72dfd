// The one product of matrices: C = A B, every value of C a sum over p = 0, 1, 2, ... in this order, by fused
// multiply-adds.
//
//     C[r, v] = sum_p A[r, p] B[p, v]        A by any two strides, B and C with their rows one after the other
//
// The order is the same for every tile, block and instruction set, so a value depends on nothing but its row of A and
// its column of B. Large A are copied in blocks that stay in the cache; a sum that goes on in the next block of p
// starts from what is in C, which is what the register held.
#pragma once
#include "vectors.h"

namespace {

constexpr int64_t DEEP = 256;         // p of a block: a tile's columns of B stay in the first cache
constexpr int64_t TALL = 192;         // rows of a block: the copy of A stays in the second
constexpr int64_t UNPACKED = 1 << 14;  // values of A up to which it is read where it is
constexpr int64_t SHALLOW = 32;       // p of a block where A has few rows: B is read once, in order
constexpr int64_t FEW_ROWS = 16;
constexpr int64_t PACKED = DEEP * TALL;  // values that `product` needs to copy A

template <class T, int R, int N, bool REST>
static inline void tile(const T* a, int64_t rs, int64_t ps, const T* b, int64_t bs, T* c, int64_t cs, int64_t depth,
                        bool fresh, int rest) {
    constexpr int L = LANES<T>;
    V<T> sum[R][N];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) {
            if (fresh)
                sum[r][n] = V<T>{};
            else
                sum[r][n] = REST && n == N - 1 ? load(c + r * cs + n * L, rest) : load(c + r * cs + n * L);
        }
    }
    for (int64_t p = 0; p < depth; p++) {
        V<T> column[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; n++)
            column[n] = REST && n == N - 1 ? load(b + p * bs + n * L, rest) : load(b + p * bs + n * L);
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            const V<T> value = all(a[r * rs + p * ps]);
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) sum[r][n] = fma(value, column[n], sum[r][n]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++) {
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) {
            if (REST && n == N - 1)
                store(c + r * cs + n * L, sum[r][n], rest);
            else
                store(c + r * cs + n * L, sum[r][n]);
        }
    }
}

// All rows of A for the columns of one tile, N vectors wide; A's rows beyond a whole number of tiles take smaller ones.
template <class T, int N, bool REST, int R = ROWS>
static void rows_of_tiles(const T* a, int64_t rs, int64_t ps, int64_t next, const T* b, int64_t bs, T* c, int64_t cs,
                          int64_t rows, int64_t depth, bool fresh, int rest) {
    // `next`: where the next tile's rows of A begin, R rows further on, or R * `depth` values in a copy.
    for (; rows >= R; rows -= R, a += next, c += R * cs) tile<T, R, N, REST>(a, rs, ps, b, bs, c, cs, depth, fresh, rest);
    if constexpr (R > 1)
        if (rows) rows_of_tiles<T, N, REST, R / 2>(a, rs, ps, R / 2 * rs, b, bs, c, cs, rows, depth, fresh, rest);
}

template <class T>
static void block_product(const T* a, int64_t rs, int64_t ps, int64_t next, const T* b, int64_t bs, T* c, int64_t cs,
                          int64_t rows, int64_t columns, int64_t depth, bool fresh) {
    constexpr int64_t L = LANES<T>, WIDE = VECTORS * L;
    int64_t v = 0;
    for (; v + WIDE <= columns; v += WIDE)
        rows_of_tiles<T, VECTORS, false>(a, rs, ps, next, b + v, bs, c + v, cs, rows, depth, fresh, 0);
    for (; v + L <= columns; v += L)
        rows_of_tiles<T, 1, false>(a, rs, ps, next, b + v, bs, c + v, cs, rows, depth, fresh, 0);
    if (v < columns)
        rows_of_tiles<T, 1, true>(a, rs, ps, next, b + v, bs, c + v, cs, rows, depth, fresh, int(columns - v));
}

// Rows of A in tiles of ROWS, each with its values of one p side by side; the rest of the rows likewise, unpadded.
template <class T>
static void pack(const T* a, int64_t rs, int64_t ps, int64_t rows, int64_t depth, T* packed) {
    for (int64_t r = 0; r < rows; r += ROWS) {
        const int64_t count = least(ROWS, rows - r);
        const T* from = a + r * rs;
        if (rs == 1 && count == ROWS) {
            for (int64_t p = 0; p < depth; p++)
                for (int k = 0; k < ROWS; k++) packed[p * ROWS + k] = from[p * ps + k];
        } else {
            for (int64_t p = 0; p < depth; p++)
                for (int64_t k = 0; k < count; k++) packed[p * ROWS + k] = from[k * rs + p * ps];
        }
        packed += depth * ROWS;
    }
}

// `room` holds PACKED values. With `fresh` false the sums go on from what is in C.
template <class T>
static void product(const T* a, int64_t rs, int64_t ps, const T* b, int64_t bs, T* c, int64_t cs, int64_t rows,
                    int64_t columns, int64_t depth, T* room) {
    if (rows <= FEW_ROWS && columns * depth > UNPACKED) {
        for (int64_t p = 0; p < depth; p += SHALLOW)
            block_product(a + p * ps, rs, ps, ROWS * rs, b + p * bs, bs, c, cs, rows, columns,
                          least(SHALLOW, depth - p), p == 0);
        return;
    }
    if (rows * depth <= UNPACKED || columns <= VECTORS * LANES<T>) {  // each value of A is read once, or stays near
        for (int64_t p = 0; p < depth || p == 0; p += DEEP)
            block_product(a + p * ps, rs, ps, ROWS * rs, b + p * bs, bs, c, cs, rows, columns, least(DEEP, depth - p),
                          p == 0);
        return;
    }
    for (int64_t r = 0; r < rows; r += TALL) {
        const int64_t tall = least(TALL, rows - r);
        for (int64_t p = 0; p < depth; p += DEEP) {
            const int64_t deep = least(DEEP, depth - p);
            pack(a + r * rs + p * ps, rs, ps, tall, deep, room);
            block_product(room, int64_t(1), int64_t(ROWS), deep * ROWS, b + p * bs, bs, c + r * cs, cs, tall, columns,
                          deep, p == 0);
        }
    }
}

// (rows, columns) -> (columns, rows), in parts of a size that the compiler knows.
template <class T>
static void turn(const T* from, int64_t fs, int64_t rows, int64_t columns, T* to, int64_t ts) {
    constexpr int64_t AT_ONCE = 16;
    int64_t r = 0;
    for (; r + AT_ONCE <= rows; r += AT_ONCE)
        for (int64_t k = 0; k < columns; k++)
            for (int64_t j = 0; j < AT_ONCE; j++) to[k * ts + r + j] = from[(r + j) * fs + k];
    for (; r < rows; r++)
        for (int64_t k = 0; k < columns; k++) to[k * ts + r] = from[r * fs + k];
}

}  // namespace
