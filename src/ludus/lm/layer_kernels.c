/* What a decoder layer does between its matrix products, forwards and backwards, on one thread of a CPU, in float32.
 *
 * Shapes are those of torch_attention.py and torch_training.py, which have the same formulas in PyTorch; compiled_training.py
 * is the Python face. Every function writes all of its outputs unless it says that it adds to them.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef int64_t Int;

/* Eight numbers in a register, at any address. */
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
#define EIGHT(pointer) (*(Eight *)(pointer))

/* e^x to about 1 unit in the last place, for x <= 88; 0 below -87. */
static inline float exponential(float x) {
    float bounded = x < -87.0f ? -87.0f : (x > 88.0f ? 88.0f : x);
    float n = rintf(bounded * 1.44269504088896341f);
    float r = bounded - n * 0.693359375f;
    r = r - n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1.0f;
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

/* -- norms and gates ------------------------------------------------------------------------------------------------ */

/* y [rows, width] = x * scale * weight with scale [rows] = 1 / sqrt(mean(x^2) + eps); width is a multiple of 8. */
void layer_norm_forward(const float *x, const float *weight, float *y, float *scale, Int rows, Int width, float eps) {
    for (Int row = 0; row < rows; row++, x += width, y += width) {
        float s = scale[row] = 1.0f / sqrtf(dot(x, x, width) / (float)width + eps);
        for (Int i = 0; i < width; i++) y[i] = x[i] * s * weight[i];
    }
}

/* of_x [rows, width]; adds to of_weight [width] unless it is null. */
void layer_norm_backward(const float *g, const float *x, const float *weight, const float *scale, float *of_x,
                         float *of_weight, Int rows, Int width) {
    for (Int row = 0; row < rows; row++, x += width, g += width, of_x += width) {
        float s = scale[row];
        Eight sum = {0};
        for (Int i = 0; i < width; i += 8) {
            Eight normed = EIGHT(x + i) * s;
            if (of_weight) EIGHT(of_weight + i) += EIGHT(g + i) * normed;
            sum += EIGHT(g + i) * EIGHT(weight + i) * normed;
        }
        float along = sum_of_eight(sum) / (float)width;
        for (Int i = 0; i < width; i++) of_x[i] = (g[i] * weight[i] - x[i] * s * along) * s;
    }
}

/* y [rows, width] = silu(gate) * up of x [rows, 2 width] = gate, up. */
void layer_gate_forward(const float *x, float *y, Int rows, Int width) {
    for (Int row = 0; row < rows; row++, x += 2 * width, y += width)
        for (Int i = 0; i < width; i++) y[i] = x[i] / (1.0f + exponential(-x[i])) * x[width + i];
}

void layer_gate_backward(const float *g, const float *x, float *of_x, Int rows, Int width) {
    for (Int row = 0; row < rows; row++, x += 2 * width, of_x += 2 * width, g += width)
        for (Int i = 0; i < width; i++) {
            float sigmoid = 1.0f / (1.0f + exponential(-x[i])), active = x[i] * sigmoid;
            of_x[width + i] = g[i] * active;
            of_x[i] = g[i] * x[width + i] * (sigmoid + active - active * sigmoid);
        }
}

/* -- small matrix products ------------------------------------------------------------------------------------------ */

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
                for (int j = 0; j < N; j++) sum[i][j] += left * right[j];                                              \
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

/* -- attention ------------------------------------------------------------------------------------------------------ */

#define QUERIES 24 /* rows of queries that are worked on together */

typedef struct {
    Int rows, heads, keys, size; /* of queries; of keys and values; numbers of a head, a multiple of 8 */
    Int stretches;
    const Int *stretch;         /* [stretches, 4]: first row, rows, first row of the trunk, rows of the trunk */
    float scale, eps;
    const float *cosines, *sines; /* [rows, size], both halves alike */
    const float *norm;          /* [heads + keys, size], or null */
} Plan;

static inline Int round_up(Int n) { return (n + 7) / 8 * 8; }

/* turned [rows, heads + keys, size] = queries and keys of qkv, normed and turned; norms [rows, heads + keys]. */
static void turn(const Plan *plan, const float *qkv, float *turned, float *norms) {
    Int size = plan->size, half = size / 2, turning = plan->heads + plan->keys, every = turning + plan->keys;
    for (Int row = 0; row < plan->rows; row++) {
        const float *cosine = plan->cosines + row * size, *sine = plan->sines + row * size;
        for (Int head = 0; head < turning; head++) {
            const float *x = qkv + (row * every + head) * size;
            float *y = turned + (row * turning + head) * size, normed[size];
            if (plan->norm) {
                const float *weight = plan->norm + head * size;
                float s = norms[row * turning + head] = 1.0f / sqrtf(dot(x, x, size) / (float)size + plan->eps);
                for (Int i = 0; i < size; i++) normed[i] = x[i] * s * weight[i];
                x = normed;
            }
            for (Int i = 0; i < half; i++) y[i] = x[i] * cosine[i] - x[half + i] * sine[i];
            for (Int i = 0; i < half; i++) y[half + i] = x[half + i] * cosine[half + i] + x[i] * sine[half + i];
        }
    }
}

/* Gradient through `turn`, in place in of_qkv; adds to of_norm [heads + keys, size] unless it is null. */
static void turn_back(const Plan *plan, const float *qkv, const float *norms, float *of_qkv, float *of_norm) {
    Int size = plan->size, half = size / 2, turning = plan->heads + plan->keys, every = turning + plan->keys;
    for (Int row = 0; row < plan->rows; row++) {
        const float *cosine = plan->cosines + row * size, *sine = plan->sines + row * size;
        for (Int head = 0; head < turning; head++) {
            float *g = of_qkv + (row * every + head) * size, back[size];
            for (Int i = 0; i < half; i++) back[i] = g[i] * cosine[i] + g[half + i] * sine[half + i];
            for (Int i = 0; i < half; i++) back[half + i] = g[half + i] * cosine[half + i] - g[i] * sine[i];
            if (!plan->norm) {
                memcpy(g, back, sizeof(float) * size);
                continue;
            }
            const float *x = qkv + (row * every + head) * size, *weight = plan->norm + head * size;
            layer_norm_backward(back, x, weight, norms + row * turning + head, g,
                                of_norm ? of_norm + head * size : NULL, 1, size);
        }
    }
}

/* Room for one stretch and one key head: context rows `length`, padded to `wide`. */
typedef struct {
    Int length, wide;
    float *keys, *values;           /* [length, size] */
    float *keys_across, *values_across; /* [size, wide], zeros from length on */
    float *of_keys, *of_values;     /* [length, size] */
    float *table, *of_table;        /* [QUERIES, wide] */
} Room;

static Int longest_context(const Plan *plan) {
    Int longest = 0;
    for (Int s = 0; s < plan->stretches; s++) {
        Int length = plan->stretch[4 * s + 1] + plan->stretch[4 * s + 3];
        if (length > longest) longest = length;
    }
    return longest;
}

static float *make_room(Room *room, const Plan *plan) {
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

static inline Int context_row(const Int *stretch, Int j) {
    return j < stretch[3] ? stretch[2] + j : stretch[0] + j - stretch[3];
}

/* Bring the context of a stretch together, for one key head. */
static void pack(Room *room, const Plan *plan, const Int *stretch, Int key, const float *turned, const float *qkv) {
    Int size = plan->size, turning = plan->heads + plan->keys, every = turning + plan->keys;
    Int length = room->length = stretch[1] + stretch[3], wide = room->wide = round_up(length);
    for (Int j = 0; j < wide; j++) {
        int present = j < length;
        Int row = present ? context_row(stretch, j) : 0;
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
int layer_attention_forward(const Plan *plan, const float *qkv, float *turned, float *norms, float *logsums,
                            float *out) {
    Int size = plan->size, heads = plan->heads, turning = heads + plan->keys, share = heads / plan->keys;
    Room room;
    float *memory = make_room(&room, plan);
    if (!memory) return 1;
    turn(plan, qkv, turned, norms);
    for (Int s = 0; s < plan->stretches; s++) {
        const Int *stretch = plan->stretch + 4 * s;
        for (Int key = 0; key < plan->keys && stretch[1]; key++) {
            pack(&room, plan, stretch, key, turned, qkv);
            for (Int head = key * share; head < (key + 1) * share; head++)
                for (Int first = 0; first < stretch[1]; first += QUERIES) {
                    Int count = stretch[1] - first < QUERIES ? stretch[1] - first : QUERIES;
                    Int seen = stretch[3] + first + count, row = stretch[0] + first, wide = room.wide;
                    product(turned + (row * turning + head) * size, turning * size, 1, room.keys_across, wide,
                            room.table, wide, count, round_up(seen), size, 0);
                    float scales[QUERIES];
                    for (Int i = 0; i < count; i++) {
                        float *scores = room.table + i * wide, total = 0.0f;
                        Int own = stretch[3] + first + i + 1;
                        float most = largest(scores, own);
                        for (Int j = 0; j < own; j++) scores[j] = exponential((scores[j] - most) * plan->scale);
                        for (Int j = own; j < seen; j++) scores[j] = 0.0f;
                        Eight sum = {0};
                        Int j = 0;
                        for (; j + 8 <= own; j += 8) sum += EIGHT(scores + j);
                        for (; j < own; j++) total += scores[j];
                        total += sum_of_eight(sum);
                        scales[i] = 1.0f / total;
                        logsums[(row + i) * heads + head] = most * plan->scale + logf(total);
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
int layer_attention_backward(const Plan *plan, const float *g, const float *qkv, const float *turned,
                             const float *norms, const float *logsums, const float *out, float *of_qkv,
                             float *of_norm) {
    Int size = plan->size, heads = plan->heads, turning = heads + plan->keys, every = turning + plan->keys;
    Int share = heads / plan->keys;
    Room room;
    float *memory = make_room(&room, plan);
    if (!memory) return 1;
    memset(of_qkv, 0, sizeof(float) * (size_t)(plan->rows * every * size));
    for (Int s = 0; s < plan->stretches; s++) {
        const Int *stretch = plan->stretch + 4 * s;
        for (Int key = 0; key < plan->keys && stretch[1]; key++) {
            pack(&room, plan, stretch, key, turned, qkv);
            memset(room.of_keys, 0, sizeof(float) * (size_t)(room.length * size));
            memset(room.of_values, 0, sizeof(float) * (size_t)(room.length * size));
            for (Int head = key * share; head < (key + 1) * share; head++)
                for (Int first = 0; first < stretch[1]; first += QUERIES) {
                    Int count = stretch[1] - first < QUERIES ? stretch[1] - first : QUERIES;
                    Int seen = stretch[3] + first + count, row = stretch[0] + first, wide = room.wide;
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
                        Int own = stretch[3] + first + i + 1;
                        for (Int j = 0; j < own; j++) {
                            p[j] = exponential(p[j] * plan->scale - logsum);
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
                float *to = of_qkv + context_row(stretch, j) * every * size;
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
