// Rows that lie in whole texels of the vector A, one behind the other without gaps: FIRST elements of rows of one length, then rows
// of another; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const uint FIRST = 0u;
layout(constant_id = 17) const uint ROW = 1u;
layout(constant_id = 18) const uint NEXT_ROW = 1u;

// Element of A that is element i of rows of this length.
uint spread(uint i, uint row) {
    return i / row * ((row + 3u) / 4u * 4u) + i % row;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k;
            if (i0 < D_n0) {
                uint i = i0 + D_n0 * p.i1;
                v[k] = A_load(i < FIRST ? spread(i, ROW) : spread(FIRST, ROW) + spread(i - FIRST, NEXT_ROW), 0u, 0u, 0u);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
