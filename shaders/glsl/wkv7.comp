// y_i = S_i . r for the rows S_i of a state, after S_i = w S_i + v_i k + (S_i . a) b. One workgroup per four rows, a head and a
// sequence; an invocation has four columns.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "grid.glsl"

#define OPERAND R
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND W
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND K
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND V
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND A
#define SLOT 4
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 5
#define ACCESS READ
#include "operand.glsl"

#define OPERAND S
#define SLOT 6
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 7
#define ACCESS WRITE
#include "operand.glsl"
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
        state[i] = own ? state_quad(4u * p.c + i, q, p) : vec4(0.0);
    }
    for (uint t = 0u; t < TOKENS; t++) {
        uint token = p.i2 * TOKENS + t;
        vec4 v = block_vector(p.c, V_load4(p.c, p.i1, token, 0u));
        vec4 r = vec4(0.0);
        vec4 w = vec4(0.0);
        vec4 k = vec4(0.0);
        vec4 a = vec4(0.0);
        vec4 b = vec4(0.0);
        if (own) {
            r = block_vector(q, R_load4(q, p.i1, token, 0u));
            w = block_vector(q, W_load4(q, p.i1, token, 0u));
            k = block_vector(q, K_load4(q, p.i1, token, 0u));
            a = block_vector(q, A_load4(q, p.i1, token, 0u));
            b = block_vector(q, B_load4(q, p.i1, token, 0u));
        }
        vec4 removed = block_sum(vec4(dot(state[0], a), dot(state[1], a), dot(state[2], a), dot(state[3], a)));
        vec4 y;
        for (uint i = 0u; i < 4u; i++) {
            state[i] = state[i] * w + v[i] * k + removed[i] * b;
            y[i] = dot(state[i], r);
        }
        block_result(p, token, block_sum(y));
    }
    for (uint i = 0u; i < 4u; i++) {
        if (own && 4u * p.c + i < SIZE) {
            block_state(0u, p.i2, p.i1 * SIZE + 4u * p.c + i, q, state[i]);
        }
    }
}
