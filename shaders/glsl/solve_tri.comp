// X with A X = B for lower triangular matrices A, row by row from the first: an invocation has four columns, and reads again what it
// wrote before.
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
#define ACCESS UPDATE
#include "operand.glsl"

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    bool inside = 4u * p.c < D_n0 && D_inside(0u, p.i2, p.i3);
    for (uint row = 0u; row < D_p1; row++) {
        vec4 v = vec4(0.0);
        if (inside && row < D_n1) {
            vec4 known = vec4(0.0);
            for (uint j = 0u; j < row; j++) {
                known += A_load(j, row, p.i2, p.i3) * D_load4(p.c, j, p.i2, p.i3);
            }
            v = (B_load4(p.c, row, p.i2, p.i3) - known) / A_load(row, row, p.i2, p.i3);
        }
        D_store4(p.c, row, p.i2, p.i3, v);
    }
}
