// Numbers at even steps along axis 0; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND D
#define SLOT 0
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const float START = 0.0;
layout(constant_id = 17) const float STEP = 0.0;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 number = vec4(uvec4(4u * p.c) + uvec4(0u, 1u, 2u, 3u));
    D_store4(p.c, p.i1, p.i2, p.i3, START + STEP * number);
}
