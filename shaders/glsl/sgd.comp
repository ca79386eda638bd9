// One SGD step, in place; one invocation per texel of the weight. Padding is zero already and is left alone.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND W
#define SLOT 0
#define ACCESS UPDATE
#include "operand.glsl"

#define OPERAND G
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

// alpha, weight decay
#define OPERAND P
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

void main() {
    Position p;
    if (!texel_position(p) || 4u * p.c >= W_n0 || !W_inside(p.i1, p.i2, p.i3)) {
        return;
    }
    vec4 parameters = P_load4(0u, 0u, 0u, 0u);
    vec4 w = W_load4(p.c, p.i1, p.i2, p.i3);
    w = w * (1.0 - parameters.x * parameters.y) - parameters.x * G_load4(p.c, p.i1, p.i2, p.i3);
    W_store4(p.c, p.i1, p.i2, p.i3, w);
}
