// Gradients of attention (attention_back.comp) by matrix units: factors are rounded to F16, sums are F32. P = exp(score - log) is computed
// again, and the derivative by q k, S = slope P (dy v - D) with D = dy y.
//
// A workgroup owns some rows, a matrix of them for each subgroup, and goes over all that meet them, a tile of others at a time. Without KEYS it
// owns queries: dq = S k; D is computed first and left behind the heads. With KEYS it owns keys: dk = S q and dv = P dy, summed over the
// queries of all heads that share them, in order. Rows of queries are pairs (query, head), the head innermost. A subgroup has P and S in
// registers, but for their way from sums of one product to factors of the next; with MATRIX2 (VK_NV_cooperative_matrix2) on it as well.
//
// Gradients may lie anywhere: powers of two bring dy below 1, and what (dy v - D) P can be at most to less than 2^14. They follow from the largest
// numbers of a tile, and only fall: what was summed under greater ones is multiplied then.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef MATRIX2
#extension GL_NV_cooperative_matrix2 : require
#endif

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

// Subgroups, each with the rows of one matrix; matrices of others in a tile; invocations of a subgroup.
layout(constant_id = 3) const uint SUBGROUPS = 4u;
layout(constant_id = 4) const uint MATRICES = 2u;
layout(constant_id = 5) const uint LANES = 32u;
// Matrices along a row as scores sum over it, and as results have it.
layout(constant_id = 6) const uint DEPTH = 4u;
layout(constant_id = 12) const uint COLUMNS = 4u;
// Parts of the others along z of the workgroups, above the batches, and tiles of a part.
layout(constant_id = 7) const uint PARTS = 1u;
layout(constant_id = 8) const uint TILES = 1u;
// Heads that share a key.
layout(constant_id = 9) const uint HEADS = 1u;
// What a matrix unit multiplies: M by K with K by N.
layout(constant_id = 10) const uint MATRIX_M = 16u;
layout(constant_id = 11) const uint MATRIX_N = 16u;
#ifdef MATRIX2
// What is summed is a factor as it is.
#define MATRIX_K MATRIX_N
#else
layout(constant_id = 13) const uint MATRIX_K = 16u;
#endif
// Octets that an invocation fetches of a tile, of either operand.
layout(constant_id = 14) const uint LOADS_A = 1u;
layout(constant_id = 15) const uint LOADS_B = 1u;
// Texels of shared memory.
layout(constant_id = 21) const uint SHARED = 1u;

// Factor on q k, and on S; the first is divided by the cap where there is one.
layout(constant_id = 16) const float SCALE = 1.0;
layout(constant_id = 17) const float SOFTCAP = 0.0;
layout(constant_id = 22) const float SLOPE = 1.0;
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

// Marks a key that a row does not see; the logarithm of a row that is none, which nothing weighs anything beside.
const float HIDDEN = -3.4028235e38;
const float NONE = 1e38;

// The weight of the greatest score, its logarithm and its exponent: weights that are far less are still whole numbers of F16's least ones.
const float ONE = 16384.0;
const float LOG_ONE = 9.70406053;
const int EXPONENT = 14;

// Own rows of a workgroup, others of a tile, elements of a row as it is staged.
#define OWN (SUBGROUPS * MATRIX_M)
#define TILE (MATRICES * MATRIX_N)
#define WIDE (DEPTH * MATRIX_K)
// Texels from row to row: of operands, of scores.
#define STRIDE (WIDE / 8u + 1u)
#define STRIDE_S (TILE / 4u + 1u)
// Where shared memory has own rows, the tile's, and scores: weights, then derivatives; or what is added to scores.
#define OWN_B_AT (OWN * STRIDE)
#define OTHER_A_AT (2u * OWN * STRIDE)
#define OTHER_B_AT (OTHER_A_AT + TILE * STRIDE)
#define SCORES_AT (OTHER_B_AT + TILE * STRIDE)
#define DERIVATIVES (TILE / 8u)

// Invocations that share a row.
#define SHARE (LANES / MATRIX_M)

shared uvec4 pool[SHARED];

#ifdef KEYS
#define QUERY_ROWS TILE
#define SEEN_KEYS OWN
#else
#define QUERY_ROWS OWN
#define SEEN_KEYS TILE
#endif
// Logarithm and D of the rows of queries at work: quads, for units read from multiples of 16 bytes.
shared vec4 logs[QUERY_ROWS / 4u];
shared vec4 means[QUERY_ROWS / 4u];
// Bits of the largest magnitudes: of own rows, of their D; and, in turns, of the tile at work, the one before and the one after.
shared uint own_largest[2];
shared uint largest[3];
shared uint largest_mean[3];

uint first_head;
uint head_k;
uint batch;

#include "attention_seen.glsl"

bool query_kept(uint r) {
    return true;
}

// Places of rows that there are; of those beyond, which nobody sees, that of the last one.
uvec3 query_place(uint r) {
    return uvec3(min(r / HEADS, Q_n1 - 1u), first_head + r % HEADS, batch);
}

uvec3 result_place(uint r) {
    return uvec3(first_head + r % HEADS, min(r / HEADS, Q_n1 - 1u), batch);
}

uvec3 key_place(uint key) {
    return uvec3(min(key, K_n1 - 1u), head_k, batch);
}

#ifdef KEYS
#define Q_LOADS LOADS_A
#define DY_LOADS LOADS_B
#define K_LOADS 1u
#define V_LOADS 1u
#define QUERIES_OF TILE
#define KEYS_OF OWN
#else
#define Q_LOADS 1u
#define DY_LOADS 1u
#define K_LOADS LOADS_A
#define V_LOADS LOADS_B
#define QUERIES_OF OWN
#define KEYS_OF TILE
#endif

#define OPERAND Q
#define LOADS Q_LOADS
#define WIDTH WIDE
#define ROWS QUERIES_OF
#define PLACE query_place
#define KEPT query_kept
#include "attention_rows.glsl"

#define OPERAND DY
#define LOADS DY_LOADS
#define WIDTH WIDE
#define ROWS QUERIES_OF
#define PLACE result_place
#define KEPT query_kept
#include "attention_rows.glsl"

#define OPERAND K
#define LOADS K_LOADS
#define WIDTH WIDE
#define ROWS KEYS_OF
#define PLACE key_place
#define KEPT query_kept
#include "attention_rows.glsl"

#define OPERAND V
#define LOADS V_LOADS
#define WIDTH WIDE
#define ROWS KEYS_OF
#define PLACE key_place
#define KEPT query_kept
#include "attention_rows.glsl"

#ifdef KEYS
#define OWN_A(what) OPERAND_PASTE(K, what)
#define OWN_B(what) OPERAND_PASTE(V, what)
#define OTHER_A(what) OPERAND_PASTE(Q, what)
#define OTHER_B(what) OPERAND_PASTE(DY, what)
#else
#define OWN_A(what) OPERAND_PASTE(Q, what)
#define OWN_B(what) OPERAND_PASTE(DY, what)
#define OTHER_A(what) OPERAND_PASTE(K, what)
#define OTHER_B(what) OPERAND_PASTE(V, what)
#endif

#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define ROUNDED coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>

// Least exponent of a power of two that a magnitude is below.
int exponent_above(float x) {
    return int(floatBitsToUint(x) >> 23) - 126;
}

float power(int exponent) {
    return uintBitsToFloat(uint(clamp(exponent, -126, 127) + 127) << 23);
}

float largest_of(vec4 v) {
    v = abs(v);
    return max(max(v.x, v.y), max(v.z, v.w));
}

// The largest of the quads that are open of the operand that passes beside v or dy.
float largest_open() {
    float most = 0.0;
    [[unroll]] for (uint l = 0u; l < LOADS_B; l++) {
        uint row, octet;
        if (OTHER_B(_item)(l, row, octet)) {
            most = max(most, largest_of(uintBitsToFloat(OTHER_B(_open)[2u * l])));
            most = max(most, largest_of(uintBitsToFloat(OTHER_B(_open)[2u * l + 1u])));
        }
    }
    return most;
}

// What is kept of a row of queries, if there is such a row.
float kept_log(uint r, out float mean) {
    mean = 0.0;
    uint head = first_head + r % HEADS;
    if (r / HEADS >= Q_n1) {
        return NONE;
    }
    vec4 kept = Y_load4(log_quad(head, Y_n0 / 4u), log_head(head, Q_n2, Y_n0 / 4u), r / HEADS, batch);
    mean = kept.y;
    return kept.x;
}

#ifdef KEYS
// What is open of a row of the tile.
float open_log;
float open_mean;
#endif

// Fetches the tile that starts at a row.
void open_tile(uint first) {
    OTHER_A(_open_rows)(first);
    OTHER_B(_open_rows)(first);
#ifdef KEYS
    if (gl_LocalInvocationID.x < TILE) {
        open_log = kept_log(first + gl_LocalInvocationID.x, open_mean);
    }
#endif
}

// Own rows, the largest of those that gradients are scaled by, and D where they are queries.
void stage_own(uint first, out int exponent) {
    uint lane = gl_LocalInvocationID.x;
    float most = 0.0;
    uint row, octet;
    [[dont_unroll]] for (uint l = 0u; OWN_B(_item)(l, row, octet); l++) {
        OWN_B(_fetch_octet)(0u, octet, first + row);
        most = max(most, largest_of(uintBitsToFloat(OWN_B(_open)[0])));
        most = max(most, largest_of(uintBitsToFloat(OWN_B(_open)[1])));
    }
    atomicMax(own_largest[0], floatBitsToUint(most));
#ifdef KEYS
    barrier();
    exponent = 0;
#else
    row = lane / SHARE;
    vec4 sum = vec4(0.0);
    uvec3 at = result_place(first + row);
    [[dont_unroll]] for (uint c = lane % SHARE; c < Q_n0 / 4u; c += SHARE) {
        sum += Y_load4(c, at.x, at.y, at.z) * DY_load4(c, at.x, at.y, at.z);
    }
    pool[SCORES_AT + lane] = floatBitsToUint(sum);
    barrier();
    if (lane % SHARE == 0u) {
        [[dont_unroll]] for (uint i = 1u; i < SHARE; i++) {
            sum += uintBitsToFloat(pool[SCORES_AT + lane + i]);
        }
        float mean;
        logs[row / 4u][row % 4u] = kept_log(first + row, mean);
        mean = (sum.x + sum.y) + (sum.z + sum.w);
        means[row / 4u][row % 4u] = mean;
        atomicMax(own_largest[1], floatBitsToUint(abs(mean)));
    }
    exponent = clamp(-exponent_above(uintBitsToFloat(own_largest[0])), -100, 100);
    barrier();
#endif
    OWN_A(_stage_rows)(first, 0u, 1.0);
    OWN_B(_stage_rows)(first, OWN_B_AT, power(exponent));
}

// What is added to the scores of a quad of keys, HIDDEN where a row of queries does not see them.
vec4 pair_bias(uint quad, uint r) {
    vec4 bias = vec4(HIDDEN);
    if (r / HEADS < Q_n1 && 4u * quad < K_n1) {
#ifdef MASK
        uint head = first_head + r % HEADS;
        bias = max(slope(head) * M_load4(quad, r / HEADS, head % M_n2, batch % M_n3), vec4(HIDDEN));
#else
        bias = vec4(0.0);
#endif
        bias = mix(vec4(HIDDEN), bias, lessThan(uvec4(4u * quad) + uvec4(0u, 1u, 2u, 3u), uvec4(K_n1)));
    }
    return bias;
}

// What is added to the scores of the subgroup's rows and the tile's, HIDDEN where they do not see each other.
void stage_bias(uint own_first, uint other_first) {
    uint own = gl_SubgroupID * MATRIX_M;
#ifdef KEYS
    // Quads of keys are columns.
    [[unroll]] for (uint i = 0u; i < MATRIX_M * TILE / 4u; i += LANES) {
        uint quad = (i + gl_SubgroupInvocationID) % (MATRIX_M / 4u);
        uint other = (i + gl_SubgroupInvocationID) / (MATRIX_M / 4u);
        vec4 bias = pair_bias((own_first + own) / 4u + quad, other_first + other);
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
            pool[SCORES_AT + (own + 4u * quad + e) * STRIDE_S + other / 4u][other % 4u] = floatBitsToUint(bias[e]);
        }
    }
#else
    own += gl_SubgroupInvocationID % MATRIX_M;
    [[unroll]] for (uint i = 0u; i < TILE / 4u; i += SHARE) {
        uint quad = i + gl_SubgroupInvocationID / MATRIX_M;
        vec4 bias = pair_bias(other_first / 4u + quad, own_first + own);
        pool[SCORES_AT + own * STRIDE_S + quad] = floatBitsToUint(bias);
    }
#endif
}

// The product of the subgroup's own rows and those of the tile, for one matrix of these.
ACCUMULATOR product(uint own_at, uint other_at, uint j) {
    ACCUMULATOR sum = ACCUMULATOR(0.0);
    for (uint d = 0u; d < DEPTH; d++) {
        uint octet = d * MATRIX_K / 8u;
        LEFT a;
        RIGHT b;
        coopMatLoad(a, pool, own_at + gl_SubgroupID * MATRIX_M * STRIDE + octet, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        coopMatLoad(b, pool, other_at + j * MATRIX_N * STRIDE + octet, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
        sum = coopMatMulAdd(a, b, sum);
    }
    return sum;
}

// The same number for all of a row of queries.
#ifdef KEYS
#define LOAD_OF_ROWS(to, from, j) coopMatLoad(to, from, (j) * MATRIX_N / 4u, 0u, gl_CooperativeMatrixLayoutRowMajor)
#else
#define LOAD_OF_ROWS(to, from, j) coopMatLoad(to, from, gl_SubgroupID * MATRIX_M / 4u, 0u, gl_CooperativeMatrixLayoutColumnMajor)
#endif

ACCUMULATOR sums[COLUMNS];
#ifdef KEYS
ACCUMULATOR values[COLUMNS];
#endif

// What some rows of the tile, from `k` on, add.
void add_derivatives(uint k, LEFT a) {
    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
        RIGHT b;
        coopMatLoad(b, pool, OTHER_A_AT + k * STRIDE + c * MATRIX_N / 8u, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        sums[c] = coopMatMulAdd(a, b, sums[c]);
    }
}

#ifdef KEYS
void add_weights(uint k, LEFT a) {
    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
        RIGHT b;
        coopMatLoad(b, pool, OTHER_B_AT + k * STRIDE + c * MATRIX_N / 8u, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
        values[c] = coopMatMulAdd(a, b, values[c]);
    }
}
#endif

void store(uint c, uint own_row, vec4 v) {
#ifdef KEYS
    if (head_k < K_n2 && D_covers(c, head_k, own_row, gl_WorkGroupID.z)) {
        D_store4(c, head_k, own_row, gl_WorkGroupID.z, v);
    }
#else
    uint query = own_row / HEADS;
    uint head = first_head + own_row % HEADS;
    if (!holds_log(c, head, Q_n2, D_n0 / 4u) && D_covers(c, head, query, gl_WorkGroupID.z)) {
        D_store4(c, head, query, gl_WorkGroupID.z, v);
    }
#endif
}

#ifdef KEYS
void store_value(uint c, uint own_row, vec4 v) {
    if (D_covers(c, head_k + K_n2, own_row, gl_WorkGroupID.z)) {
        D_store4(c, head_k + K_n2, own_row, gl_WorkGroupID.z, v);
    }
}
#endif

// Stores sums, as many matrices at a time as there is room for, where scores were.
#define STORE_SUMS(of, store_quad, factor) \
    [[unroll]] for (uint first = 0u; first < COLUMNS; first += MATRICES) { \
        [[unroll]] for (uint j = 0u; j < MATRICES; j++) { \
            if (first + j < COLUMNS) { \
                coopMatStore(of[first + j], pool, scores + j * MATRIX_N / 4u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor); \
            } \
        } \
        subgroupBarrier(); \
        [[dont_unroll]] for (uint i = sharer; i < TILE / 4u; i += SHARE) { \
            uint c = first * MATRIX_N / 4u + i; \
            if (c < COLUMNS * MATRIX_N / 4u) { \
                store_quad(c, own_first + own, (factor) * uintBitsToFloat(pool[SCORES_AT + own * STRIDE_S + i])); \
            } \
        } \
        subgroupBarrier(); \
    }

void main() {
    uint lane = gl_LocalInvocationID.x;
    head_k = gl_WorkGroupID.y;
    first_head = head_k * HEADS;
    batch = gl_WorkGroupID.z % Q_n3;
    uint part = gl_WorkGroupID.z / Q_n3;
    // Under a causal mask later queries and earlier keys have more to do, and begin.
#ifdef KEYS
    uint own_first = gl_WorkGroupID.x * OWN;
#else
    uint own_first = (gl_NumWorkGroups.x - 1u - gl_WorkGroupID.x) * OWN;
#endif
    // Workgroups of padding meet nobody, and store zeros.
    bool inside = first_head < Q_n2 && part < PARTS;
#ifdef KEYS
    uint all = (Q_n1 * HEADS + TILE - 1u) / TILE;
    inside = inside && own_first < K_n1;
#else
    uint all = (K_n1 + TILE - 1u) / TILE;
    inside = inside && own_first < Q_n1 * HEADS;
#endif
    uint begin = part * TILES;
    uint end = inside ? min(begin + TILES, all) : begin;

    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
        sums[c] = ACCUMULATOR(0.0);
#ifdef KEYS
        values[c] = ACCUMULATOR(0.0);
#endif
    }
    if (lane < 3u) {
        largest[lane] = 0u;
        largest_mean[lane] = 0u;
    }
    if (lane < 2u) {
        own_largest[lane] = 0u;
    }
    barrier();
    // Exponents of the factors on dy, and on derivatives.
    int of_dy = 100;
    int of_scores = 100;
    if (inside) {
        int exponent;
        stage_own(own_first, exponent);
#ifndef KEYS
        of_dy = exponent;
#endif
    }

    uint scores = SCORES_AT + gl_SubgroupID * MATRIX_M * STRIDE_S;
    uint turn = 0u;
    [[dont_unroll]] for (uint segment = 0u; begin + segment * SEGMENT < end; segment++) {
        uint segment_first = begin + segment * SEGMENT;
        uint count = min(SEGMENT, end - segment_first);
#ifdef KEYS
        Seen seen = look(segment, count, segment_first * TILE, TILE, own_first);
#else
        Seen seen = look(segment, count, own_first, OWN, segment_first * TILE);
#endif
        uint left = seen.some;
        if (left != 0u) {
            open_tile((segment_first + findLSB(left)) * TILE);
        }
        [[dont_unroll]] while (left != 0u) {
            uint number = findLSB(left);
            uint other_first = (segment_first + number) * TILE;
            bool mixed = (seen.mixed >> number & 1u) != 0u;
            left &= left - 1u;

            float most = largest_open();
            if (floatBitsToUint(most) > largest[turn]) {
                atomicMax(largest[turn], floatBitsToUint(most));
            }
#ifdef KEYS
            if (lane < TILE) {
                atomicMax(largest_mean[turn], floatBitsToUint(abs(open_mean)));
            }
#endif
            // All have done with the tile before.
            barrier();
            if (lane == 0u) {
                largest[(turn + 2u) % 3u] = 0u;
                largest_mean[(turn + 2u) % 3u] = 0u;
            }
            float of_other = uintBitsToFloat(largest[turn]);
            float of_own = uintBitsToFloat(own_largest[0]);
#ifdef KEYS
            float mean_most = uintBitsToFloat(largest_mean[turn]);
            int next_dy = min(of_dy, clamp(-exponent_above(of_other), -100, 100));
            float factor_other = power(next_dy);
            if (lane < TILE) {
                logs[lane / 4u][lane % 4u] = open_log;
                means[lane / 4u][lane % 4u] = open_mean;
            }
#else
            float mean_most = uintBitsToFloat(own_largest[1]);
            int next_dy = of_dy;
            float factor_other = 1.0;
#endif
            int above = exponent_above(float(Q_n0) * of_own * of_other + mean_most);
            int next_scores = min(of_scores, clamp(min(EXPONENT - above, next_dy + 60), -100, 100));
            OTHER_A(_close_rows)(other_first, OTHER_A_AT, 1.0);
            OTHER_B(_close_rows)(other_first, OTHER_B_AT, factor_other);
            barrier();
            turn = (turn + 1u) % 3u;
            if (left != 0u) {
                open_tile((segment_first + findLSB(left)) * TILE);
            }
            if (next_scores != of_scores) {
                float fallen = power(next_scores - of_scores);
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                    sums[c] *= fallen;
                }
                of_scores = next_scores;
            }
#ifdef KEYS
            if (next_dy != of_dy) {
                float fallen = power(next_dy - of_dy);
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                    values[c] *= fallen;
                }
                of_dy = next_dy;
            }
#endif
            // Derivatives are made of weights, which are ONE times as large.
            float of_product = power(of_scores - EXPONENT - of_dy);
            float of_mean = power(of_scores - EXPONENT);

            ACCUMULATOR bias[MATRICES];
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                bias[j] = ACCUMULATOR(0.0);
            }
            if (mixed) {
                stage_bias(own_first, other_first);
                subgroupBarrier();
                [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                    coopMatLoad(bias[j], pool, scores + j * MATRIX_N / 4u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
                }
                subgroupBarrier();
            }
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                ACCUMULATOR score = product(0u, OTHER_A_AT, j);
                ACCUMULATOR derivative = product(OWN_B_AT, OTHER_B_AT, j);
                ACCUMULATOR log_of;
                ACCUMULATOR mean_of;
                LOAD_OF_ROWS(log_of, logs, j);
                LOAD_OF_ROWS(mean_of, means, j);
                [[unroll]] for (uint i = 0u; i < score.length(); i++) {
                    float x = SCALE * score[i];
                    float slopes = 1.0;
                    if (SOFTCAP != 0.0) {
                        float y = hyperbolic_tangent(vec4(x)).x;
                        slopes = 1.0 - y * y;
                        x = SOFTCAP * y;
                    }
                    float b = bias[j][i];
                    x = b <= HIDDEN ? HIDDEN : x + b;
                    float weight = exp(x - (log_of[i] - LOG_ONE));
                    derivative[i] = weight * slopes * (derivative[i] * of_product - mean_of[i] * of_mean);
                    score[i] = weight;
                }
#ifdef MATRIX2
                add_derivatives(j * MATRIX_N, LEFT(derivative));
#ifdef KEYS
                add_weights(j * MATRIX_N, LEFT(score));
#endif
#else
                ROUNDED derivatives = ROUNDED(derivative);
                coopMatStore(derivatives, pool, scores + DERIVATIVES + j * MATRIX_N / 8u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
#ifdef KEYS
                ROUNDED weights = ROUNDED(score);
                coopMatStore(weights, pool, scores + j * MATRIX_N / 8u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
#endif
#endif
            }
#ifndef MATRIX2
            subgroupBarrier();
            for (uint k = 0u; k < TILE; k += MATRIX_K) {
                LEFT a;
                coopMatLoad(a, pool, scores + DERIVATIVES + k / 8u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
                add_derivatives(k, a);
#ifdef KEYS
                coopMatLoad(a, pool, scores + k / 8u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
                add_weights(k, a);
#endif
            }
#endif
        }
    }

    subgroupBarrier();
    uint own = gl_SubgroupID * MATRIX_M + gl_SubgroupInvocationID % MATRIX_M;
    uint sharer = gl_SubgroupInvocationID / MATRIX_M;
    float of_sums = SLOPE * power(-of_scores);
    STORE_SUMS(sums, store, of_sums)
#ifdef KEYS
    float of_values = power(-of_dy) / ONE;
    STORE_SUMS(values, store_value, of_values)
#else
    uint r = own_first + own;
    uint head = first_head + r % HEADS;
    if (sharer == 0u && head < Q_n2) {
        uint c = log_quad(head, D_n0 / 4u);
        uint behind = log_head(head, Q_n2, D_n0 / 4u);
        if (D_covers(c, behind, r / HEADS, gl_WorkGroupID.z)) {
            bool there = inside && r / HEADS < Q_n1;
            vec4 kept = vec4(there ? logs[own / 4u][own % 4u] : 0.0, there ? means[own / 4u][own % 4u] : 0.0, 0.0, 0.0);
            D_store4(c, behind, r / HEADS, gl_WorkGroupID.z, kept);
        }
    }
#endif
}
