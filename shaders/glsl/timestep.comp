// Cosines, then sines, of times at falling frequencies; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "cos_sin.glsl"
#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

// Number of frequencies, and the logarithm of the ratio of neighbours.
layout(constant_id = 16) const uint HALF = 0u;
layout(constant_id = 17) const float RATE = 0.0;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        float time = A_load(p.i1, 0u, 0u, 0u);
        for (uint k = 0u; k < 4u; k++) {
            uint j = 4u * p.c + k;
            if (j < 2u * HALF) {
                bool second = j >= HALF;
                vec2 turned = cos_sin(time * exp(RATE * float(second ? j - HALF : j)));
                v[k] = second ? turned.y : turned.x;
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
