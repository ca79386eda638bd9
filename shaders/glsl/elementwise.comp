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
#else
#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"
#endif

layout(constant_id = 16) const uint OP = 0u;

vec4 sigmoid(vec4 x) {
    return 1.0 / (1.0 + exp(-x));
}

#ifdef BINARY
// Axes along which B repeats, as bits.
layout(constant_id = 17) const uint WRAP = 0u;

vec4 apply(vec4 a, vec4 b) {
    switch (OP) {
    case 0u: return a + b;
    case 1u: return a - b;
    case 2u: return a * b;
    case 3u: return a / b;
    case 4u: {
        // Gradient of SiLU: a is dy, b is x.
        vec4 s = sigmoid(b);
        return a * s * (1.0 + b * (1.0 - s));
    }
    default: return a * sigmoid(a) * b;
    }
}
#else
layout(constant_id = 17) const float SCALE = 1.0;
layout(constant_id = 18) const float BIAS = 0.0;

vec4 apply(vec4 x) {
    switch (OP) {
    case 0u: return x * SCALE + BIAS;
    case 1u: return x * sigmoid(x);
    case 2u: return -x;
    case 3u: return x * x;
    default: return sqrt(x);
    }
}
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
        v = apply(a, B_repeat4(p.c, p.i1, p.i2, p.i3, WRAP));
#else
        v = apply(a);
#endif
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
