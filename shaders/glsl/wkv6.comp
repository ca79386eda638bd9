// y = sum_i r_i S_i over the rows S_i of a state that decays: after the result, S_i = w_i S_i + k_i v, while the result has the token's
// own k_i v times a bonus; with GATED before it, and without bonus. One workgroup per four columns, a head and a sequence; an
// invocation has four rows.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "grid.glsl"

#define OPERAND K
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND V
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND R
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#ifdef GATED
#define OPERAND W
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND S
#define SLOT 4
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 5
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 20) const float SCALE = 1.0;
#else
#define OPERAND F
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND W
#define SLOT 4
#define ACCESS READ
#include "operand.glsl"

#define OPERAND S
#define SLOT 5
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 6
#define ACCESS WRITE
#include "operand.glsl"
#endif
#include "block.glsl"
#include "heads.glsl"

void main() {
    Position p = grid_position(grid_group(), BOX_C, 0u);
    if (p.i3 >= BOX_3) {
        return;
    }
    uint q = block_quad();
    bool own = q < QUADS;
    vec4 state[4];
    for (uint i = 0u; i < 4u; i++) {
        state[i] = own ? state_quad(4u * q + i, p.c, p) : vec4(0.0);
    }
#ifndef GATED
    vec4 bonus = own ? block_vector(q, F_load4(q, p.i1, 0u, 0u)) : vec4(0.0);
#endif
    for (uint t = 0u; t < TOKENS; t++) {
        uint token = p.i2 * TOKENS + t;
        vec4 v = block_vector(p.c, V_load4(p.c, p.i1, token, 0u));
        vec4 k = vec4(0.0);
        vec4 r = vec4(0.0);
        vec4 w = vec4(0.0);
        if (own) {
            k = block_vector(q, K_load4(q, p.i1, token, 0u));
            r = block_vector(q, R_load4(q, p.i1, token, 0u));
            w = block_vector(q, W_load4(q, p.i1, token, 0u));
        }
        vec4 y = vec4(0.0);
        for (uint i = 0u; i < 4u; i++) {
            vec4 kv = k[i] * v;
#ifdef GATED
            state[i] = state[i] * w[i] + kv;
            y += r[i] * SCALE * state[i];
#else
            y += r[i] * (kv * bonus[i] + state[i]);
            state[i] = state[i] * w[i] + kv;
#endif
        }
        block_result(p, token, block_sum(y));
    }
    for (uint i = 0u; i < 4u; i++) {
        if (4u * q + i < SIZE) {
            block_state(0u, p.i2, p.i1 * SIZE + 4u * q + i, p.c, state[i]);
        }
    }
}
