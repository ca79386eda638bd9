// Rows of A plus the rows of the table B that the ids C, [axis 1, axis 2], name.
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

#define OPERAND C
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 3
#define ACCESS WRITE
#include "operand.glsl"

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        // What is no row of the table stays within it.
        uint row = min(uint(C_loadi(p.i1, p.i2, 0u, 0u)), B_n1 - 1u);
        v = A_load4(p.c, p.i1, p.i2, p.i3) + B_load4(p.c, row, 0u, 0u);
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
