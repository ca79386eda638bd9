// Copies a view to the output's layout and dtype (F32, F16, I32), repeating it where asked; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

// Axes along which A repeats, as bits.
layout(constant_id = 16) const uint WRAP = 0u;

// Whether A's words are copied as they are: both sides have the same 4-byte dtype.
const bool VERBATIM = A_dtype == D_dtype && D_dtype != DTYPE_F16;

// Words of quad c4 of a 4-byte dtype.
ivec4 words(uint c4, uint i1, uint i2, uint i3) {
    uint j1 = (WRAP & 2u) != 0u ? i1 % A_n1 : i1;
    uint j2 = (WRAP & 4u) != 0u ? i2 % A_n2 : i2;
    uint j3 = (WRAP & 8u) != 0u ? i3 % A_n3 : i3;
    if ((WRAP & 1u) == 0u && A_lane_axis == 0u) {
        return ivec4(A_fetch(A_texel(c4, j1, j2, j3)));
    }
    ivec4 v = ivec4(0);
    for (uint k = 0u; k < 4u; k++) {
        uint i0 = 4u * c4 + k;
        if (i0 < D_n0) {
            v[k] = A_loadi((WRAP & 1u) != 0u ? i0 % A_n0 : i0, j1, j2, j3);
        }
    }
    return v;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    bool inside = D_inside(p.i1, p.i2, p.i3);
    if (VERBATIM) {
        ivec4 v = ivec4(0);
        if (inside && 4u * p.c < D_n0) {
            v = words(p.c, p.i1, p.i2, p.i3);
        }
        D_store4i(p.c, p.i1, p.i2, p.i3, v);
    } else if (D_dtype == DTYPE_F16) {
        vec4 lo = vec4(0.0);
        vec4 hi = vec4(0.0);
        if (inside && 8u * p.c < D_n0) {
            lo = A_repeat4(2u * p.c, p.i1, p.i2, p.i3, WRAP);
        }
        if (inside && 8u * p.c + 4u < D_n0) {
            hi = A_repeat4(2u * p.c + 1u, p.i1, p.i2, p.i3, WRAP);
        }
        D_store8(p.c, p.i1, p.i2, p.i3, lo, hi);
    } else {
        vec4 v = vec4(0.0);
        if (inside && 4u * p.c < D_n0) {
            v = A_repeat4(p.c, p.i1, p.i2, p.i3, WRAP);
        }
        D_store4(p.c, p.i1, p.i2, p.i3, v);
    }
}
