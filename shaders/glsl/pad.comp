// Sets a view as a box among zeros; one invocation per texel.
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

// Elements of D before the box, per axis.
layout(constant_id = 16) const uint BEFORE_0 = 0u;
layout(constant_id = 17) const uint BEFORE_1 = 0u;
layout(constant_id = 18) const uint BEFORE_2 = 0u;
layout(constant_id = 19) const uint BEFORE_3 = 0u;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    // Positions before the box wrap around to large ones, which are outside as well.
    uint i1 = p.i1 - BEFORE_1;
    uint i2 = p.i2 - BEFORE_2;
    uint i3 = p.i3 - BEFORE_3;
    vec4 v = vec4(0.0);
    if (i1 < A_n1 && i2 < A_n2 && i3 < A_n3) {
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k - BEFORE_0;
            if (i0 < A_n0) {
                v[k] = A_load(i0, i1, i2, i3);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
