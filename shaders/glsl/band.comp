// Keeps the elements near a diagonal of axes 0 and 1; one invocation per texel.
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

// Bounds of index 0 less index 1, and what stands outside them.
layout(constant_id = 16) const int LOW = 0;
layout(constant_id = 17) const int HIGH = 0;
layout(constant_id = 18) const float OTHER = 0.0;
// Axes along which A repeats, as bits.
layout(constant_id = 19) const uint WRAP = 0u;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        ivec4 beyond = int(4u * p.c) + ivec4(0, 1, 2, 3) - int(p.i1);
        v = A_repeat4(p.c, p.i1, p.i2, p.i3, WRAP);
        v = mix(v, vec4(OTHER), lessThan(beyond, ivec4(LOW)));
        v = mix(v, vec4(OTHER), greaterThan(beyond, ivec4(HIGH)));
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
