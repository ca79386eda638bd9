// (x - mean) * scale with the statistics B = [2, groups of all samples] of the group of CHANNELS neighbours of axis 2.
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

layout(constant_id = 17) const uint CHANNELS = 1u;

const uint GROUPS = (D_n2 + CHANNELS - 1u) / CHANNELS;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        vec4 statistics = B_load4(0u, p.i2 / CHANNELS + GROUPS * p.i3, 0u, 0u);
        v = (A_load4(p.c, p.i1, p.i2, p.i3) - statistics.x) * statistics.y;
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
