// Attention in one sweep over the keys (attention.comp) by matrix units: factors are rounded to F16, sums are F32. Per query and head the
// softmax of scale q k + slope mask over the keys, times v.
//
// Rows are pairs (query, head) whose heads share keys and values, the head innermost. A workgroup owns SUBGROUPS matrices of them; keys and
// values of a tile pass through shared memory. A subgroup multiplies its rows with a tile's keys, leaves the scores in a place of its
// own there, where its invocations make weights of them, and multiplies these with the values. Sums of values stay in the
// units: where the greatest score rises they are multiplied with a matrix that has the same number all along a row. With MATRIX2
// (VK_NV_cooperative_matrix2) scores never leave the units: these tell the greatest of each row, and take weights as factors.
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

// Subgroups, each with the rows of one matrix; matrices of keys in a tile; invocations of a subgroup.
layout(constant_id = 3) const uint SUBGROUPS = 4u;
layout(constant_id = 4) const uint MATRICES = 4u;
layout(constant_id = 5) const uint LANES = 32u;
// Matrices along a key, and along a value.
layout(constant_id = 6) const uint DEPTH = 4u;
layout(constant_id = 12) const uint COLUMNS = 4u;
// Parts of the keys along z of the workgroups, above the batches, and tiles of a part; 0 parts for the whole of them.
layout(constant_id = 7) const uint PARTS = 0u;
layout(constant_id = 8) const uint TILES = 1u;
// Heads of a workgroup's rows.
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
// Octets that an invocation fetches of a tile's keys, and of its values.
layout(constant_id = 14) const uint LOADS_K = 1u;
layout(constant_id = 15) const uint LOADS_V = 1u;
// Texels of shared memory.
layout(constant_id = 21) const uint SHARED = 1u;

// Factor on q k: divided by the cap where there is one.
layout(constant_id = 16) const float SCALE = 1.0;
layout(constant_id = 17) const float SOFTCAP = 0.0;
#ifdef MASK
layout(constant_id = 18) const float SLOPE_STEP = 0.0;
layout(constant_id = 19) const uint SLOPE_HEADS = 1u;
// The head of the whole that head 0 of a piece is.
layout(constant_id = 20) const uint FIRST_HEAD = 0u;
#endif

#define OPERAND Q
#define SLOT 0
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND K
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND V
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#ifdef MASK
#define OPERAND M
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"
#define D_SLOT 4
#else
#define D_SLOT 3
#endif

#define OPERAND D
#define SLOT D_SLOT
#define ACCESS WRITE
#define DTYPE DTYPE_F32
#include "operand.glsl"

#include "attention_logs.glsl"
#include "attention_slope.glsl"
#include "elementwise.glsl"

#define LOGS (PARTS == 0u && D_n1 > Q_n2)

// Marks a key that a row does not see. What is the greatest score of a row until it sees one: no score counts that is less.
const float HIDDEN = -3.4028235e38;
const float FLOOR = -1e30;

// The weight of the greatest score, and its logarithm: weights that are far less are still whole numbers of F16's least ones.
const float ONE = 16384.0;
const float LOG_ONE = 9.70406053;

// Rows of a workgroup, keys of a tile.
#define OWN (SUBGROUPS * MATRIX_M)
#define TILE (MATRICES * MATRIX_N)
// Elements of a key and of a value as they are staged.
#define WIDE_K (DEPTH * MATRIX_K)
#define WIDE_V (COLUMNS * MATRIX_N)
// Texels from row to row: of queries and keys, of values, of scores.
#define STRIDE_K (WIDE_K / 8u + 1u)
#define STRIDE_V (WIDE_V / 8u + 1u)
#define STRIDE_S (TILE / 4u + 1u)
// Where they are in shared memory.
#define KEYS_AT (OWN * STRIDE_K)
#define VALUES_AT (KEYS_AT + TILE * STRIDE_K)
#define SCORES_AT (VALUES_AT + TILE * STRIDE_V)
// A row of scores becomes its weights, what its sums are multiplied with, and in the last texel what invocations that share it tell each other.
#define FACTORS (TILE / 8u)
#define TOLD (TILE / 4u)

// Invocations that share a row of scores, and quads of it for each.
#define SHARE (LANES / MATRIX_M)
#define QUADS (MATRICES * MATRIX_N * MATRIX_M / (4u * LANES))

shared uvec4 pool[SHARED];

// First row and first head of the workgroup, its batch, and heads and batches of what it multiplies with.
uint first_row;
uint first_head;
uint batch;
uint head_k;
uint head_v;
uint batch_k;
uint batch_v;
// First tile of the segment.
uint segment_first;

#define SEEN_KEYS TILE
#define SEEN_EACH
#include "attention_seen.glsl"

uvec3 query_place(uint r) {
    return uvec3(min(r / HEADS, Q_n1 - 1u), min(first_head + r % HEADS, Q_n2 - 1u), batch);
}

bool query_kept(uint r) {
    return r / HEADS < Q_n1 && first_head + r % HEADS < Q_n2;
}

// Keys that nobody sees may hold anything.
bool key_kept(uint key) {
#ifdef MASK
    uint at = key - segment_first * TILE;
    return (seen_keys[at / 32u] >> (at % 32u) & 1u) != 0u;
#else
    return key < K_n1;
#endif
}

uvec3 key_place(uint key) {
    return uvec3(min(key, K_n1 - 1u), head_k, batch_k);
}

uvec3 value_place(uint key) {
    return uvec3(min(key, K_n1 - 1u), head_v, batch_v);
}

#define OPERAND Q
#define LOADS 1u
#define WIDTH WIDE_K
#define ROWS OWN
#define PLACE query_place
#define KEPT query_kept
#include "attention_rows.glsl"

#define OPERAND K
#define LOADS LOADS_K
#define WIDTH WIDE_K
#define ROWS TILE
#define PLACE key_place
#define KEPT key_kept
#include "attention_rows.glsl"

#define OPERAND V
#define LOADS LOADS_V
#define WIDTH WIDE_V
#define ROWS TILE
#define PLACE value_place
#define KEPT key_kept
#include "attention_rows.glsl"

#define ACCUMULATOR coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>
#define LEFT coopmat<float16_t, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>
#define RIGHT coopmat<float16_t, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>

// What is added to a row's scores with a quad of keys, HIDDEN where it does not see them.
vec4 bias_of(uint c, uint query, uint head, float steep) {
    vec4 bias = vec4(HIDDEN);
    if (4u * c < K_n1) {
#ifdef MASK
        if (query < Q_n1 && head < Q_n2) {
            bias = max(steep * M_load4(c, query, head % M_n2, batch % M_n3), vec4(HIDDEN));
        }
#else
        bias = vec4(0.0);
#endif
        bias = mix(vec4(HIDDEN), bias, lessThan(uvec4(4u * c) + uvec4(0u, 1u, 2u, 3u), uvec4(K_n1)));
    }
    return bias;
}

#ifdef MATRIX2
float larger(const in float a, const in float b) {
    return max(a, b);
}

float together(const in float a, const in float b) {
    return a + b;
}
#endif

void main() {
    first_head = gl_WorkGroupID.y * HEADS;
    batch = PARTS > 0u ? gl_WorkGroupID.z % Q_n3 : gl_WorkGroupID.z;
    uint part = PARTS > 0u ? gl_WorkGroupID.z / Q_n3 : 0u;
    // Workgroups of padding have no keys, and store zeros.
    bool inside = first_head < Q_n2 && batch < Q_n3;
    // Under a causal mask later rows have more to do, and begin.
    first_row = (gl_NumWorkGroups.x - 1u - gl_WorkGroupID.x) * OWN;
    head_k = first_head / (Q_n2 / K_n2);
    head_v = first_head / (Q_n2 / V_n2);
    batch_k = batch / (Q_n3 / K_n3);
    batch_v = batch / (Q_n3 / V_n3);

    // The row whose scores this invocation shares.
    uint own = gl_SubgroupID * MATRIX_M + gl_SubgroupInvocationID % MATRIX_M;
    uint sharer = gl_SubgroupInvocationID / MATRIX_M;
    uint query = (first_row + own) / HEADS;
    uint head = first_head + (first_row + own) % HEADS;
    uint scores = SCORES_AT + gl_SubgroupID * MATRIX_M * STRIDE_S;
    uint row = SCORES_AT + own * STRIDE_S;
#ifdef MASK
    float steep = slope(FIRST_HEAD + head);
#else
    float steep = 1.0;
#endif

#ifdef MATRIX2
    // The same all along a row; each element sums what it has been a place of.
    ACCUMULATOR greatests = ACCUMULATOR(FLOOR);
    ACCUMULATOR totals = ACCUMULATOR(0.0);
#else
    float greatest = FLOOR;
    float total = 0.0;
#endif
    ACCUMULATOR sums[COLUMNS];
    [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
        sums[c] = ACCUMULATOR(0.0);
    }
    if (inside) {
        Q_stage_rows(first_row, 0u, 1.0);
    }

    const uint all = (K_n1 + TILE - 1u) / TILE;
    uint begin = part * TILES;
    uint end = inside && first_row < Q_n1 * HEADS ? min(begin + TILES, all) : begin;
    [[dont_unroll]] for (uint segment = 0u; begin + segment * SEGMENT < end; segment++) {
        segment_first = begin + segment * SEGMENT;
        Seen seen = look(segment, min(SEGMENT, end - segment_first), first_row, OWN, segment_first * TILE);
        uint left = seen.some;
        if (left != 0u) {
            K_open_rows((segment_first + findLSB(left)) * TILE);
        }
        [[dont_unroll]] while (left != 0u) {
            uint number = findLSB(left);
            uint key = (segment_first + number) * TILE;
            bool mixed = (seen.mixed >> number & 1u) != 0u;
            left &= left - 1u;

            K_close_rows(key, KEYS_AT, 1.0);
            barrier();
            V_open_rows(key);
            ACCUMULATOR score[MATRICES];
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                score[j] = ACCUMULATOR(0.0);
            }
            for (uint d = 0u; d < DEPTH; d++) {
                LEFT q;
                uint octet = d * MATRIX_K / 8u;
                coopMatLoad(q, pool, gl_SubgroupID * MATRIX_M * STRIDE_K + octet, STRIDE_K, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                    RIGHT k;
                    coopMatLoad(k, pool, KEYS_AT + j * MATRIX_N * STRIDE_K + octet, STRIDE_K, gl_CooperativeMatrixLayoutColumnMajor);
                    score[j] = coopMatMulAdd(q, k, score[j]);
                }
            }
#ifdef MATRIX2
            if (mixed) {
                [[unroll]] for (uint i = 0u; i < QUADS; i++) {
                    pool[row + sharer * QUADS + i] = floatBitsToUint(bias_of(key / 4u + sharer * QUADS + i, query, head, steep));
                }
                subgroupBarrier();
            }
            ACCUMULATOR top = ACCUMULATOR(FLOOR);
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                ACCUMULATOR bias = ACCUMULATOR(0.0);
                if (mixed) {
                    coopMatLoad(bias, pool, scores + j * MATRIX_N / 4u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
                }
                [[unroll]] for (uint i = 0u; i < bias.length(); i++) {
                    float x = SCALE * score[j][i];
                    if (SOFTCAP != 0.0) {
                        x = SOFTCAP * hyperbolic_tangent(vec4(x)).x;
                    }
                    x = bias[i] <= HIDDEN ? HIDDEN : x + bias[i];
                    score[j][i] = x;
                    top[i] = max(top[i], x);
                }
            }
            ACCUMULATOR shrink;
            coopMatReduceNV(top, top, gl_CooperativeMatrixReduceRowNV, larger);
            [[unroll]] for (uint i = 0u; i < top.length(); i++) {
                float next = max(greatests[i], top[i]);
                shrink[i] = exp(greatests[i] - next);
                greatests[i] = next;
                totals[i] *= shrink[i];
            }
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                [[unroll]] for (uint i = 0u; i < top.length(); i++) {
                    float weight = exp(score[j][i] - (greatests[i] - LOG_ONE));
                    totals[i] += weight;
                    score[j][i] = weight;
                }
            }
            [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                sums[c] *= shrink;
            }
            V_close_rows(key, VALUES_AT, 1.0);
            barrier();
            if (left != 0u) {
                K_open_rows((segment_first + findLSB(left)) * TILE);
            }
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                LEFT weights = LEFT(score[j]);
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                    RIGHT v;
                    coopMatLoad(v, pool, VALUES_AT + j * MATRIX_N * STRIDE_V + c * MATRIX_N / 8u, STRIDE_V, gl_CooperativeMatrixLayoutRowMajor);
                    sums[c] = coopMatMulAdd(weights, v, sums[c]);
                }
            }
#else
            [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
                coopMatStore(score[j], pool, scores + j * MATRIX_N / 4u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
            }
            subgroupBarrier();

            vec4 x[QUADS];
            [[unroll]] for (uint i = 0u; i < QUADS; i++) {
                x[i] = SCALE * uintBitsToFloat(pool[row + sharer * QUADS + i]);
                if (SOFTCAP != 0.0) {
                    x[i] = SOFTCAP * hyperbolic_tangent(x[i]);
                }
            }
            if (mixed) {
                [[unroll]] for (uint i = 0u; i < QUADS; i++) {
                    vec4 bias = bias_of(key / 4u + sharer * QUADS + i, query, head, steep);
                    x[i] = mix(x[i] + bias, vec4(HIDDEN), lessThanEqual(bias, vec4(HIDDEN)));
                }
            }
            vec4 top = x[0];
            [[unroll]] for (uint i = 1u; i < QUADS; i++) {
                top = max(top, x[i]);
            }
            float next = max(max(top.x, top.y), max(top.z, top.w));
            pool[row + TOLD][sharer] = floatBitsToUint(next);
            subgroupBarrier();
            vec4 told = uintBitsToFloat(pool[row + TOLD]);
            next = greatest;
            [[unroll]] for (uint i = 0u; i < SHARE; i++) {
                next = max(next, told[i]);
            }
            float shrink = exp(greatest - next);
            greatest = next;
            vec4 more = vec4(0.0);
            [[unroll]] for (uint i = 0u; i < QUADS; i++) {
                x[i] = exp(x[i] - (next - LOG_ONE));
                more += x[i];
            }
            total = total * shrink + ((more.x + more.y) + (more.z + more.w));
            [[unroll]] for (uint i = 0u; i < QUADS; i += 2u) {
                pool[row + (sharer * QUADS + i) / 2u] = uvec4(rows_halves(x[i]), rows_halves(x[i + 1u]));
            }
            [[unroll]] for (uint c = 0u; c < MATRIX_N / 4u; c += SHARE) {
                if (c + sharer < MATRIX_N / 4u) {
                    pool[row + FACTORS + c + sharer] = floatBitsToUint(vec4(shrink));
                }
            }
            V_close_rows(key, VALUES_AT, 1.0);
            barrier();
            if (left != 0u) {
                K_open_rows((segment_first + findLSB(left)) * TILE);
            }
            ACCUMULATOR factor;
            coopMatLoad(factor, pool, scores + FACTORS, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                sums[c] *= factor;
            }
            for (uint k = 0u; k < TILE; k += MATRIX_K) {
                LEFT weights;
                coopMatLoad(weights, pool, scores + k / 8u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
                [[unroll]] for (uint c = 0u; c < COLUMNS; c++) {
                    RIGHT v;
                    coopMatLoad(v, pool, VALUES_AT + k * STRIDE_V + c * MATRIX_N / 8u, STRIDE_V, gl_CooperativeMatrixLayoutRowMajor);
                    sums[c] = coopMatMulAdd(weights, v, sums[c]);
                }
            }
            // Before scores take the place of weights.
            subgroupBarrier();
#endif
        }
    }

#ifdef MATRIX2
    coopMatReduceNV(totals, totals, gl_CooperativeMatrixReduceRowNV, together);
    subgroupBarrier();
    coopMatStore(greatests, pool, scores, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(totals, pool, scores + MATRIX_N / 4u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    float greatest = uintBitsToFloat(pool[row].x);
    float total = uintBitsToFloat(pool[row + MATRIX_N / 4u].x);
    subgroupBarrier();
#else
    // Sums of all that share the row.
    pool[row + TOLD][sharer] = floatBitsToUint(total);
    subgroupBarrier();
    vec4 told = uintBitsToFloat(pool[row + TOLD]);
    total = 0.0;
    [[unroll]] for (uint i = 0u; i < SHARE; i++) {
        total += told[i];
    }
#endif
    float divisor = PARTS > 0u ? ONE : total;
    float inverse = divisor > 0.0 ? 1.0 / divisor : 0.0;

    // As many matrices of sums at a time as there is room for, where scores were. Rows that are outside have zeros.
    const uint quads_v = (V_n0 + 3u) / 4u;
    [[unroll]] for (uint first = 0u; first < COLUMNS; first += MATRICES) {
        [[unroll]] for (uint j = 0u; j < MATRICES; j++) {
            if (first + j < COLUMNS) {
                coopMatStore(sums[first + j], pool, scores + j * MATRIX_N / 4u, STRIDE_S, gl_CooperativeMatrixLayoutRowMajor);
            }
        }
        subgroupBarrier();
        [[dont_unroll]] for (uint i = sharer; i < TILE / 4u; i += SHARE) {
            uint c = first * MATRIX_N / 4u + i;
            bool summed = c < COLUMNS * MATRIX_N / 4u && (PARTS == 0u || c < quads_v);
            bool is_log = LOGS && holds_log(c, head, Q_n2, quads_v);
            if (summed && !is_log && D_covers(c, head, query, gl_WorkGroupID.z)) {
                D_store4(c, head, query, gl_WorkGroupID.z, inverse * uintBitsToFloat(pool[row + i]));
            }
        }
        subgroupBarrier();
    }
    if (sharer != 0u) {
        return;
    }
    if (LOGS && head < Q_n2) {
        uint c = log_quad(head, quads_v);
        uint behind = log_head(head, Q_n2, quads_v);
        if (D_covers(c, behind, query, gl_WorkGroupID.z)) {
            float log_total = total > 0.0 ? greatest + log(total / ONE) : 0.0;
            D_store4(c, behind, query, gl_WorkGroupID.z, vec4(log_total, 0.0, 0.0, 0.0));
        }
    }
    if (PARTS > 0u && D_covers(quads_v, head, query, gl_WorkGroupID.z)) {
        D_store4(quads_v, head, query, gl_WorkGroupID.z, vec4(greatest, total / ONE, 0.0, 0.0));
    }
}
