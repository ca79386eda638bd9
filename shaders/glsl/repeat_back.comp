// Sums a tensor over its repeats down to the output's shape; LANES invocations share an output texel, each with its part of the
// repeats.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "grid.glsl"

// A power of two that divides the workgroup.
layout(constant_id = 9) const uint LANES = 1u;

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

// Quad c4 of the output's row as it stands in repeat r0 of A's row.
vec4 repeat_of(uint r0, uint c4, uint i1, uint i2, uint i3) {
    if (D_n0 % 4u == 0u || A_n0 == D_n0) {
        return A_load4(r0 * (D_n0 / 4u) + c4, i1, i2, i3);
    }
    vec4 v = vec4(0.0);
    for (uint k = 0u; k < 4u; k++) {
        if (4u * c4 + k < D_n0) {
            v[k] = A_load(r0 * D_n0 + 4u * c4 + k, i1, i2, i3);
        }
    }
    return v;
}

shared vec4 partial[gl_WorkGroupSize.x];

// The repeats of an output texel that are this lane's, rows first: neighbouring lanes have neighbouring rows.
vec4 sum_of(Position p, uint lane) {
    uint r0 = A_n0 / D_n0;
    uint r1 = A_n1 / D_n1;
    uint r2 = A_n2 / D_n2;
    uint r3 = A_n3 / D_n3;
    vec4 total = vec4(0.0);
    for (uint repeat = lane; repeat < r0 * r1 * r2 * r3; repeat += LANES) {
        uint above = repeat / r1;
        uint i1 = p.i1 + D_n1 * (repeat % r1);
        uint i2 = p.i2 + D_n2 * (above / r0 % r2);
        uint i3 = p.i3 + D_n3 * (above / (r0 * r2));
        total += repeat_of(above % r0, p.c, i1, i2, i3);
    }
    return total;
}

void main() {
    uint self = gl_LocalInvocationID.x;
    uint lane = self % LANES;
    uint index = grid_group() * (gl_WorkGroupSize.x / LANES) + self / LANES;
    Position p = grid_position(index / TILE_ROWS, BOX_C, index % TILE_ROWS);
    bool covered = index < BOX_C * BOX_1 * BOX_2 * BOX_3;
    vec4 total = vec4(0.0);
    if (covered && 4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        total = sum_of(p, lane);
    }
    if (LANES > 1u) {
        partial[self] = total;
        barrier();
        for (uint step = LANES / 2u; step > 0u; step /= 2u) {
            if (lane < step) {
                partial[self] += partial[self + step];
            }
            barrier();
        }
        total = partial[self];
    }
    if (covered && lane == 0u) {
        STORE4(p.c, p.i1, p.i2, p.i3, total);
    }
}
