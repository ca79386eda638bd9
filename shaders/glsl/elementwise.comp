// Elementwise ops of one operand, or of two with BINARY; one invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#ifdef BINARY
#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 3
#else
#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 2
#endif
#include "epilogue.glsl"
#include "elementwise.glsl"

layout(constant_id = 16) const uint OP = 0u;
#ifdef BINARY
// Axes along which B repeats, as bits.
layout(constant_id = 17) const uint WRAP = 0u;
#else
layout(constant_id = 17) const float SCALE = 1.0;
layout(constant_id = 18) const float BIAS = 0.0;
#endif

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        vec4 a = A_load4(p.c, p.i1, p.i2, p.i3);
#ifdef BINARY
        v = elementwise_two(OP, a, B_repeat4(p.c, p.i1, p.i2, p.i3, WRAP));
#else
        v = elementwise_one(OP, a, SCALE, BIAS);
#endif
    }
    STORE4(p.c, p.i1, p.i2, p.i3, v);
}
