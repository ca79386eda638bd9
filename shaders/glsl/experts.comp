// Products with matrices that ids (I) pick: dst[m, i, t] = sum over k of a[k, m, ids[i, t]] b[k, i, t], where i repeats over
// b's columns. LANES invocations share four values of m, each with its part of k. An id that names no matrix gives zeros.
#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

#include "grid.glsl"
#include "picked.glsl"

// A power of two that divides the workgroup.
layout(constant_id = 9) const uint LANES = 1u;

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND I
#define SLOT 2
#define ACCESS READ
#define DTYPE DTYPE_I32
#include "operand.glsl"

#define OPERAND D
#define SLOT 3
#define ACCESS WRITE
#define DTYPE DTYPE_F32
#include "operand.glsl"

shared vec4 partial[gl_WorkGroupSize.x];

// Values of m from 4 m4 on at one column of b, summed over this invocation's quads of k.
vec4 product(uint m4, uint expert, uint column, uint token, uint lane) {
    vec4 sum = vec4(0.0);
    for (uint c = lane; c < (A_n0 + 3u) / 4u; c += LANES) {
        vec4 b = B_load4(c, column, token, 0u);
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            vec4 a = A_load4(c, min(4u * m4 + r, A_n1 - 1u), expert, 0u);
            // Neither operand says what lies beyond k.
            vec4 terms = A_n0 % 4u == 0u ? a * b : operand_mask(c, A_n0, a * b);
            sum[r] += (terms.x + terms.y) + (terms.z + terms.w);
        }
    }
    return sum;
}

void main() {
    uint self = gl_LocalInvocationID.x;
    uint lane = self % LANES;
    uint index = grid_group() * (gl_WorkGroupSize.x / LANES) + self / LANES;
    Position p = grid_position(index / TILE_ROWS, BOX_C, index % TILE_ROWS);
    bool covered = index < BOX_C * BOX_1 * BOX_2 * BOX_3;
    vec4 sum = vec4(0.0);
    // Padding has the id of no matrix.
    uint id = 0xFFFFFFFFu;
    if (covered && 4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        id = uint(I_loadi(p.i1, p.i2, 0u, 0u));
        if (id - FIRST < A_n2) {
            sum = product(p.c, id - FIRST, p.i1 % B_n1, p.i2, lane);
        }
    }
    partial[self] = sum;
    barrier();
    for (uint step = LANES / 2u; step > 0u; step /= 2u) {
        if (lane < step) {
            partial[self] += partial[self + step];
        }
        barrier();
    }
    if (covered && lane == 0u && picked_here(id, A_n2)) {
        D_store4(p.c, p.i1, p.i2, p.i3, partial[self]);
    }
}
