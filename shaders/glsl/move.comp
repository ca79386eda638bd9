// A view repeated without end, or mirrored along axis 0; one invocation per texel.
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

// What is added to an index of D, per axis, before it is taken modulo A's extent.
layout(constant_id = 16) const uint SHIFT_0 = 0u;
layout(constant_id = 17) const uint SHIFT_1 = 0u;
layout(constant_id = 18) const uint SHIFT_2 = 0u;
layout(constant_id = 19) const uint SHIFT_3 = 0u;
// Or, along axis 0, elements before the first one, with A mirrored at both ends.
layout(constant_id = 20) const uint MIRRORED = 0u;

uint along_0(uint i0) {
    if (MIRRORED == 0u) {
        return (i0 + SHIFT_0) % A_n0;
    }
    int last = int(A_n0) - 1;
    return uint(last - abs(last - abs(int(i0) - int(SHIFT_0))));
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        uvec3 above = (uvec3(p.i1, p.i2, p.i3) + uvec3(SHIFT_1, SHIFT_2, SHIFT_3)) % uvec3(A_n1, A_n2, A_n3);
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k;
            if (i0 < D_n0) {
                v[k] = A_load(along_0(i0), above.x, above.y, above.z);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
