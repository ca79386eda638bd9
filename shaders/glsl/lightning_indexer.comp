// Scores of keys for queries: sum over heads of max(q . k, 0) w, plus a mask; one invocation per output texel, four keys of a query.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND Q
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND K
#define SLOT 1
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#define OPERAND W
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND MASK
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 4
#define ACCESS WRITE
#include "operand.glsl"

// The products of a head's query with four keys.
vec4 products(uint head, Position p) {
    vec4 total = vec4(0.0);
    for (uint c = 0u; 4u * c < Q_n0; c++) {
        vec4 q = operand_mask(c, Q_n0, Q_load4(c, head, p.i1, p.i3));
        for (uint i = 0u; i < 4u; i++) {
            uint key = 4u * p.c + i;
            if (key < D_n0) {
                total[i] += dot(q, operand_mask(c, Q_n0, K_load4(c, 0u, key, p.i3)));
            }
        }
    }
    return total;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 score = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        for (uint head = 0u; head < Q_n1; head++) {
            score += max(products(head, p), vec4(0.0)) * W_load(head, p.i1, 0u, p.i3);
        }
        score += MASK_load4(p.c, p.i1, 0u, p.i3 % MASK_n3);
    }
    D_store4(p.c, p.i1, p.i2, p.i3, score);
}
