// Copies a view to the output's layout and dtype (a plain one), repeating it where asked; one invocation per texel. With
// BY_ROWS, row i of the view goes to the row of the output that id i (B) names, if there is one.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#ifdef BY_ROWS
// The row of the whole that row 0 of a piece of the output is.
layout(constant_id = 18) const uint FIRST_ROW = 0u;

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"
#define SLOT 2
#else
#define SLOT 1
#endif
#define OPERAND D
#define ACCESS WRITE
#include "operand.glsl"

// Axes along which A repeats, as bits.
layout(constant_id = 16) const uint WRAP = 0u;
// A has another shape: the element with the same number in linear order is meant.
layout(constant_id = 17) const uint RENUMBER = 0u;

// Whether words of A are copied as they are: both sides have the same 4-byte dtype, or are integers.
bool verbatim() {
    bool same = A_dtype == D_dtype && (D_dtype == DTYPE_F32 || D_dtype == DTYPE_I32);
    return same || (A_dtype == DTYPE_I64 && D_dtype == DTYPE_I32);
}

// Index in A of an element of D.
uvec4 source(uint i0, uint i1, uint i2, uint i3) {
    if (RENUMBER != 0u) {
        uint number = i0 + D_n0 * (i1 + D_n1 * (i2 + D_n2 * i3));
        uint above = number / A_n0;
        return uvec4(number % A_n0, above % A_n1, above / A_n1 % A_n2, above / (A_n1 * A_n2));
    }
    uvec4 i = uvec4(i0, i1, i2, i3);
    uvec4 wrapped = i % uvec4(A_n0, A_n1, A_n2, A_n3);
    return mix(i, wrapped, notEqual(uvec4(WRAP) & uvec4(1u, 2u, 4u, 8u), uvec4(0u)));
}

// Whether quads of D's rows are quads of A's rows.
const bool BY_QUADS = (RENUMBER | (WRAP & 1u)) == 0u;

// Quad c4 of a row of D, its first element inside the extents.
vec4 quad(uint c4, uint i1, uint i2, uint i3) {
    if (BY_QUADS) {
        uvec4 i = source(0u, i1, i2, i3);
        return A_load4(c4, i.y, i.z, i.w);
    }
    vec4 v = vec4(0.0);
    for (uint k = 0u; k < 4u; k++) {
        if (4u * c4 + k < D_n0) {
            uvec4 i = source(4u * c4 + k, i1, i2, i3);
            v[k] = A_load(i.x, i.y, i.z, i.w);
        }
    }
    return v;
}

// The same as words, of a 4-byte dtype.
ivec4 quad_words(uint c4, uint i1, uint i2, uint i3) {
    if (BY_QUADS) {
        uvec4 i = source(0u, i1, i2, i3);
        return A_load4i(c4, i.y, i.z, i.w);
    }
    ivec4 v = ivec4(0);
    for (uint k = 0u; k < 4u; k++) {
        if (4u * c4 + k < D_n0) {
            uvec4 i = source(4u * c4 + k, i1, i2, i3);
            v[k] = A_loadi(i.x, i.y, i.z, i.w);
        }
    }
    return v;
}

// Element i0 of a row of D as the two words of an I64; nothing beyond the extents.
uvec2 long_words(uint i0, uint i1, uint i2, uint i3) {
    if (i0 >= D_n0) {
        return uvec2(0u);
    }
    uvec4 i = source(i0, i1, i2, i3);
    if (A_dtype == DTYPE_I64) {
        return A_load_words(i.x, i.y, i.z, i.w);
    }
    int value = A_loadi(i.x, i.y, i.z, i.w);
    return uvec2(value, value >> 31);
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    uint row = p.i1;
    bool inside = D_inside(row, p.i2, p.i3);
#ifdef BY_ROWS
    row = uint(B_loadi(p.i1, p.i2 % B_n1, p.i3 % B_n2, 0u)) - FIRST_ROW;
    inside = true;
    if (row >= D_n1) {
        return;
    }
#endif
    if (D_dtype == DTYPE_I64) {
        uvec4 v = uvec4(0u);
        if (inside) {
            v = uvec4(long_words(2u * p.c, p.i1, p.i2, p.i3), long_words(2u * p.c + 1u, p.i1, p.i2, p.i3));
        }
        D_store2l(p.c, row, p.i2, p.i3, v);
        return;
    }
    if (verbatim()) {
        ivec4 v = ivec4(0);
        if (inside && 4u * p.c < D_n0) {
            v = quad_words(p.c, p.i1, p.i2, p.i3);
        }
        D_store4i(p.c, row, p.i2, p.i3, v);
        return;
    }
    uint quads = D_lanes / 4u;
    vec4 v[2] = vec4[2](vec4(0.0), vec4(0.0));
    for (uint h = 0u; h < quads; h++) {
        uint c4 = quads * p.c + h;
        if (inside && 4u * c4 < D_n0) {
            v[h] = quad(c4, p.i1, p.i2, p.i3);
        }
    }
    if (D_dtype == DTYPE_I32) {
        D_store4i(p.c, row, p.i2, p.i3, ivec4(v[0]));
    } else if (D_dtype == DTYPE_F16 || D_dtype == DTYPE_BF16) {
        D_store8(p.c, row, p.i2, p.i3, v[0], v[1]);
    } else {
        D_store4(p.c, row, p.i2, p.i3, v[0]);
    }
}
