// Mixing matrices of four residual streams: softmax of the rows of 4 x 4 logits, A scaled by element 2 of S and shifted by B, plus
// eps; then columns and rows are divided by their sums plus eps in turns, columns first and last. One invocation per row.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND S
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 3
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const float EPS = 0.0;
layout(constant_id = 17) const uint ITERATIONS = 1u;

// Logits follow the weights of the streams before and behind the layer.
const uint FIRST_QUAD = 2u;

float sum4(vec4 v) {
    return (v.x + v.y) + (v.z + v.w);
}

vec4 softmax_row(uint row, uint token, float scale) {
    vec4 x = A_load4(FIRST_QUAD + row, token, 0u, 0u) * scale + B_load4(FIRST_QUAD + row, 0u, 0u, 0u);
    vec4 e = exp(x - max(max(x.x, x.y), max(x.z, x.w)));
    return e / sum4(e) + EPS;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (p.c == 0u && D_inside(p.i1, p.i2, p.i3)) {
        float scale = S_load(2u, 0u, 0u, 0u);
        vec4 rows[4];
        for (uint i = 0u; i < 4u; i++) {
            rows[i] = softmax_row(i, p.i2, scale);
        }
        for (uint iteration = 0u; iteration < ITERATIONS; iteration++) {
            for (uint i = 0u; iteration > 0u && i < 4u; i++) {
                rows[i] /= EPS + sum4(rows[i]);
            }
            vec4 columns = EPS + ((rows[0] + rows[1]) + (rows[2] + rows[3]));
            for (uint i = 0u; i < 4u; i++) {
                rows[i] /= columns;
            }
        }
        v = rows[p.i1];
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
