// Rows of a table (A, of any type that is no integer, or I32 to I32) by index (B, I32); one invocation per output texel. An index outside the table
// gives a row of zeros.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define BLOCKS
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
    vec4 v = vec4(0.0);
    ivec4 words = ivec4(0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        uint row = uint(B_loadi(p.i1, p.i2, p.i3, 0u));
        if (row < A_n1 && A_dtype == DTYPE_I32) {
            words = A_load4i(p.c, row, p.i2, p.i3);
        } else if (row < A_n1) {
            v = A_load4(p.c, row, p.i2, p.i3);
        }
    }
    if (A_dtype == DTYPE_I32) {
        D_store4i(p.c, p.i1, p.i2, p.i3, words);
    } else {
        D_store4(p.c, p.i1, p.i2, p.i3, v);
    }
}
