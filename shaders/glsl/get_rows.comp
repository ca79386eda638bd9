// Rows of a table (A, any dtype) by index (B, I32); one invocation per output texel. An index outside the table
// gives a row of zeros.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "picked.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define ENCODED
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
    // Padding has the id of no row.
    uint id = 0xFFFFFFFFu;
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        id = uint(B_loadi(p.i1, p.i2, p.i3, 0u));
    }
    if (!picked_here(id, A_n1)) {
        return;
    }
    uint row = id - FIRST;
    bool picked = row < A_n1;
    if (D_dtype == DTYPE_I32) {
        D_store4i(p.c, p.i1, p.i2, p.i3, picked ? A_load4i(p.c, row, p.i2, p.i3) : ivec4(0));
    } else {
        D_store4(p.c, p.i1, p.i2, p.i3, picked ? A_load4(p.c, row, p.i2, p.i3) : vec4(0.0));
    }
}
