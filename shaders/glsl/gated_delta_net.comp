// y_i = scale S_i . q for the rows S_i of a state, after it decayed by exp(g) and S_i += beta (v_i - S_i . k) k. Heads and sequences
// of q and k may be shared. One workgroup per four rows, a head and a sequence; an invocation has four columns.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "grid.glsl"

#define OPERAND Q
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND K
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND V
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND G
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND BETA
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
#include "block.glsl"

layout(constant_id = 20) const float SCALE = 1.0;

void main() {
    Position p = grid_position(grid_group(), BOX_C, 0u);
    if (p.i3 >= BOX_3) {
        return;
    }
    uint quad = block_quad();
    bool own = quad < QUADS;
    vec4 state[4];
    for (uint i = 0u; i < 4u; i++) {
        uint row = 4u * p.c + i;
        state[i] = own && row < SIZE ? block_vector(quad, S_load4(quad, row, p.i1, p.i2)) : vec4(0.0);
    }
    for (uint t = 0u; t < TOKENS; t++) {
        vec4 v = block_vector(p.c, V_load4(p.c, p.i1, t, p.i2));
        vec4 q = vec4(0.0);
        vec4 k = vec4(0.0);
        vec4 g = vec4(0.0);
        if (own) {
            q = block_vector(quad, Q_load4(quad, p.i1 % Q_n1, t, p.i2 / (BOX_2 / Q_n3)));
            k = block_vector(quad, K_load4(quad, p.i1 % K_n1, t, p.i2 / (BOX_2 / K_n3)));
            g = G_n0 == 1u ? vec4(G_load(0u, p.i1, t, p.i2)) : block_vector(quad, G_load4(quad, p.i1, t, p.i2));
        }
        vec4 decay = exp(g);
        for (uint i = 0u; i < 4u; i++) {
            state[i] *= decay;
        }
        vec4 known = block_sum(vec4(dot(state[0], k), dot(state[1], k), dot(state[2], k), dot(state[3], k)));
        vec4 delta = (v - known) * BETA_load(0u, p.i1, t, p.i2);
        vec4 y;
        for (uint i = 0u; i < 4u; i++) {
            state[i] += delta[i] * k;
            y[i] = dot(state[i], q);
        }
        block_result(p, p.i2 * TOKENS + t, SCALE * block_sum(y));
        uint snapshot = TOKENS - 1u - t;
        for (uint i = 0u; i < 4u; i++) {
            uint row = 4u * p.c + i;
            if (snapshot < SNAPSHOTS && own && row < SIZE) {
                block_state(snapshot, p.i2, p.i1 * SIZE + row, quad, state[i]);
            }
        }
    }
    for (uint snapshot = TOKENS; snapshot < SNAPSHOTS; snapshot++) {
        for (uint i = 0u; i < 4u; i++) {
            uint row = 4u * p.c + i;
            if (own && row < SIZE) {
                block_state(snapshot, p.i2, p.i1 * SIZE + row, quad, vec4(0.0));
            }
        }
    }
}
