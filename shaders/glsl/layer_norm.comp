// (x - mean) / sqrt(variance + eps) along axis 0.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 2
#include "epilogue.glsl"

layout(constant_id = 16) const float EPS = 0.0;

const uint QUADS = (D_n0 + 3u) / 4u;

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    float sum = 0.0;
    vec4 kept[ROOM];
    ROWS_SWEEP(n, c, quads) {
        if (c < quads) {
            vec4 x = operand_mask(c, D_n0, A_load4(c, p.i1, p.i2, p.i3));
            sum += sum4(x);
            if (KEPT > 0u) {
                kept[n] = x;
            }
        }
    }
    float mean = rows_sum(sum) / float(D_n0);
    // The squares of what is left, in a pass of their own: the difference of two sums would cancel.
    float squares = 0.0;
    ROWS_SWEEP(n, c, quads) {
        if (c < quads) {
            vec4 x = KEPT > 0u ? kept[n] : A_load4(c, p.i1, p.i2, p.i3);
            x = operand_mask(c, D_n0, x - mean);
            squares += dot(x, x);
        }
    }
    float scale = 1.0 / sqrt(rows_sum(squares) / float(D_n0) + EPS);

    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
    ROWS_SWEEP(n, c, BOX_C) {
        vec4 v = vec4(0.0);
        if (c < quads) {
            v = ((KEPT > 0u ? kept[n] : A_load4(c, p.i1, p.i2, p.i3)) - mean) * scale;
        }
        if (c < BOX_C) {
            STORE4(c, p.i1, p.i2, p.i3, v);
        }
    }
}
