// Running sums along axis 0. The invocations of a row take neighbouring quads and meet for each block of them.
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

const uint QUADS = (D_n0 + 3u) / 4u;

// Sum of v over the columns before this one; total is that over all of the row.
float sum_before(float v, out float total) {
    uint self = gl_LocalInvocationID.x;
    uint column = rows_column();
    rows_partial[self] = v;
    barrier();
    for (uint step = 1u; step < COLUMNS; step *= 2u) {
        float other = column >= step ? rows_partial[self - step * TILE_ROWS] : 0.0;
        barrier();
        rows_partial[self] += other;
        barrier();
    }
    float before = column > 0u ? rows_partial[self - TILE_ROWS] : 0.0;
    total = rows_partial[self % TILE_ROWS + (COLUMNS - 1u) * TILE_ROWS];
    barrier();
    return before;
}

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    bool boxed = p.i1 < BOX_1 && p.i2 < BOX_2 && p.i3 < BOX_3;
    float done = 0.0;
    // Every invocation takes part in every block, for they wait for each other.
    for (uint first = 0u; first < BOX_C; first += COLUMNS) {
        uint c = first + rows_column();
        vec4 v = vec4(0.0);
        if (c < quads) {
            v = operand_mask(c, D_n0, A_load4(c, p.i1, p.i2, p.i3));
        }
        v.y += v.x;
        v.z += v.y;
        v.w += v.z;
        float total;
        float before = sum_before(v.w, total);
        if (boxed && c < BOX_C) {
            D_store4(c, p.i1, p.i2, p.i3, v + (done + before));
        }
        done += total;
    }
}
