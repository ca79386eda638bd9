// y_c = S_c . C for the states S_c of channels, after S_c = exp(d A) S_c + d x_c B with d = softplus(dt) of the channel's head; the
// first states are those of the sequences that IDS names. One workgroup per four channels of a sequence; an invocation has four
// elements of their states.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "grid.glsl"

#define OPERAND S
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND X
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND DT
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND A
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 4
#define ACCESS READ
#include "operand.glsl"

#define OPERAND C
#define SLOT 5
#define ACCESS READ
#include "operand.glsl"

#define OPERAND IDS
#define SLOT 6
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 7
#define ACCESS WRITE
#include "operand.glsl"
#include "block.glsl"

// Heads that share B and C.
const uint SHARED = X_n1 / B_n1;

float softplus(float x) {
    return x > 20.0 ? x : log(1.0 + exp(x));
}

void main() {
    Position p = grid_position(grid_group(), BOX_C, 0u);
    if (p.i3 >= BOX_3) {
        return;
    }
    uint q = block_quad();
    uint sequence = uint(IDS_loadi(p.i2, 0u, 0u, 0u));
    bvec4 own;
    uvec4 heads;
    uvec4 channels;
    vec4 state[4];
    vec4 rate[4];
    for (uint i = 0u; i < 4u; i++) {
        uint channel = 4u * p.c + i;
        own[i] = q < QUADS && channel < STATE_ROWS;
        channels[i] = channel % X_n0;
        heads[i] = channel / X_n0;
        state[i] = vec4(0.0);
        rate[i] = vec4(0.0);
        if (own[i]) {
            state[i] = block_vector(q, S_load4(q, channels[i], heads[i], sequence));
            rate[i] = A_n0 == 1u ? vec4(A_load(0u, heads[i], 0u, 0u)) : block_vector(q, A_load4(q, heads[i], 0u, 0u));
        }
    }
    for (uint t = 0u; t < TOKENS; t++) {
        vec4 y = vec4(0.0);
        for (uint i = 0u; i < 4u; i++) {
            if (own[i]) {
                float d = softplus(DT_load(heads[i], t, p.i2, 0u));
                float x = d * X_load(channels[i], heads[i], t, p.i2);
                uint group = heads[i] / SHARED;
                state[i] = state[i] * exp(d * rate[i]) + x * block_vector(q, B_load4(q, group, t, p.i2));
                y[i] = dot(state[i], block_vector(q, C_load4(q, group, t, p.i2)));
            }
        }
        block_result(p, p.i2 * TOKENS + t, block_sum(y));
        uint snapshot = TOKENS - 1u - t;
        for (uint i = 0u; i < 4u; i++) {
            if (snapshot < SNAPSHOTS && own[i]) {
                block_state(snapshot, p.i2, 4u * p.c + i, q, state[i]);
            }
        }
    }
    for (uint snapshot = TOKENS; snapshot < SNAPSHOTS; snapshot++) {
        for (uint i = 0u; i < 4u; i++) {
            if (own[i]) {
                block_state(snapshot, p.i2, 4u * p.c + i, q, vec4(0.0));
            }
        }
    }
}
