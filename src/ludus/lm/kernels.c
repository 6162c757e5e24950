/* What a decoder does between its matrix products, on one thread of a CPU, in float32.
 *
 * Invariant: every row is computed by itself, and every sum is added up in an order that depends on the place of its
 * terms alone. So a row's bits do not depend on its neighbours, on how long others are, or on whether its prefix was
 * computed now or earlier. The compiler must not spoil that: no -ffast-math (it would reorder sums), and
 * -ffp-contract=off, because it fuses a product and a sum in one copy of a loop and not in another. Where they are to
 * be fused, FUSED says so.
 *
 * Compiled at first use by compile_kernels.py; the Python face is compiled_operations.py, which names the shapes.
 */

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__FMA__) && defined(__AVX__)
#include <immintrin.h>
#endif

#define BLOCK 16 /* positions of a block, as in kv_cache.py */
#define LANES 16 /* partial sums of a long sum */

/* Eight numbers in a register, at any address. */
typedef float Eight __attribute__((vector_size(32), aligned(4), may_alias));
#define EIGHT(pointer) (*(const Eight *)(pointer))

/* a * b + c, rounded once where the processor can do that. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
#define FUSED(a, b, c) __builtin_fmaf(a, b, c)
#else
#define FUSED(a, b, c) ((a) * (b) + (c))
#endif

/* The same for eight b and c. */
static inline __attribute__((always_inline)) Eight fused(float a, Eight b, Eight c) {
#if defined(__FMA__) && defined(__AVX__)
    return (Eight)_mm256_fmadd_ps(_mm256_set1_ps(a), (__m256)b, (__m256)c);
#else
    for (int i = 0; i < 8; i++) c[i] = FUSED(a, b[i], c[i]);
    return c;
#endif
}

typedef struct {
    int64_t rows, width, heads, kv_heads, head_width, hidden;
    int64_t blocks;         /* blocks of the cache, per layer */
    int64_t table_width;    /* blocks of a table's row */
    float epsilon, scale;   /* of norms; of queries */
    const int32_t *positions, *sequences, *tables;
    const float *cosines, *sines; /* [context, head_width / 2] */
    float *keys;            /* [layers, blocks, kv_heads, head_width, BLOCK] */
    float *values;          /* [layers, blocks, kv_heads, BLOCK, head_width] */
    float *scores;          /* room for [2, table_width * BLOCK] */
} Plan;

/* Sums of LANES partial sums, always in the same order. */
static inline float add_lanes(const float *lanes) {
    float half[LANES / 2];
    for (int i = 0; i < LANES / 2; i++) half[i] = lanes[i] + lanes[i + LANES / 2];
    for (int n = LANES / 4; n; n /= 2)
        for (int i = 0; i < n; i++) half[i] += half[i + n];
    return half[0];
}

static inline float sum_of_squares(const float *x, int64_t width) {
    float lanes[LANES] = {0};
    int64_t i = 0;
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

static void norm_row(const float *x, const float *weight, float *out, int64_t width, float epsilon) {
    float scale = 1.0f / sqrtf(sum_of_squares(x, width) / (float)width + epsilon);
    for (int64_t i = 0; i < width; i++) out[i] = x[i] * scale * weight[i];
}

/* out [rows, width] = root-mean-square norm of x [rows, width]. */
void ludus_norm(const float *x, const float *weight, float *out, int64_t rows, int64_t width, float epsilon) {
    for (int64_t row = 0; row < rows; row++) norm_row(x + row * width, weight, out + row * width, width, epsilon);
}

/* out [rows, hidden] = silu(first half) * second half of gate_up [rows, 2 hidden]. */
void ludus_gate(const float *gate_up, float *out, int64_t rows, int64_t hidden) {
    for (int64_t row = 0; row < rows; row++) {
        const float *gate = gate_up + row * 2 * hidden, *up = gate + hidden;
        float *to = out + row * hidden;
        for (int64_t i = 0; i < hidden; i++) to[i] = gate[i] / (1.0f + exponential(-gate[i])) * up[i];
    }
}

/* Norm (if weight) and turn one head; `out` has `stride` between its numbers. */
static inline void turn_head(const float *x, const float *weight, float *out, int64_t stride, const Plan *plan,
                             int64_t position, float scale) {
    int64_t half = plan->head_width / 2;
    const float *cosines = plan->cosines + position * half, *sines = plan->sines + position * half;
    float normed[2 * half];
    if (weight)
        norm_row(x, weight, normed, 2 * half, plan->epsilon);
    else
        memcpy(normed, x, sizeof(float) * 2 * half);
    float turned[2 * half];
    for (int64_t i = 0; i < half; i++) {
        turned[i] = (normed[i] * cosines[i] - normed[i + half] * sines[i]) * scale;
        turned[i + half] = (normed[i + half] * cosines[i] + normed[i] * sines[i]) * scale;
    }
    for (int64_t i = 0; i < 2 * half; i++) out[i * stride] = turned[i];
}

/* Store keys and values of qkv [rows, (heads + 2 kv_heads) * head_width]; queries [rows, heads, head_width]. */
void ludus_place(const Plan *plan, const float *qkv, int64_t layer, const float *q_norm, const float *k_norm,
                 float *queries) {
    int64_t heads = plan->heads, kv_heads = plan->kv_heads, size = plan->head_width;
    for (int64_t row = 0; row < plan->rows; row++) {
        const float *x = qkv + row * (heads + 2 * kv_heads) * size;
        int64_t position = plan->positions[row];
        int64_t block = plan->tables[plan->sequences[row] * plan->table_width + position / BLOCK];
        int64_t at = (layer * plan->blocks + block) * kv_heads * size * BLOCK, place = position % BLOCK;
        for (int64_t head = 0; head < heads; head++)
            turn_head(x + head * size, q_norm, queries + (row * heads + head) * size, 1, plan, position, plan->scale);
        for (int64_t head = 0; head < kv_heads; head++) {
            float *keys = plan->keys + at + head * size * BLOCK + place;
            turn_head(x + (heads + head) * size, k_norm, keys, BLOCK, plan, position, 1.0f);
            float *values = plan->values + at + (head * BLOCK + place) * size;
            memcpy(values, x + (heads + kv_heads + head) * size, sizeof(float) * size);
        }
    }
}

/* scores [heads][blocks * BLOCK] of queries that share their keys, added up number by number. How many heads and
 * blocks are computed at once keeps the processor's pipelines full and changes no bits. */
static inline __attribute__((always_inline)) void score(const float *queries, int64_t size, const float *const *keys,
                                                        const int heads, const int blocks, float *scores,
                                                        int64_t stride) {
    Eight sums[2][8] = {{{0}}};
    for (int64_t d = 0; d < size; d++)
        for (int i = 0; i < 2 * blocks; i++) {
            Eight key = EIGHT(keys[i / 2] + d * BLOCK + i % 2 * 8);
            for (int head = 0; head < heads; head++) sums[head][i] = fused(queries[head * size + d], key, sums[head][i]);
        }
    for (int head = 0; head < heads; head++) memcpy(scores + head * stride, sums[head], sizeof(Eight) * 2 * blocks);
}

/* out [heads][8 * count] = shares of the values of the positions seen; of one head, even and odd positions are added up
 * apart. Positions of the last block that are not seen may hold anything, so they are not touched: 0 times infinity is
 * not 0. */
static inline __attribute__((always_inline)) void mix(const float *shares, int64_t stride, const float *layer,
                                                      const int32_t *table, int64_t seen, int64_t block_size,
                                                      int64_t size, const int heads, const int count, float *out) {
    Eight sums[2][4] = {{{0}}};
    for (int64_t start = 0; start < seen; start += BLOCK) {
        const float *values = layer + table[start / BLOCK] * block_size, *share = shares + start;
        int64_t here = seen - start < BLOCK ? seen - start : BLOCK;
        for (int64_t p = 0; p < here; p++)
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
            *(Eight *)(out + 8 * i) = sums[0][i] + sums[1][i];
        else
            for (int head = 0; head < heads; head++) *(Eight *)(out + head * size + 8 * i) = sums[head][i];
}

/* Turn scores into shares that sum to what is returned. Positions that are not seen get 0. */
static float share_out(float *scores, int64_t seen, int64_t padded) {
    float lanes[LANES], most = -INFINITY;
    for (int64_t p = seen; p < padded; p++) scores[p] = -INFINITY;
    for (int l = 0; l < LANES; l++) lanes[l] = scores[l];
    for (int64_t p = LANES; p < padded; p += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] = scores[p + l] > lanes[l] ? scores[p + l] : lanes[l];
    for (int l = 0; l < LANES; l++) most = lanes[l] > most ? lanes[l] : most;
    for (int l = 0; l < LANES; l++) lanes[l] = 0;
    for (int64_t p = 0; p < padded; p += LANES)
        for (int l = 0; l < LANES; l++) {
            scores[p + l] = exponential(scores[p + l] - most);
            lanes[l] += scores[p + l];
        }
    return add_lanes(lanes);
}

/* One or two queries of one row that share keys and values: scores, shares, and what they take from the values. */
static inline __attribute__((always_inline)) void attend_heads(const Plan *plan, const float *queries, const int heads,
                                                               const float *keys, const float *values,
                                                               const int32_t *table, int64_t seen, float *out) {
    const int at_once = heads == 1 ? 4 : 2;
    int64_t size = plan->head_width, blocks = (seen + BLOCK - 1) / BLOCK, block_size = plan->kv_heads * size * BLOCK;
    int64_t b = 0, i = 0, stride = plan->table_width * BLOCK;
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
void ludus_attend(const Plan *plan, const float *queries, int64_t layer, float *out) {
    int64_t heads = plan->heads, size = plan->head_width, group = heads / plan->kv_heads;
    int64_t at = layer * plan->blocks * plan->kv_heads * size * BLOCK;
    for (int64_t row = 0; row < plan->rows; row++) {
        const int32_t *table = plan->tables + plan->sequences[row] * plan->table_width;
        int64_t seen = plan->positions[row] + 1;
        for (int64_t kv_head = 0; kv_head < plan->kv_heads; kv_head++) {
            const float *keys = plan->keys + at + kv_head * size * BLOCK;
            const float *values = plan->values + at + kv_head * size * BLOCK;
            int64_t head = kv_head * group, last = head + group;
            for (; head + 2 <= last; head += 2) {
                int64_t number = (row * heads + head) * size;
                attend_heads(plan, queries + number, 2, keys, values, table, seen, out + number);
            }
            if (head < last) {
                int64_t number = (row * heads + head) * size;
                attend_heads(plan, queries + number, 1, keys, values, table, seen, out + number);
            }
        }
    }
}

#define ROWS 4  /* rows that an adapter is computed for at once, which saves loads and changes no bits */
#define PARTS 3 /* adapters that share their input, at most */

/* What an adapter adds to one product: x @ down @ up, where `up` is a diagonal of blocks. Nothing if it has no parts. */
typedef struct {
    int64_t ranks, parts;
    int64_t first_rank[PARTS], last_rank[PARTS], column[PARTS], columns[PARTS];
    const float *down;      /* [in, ranks], ranks a multiple of 8 */
    const float *up[PARTS]; /* [last_rank - first_rank, columns], columns a multiple of 8 */
} Change;

/* sums [rows][8 * count] += x [rows, length] @ matrix [length, 8 * count], number by number; rows are `x_stride` apart. */
static inline __attribute__((always_inline)) void add_tile(const float *x, int64_t x_stride, int64_t length,
                                                           const float *matrix, int64_t stride, const int rows,
                                                           const int count, float *sums, int64_t sums_stride) {
    Eight tile[ROWS][2];
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++) tile[row][i] = EIGHT(sums + row * sums_stride + 8 * i);
    for (int64_t at = 0; at < length; at++)
        for (int row = 0; row < rows; row++)
            for (int i = 0; i < count; i++)
                tile[row][i] = fused(x[row * x_stride + at], EIGHT(matrix + at * stride + 8 * i), tile[row][i]);
    for (int row = 0; row < rows; row++)
        for (int i = 0; i < count; i++) *(Eight *)(sums + row * sums_stride + 8 * i) = tile[row][i];
}

static inline __attribute__((always_inline)) void add_product(const float *x, int64_t x_stride, int64_t length,
                                                              const float *matrix, int64_t columns, const int rows,
                                                              float *sums, int64_t sums_stride) {
    int64_t at = 0;
    for (; at + 16 <= columns; at += 16)
        add_tile(x, x_stride, length, matrix + at, columns, rows, 2, sums + at, sums_stride);
    for (; at < columns; at += 8)
        add_tile(x, x_stride, length, matrix + at, columns, rows, 1, sums + at, sums_stride);
}

static inline __attribute__((always_inline)) void change_rows(const Change *change, const float *x, int64_t in,
                                                              const int rows, float *out, int64_t width, float *room) {
    memset(room, 0, sizeof(float) * rows * change->ranks);
    add_product(x, in, in, change->down, change->ranks, rows, room, change->ranks);
    for (int64_t part = 0; part < change->parts; part++)
        add_product(room + change->first_rank[part], change->ranks,
                    change->last_rank[part] - change->first_rank[part], change->up[part], change->columns[part], rows,
                    out + change->column[part], width);
}

/* Add adapters to the product out [rows, width] of x [rows, in]: to the rows from bounds[2 i] to bounds[2 i + 1] that
 * which stands at `site` in adapters[i]. `room` has space for ROWS * ranks numbers. */
void ludus_change(const Change *const *adapters, const int64_t *bounds, int64_t count, int64_t site, const float *x,
                  int64_t in, float *out, int64_t width, float *room) {
    for (int64_t i = 0; i < count; i++) {
        const Change *change = adapters[i] + site;
        int64_t row = bounds[2 * i], stop = bounds[2 * i + 1];
        if (!change->parts) continue;
        for (; row + ROWS <= stop; row += ROWS)
            change_rows(change, x + row * in, in, ROWS, out + row * width, width, room);
        for (; row < stop; row++) change_rows(change, x + row * in, in, 1, out + row * width, width, room);
    }
}

/* Let the greatest of a heap's `count` places, by `chances` and then by the lower place, stand at its top. */
static void sink(int32_t *heap, int64_t count, int64_t at, const float *chances) {
    int32_t sinking = heap[at];
    for (int64_t child = 2 * at + 1; child < count; child = 2 * at + 1) {
        int64_t other = child + 1;
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
static void cut_tails(float *chances, int64_t count, double total, double top_p, int64_t top_k, int32_t *heap,
                      float *kept) {
    int64_t limit = top_k > 0 && top_k < count ? top_k : count, left = count, taken = 0;
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++) heap[i] = (int32_t)i, kept[i] = 0.0f;
    for (int64_t i = count / 2 - 1; i >= 0; i--) sink(heap, count, i, chances);
    /* What is taken off the top goes to the end of the array, so the greatest is last. */
    for (; taken < limit && (limit < count || sum < top_p * total || !taken); taken++) {
        int32_t first = heap[0];
        sum += chances[first];
        heap[0] = heap[--left];
        if (left) sink(heap, left, 0, chances);
        heap[left] = first;
    }
    double before = 0.0, enough = top_p * (limit < count ? sum : total);
    for (int64_t i = 0; i < taken && (!i || before < enough); i++) {
        int32_t place = heap[count - 1 - i];
        kept[place] = chances[place];
        before += chances[place];
    }
    memcpy(chances, kept, sizeof(float) * count);
}

static double add_up(const float *chances, int64_t padded) {
    double total = 0.0;
    for (int64_t i = 0; i < padded; i += LANES) total += add_lanes(chances + i);
    return total;
}

/* The place at which the sum of chances first exceeds `aim`. */
static int64_t find_place(const float *chances, int64_t padded, double aim) {
    double sum = 0.0, before = 0.0;
    int64_t start = 0, place = 0;
    for (int64_t i = 0; i < padded && sum <= aim; i += LANES) {
        float here = add_lanes(chances + i);
        if (here > 0.0f) start = i, before = sum;
        sum += here;
    }
    /* Rounding may leave the sum short of the aim: then it is the last that can be drawn. */
    for (int64_t i = start; i < start + LANES; i++) {
        if (chances[i] > 0.0f) place = i;
        before += chances[i];
        if (before > aim) break;
    }
    return place;
}

/* Draw a token of each row from logits [rows, vocabulary] (rows `stride` apart) by inverting the distribution at
 * `uniforms`; temperature 0 takes the likeliest. Log-probabilities are those before tails are cut. `room` has space
 * for 2 (vocabulary + LANES) numbers, `heap` for vocabulary. */
void ludus_draw(const float *logits, int64_t stride, int64_t rows, int64_t vocabulary, const float *temperatures,
                const float *top_p, const int32_t *top_k, const double *uniforms, float *room, int32_t *heap,
                int32_t *tokens, float *logps) {
    int64_t padded = (vocabulary + LANES - 1) / LANES * LANES;
    for (int64_t row = 0; row < rows; row++) {
        const float *x = logits + row * stride;
        int is_greedy = temperatures[row] == 0.0f;
        float factor = is_greedy ? 1.0f : 1.0f / temperatures[row], most = x[0];
        int64_t chosen = 0;
        for (int64_t i = 0; i < vocabulary; i++) most = x[i] > most ? x[i] : most;
        for (int64_t i = 0; i < vocabulary; i++) room[i] = exponential((x[i] - most) * factor);
        for (int64_t i = vocabulary; i < padded; i++) room[i] = 0.0f;
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
