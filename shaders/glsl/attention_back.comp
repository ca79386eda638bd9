// Gradients of attention. The weights of keys are computed again from the scores and the logarithm of each row's sum:
// P = exp(score - log), and from these the derivative by q k, S = slope P (dy v - D) with D = dy y.
//
// A workgroup owns some rows and goes over all that meet them, a tile of others at a time; P and S of a tile exist in shared
// memory alone. Without KEYS it owns queries: dq = S k, and D is computed first and left behind the heads. With KEYS it owns keys:
// dk = S q and dv = P dy, summed over the queries of all heads that share them, in order.
//
// Rows of queries are pairs (query, head), the head innermost. Both products under a tile, q k and dy v, are summed in blocks
// of 4 x 4 by invocations of their own from quads that all stage in shared memory, CHUNK along the rows at a time.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

// Rows that a workgroup owns and others in a tile, multiples of 4: together 8 for each invocation.
layout(constant_id = 3) const uint OWN = 32u;
layout(constant_id = 4) const uint TILE = 32u;
// Quads along the rows that are staged at once: they divide the quads of a row.
layout(constant_id = 5) const uint CHUNK = 4u;
// Invocations along the quads of a result's rows, and fours of own rows that each of them sums.
layout(constant_id = 6) const uint LANES = 16u;
layout(constant_id = 7) const uint SLOTS = 1u;
// Heads that share a key.
layout(constant_id = 8) const uint HEADS = 1u;
// Quads of shared memory: those staged, or the weights of a tile.
layout(constant_id = 9) const uint POOL = 1u;

// Factor on q k, and on S; the first is divided by the cap where there is one.
layout(constant_id = 16) const float SCALE = 1.0;
layout(constant_id = 17) const float SOFTCAP = 0.0;
layout(constant_id = 20) const float SLOPE = 1.0;
#ifdef MASK
layout(constant_id = 18) const float SLOPE_STEP = 0.0;
layout(constant_id = 19) const uint SLOPE_HEADS = 1u;
#endif

#define OPERAND Q
#define SLOT 0
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND K
#define SLOT 1
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND V
#define SLOT 2
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#ifdef MASK
#define OPERAND M
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"
#define KEPT_SLOT 4
#define DY_SLOT 5
#define D_SLOT 6
#else
#define KEPT_SLOT 3
#define DY_SLOT 4
#define D_SLOT 5
#endif

// What an earlier pass left: the result, or the gradient by the queries.
#define OPERAND Y
#define SLOT KEPT_SLOT
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND DY
#define SLOT DY_SLOT
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND D
#define SLOT D_SLOT
#define ACCESS WRITE
#define DTYPE DTYPE_F32
#include "operand.glsl"

#include "attention_logs.glsl"
#include "attention_slope.glsl"
#include "elementwise.glsl"

// Marks a key that a row does not see.
const float HIDDEN = -3.4028235e38;

const uint FOURS = OWN / 4u;
const uint COLUMNS = TILE / 4u;
// Staged rows of a quad: one more than there are, so that neighbouring quads lie in different banks.
const uint ROWS = OWN + TILE + 1u;

shared vec4 pool[POOL];
#ifdef KEYS
const uint QUERIES = TILE;
#else
const uint QUERIES = OWN;
#endif
// Logarithm and D of the rows of queries at work.
shared vec2 rows[QUERIES];
#ifdef MASK
// Whether a tile has a pair that sees each other: of this one, the one before and the one after.
shared uint seen[3];
#endif

uint first_head;
uint head_k;
uint batch;
// First own row, and first other row of the tile.
uint own_first;
uint other_first;

// Query and head of a row of queries, and whether there is such a row.
struct Row {
    uint query;
    uint head;
    bool inside;
};

Row query_row(uint r) {
    Row row = Row(r / HEADS, first_head + r % HEADS, false);
    row.inside = row.query < Q_n1 && row.head < Q_n2 && batch < Q_n3;
    return row;
}

// Quads of rows that there are; of those beyond, which nobody sees, quads of the last one.
vec4 q_quad(uint c, uint r) {
    return Q_load4(c, min(r / HEADS, Q_n1 - 1u), first_head + r % HEADS, batch);
}

vec4 dy_quad(uint c, uint r) {
    return DY_load4(c, first_head + r % HEADS, min(r / HEADS, Q_n1 - 1u), batch);
}

vec4 k_quad(uint c, uint key) {
    return K_load4(c, min(key, K_n1 - 1u), head_k, batch);
}

vec4 v_quad(uint c, uint key) {
    return V_load4(c, min(key, K_n1 - 1u), head_k, batch);
}

#ifdef KEYS
#define OWN_A k_quad
#define OWN_B v_quad
#define OTHER_A q_quad
#define OTHER_B dy_quad
#else
#define OWN_A q_quad
#define OWN_B dy_quad
#define OTHER_A k_quad
#define OTHER_B v_quad
#endif

// What is added to the score of an own row and one of the tile; HIDDEN where they do not see each other.
float pair_bias(uint own, uint other) {
#ifdef KEYS
    Row row = query_row(other_first + other);
    uint key = own_first + own;
#else
    Row row = query_row(own_first + own);
    uint key = other_first + other;
#endif
    if (!row.inside || key >= K_n1) {
        return HIDDEN;
    }
#ifdef MASK
    float mask = M_load(key, row.query, row.head % M_n2, batch % M_n3);
    return max(slope(row.head) * mask, HIDDEN);
#else
    return 0.0;
#endif
}

// Logarithms (0) or D (1) of the rows of queries that four own rows and one of the tile have.
vec4 of_rows(uint four, uint other, uint which) {
#ifdef KEYS
    return vec4(rows[other][which]);
#else
    return vec4(rows[4u * four][which], rows[4u * four + 1u][which], rows[4u * four + 2u][which],
                rows[4u * four + 3u][which]);
#endif
}

void stage(uint lane, uint c0) {
    [[dont_unroll]] for (uint t = lane; t < CHUNK * OWN; t += gl_WorkGroupSize.x) {
        uint c = t % CHUNK;
        uint row = t / CHUNK;
        pool[c * ROWS + row] = OWN_A(c0 + c, own_first + row);
        pool[(CHUNK + c) * ROWS + row] = OWN_B(c0 + c, own_first + row);
    }
    [[dont_unroll]] for (uint t = lane; t < CHUNK * TILE; t += gl_WorkGroupSize.x) {
        uint c = t % CHUNK;
        uint row = t / CHUNK;
        pool[c * ROWS + OWN + row] = OTHER_A(c0 + c, other_first + row);
        pool[(CHUNK + c) * ROWS + OWN + row] = OTHER_B(c0 + c, other_first + row);
    }
}

#ifdef KEYS
// Logarithms and D of the tile's rows.
void load_rows(uint lane) {
    const uint quads = Y_n0 / 4u;
    [[dont_unroll]] for (uint r = lane; r < TILE; r += gl_WorkGroupSize.x) {
        Row row = query_row(other_first + r);
        vec2 kept = vec2(0.0);
        if (row.inside) {
            kept = Y_load4(log_quad(row.head, quads), log_head(row.head, Q_n2, quads), row.query, batch).xy;
        }
        rows[r] = kept;
    }
}
#else
// D of the own rows: some invocations sum a part of each.
void sum_rows(uint lane) {
    const uint quads = Q_n0 / 4u;
    const uint share = gl_WorkGroupSize.x / OWN;
    Row row = query_row(own_first + lane / share);
    vec4 sum = vec4(0.0);
    [[dont_unroll]] for (uint c = lane % share; row.inside && c < quads; c += share) {
        sum += Y_load4(c, row.head, row.query, batch) * DY_load4(c, row.head, row.query, batch);
    }
    pool[lane] = sum;
    barrier();
    if (lane % share == 0u) {
        [[dont_unroll]] for (uint i = 1u; i < share; i++) {
            sum += pool[lane + i];
        }
        float kept = 0.0;
        if (row.inside) {
            kept = Y_load4(log_quad(row.head, quads), log_head(row.head, Q_n2, quads), row.query, batch).x;
        }
        rows[lane / share] = vec2(kept, (sum.x + sum.y) + (sum.z + sum.w));
    }
}
#endif

void main() {
    uint lane = gl_LocalInvocationID.x;
    head_k = gl_WorkGroupID.y;
    first_head = head_k * HEADS;
    batch = gl_WorkGroupID.z;
    own_first = gl_WorkGroupID.x * OWN;
    // Workgroups of padding meet nobody, and store zeros.
    bool inside = first_head < Q_n2 && batch < Q_n3;

    // Half of the invocations for each product; a block has four own rows, and others that are COLUMNS apart.
    const uint blocks = gl_WorkGroupSize.x / 2u;
    uint product = lane / blocks;
    uint four = lane % blocks / COLUMNS;
    uint column = lane % COLUMNS;
    // Quad and first four of own rows that this invocation sums.
    uint quad = lane % LANES;
    uint first_four = lane / LANES * SLOTS;

    vec4 sums[4u * SLOTS];
#ifdef KEYS
    vec4 values[4u * SLOTS];
#endif
    [[unroll]] for (uint i = 0u; i < 4u * SLOTS; i++) {
        sums[i] = vec4(0.0);
#ifdef KEYS
        values[i] = vec4(0.0);
#endif
    }
#ifdef MASK
    if (lane < 3u) {
        seen[lane] = 0u;
    }
#endif
#ifndef KEYS
    sum_rows(lane);
#endif
    barrier();

#ifdef KEYS
    uint others = inside && own_first < K_n1 ? Q_n1 * HEADS : 0u;
#else
    uint others = inside && own_first < Q_n1 * HEADS ? K_n1 : 0u;
#endif
    const uint quads = Q_n0 / 4u;
    for (uint tile = 0u; tile * TILE < others; tile++) {
        other_first = tile * TILE;
        // Each invocation turns two columns of its block into P and S.
        vec4 bias[2];
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            vec4 b = vec4(HIDDEN);
            [[dont_unroll]] for (uint i = 0u; i < 4u; i++) {
                float one = pair_bias(4u * four + i, column + (2u * product + j) * COLUMNS);
                b = mix(b, vec4(one), equal(uvec4(0u, 1u, 2u, 3u), uvec4(i)));
            }
            bias[j] = b;
        }
#ifdef KEYS
        load_rows(lane);
#endif
#ifdef MASK
        if (any(greaterThan(max(bias[0], bias[1]), vec4(HIDDEN)))) {
            atomicOr(seen[tile % 3u], 1u);
        }
        barrier();
        if (lane == 0u) {
            seen[(tile + 2u) % 3u] = 0u;
        }
        if (seen[tile % 3u] == 0u) {
            continue;
        }
#endif

        vec4 score[4];
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            score[j] = vec4(0.0);
        }
        [[dont_unroll]] for (uint c0 = 0u; c0 < quads; c0 += CHUNK) {
            barrier();
            stage(lane, c0);
            barrier();
            [[dont_unroll]] for (uint c = 0u; c < CHUNK; c++) {
                uint at = (product * CHUNK + c) * ROWS;
                vec4 a[4];
                [[unroll]] for (uint i = 0u; i < 4u; i++) {
                    a[i] = pool[at + 4u * four + i];
                }
                [[unroll]] for (uint j = 0u; j < 4u; j++) {
                    vec4 b = pool[at + OWN + column + j * COLUMNS];
                    score[j] += vec4(dot(a[0], b), dot(a[1], b), dot(a[2], b), dot(a[3], b));
                }
            }
        }
        barrier();
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            pool[(product * FOURS + four) * TILE + column + j * COLUMNS] = score[j];
        }
        barrier();
        [[unroll]] for (uint j = 0u; j < 2u; j++) {
            uint other = column + (2u * product + j) * COLUMNS;
            uint at = four * TILE + other;
            vec4 x = SCALE * pool[at];
            vec4 slopes = vec4(SLOPE);
            if (SOFTCAP != 0.0) {
                vec4 y = hyperbolic_tangent(x);
                slopes *= 1.0 - y * y;
                x = SOFTCAP * y;
            }
            bvec4 hidden = lessThanEqual(bias[j], vec4(HIDDEN));
            vec4 weight = mix(exp(x + bias[j] - of_rows(four, other, 0u)), vec4(0.0), hidden);
            vec4 change = weight * (pool[FOURS * TILE + at] - of_rows(four, other, 1u)) * slopes;
            pool[at] = weight;
            pool[FOURS * TILE + at] = mix(change, vec4(0.0), hidden);
        }
        barrier();

        uint count = min(TILE, others - other_first);
        uint c = min(quad, quads - 1u);
        [[dont_unroll]] for (uint other = 0u; other < count; other++) {
            vec4 a = OTHER_A(c, other_first + other);
#ifdef KEYS
            vec4 b = OTHER_B(c, other_first + other);
#endif
            [[unroll]] for (uint s = 0u; s < SLOTS; s++) {
                uint at = (first_four + s) * TILE + other;
                vec4 change = pool[FOURS * TILE + at];
                [[unroll]] for (uint r = 0u; r < 4u; r++) {
                    sums[4u * s + r] += change[r] * a;
                }
#ifdef KEYS
                vec4 weight = pool[at];
                [[unroll]] for (uint r = 0u; r < 4u; r++) {
                    values[4u * s + r] += weight[r] * b;
                }
#endif
            }
        }
    }

    [[dont_unroll]] for (uint i = 0u; i < 4u * SLOTS; i++) {
        vec4 sum = sums[0];
        [[unroll]] for (uint j = 1u; j < 4u * SLOTS; j++) {
            sum = i == j ? sums[j] : sum;
        }
        uint r = own_first + 4u * first_four + i;
#ifdef KEYS
        vec4 value = values[0];
        [[unroll]] for (uint j = 1u; j < 4u * SLOTS; j++) {
            value = i == j ? values[j] : value;
        }
        if (head_k < K_n2 && D_covers(quad, head_k, r, batch)) {
            D_store4(quad, head_k, r, batch, sum);
        }
        if (D_covers(quad, head_k + K_n2, r, batch)) {
            D_store4(quad, head_k + K_n2, r, batch, value);
        }
#else
        Row row = query_row(r);
        const uint held = D_n0 / 4u;
        if (!holds_log(quad, row.head, Q_n2, held) && D_covers(quad, row.head, row.query, batch)) {
            D_store4(quad, row.head, row.query, batch, sum);
        }
        if (quad == 0u && row.head < Q_n2) {
            uint c = log_quad(row.head, held);
            uint head = log_head(row.head, Q_n2, held);
            if (D_covers(c, head, row.query, batch)) {
                D_store4(c, head, row.query, batch, vec4(rows[4u * first_four + i], 0.0, 0.0));
            }
        }
#endif
    }
}
