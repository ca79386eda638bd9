// Residual streams A = [n, streams, tokens] summed with weights B, one per stream and token, or with GATED the sigmoid of one per
// element; one invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const float SCALE = 1.0;
layout(constant_id = 17) const bool GATED = false;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 total = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        for (uint stream = 0u; stream < A_n1; stream++) {
            vec4 weight = GATED ? 1.0 / (1.0 + exp(-B_load4(p.c, stream, p.i1, 0u))) : vec4(B_load(stream, p.i1, 0u, 0u));
            total += A_load4(p.c, stream, p.i1, 0u) * weight;
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, SCALE * total);
}
