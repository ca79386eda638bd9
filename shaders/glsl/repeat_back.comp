// Sums a tensor over its repeats down to the output's shape; one invocation per output texel.
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

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 total = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        for (uint i3 = p.i3; i3 < A_n3; i3 += D_n3) {
            for (uint i2 = p.i2; i2 < A_n2; i2 += D_n2) {
                for (uint i1 = p.i1; i1 < A_n1; i1 += D_n1) {
                    for (uint r0 = 0u; r0 < A_n0 / D_n0; r0++) {
                        total += repeat_of(r0, p.c, i1, i2, i3);
                    }
                }
            }
        }
    }
    STORE4(p.c, p.i1, p.i2, p.i3, total);
}
