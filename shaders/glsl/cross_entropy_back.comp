// Gradient of cross entropy along axis 0: (softmax(x) - labels) * g / rows, with A = g (a scalar), B = x, C = labels.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND C
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 3
#define ACCESS WRITE
#include "operand.glsl"

// Rows of the whole that this is, or is a piece of.
layout(constant_id = 16) const uint ROWS = 1u;

const uint QUADS = (D_n0 + 3u) / 4u;

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    LogSum acc = logsum_start();
    uint c = rows_column();
    for (; c + (TOGETHER - 1u) * COLUMNS < quads; c += TOGETHER * COLUMNS) {
        vec4 x[TOGETHER];
        for (uint i = 0u; i < TOGETHER; i++) {
            x[i] = B_load4(c + i * COLUMNS, p.i1, p.i2, p.i3);
        }
        logsum_add_all(acc, c + (TOGETHER - 1u) * COLUMNS, D_n0, x);
    }
    for (; c < quads; c += COLUMNS) {
        logsum_add(acc, c, D_n0, B_load4(c, p.i1, p.i2, p.i3));
    }
    acc = logsum_join(acc);
    float factor = acc.s > 0.0 ? 1.0 / acc.s : 0.0;
    float scale = A_load(0u, 0u, 0u, 0u) / float(ROWS);

    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
    c = rows_column();
    for (; c + (TOGETHER - 1u) * COLUMNS < quads; c += TOGETHER * COLUMNS) {
        vec4 x[TOGETHER];
        vec4 labels[TOGETHER];
        for (uint i = 0u; i < TOGETHER; i++) {
            x[i] = B_load4(c + i * COLUMNS, p.i1, p.i2, p.i3);
            labels[i] = C_load4(c + i * COLUMNS, p.i1, p.i2, p.i3);
        }
        for (uint i = 0u; i < TOGETHER; i++) {
            D_store4(c + i * COLUMNS, p.i1, p.i2, p.i3, (exp(x[i] - acc.m) * factor - labels[i]) * scale);
        }
    }
    for (; c < BOX_C; c += COLUMNS) {
        vec4 v = vec4(0.0);
        if (c < quads) {
            v = exp(B_load4(c, p.i1, p.i2, p.i3) - acc.m) * factor;
            v = (v - C_load4(c, p.i1, p.i2, p.i3)) * scale;
        }
        D_store4(c, p.i1, p.i2, p.i3, v);
    }
}
