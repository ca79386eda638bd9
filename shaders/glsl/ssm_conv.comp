// Each channel of A = [t, channels, sequences] convolved with its kernel, a row of B; one invocation per texel of the output
// [channels, t, sequences].
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

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 total = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        for (uint k = 0u; k < 4u; k++) {
            uint channel = 4u * p.c + k;
            for (uint j = 0u; channel < D_n0 && j < B_n0; j++) {
                total[k] += A_load(p.i1 + j, channel, p.i2, 0u) * B_load(j, channel, 0u, 0u);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, total);
}
