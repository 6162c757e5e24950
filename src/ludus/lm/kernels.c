/* What a decoder does between its matrix products, for training and for generation: float32 on one thread of a CPU.
 *
 * Training works on packed rows without a cache and has gradients; generation works on rows of many sequences over a
 * paged cache of keys and values. kernels.py compiles this file at first use and declares the functions; the shapes are
 * those of compiled_training.py and compiled_generation.py.
 *
 * Invariant: every row is computed by itself, and every sum is added up in an order that depends on the place of its
 * terms alone. So a row's bits do not depend on its neighbours, on how long others are, or on whether its prefix was
 * computed now or earlier. The compiler must not spoil that: no -ffast-math (it would reorder sums), and
 * -ffp-contract=off, because it fuses a product and a sum in one copy of a loop and not in another. Where they are to
 * be fused, FUSED says so.
 *
 * Every function writes all of its outputs unless it says that it adds to them.
 */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__FMA__) && defined(__AVX__)
#include <immintrin.h>
#endif

#define BLOCK 16 /* positions of a block, as in kv_cache.py */
#define LANES 16 /* partial sums of a long sum */

typedef int64_t Int;

/* Eight numbers in a register, at any address. */
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
#define EIGHT(pointer) (*(Eight *)(pointer))
#define INLINE static inline __attribute__((always_inline))

/* a * b + c, rounded once where the processor can do that. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUSED(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FUSED(a, b, c) ((a) * (b) + (c))
#endif

/* The same for eight. */
INLINE Eight fused_eight(Eight a, Eight b, Eight c) {
#if defined(__FMA__) && defined(__AVX__)
    return (Eight)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#else
    for (int i = 0; i < 8; i++) c[i] = FUSED(a[i], b[i], c[i]);
    return c;
#endif
}

/* The same for eight b and c. */
INLINE Eight fused(float a, Eight b, Eight c) { return fused_eight(a - (Eight){0}, b, c); }

/* Sums of LANES partial sums, always in the same order. */
static inline float add_lanes(const float *lanes) {
    float half[LANES / 2];
    for (int i = 0; i < LANES / 2; i++) half[i] = lanes[i] + lanes[i + LANES / 2];
    for (int n = LANES / 4; n; n /= 2)
        for (int i = 0; i < n; i++) half[i] += half[i + n];
    return half[0];
}

static inline float sum_of_squares(const float *x, Int width) {
    float lanes[LANES] = {0};
    Int i = 0;
    for (; i + LANES <= width; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = FUSED(x[i + l], x[i + l], lanes[l]);
    for (; i < width; i++) lanes[i % LANES] = FUSED(x[i], x[i], lanes[i % LANES]);
    return add_lanes(lanes);
}

/* e^x to about 1 unit in the last place; 0 below -87, and for -inf. */
static inline float exponential(float x) {
    float bounded = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
    float n = rintf(bounded * 1.44269504088896341f);
    float r = FUSED(n, -0.693359375f, bounded);
    r = FUSED(n, 2.12194440e-4f, r);
    float p = FUSED(1.9875691500e-4f, r, 1.3981999507e-3f);
    p = FUSED(p, r, 8.3334519073e-3f);
    p = FUSED(p, r, 4.1665795894e-2f);
    p = FUSED(p, r, 1.6666665459e-1f);
    p = FUSED(p, r, 5.0000001201e-1f);
    p = FUSED(p, r * r, r) + 1.0f;
    union { uint32_t i; float f; } power = {(uint32_t)((int32_t)n + 127) << 23};
    return x < -87.0f ? 0.0f : p * power.f;
}

static inline float sum_of_eight(Eight x) {
    return ((x[0] + x[4]) + (x[1] + x[5])) + ((x[2] + x[6]) + (x[3] + x[7]));
}

/* The largest of n numbers. */
static inline float largest(const float *x, Int n) {
    typedef int32_t Masks __attribute__((vector_size(32)));
    float most = -INFINITY;
    Int i = 0;
    if (n >= 8) {
        Eight top = EIGHT(x);
        for (i = 8; i + 8 <= n; i += 8) {
            Eight next = EIGHT(x + i);
            Masks above = next > top;
            top = (Eight)((above & (Masks)next) | (~above & (Masks)top));
        }
        for (int j = 0; j < 8; j++) most = top[j] > most ? top[j] : most;
    }
    for (; i < n; i++) most = x[i] > most ? x[i] : most;
    return most;
}

/* Dot product; n is a multiple of 8. */
static inline float dot(const float *x, const float *y, Int n) {
    Eight sum = {0};
    for (Int i = 0; i < n; i += 8) sum += EIGHT(x + i) * EIGHT(y + i);
    return sum_of_eight(sum);
}

/* y [rows, width] = silu(gate) * up of x [rows, 2 width] = gate, up. */
void gate_forward(const float *x, float *y, Int rows, Int width) {
    for (Int row = 0; row < rows; row++, x += 2 * width, y += width)
        for (Int i = 0; i < width; i++) y[i] = x[i] / (1.0f + exponential(-x[i])) * x[width + i];
}

/* == training: packed rows, with gradients ========================================================================= */

/* y [rows, width] = x * scale * weight with scale [rows] = 1 / sqrt(mean(x^2) + eps); width is a multiple of 8. */
void norm_forward(const float *x, const float *weight, float *y, float *scale, Int rows, Int width, float eps) {
    for (Int row = 0; row < rows; row++, x += width, y += width) {
        float s = scale[row] = 1.0f / sqrtf(dot(x, x, width) / (float)width + eps);
        for (Int i = 0; i < width; i++) y[i] = x[i] * s * weight[i];
    }
}

/* of_x [rows, width]; adds to of_weight [width] unless it is null. What is fused here and in TILE is what trained
 * weights were recorded with: to change it is to change their last bits. */
void norm_backward(const float *g, const float *x, const float *weight, const float *scale, float *of_x,
                   float *of_weight, Int rows, Int width) {
    for (Int row = 0; row < rows; row++, x += width, g += width, of_x += width) {
        float s = scale[row];
        Eight sum = {0};
        for (Int i = 0; i < width; i += 8) {
            Eight normed = EIGHT(x + i) * s;
            Eight weighted = EIGHT(g + i) * EIGHT(weight + i);
            if (of_weight) {
                EIGHT(of_weight + i) = fused_eight(EIGHT(g + i), normed, EIGHT(of_weight + i));
                sum = fused_eight(weighted, normed, sum);
            } else
                sum += weighted * normed;
        }
        float along = sum_of_eight(sum) / (float)width;
        for (Int i = 0; i < width; i++) of_x[i] = FUSED(g[i], weight[i], -(x[i] * s * along)) * s;
    }
}

void gate_backward(const float *g, const float *x, float *of_x, Int rows, Int width) {
    for (Int row = 0; row < rows; row++, x += 2 * width, of_x += 2 * width, g += width)
        for (Int i = 0; i < width; i++) {
            float sigmoid = 1.0f / (1.0f + exponential(-x[i])), active = x[i] * sigmoid;
            of_x[width + i] = g[i] * active;
            of_x[i] = g[i] * x[width + i] * (sigmoid + active - active * sigmoid);
        }
}

/* -- small matrix products ---------------------------------------------------------------------------------------- */

/* c [m, n] = (or +=) a [m, k] b [k, n]. a has any strides; b and c have rows of `to_b` and `to_c`; n is a multiple
 * of 8. Six rows by sixteen columns at a time stay in registers. */
#define TILE(M, N)                                                                                                     \
    static inline void tile_##M##_##N(const float *a, Int am, Int ak, const float *b, Int to_b, float *c, Int to_c,    \
                                      Int k, int adds) {                                                               \
        Eight sum[M][N];                                                                                               \
        for (int i = 0; i < M; i++)                                                                                    \
            for (int j = 0; j < N; j++) sum[i][j] = adds ? EIGHT(c + i * to_c + 8 * j) : (Eight){0};                   \
        for (Int p = 0; p < k; p++, b += to_b) {                                                                       \
            Eight right[N];                                                                                            \
            for (int j = 0; j < N; j++) right[j] = EIGHT(b + 8 * j);                                                   \
            for (int i = 0; i < M; i++) {                                                                              \
                float left = a[i * am + p * ak];                                                                       \
                for (int j = 0; j < N; j++)                                                                            \
                    if (M * N > 1)                                                                                     \
                        sum[i][j] = fused(left, right[j], sum[i][j]);                                                  \
                    else                                                                                               \
                        sum[i][j] += left * right[j];                                                                  \
            }                                                                                                          \
        }                                                                                                              \
        for (int i = 0; i < M; i++)                                                                                    \
            for (int j = 0; j < N; j++) EIGHT(c + i * to_c + 8 * j) = sum[i][j];                                       \
    }
#define TILES(M) TILE(M, 1) TILE(M, 2)
TILES(1) TILES(2) TILES(3) TILES(4) TILES(5) TILES(6)

#define CASE(M, N)                                                                                                     \
    case M:                                                                                                            \
        tile_##M##_##N(a + i * am, am, ak, b + j, to_b, c + i * to_c + j, to_c, k, adds);                              \
        break;
#define CASES(N) CASE(1, N) CASE(2, N) CASE(3, N) CASE(4, N) CASE(5, N) CASE(6, N)

static void product(const float *a, Int am, Int ak, const float *b, Int to_b, float *c, Int to_c, Int m, Int n, Int k,
                    int adds) {
    for (Int j = 0; j < n;) {
        Int wide = n - j >= 16;
        for (Int i = 0; i < m; i += 6) {
            Int rows = m - i < 6 ? m - i : 6;
            if (wide)
                switch (rows) { CASES(2) }
            else
                switch (rows) { CASES(1) }
        }
        j += wide ? 16 : 8;
    }
}

/* -- attention ---------------------------------------------------------------------------------------------------- */

#define QUERIES 24 /* rows of queries that are worked on together */

typedef struct {
    Int rows, heads, keys, size; /* of queries; of keys and values; numbers of a head, a multiple of 8 */
    Int segments;
    const Int *segment;         /* [segments, 4]: first row, rows, first row of the prefix, rows of the prefix */
    float scale, eps;
    const Int *positions;         /* [rows] */
    const float *cosines, *sines; /* [context, size / 2] */
    const float *norm;          /* [heads + keys, size], or null */
} PackedPlan;

static inline Int round_up(Int n) { return (n + 7) / 8 * 8; }

/* turned [rows, heads + keys, size] = queries and keys of qkv, normed and turned; norms [rows, heads + keys]. */
static void turn(const PackedPlan *plan, const float *qkv, float *turned, float *norms) {
    Int size = plan->size, half = size / 2, turning = plan->heads + plan->keys, every = turning + plan->keys;
    for (Int row = 0; row < plan->rows; row++) {
        Int at = plan->positions[row] * half;
        const float *cosine = plan->cosines + at, *sine = plan->sines + at;
        for (Int head = 0; head < turning; head++) {
            const float *x = qkv + (row * every + head) * size;
            float *y = turned + (row * turning + head) * size, normed[size];
            if (plan->norm) {
                const float *weight = plan->norm + head * size;
                float s = norms[row * turning + head] = 1.0f / sqrtf(dot(x, x, size) / (float)size + plan->eps);
                for (Int i = 0; i < size; i++) normed[i] = x[i] * s * weight[i];
                x = normed;
            }
            for (Int i = 0; i < half; i++) y[i] = FUSED(x[i], cosine[i], -(x[half + i] * sine[i]));
            for (Int i = 0; i < half; i++) y[half + i] = FUSED(x[half + i], cosine[i], x[i] * sine[i]);
        }
    }
}

/* Gradient through `turn`, in place in of_qkv; adds to of_norm [heads + keys, size] unless it is null. */
static void turn_back(const PackedPlan *plan, const float *qkv, const float *norms, float *of_qkv, float *of_norm) {
    Int size = plan->size, half = size / 2, turning = plan->heads + plan->keys, every = turning + plan->keys;
    for (Int row = 0; row < plan->rows; row++) {
        Int at = plan->positions[row] * half;
        const float *cosine = plan->cosines + at, *sine = plan->sines + at;
        for (Int head = 0; head < turning; head++) {
            float *g = of_qkv + (row * every + head) * size, back[size];
            for (Int i = 0; i < half; i++) back[i] = FUSED(g[i], cosine[i], g[half + i] * sine[i]);
            for (Int i = 0; i < half; i++) back[half + i] = FUSED(g[half + i], cosine[i], -(g[i] * sine[i]));
            if (!plan->norm) {
                memcpy(g, back, sizeof(float) * size);
                continue;
            }
            const float *x = qkv + (row * every + head) * size, *weight = plan->norm + head * size;
            norm_backward(back, x, weight, norms + row * turning + head, g,
                                of_norm ? of_norm + head * size : NULL, 1, size);
        }
    }
}

/* Room for one segment and one key head: context rows `length`, padded to `wide`. */
typedef struct {
    Int length, wide;
    float *keys, *values;           /* [length, size] */
    float *keys_across, *values_across; /* [size, wide], zeros from length on */
    float *of_keys, *of_values;     /* [length, size] */
    float *table, *of_table;        /* [QUERIES, wide] */
} Room;

static Int longest_context(const PackedPlan *plan) {
    Int longest = 0;
    for (Int s = 0; s < plan->segments; s++) {
        Int length = plan->segment[4 * s + 1] + plan->segment[4 * s + 3];
        if (length > longest) longest = length;
    }
    return longest;
}

static float *make_room(Room *room, const PackedPlan *plan) {
    Int wide = round_up(longest_context(plan)), matrix = wide * plan->size, table = QUERIES * wide;
    float *memory = malloc(sizeof(float) * (size_t)(6 * matrix + 2 * table));
    if (!memory) return NULL;
    float **parts[] = {&room->keys, &room->values, &room->keys_across, &room->values_across, &room->of_keys,
                       &room->of_values};
    for (int i = 0; i < 6; i++) *parts[i] = memory + i * matrix;
    room->table = memory + 6 * matrix;
    room->of_table = room->table + table;
    return memory;
}

static inline Int context_row(const Int *segment, Int j) {
    return j < segment[3] ? segment[2] + j : segment[0] + j - segment[3];
}

/* Bring the context of a segment together, for one key head. */
static void pack(Room *room, const PackedPlan *plan, const Int *segment, Int key, const float *turned,
                 const float *qkv) {
    Int size = plan->size, turning = plan->heads + plan->keys, every = turning + plan->keys;
    Int length = room->length = segment[1] + segment[3], wide = room->wide = round_up(length);
    for (Int j = 0; j < wide; j++) {
        int present = j < length;
        Int row = present ? context_row(segment, j) : 0;
        const float *k = turned + (row * turning + plan->heads + key) * size;
        const float *v = qkv + (row * every + turning + key) * size;
        for (Int i = 0; i < size; i++) {
            room->keys_across[i * wide + j] = present ? k[i] : 0.0f;
            room->values_across[i * wide + j] = present ? v[i] : 0.0f;
        }
        if (!present) continue;
        memcpy(room->keys + j * size, k, sizeof(float) * size);
        memcpy(room->values + j * size, v, sizeof(float) * size);
    }
}

/* out [rows, heads, size] of qkv [rows, heads + 2 keys, size]; for the gradient: turned [rows, heads + keys, size],
 * norms [rows, heads + keys] and logsums [rows, heads]. Returns 0, or 1 without memory. */
int packed_attention(const PackedPlan *plan, const float *qkv, float *turned, float *norms, float *logsums,
                     float *out) {
    Int size = plan->size, heads = plan->heads, turning = heads + plan->keys, share = heads / plan->keys;
    Room room;
    float *memory = make_room(&room, plan);
    if (!memory) return 1;
    turn(plan, qkv, turned, norms);
    for (Int s = 0; s < plan->segments; s++) {
        const Int *segment = plan->segment + 4 * s;
        for (Int key = 0; key < plan->keys && segment[1]; key++) {
            pack(&room, plan, segment, key, turned, qkv);
            for (Int head = key * share; head < (key + 1) * share; head++)
                for (Int first = 0; first < segment[1]; first += QUERIES) {
                    Int count = segment[1] - first < QUERIES ? segment[1] - first : QUERIES;
                    Int seen = segment[3] + first + count, row = segment[0] + first, wide = room.wide;
                    product(turned + (row * turning + head) * size, turning * size, 1, room.keys_across, wide,
                            room.table, wide, count, round_up(seen), size, 0);
                    float scales[QUERIES];
                    for (Int i = 0; i < count; i++) {
                        float *scores = room.table + i * wide, total = 0.0f;
                        Int own = segment[3] + first + i + 1;
                        float most = largest(scores, own);
                        for (Int j = 0; j < own; j++) scores[j] = exponential((scores[j] - most) * plan->scale);
                        for (Int j = own; j < seen; j++) scores[j] = 0.0f;
                        Eight sum = {0};
                        Int j = 0;
                        for (; j + 8 <= own; j += 8) sum += EIGHT(scores + j);
                        for (; j < own; j++) total += scores[j];
                        total += sum_of_eight(sum);
                        scales[i] = 1.0f / total;
                        logsums[(row + i) * heads + head] = FUSED(most, plan->scale, logf(total));
                    }
                    float *o = out + (row * heads + head) * size;
                    product(room.table, wide, 1, room.values, size, o, heads * size, count, size, seen, 0);
                    for (Int i = 0; i < count; i++)
                        for (Int d = 0; d < size; d++) o[i * heads * size + d] *= scales[i];
                }
        }
    }
    free(memory);
    return 0;
}

/* of_qkv [rows, heads + 2 keys, size] from g [rows, heads, size] and what the forward pass gave; adds to of_norm
 * [heads + keys, size] unless it is null. Returns 0, or 1 without memory. */
int packed_attention_backward(const PackedPlan *plan, const float *g, const float *qkv, const float *turned,
                              const float *norms, const float *logsums, const float *out, float *of_qkv,
                              float *of_norm) {
    Int size = plan->size, heads = plan->heads, turning = heads + plan->keys, every = turning + plan->keys;
    Int share = heads / plan->keys;
    Room room;
    float *memory = make_room(&room, plan);
    if (!memory) return 1;
    memset(of_qkv, 0, sizeof(float) * (size_t)(plan->rows * every * size));
    for (Int s = 0; s < plan->segments; s++) {
        const Int *segment = plan->segment + 4 * s;
        for (Int key = 0; key < plan->keys && segment[1]; key++) {
            pack(&room, plan, segment, key, turned, qkv);
            memset(room.of_keys, 0, sizeof(float) * (size_t)(room.length * size));
            memset(room.of_values, 0, sizeof(float) * (size_t)(room.length * size));
            for (Int head = key * share; head < (key + 1) * share; head++)
                for (Int first = 0; first < segment[1]; first += QUERIES) {
                    Int count = segment[1] - first < QUERIES ? segment[1] - first : QUERIES;
                    Int seen = segment[3] + first + count, row = segment[0] + first, wide = room.wide;
                    const float *q = turned + (row * turning + head) * size;
                    const float *outer = g + (row * heads + head) * size, *o = out + (row * heads + head) * size;
                    product(q, turning * size, 1, room.keys_across, wide, room.table, wide, count, round_up(seen),
                            size, 0);
                    product(outer, heads * size, 1, room.values_across, wide, room.of_table, wide, count,
                            round_up(seen), size, 0);
                    for (Int i = 0; i < count; i++) {
                        float *p = room.table + i * wide, *of_p = room.of_table + i * wide;
                        float logsum = logsums[(row + i) * heads + head];
                        float along = dot(outer + i * heads * size, o + i * heads * size, size);
                        Int own = segment[3] + first + i + 1;
                        for (Int j = 0; j < own; j++) {
                            p[j] = exponential(FUSED(p[j], plan->scale, -logsum));
                            of_p[j] = p[j] * (of_p[j] - along) * plan->scale;
                        }
                        for (Int j = own; j < seen; j++) p[j] = of_p[j] = 0.0f;
                    }
                    product(room.of_table, wide, 1, room.keys, size, of_qkv + (row * every + head) * size,
                            every * size, count, size, seen, 0);
                    product(room.of_table, 1, wide, q, turning * size, room.of_keys, size, seen, size, count, 1);
                    product(room.table, 1, wide, outer, heads * size, room.of_values, size, seen, size, count, 1);
                }
            for (Int j = 0; j < room.length; j++) {
                float *to = of_qkv + context_row(segment, j) * every * size;
                float *k = to + (heads + key) * size, *v = to + (turning + key) * size;
                for (Int i = 0; i < size; i++) k[i] += room.of_keys[j * size + i];
                for (Int i = 0; i < size; i++) v[i] += room.of_values[j * size + i];
            }
        }
    }
    turn_back(plan, qkv, norms, of_qkv, of_norm);
    free(memory);
    return 0;
}

/* == generation: rows of many sequences over a paged cache ========================================================= */

typedef struct {
    Int rows, width, heads, kv_heads, head_width, hidden;
    Int blocks;         /* blocks of the cache, per layer */
    Int table_width;    /* blocks of a table's row */
    float epsilon, scale;   /* of norms; of queries */
    const int32_t *positions, *sequences, *tables;
    const float *cosines, *sines; /* [context, head_width / 2] */
    float *keys;            /* [layers, blocks, kv_heads, head_width, BLOCK] */
    float *values;          /* [layers, blocks, kv_heads, BLOCK, head_width] */
    float *scores;          /* room for [2, table_width * BLOCK] */
} CachedPlan;

static void norm_row(const float *x, const float *weight, float *out, Int width, float epsilon) {
    float scale = 1.0f / sqrtf(sum_of_squares(x, width) / (float)width + epsilon);
    for (Int i = 0; i < width; i++) out[i] = x[i] * scale * weight[i];
}

/* out [rows, width] = root-mean-square norm of x [rows, width]. */
void cached_norm(const float *x, const float *weight, float *out, Int rows, Int width, float epsilon) {
    for (Int row = 0; row < rows; row++) norm_row(x + row * width, weight, out + row * width, width, epsilon);
}

/* Norm (if weight) and turn one head; `out` has `stride` between its numbers. */
static inline void turn_head(const float *x, const float *weight, float *out, Int stride, const CachedPlan *plan,
                             Int position, float scale) {
    Int half = plan->head_width / 2;
    const float *cosines = plan->cosines + position * half, *sines = plan->sines + position * half;
    float normed[2 * half];
    if (weight)
        norm_row(x, weight, normed, 2 * half, plan->epsilon);
    else
        memcpy(normed, x, sizeof(float) * 2 * half);
    float turned[2 * half];
    for (Int i = 0; i < half; i++) {
        turned[i] = (normed[i] * cosines[i] - normed[i + half] * sines[i]) * scale;
        turned[i + half] = (normed[i + half] * cosines[i] + normed[i] * sines[i]) * scale;
    }
    for (Int i = 0; i < 2 * half; i++) out[i * stride] = turned[i];
}

/* Store keys and values of qkv [rows, (heads + 2 kv_heads) * head_width]; queries [rows, heads, head_width]. */
void cached_place(const CachedPlan *plan, const float *qkv, Int layer, const float *q_norm, const float *k_norm,
                  float *queries) {
    Int heads = plan->heads, kv_heads = plan->kv_heads, size = plan->head_width;
    for (Int row = 0; row < plan->rows; row++) {
        const float *x = qkv + row * (heads + 2 * kv_heads) * size;
        Int position = plan->positions[row];
        Int block = plan->tables[plan->sequences[row] * plan->table_width + position / BLOCK];
        Int at = (layer * plan->blocks + block) * kv_heads * size * BLOCK, place = position % BLOCK;
        for (Int head = 0; head < heads; head++)
            turn_head(x + head * size, q_norm, queries + (row * heads + head) * size, 1, plan, position, plan->scale);
        for (Int head = 0; head < kv_heads; head++) {
            float *keys = plan->keys + at + head * size * BLOCK + place;
            turn_head(x + (heads + head) * size, k_norm, keys, BLOCK, plan, position, 1.0f);
            float *values = plan->values + at + (head * BLOCK + place) * size;
            memcpy(values, x + (heads + kv_heads + head) * size, sizeof(float) * size);
        }
    }
}

/* scores [heads][blocks * BLOCK] of queries that share their keys, added up number by number. How many heads and
 * blocks are computed at once keeps the processor's pipelines full and changes no bits. */
INLINE void score(const float *queries, Int size, const float *const *keys, const int heads, const int blocks,
                  float *scores, Int stride) {
    Eight sums[2][8] = {{{0}}};
    for (Int d = 0; d < size; d++)
        for (int i = 0; i < 2 * blocks; i++) {
            Eight key = EIGHT(keys[i / 2] + d * BLOCK + i % 2 * 8);
            for (int head = 0; head < heads; head++)
                sums[head][i] = fused(queries[head * size + d], key, sums[head][i]);
        }
    for (int head = 0; head < heads; head++) memcpy(scores + head * stride, sums[head], sizeof(Eight) * 2 * blocks);
}

/* out [heads][8 * count] = shares of the values of the positions seen; of one head, even and odd positions are added up
 * apart. Positions of the last block that are not seen may hold anything, so they are not touched: 0 times infinity is
 * not 0. */
INLINE void mix(const float *shares, Int stride, const float *layer, const int32_t *table, Int seen, Int block_size,
                Int size, const int heads, const int count, float *out) {
    Eight sums[2][4] = {{{0}}};
    for (Int start = 0; start < seen; start += BLOCK) {
        const float *values = layer + table[start / BLOCK] * block_size, *share = shares + start;
        Int here = seen - start < BLOCK ? seen - start : BLOCK;
        for (Int p = 0; p < here; p++)
            for (int i = 0; i < count; i++) {
                Eight value = EIGHT(values + p * size + 8 * i);
                if (heads == 1)
                    sums[p % 2][i] = fused(share[p], value, sums[p % 2][i]);
                else
                    for (int head = 0; head < heads; head++)
                        sums[head][i] = fused(share[head * stride + p], value, sums[head][i]);
            }
    }
    for (int i = 0; i < count; i++)
        if (heads == 1)
            EIGHT(out + 8 * i) = sums[0][i] + sums[1][i];
        else
            for (int head = 0; head < heads; head++) EIGHT(out + head * size + 8 * i) = sums[head][i];
}

/* Turn scores into shares that sum to what is returned. Positions that are not seen get 0. */
static float share_out(float *scores, Int seen, Int padded) {
    float lanes[LANES], most = -INFINITY;
    for (Int p = seen; p < padded; p++) scores[p] = -INFINITY;
    for (int l = 0; l < LANES; l++) lanes[l] = scores[l];
    for (Int p = LANES; p < padded; p += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = scores[p + l] > lanes[l] ? scores[p + l] : lanes[l];
    for (int l = 0; l < LANES; l++) most = lanes[l] > most ? lanes[l] : most;
    for (int l = 0; l < LANES; l++) lanes[l] = 0;
    for (Int p = 0; p < padded; p += LANES)
        for (int l = 0; l < LANES; l++) {
            scores[p + l] = exponential(scores[p + l] - most);
            lanes[l] += scores[p + l];
        }
    return add_lanes(lanes);
}

/* One or two queries of one row that share keys and values: scores, shares, and what they take from the values. */
INLINE void attend_heads(const CachedPlan *plan, const float *queries, const int heads, const float *keys,
                         const float *values, const int32_t *table, Int seen, float *out) {
    const int at_once = heads == 1 ? 4 : 2;
    Int size = plan->head_width, blocks = (seen + BLOCK - 1) / BLOCK, block_size = plan->kv_heads * size * BLOCK;
    Int b = 0, i = 0, stride = plan->table_width * BLOCK;
    float *scores = plan->scores;
    const float *these[4];
    for (; b + at_once <= blocks; b += at_once) {
        for (int j = 0; j < at_once; j++) these[j] = keys + table[b + j] * block_size;
        score(queries, size, these, heads, at_once, scores + b * BLOCK, stride);
    }
    for (; b < blocks; b++) {
        these[0] = keys + table[b] * block_size;
        score(queries, size, these, heads, 1, scores + b * BLOCK, stride);
    }
    float whole[2];
    for (int head = 0; head < heads; head++)
        whole[head] = 1.0f / share_out(scores + head * stride, seen, blocks * BLOCK);
    for (; i + 32 <= size; i += 32)
        mix(scores, stride, values + i, table, seen, block_size, size, heads, 4, out + i);
    for (; i < size; i += 8) mix(scores, stride, values + i, table, seen, block_size, size, heads, 1, out + i);
    for (int head = 0; head < heads; head++)
        for (i = 0; i < size; i++) out[head * size + i] *= whole[head];
}

/* out [rows, heads, head_width] = attention of queries [rows, heads, head_width] over the positions up to each row's.
 * Whether a head is computed with its neighbour depends on its number alone. */
void cached_attention(const CachedPlan *plan, const float *queries, Int layer, float *out) {
    Int heads = plan->heads, size = plan->head_width, group = heads / plan->kv_heads;
    Int at = layer * plan->blocks * plan->kv_heads * size * BLOCK;
    for (Int row = 0; row < plan->rows; row++) {
        const int32_t *table = plan->tables + plan->sequences[row] * plan->table_width;
        Int seen = plan->positions[row] + 1;
        for (Int kv_head = 0; kv_head < plan->kv_heads; kv_head++) {
            const float *keys = plan->keys + at + kv_head * size * BLOCK;
            const float *values = plan->values + at + kv_head * size * BLOCK;
            Int head = kv_head * group, last = head + group;
            for (; head + 2 <= last; head += 2) {
                Int number = (row * heads + head) * size;
                attend_heads(plan, queries + number, 2, keys, values, table, seen, out + number);
            }
            if (head < last) {
                Int number = (row * heads + head) * size;
                attend_heads(plan, queries + number, 1, keys, values, table, seen, out + number);
            }
        }
    }
}

#define ROWS 4  /* rows that an adapter is computed for at once, which saves loads and changes no bits */
#define PARTS 3 /* adapters that share their input, at most */

/* What an adapter adds to one product: x @ down @ up, where `up` is a diagonal of blocks; nothing without parts. */
typedef struct {
    Int ranks, parts;
    Int first_rank[PARTS], last_rank[PARTS], column[PARTS], columns[PARTS];
    const float *down;      /* [in, ranks], ranks a multiple of 8 */
    const float *up[PARTS]; /* [last_rank - first_rank, columns], columns a multiple of 8 */
} Change;

/* sums [rows][8 * count] += x [rows, length] @ matrix [length, 8 * count], number by number; rows of x are
 * `x_stride` apart. */
INLINE void add_tile(const float *x, Int x_stride, Int length, const float *matrix, Int stride, const int rows,
                     const int count, float *sums, Int sums_stride) {
    Eight tile[ROWS][2];
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++) tile[row][i] = EIGHT(sums + row * sums_stride + 8 * i);
    for (Int at = 0; at < length; at++)
        for (int row = 0; row < rows; row++)
            for (int i = 0; i < count; i++)
                tile[row][i] = fused(x[row * x_stride + at], EIGHT(matrix + at * stride + 8 * i), tile[row][i]);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++) EIGHT(sums + row * sums_stride + 8 * i) = tile[row][i];
}

INLINE void add_product(const float *x, Int x_stride, Int length, const float *matrix, Int columns, const int rows,
                        float *sums, Int sums_stride) {
    Int at = 0;
    for (; at + 16 <= columns; at += 16)
        add_tile(x, x_stride, length, matrix + at, columns, rows, 2, sums + at, sums_stride);
    for (; at < columns; at += 8)
        add_tile(x, x_stride, length, matrix + at, columns, rows, 1, sums + at, sums_stride);
}

INLINE void change_rows(const Change *change, const float *x, Int in, const int rows, float *out, Int width,
                        float *room) {
    memset(room, 0, sizeof(float) * rows * change->ranks);
    add_product(x, in, in, change->down, change->ranks, rows, room, change->ranks);
    for (Int part = 0; part < change->parts; part++)
        add_product(room + change->first_rank[part], change->ranks,
                    change->last_rank[part] - change->first_rank[part], change->up[part], change->columns[part], rows,
                    out + change->column[part], width);
}

/* Add adapters to the product out [rows, width] of x [rows, in]: to the rows from bounds[2 i] to bounds[2 i + 1] that
 * which stands at `site` in adapters[i]. `room` has space for ROWS * ranks numbers. */
void cached_adapters(const Change *const *adapters, const Int *bounds, Int count, Int site, const float *x, Int in,
                     float *out, Int width, float *room) {
    for (Int i = 0; i < count; i++) {
        const Change *change = adapters[i] + site;
        Int row = bounds[2 * i], stop = bounds[2 * i + 1];
        if (!change->parts) continue;
        for (; row + ROWS <= stop; row += ROWS)
            change_rows(change, x + row * in, in, ROWS, out + row * width, width, room);
        for (; row < stop; row++) change_rows(change, x + row * in, in, 1, out + row * width, width, room);
    }
}

/* Let the greatest of a heap's `count` places, by `chances` and then by the lower place, stand at its top. */
static void sink(int32_t *heap, Int count, Int at, const float *chances) {
    int32_t sinking = heap[at];
    for (Int child = 2 * at + 1; child < count; child = 2 * at + 1) {
        Int other = child + 1;
#define COMES_FIRST(a, b) (chances[a] > chances[b] || (chances[a] == chances[b] && (a) < (b)))
        if (other < count && COMES_FIRST(heap[other], heap[child])) child = other;
        if (!COMES_FIRST(heap[child], sinking)) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = sinking;
}

/* Set all chances to 0 but the `top_k` greatest (0: all), and of these all but the fewest whose sum reaches `top_p` of
 * theirs; one at least stays. `total` is the sum of all; `heap` has space for `count` numbers, and so has `kept`. */
static void cut_tails(float *chances, Int count, double total, double top_p, Int top_k, int32_t *heap, float *kept) {
    Int limit = top_k > 0 && top_k < count ? top_k : count, left = count, taken = 0;
    double sum = 0.0;
    for (Int i = 0; i < count; i++) heap[i] = (int32_t)i, kept[i] = 0.0f;
    for (Int i = count / 2 - 1; i >= 0; i--) sink(heap, count, i, chances);
    /* What is taken off the top goes to the end of the array, so the greatest is last. */
    for (; taken < limit && (limit < count || sum < top_p * total || !taken); taken++) {
        int32_t first = heap[0];
        sum += chances[first];
        heap[0] = heap[--left];
        if (left) sink(heap, left, 0, chances);
        heap[left] = first;
    }
    double before = 0.0, enough = top_p * (limit < count ? sum : total);
    for (Int i = 0; i < taken && (!i || before < enough); i++) {
        int32_t place = heap[count - 1 - i];
        kept[place] = chances[place];
        before += chances[place];
    }
    memcpy(chances, kept, sizeof(float) * count);
}

static double add_up(const float *chances, Int padded) {
    double total = 0.0;
    for (Int i = 0; i < padded; i += LANES) total += add_lanes(chances + i);
    return total;
}

/* The place at which the sum of chances first exceeds `aim`. */
static Int find_place(const float *chances, Int padded, double aim) {
    double sum = 0.0, before = 0.0;
    Int start = 0, place = 0;
    for (Int i = 0; i < padded && sum <= aim; i += LANES) {
        float here = add_lanes(chances + i);
        if (here > 0.0f) start = i, before = sum;
        sum += here;
    }
    /* Rounding may leave the sum short of the aim: then it is the last that can be drawn. */
    for (Int i = start; i < start + LANES; i++) {
        if (chances[i] > 0.0f) place = i;
        before += chances[i];
        if (before > aim) break;
    }
    return place;
}

/* Draw a token of each row from logits [rows, vocabulary] (rows `stride` apart) by inverting the distribution at
 * `uniforms`; temperature 0 takes the likeliest. Log-probabilities are those before tails are cut. `room` has space
 * for 2 (vocabulary + LANES) numbers, `heap` for vocabulary. */
void draw_tokens(const float *logits, Int stride, Int rows, Int vocabulary, const float *temperatures,
                 const float *top_p, const int32_t *top_k, const double *uniforms, float *room, int32_t *heap,
                 int32_t *tokens, float *logps) {
    Int padded = (vocabulary + LANES - 1) / LANES * LANES;
    for (Int row = 0; row < rows; row++) {
        const float *x = logits + row * stride;
        int is_greedy = temperatures[row] == 0.0f;
        float factor = is_greedy ? 1.0f : 1.0f / temperatures[row], most = x[0];
        Int chosen = 0;
        for (Int i = 0; i < vocabulary; i++) most = x[i] > most ? x[i] : most;
        for (Int i = 0; i < vocabulary; i++) room[i] = exponential((x[i] - most) * factor);
        for (Int i = vocabulary; i < padded; i++) room[i] = 0.0f;
        double total = add_up(room, padded), left = total;
        if (is_greedy) {
            while (chosen + 1 < vocabulary && x[chosen] != most) chosen++;
        } else {
            if (top_p[row] < 1.0f || top_k[row] > 0) {
                cut_tails(room, vocabulary, total, top_p[row], top_k[row], heap, room + padded);
                left = add_up(room, padded);
            }
            chosen = find_place(room, padded, uniforms[row] * left);
        }
        tokens[row] = (int32_t)chosen;
        logps[row] = (x[chosen] - most) * factor - (float)log(total);
    }
}
