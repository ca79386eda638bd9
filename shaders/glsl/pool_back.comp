// Gradient of pool: what A = dy of every window gives to an element of B = x, all of it to the first greatest element or a share
// to each; one invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "pool.glsl"

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

// First and one past the last of the positions whose windows have an element.
uvec2 windows_of(uint element, uint window, uint stride, uint pad, uint positions) {
    uint whole = element + pad;
    uint first = whole >= window ? (whole - window) / stride + 1u : 0u;
    return uvec2(first, min(whole / stride + 1u, positions));
}

// Whether element (x, y) is the first of the greatest ones under a window.
bool is_greatest(uint x, uint y, uvec2 columns, uvec2 rows, Position p) {
    float best = LOWEST;
    uvec2 at = uvec2(0xFFFFFFFFu);
    for (uint j = rows.x; j < rows.y; j++) {
        for (uint i = columns.x; i < columns.y; i++) {
            float v = B_load(i, j, p.i2, p.i3);
            if (v > best) {
                best = v;
                at = uvec2(i, j);
            }
        }
    }
    return at == uvec2(x, y);
}

float gathered(uint x, Position p) {
    uvec2 across = windows_of(x, EXTENT_0, STRIDE_0, PAD_0, A_n0);
    uvec2 down = windows_of(p.i1, EXTENT_1, STRIDE_1, PAD_1, A_n1);
    float total = 0.0;
    for (uint oy = down.x; oy < down.y; oy++) {
        uvec2 rows = rows_of(oy, B_n1);
        for (uint ox = across.x; ox < across.y; ox++) {
            uvec2 columns = columns_of(ox, B_n0);
            if (KIND != MAX) {
                total += A_load(ox, oy, p.i2, p.i3) / divisor(columns, rows);
            } else if (is_greatest(x, p.i1, columns, rows, p)) {
                total += A_load(ox, oy, p.i2, p.i3);
            }
        }
    }
    return total;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        for (uint k = 0u; k < 4u; k++) {
            uint x = 4u * p.c + k;
            if (x < D_n0) {
                v[k] = gathered(x, p);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
