// Attention in one sweep over the keys: per query and head the softmax of scale q k + slope mask over the keys, times v.
// The weights of a tile of keys exist in shared memory alone; greatest score, sum of weights and sum of weighted values run
// along, rescaled when the greatest score rises.
//
// Rows are pairs (query, head) whose heads share keys and values, the head innermost. Four rows are one vec4: each
// invocation scores some keys for its four rows, and sums some quads of the values for them. Teams of such invocations take tiles
// in turns; what each has summed is joined in shared memory, in a fixed order. With PARTS above 0 a workgroup takes one part of
// the keys, and leaves its sums and, behind them, greatest score and sum of weights to attention_join.
//
// With SINKS, which MASK comes with and parts do not, each head has the logit (S) of one more key without a value: the first team's.
//
// What a mask says of a tile is asked while the one before it is at work: tiles that nobody sees are skipped, and no key waits.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

layout(local_size_x_id = 0) in;

// Invocations of a team that share four rows, and fours of rows in a workgroup.
layout(constant_id = 3) const uint LANES = 32u;
layout(constant_id = 4) const uint FOURS = 1u;
// Keys of an invocation in a tile, and quads of a value's row: LANES apart.
layout(constant_id = 5) const uint KEYS = 2u;
layout(constant_id = 6) const uint SLOTS = 1u;
// Parts of the keys along z of the workgroups, above the batches, and tiles of each team in a part; 0 parts for the whole of them.
layout(constant_id = 7) const uint PARTS = 0u;
layout(constant_id = 8) const uint TILES = 1u;
// Heads of a workgroup's rows.
layout(constant_id = 9) const uint HEADS = 1u;
// Quads of a key, and values, that an invocation fetches before it uses the first of them; it divides LANES.
layout(constant_id = 10) const uint AHEAD = 1u;
// Teams of a workgroup: each has all of its rows and tiles of its own.
layout(constant_id = 11) const uint TEAMS = 1u;
// Whether the first values of a tile are fetched with its keys, before their weights are known; not those in blocks.
layout(constant_id = 12) const uint EARLY = 0u;

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
#define ENCODED
#include "operand.glsl"

#define OPERAND V
#define SLOT 2
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#ifdef MASK
#define OPERAND M
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"
#endif

#ifdef SINKS
#define OPERAND S
#define SLOT 4
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND D
#define SLOT 5
#elif defined(MASK)
#define OPERAND D
#define SLOT 4
#else
#define OPERAND D
#define SLOT 3
#endif
#define ACCESS WRITE
#define DTYPE DTYPE_F32
#include "operand.glsl"

#include "attention_logs.glsl"
#include "attention_slope.glsl"
#include "elementwise.glsl"

// Whether the result keeps the logarithms of its sums of weights behind its heads.
#define LOGS (PARTS == 0u && D_n1 > Q_n2)

// Marks a key that a row does not see, and is less than every score.
const float HIDDEN = -3.4028235e38;

// Rows of queries; weights of a tile's keys for four of them; the greatest scores of each invocation.
shared vec4 queries[FOURS * 4u * ((Q_n0 + 3u) / 4u)];
shared vec4 weights[gl_WorkGroupSize.x * KEYS];
shared vec4 tops[gl_WorkGroupSize.x];
// Behind the first key of the last tile of which one of four rows sees a key, for each team.
shared uint seen[TEAMS * FOURS];
// Sums of weights and of weighted values that teams join.
shared vec4 totals[TEAMS * FOURS];
shared vec4 team_sums[TEAMS > 1u ? gl_WorkGroupSize.x * 4u * SLOTS : 1u];

// First of the four rows of this invocation, and first head of the workgroup.
uint first_row;
uint first_head;

uint row_query(uint r) {
    return (first_row + r) / HEADS;
}

uint row_head(uint r) {
    return first_head + (first_row + r) % HEADS;
}

bool row_inside(uint r) {
    return row_query(r) < Q_n1 && row_head(r) < Q_n2;
}

bool all_hidden(vec4 v) {
    return all(lessThanEqual(v, vec4(HIDDEN)));
}

// What the mask says of a key to the four rows; to rows that are outside it may say anything.
vec4 key_masks(uint key, uint end, uint batch) {
    vec4 masks = vec4(0.0);
#ifdef MASK
    key = min(key, end - 1u);
    // Four rows of one query: the mask is asked once.
    if (M_n2 == 1u && (HEADS % 4u == 0u || Q_n1 == 1u)) {
        return vec4(M_load(key, min(row_query(0u), Q_n1 - 1u), 0u, batch % M_n3));
    }
    // Rolled, as all but the innermost loops are: some compilers pay dearly for every access they see.
    [[dont_unroll]] for (uint r = 0u; r < 4u; r++) {
        if (row_inside(r)) {
            masks[r] = M_load(key, row_query(r), row_head(r) % M_n2, batch % M_n3);
        }
    }
#endif
    return masks;
}

// What is added to the scores of a key, HIDDEN where a row does not see it.
vec4 key_bias(vec4 masks, uint key, uint end, vec4 slopes) {
    bvec4 inside = bvec4(row_inside(0u), row_inside(1u), row_inside(2u), row_inside(3u));
    return mix(vec4(HIDDEN), max(slopes * masks, HIDDEN), key < end ? inside : bvec4(false));
}

void load_queries(uint four, uint lane, uint lanes, uint batch) {
    const uint quads = (Q_n0 + 3u) / 4u;
    for (uint i = lane; i < 4u * quads; i += lanes) {
        uint c = i % quads;
        uint r = i / quads;
        vec4 row = vec4(0.0);
        if (row_inside(r)) {
            row = SCALE * operand_mask(c, Q_n0, Q_load4(c, row_query(r), row_head(r), batch));
        }
        queries[4u * (four * quads + c) + r] = row;
    }
}

// Fetches AHEAD values from a key on.
#define FETCH_VALUES(values, key0) \
    [[unroll]] for (uint u = 0u; u < AHEAD; u++) { \
        uint key = min((key0) + u, end - 1u); \
        [[unroll]] for (uint s = 0u; s < SLOTS; s++) { \
            values[u * SLOTS + s] = V_load4(min(lane + s * LANES, quads_v - 1u), key, head_v, batch_v); \
        } \
    }

void main() {
    uint lane = gl_LocalInvocationID.x % LANES;
    uint four = gl_LocalInvocationID.x / LANES % FOURS;
    uint team = gl_LocalInvocationID.x / (LANES * FOURS);
    uint own = team * FOURS + four;
    first_head = gl_WorkGroupID.y * HEADS;
    uint batch = PARTS > 0u ? gl_WorkGroupID.z % Q_n3 : gl_WorkGroupID.z;
    uint part = PARTS > 0u ? gl_WorkGroupID.z / Q_n3 : 0u;
    // Workgroups of padding have no keys, and store zeros.
    bool inside = first_head < Q_n2 && batch < Q_n3;

    first_row = 4u * (gl_WorkGroupID.x * FOURS + four);
    vec4 slopes = vec4(1.0);
#ifdef MASK
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        slopes[r] = slope(FIRST_HEAD + row_head(r));
    }
#endif

    const uint tile = KEYS * LANES;
    const uint stride = TEAMS * tile;
    const uint quads_k = (Q_n0 + 3u) / 4u;
    const uint quads_v = (V_n0 + 3u) / 4u;
    uint head_k = first_head / (Q_n2 / K_n2);
    uint head_v = first_head / (Q_n2 / V_n2);
    uint batch_k = batch / (Q_n3 / K_n3);
    uint batch_v = batch / (Q_n3 / V_n3);

    vec4 greatest = vec4(HIDDEN);
    vec4 total = vec4(0.0);
    vec4 sums[4u * SLOTS];
    [[unroll]] for (uint i = 0u; i < 4u * SLOTS; i++) {
        sums[i] = vec4(0.0);
    }
#ifdef SINKS
    [[unroll]] for (uint r = 0u; r < 4u; r++) {
        if (team == 0u && row_inside(r)) {
            greatest[r] = S_load(row_head(r), 0u, 0u, 0u);
            total[r] = 1.0;
        }
    }
#endif

    uint begin = part * TILES * stride;
    uint end = inside ? min(begin + TILES * stride, K_n1) : 0u;
    vec4 bias[KEYS];
    if (begin < end) {
        vec4 of_tile = vec4(HIDDEN);
        [[unroll]] for (uint t = 0u; t < KEYS; t++) {
            uint key = begin + team * tile + t * LANES + lane;
            bias[t] = key_bias(key_masks(key, end, batch), key, end, slopes);
            of_tile = max(of_tile, bias[t]);
        }
        load_queries(four, team * LANES + lane, TEAMS * LANES, batch);
        if (!all_hidden(of_tile)) {
            seen[own] = begin + 1u;
        }
    }
    barrier();

    for (uint start = begin; start < end; start += stride) {
        uint first = start + team * tile;
        // Keys that nobody sees may hold anything, and are not read but by neighbours of keys that somebody sees.
        bool sees = seen[own] == start + 1u;
        vec4 masks[KEYS];
        vec4 score[KEYS];
        [[unroll]] for (uint t = 0u; t < KEYS; t++) {
            masks[t] = key_masks(first + stride + t * LANES + lane, end, batch);
            score[t] = vec4(0.0);
        }
        vec4 values[AHEAD * SLOTS];
        if (sees) {
#ifndef BLOCKS
            if (EARLY > 0u) {
                FETCH_VALUES(values, first)
            }
#endif
            for (uint c0 = 0u; c0 < quads_k; c0 += AHEAD) {
                vec4 open[AHEAD * KEYS];
                [[unroll]] for (uint u = 0u; u < AHEAD; u++) {
                    uint c = min(c0 + u, quads_k - 1u);
                    [[unroll]] for (uint t = 0u; t < KEYS; t++) {
                        open[u * KEYS + t] = K_load4(c, min(first + t * LANES + lane, end - 1u), head_k, batch_k);
                    }
                }
                [[unroll]] for (uint u = 0u; u < AHEAD; u++) {
                    uint c = c0 + u;
                    if (u > 0u && quads_k % AHEAD != 0u && c >= quads_k) {
                        break;
                    }
                    uint at = 4u * (four * quads_k + c);
                    [[unroll]] for (uint t = 0u; t < KEYS; t++) {
                        vec4 k = open[u * KEYS + t];
                        if (Q_n0 % 4u != 0u) {
                            k = operand_mask(c, Q_n0, k);
                        }
                        [[unroll]] for (uint r = 0u; r < 4u; r++) {
                            vec4 terms = queries[at + r] * k;
                            score[t][r] += (terms.x + terms.y) + (terms.z + terms.w);
                        }
                    }
                }
            }
        }
        vec4 top = vec4(HIDDEN);
        [[unroll]] for (uint t = 0u; t < KEYS; t++) {
            vec4 s = SOFTCAP != 0.0 ? SOFTCAP * hyperbolic_tangent(score[t]) : score[t];
            score[t] = mix(s + bias[t], vec4(HIDDEN), lessThanEqual(bias[t], vec4(HIDDEN)));
            top = max(top, score[t]);
        }

        tops[gl_LocalInvocationID.x] = top;
        barrier();
        vec4 next = greatest;
        for (uint i = 0u; i < LANES; i++) {
            next = max(next, tops[own * LANES + i]);
        }
        vec4 shrink = exp(greatest - next);
        greatest = next;
        total *= shrink;
        [[unroll]] for (uint i = 0u; i < 4u * SLOTS; i++) {
            sums[i] *= shrink[i % 4u];
        }
        vec4 of_tile = vec4(HIDDEN);
        [[unroll]] for (uint t = 0u; t < KEYS; t++) {
            vec4 w = mix(exp(score[t] - next), vec4(0.0), lessThanEqual(score[t], vec4(HIDDEN)));
            weights[own * tile + t * LANES + lane] = w;
            bias[t] = key_bias(masks[t], first + stride + t * LANES + lane, end, slopes);
            of_tile = max(of_tile, bias[t]);
        }
        if (!all_hidden(of_tile)) {
            seen[own] = start + stride + 1u;
        }
        barrier();

        uint count = sees ? min(tile, end - first) : 0u;
        for (uint key0 = 0u; key0 < tile; key0 += AHEAD) {
            if (key0 >= count) {
                break;
            }
            vec4 w[AHEAD];
            vec4 any_of = vec4(0.0);
            [[unroll]] for (uint u = 0u; u < AHEAD; u++) {
                w[u] = weights[own * tile + key0 + u];
                any_of += w[u];
            }
            if (all(equal(any_of, vec4(0.0)))) {
                continue;
            }
#ifndef BLOCKS
            if (EARLY == 0u || key0 > 0u)
#endif
            {
                FETCH_VALUES(values, first + key0)
            }
            [[unroll]] for (uint u = 0u; u < AHEAD; u++) {
                // Values of keys that nobody sees may be anything. Few rows have more branches to lose than sums to save.
                bool matters = AHEAD == 1u || any(notEqual(w[u], vec4(0.0)));
                if (EARLY == 0u && !matters) {
                    continue;
                }
                total += w[u];
                [[unroll]] for (uint s = 0u; s < SLOTS; s++) {
                    vec4 v = EARLY == 0u ? values[u * SLOTS + s] : mix(vec4(0.0), values[u * SLOTS + s], bvec4(matters));
                    [[unroll]] for (uint r = 0u; r < 4u; r++) {
                        sums[4u * s + r] += w[u][r] * v;
                    }
                }
            }
        }
    }

    if (TEAMS > 1u) {
        tops[gl_LocalInvocationID.x] = greatest;
        if (lane == 0u) {
            totals[own] = total;
        }
        [[unroll]] for (uint i = 0u; i < 4u * SLOTS; i++) {
            team_sums[i * gl_WorkGroupSize.x + gl_LocalInvocationID.x] = sums[i];
        }
        barrier();
    }
    // Rows that are outside have zeros.
    [[dont_unroll]] for (uint i = team; i < 4u * SLOTS; i += TEAMS) {
        uint r = i % 4u;
        float row_top = greatest[r];
        float row_total = total[r];
        vec4 y = sums[0];
        if (TEAMS > 1u) {
            for (uint t = 0u; t < TEAMS; t++) {
                row_top = max(row_top, tops[(t * FOURS + four) * LANES][r]);
            }
            row_total = 0.0;
            y = vec4(0.0);
            for (uint t = 0u; t < TEAMS; t++) {
                uint other = t * FOURS + four;
                float shrink = exp(tops[other * LANES][r] - row_top);
                row_total += shrink * totals[other][r];
                y += shrink * team_sums[i * gl_WorkGroupSize.x + other * LANES + lane];
            }
        } else {
            [[unroll]] for (uint j = 1u; j < 4u * SLOTS; j++) {
                y = i == j ? sums[j] : y;
            }
        }
        float factor = PARTS > 0u ? 1.0 : (row_total > 0.0 ? 1.0 / row_total : 0.0);
        uint c = lane + i / 4u * LANES;
        bool summed = PARTS == 0u || c < quads_v;
        bool is_log = LOGS && holds_log(c, row_head(r), Q_n2, quads_v);
        if (summed && !is_log && D_covers(c, row_head(r), row_query(r), gl_WorkGroupID.z)) {
            D_store4(c, row_head(r), row_query(r), gl_WorkGroupID.z, factor * y);
        }
        if (lane > 0u || i >= 4u) {
            continue;
        }
        uint log_c = log_quad(row_head(r), quads_v);
        uint behind = log_head(row_head(r), Q_n2, quads_v);
        if (LOGS && row_head(r) < Q_n2 && D_covers(log_c, behind, row_query(r), gl_WorkGroupID.z)) {
            float log_total = row_total > 0.0 ? row_top + log(row_total) : 0.0;
            D_store4(log_c, behind, row_query(r), gl_WorkGroupID.z, vec4(log_total, 0.0, 0.0, 0.0));
        }
        if (PARTS > 0u && D_covers(quads_v, row_head(r), row_query(r), gl_WorkGroupID.z)) {
            D_store4(quads_v, row_head(r), row_query(r), gl_WorkGroupID.z, vec4(row_top, row_total, 0.0, 0.0));
        }
    }
}
