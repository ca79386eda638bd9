// Gradient of get_rows: every output row sums the rows of A = dy whose index (B, I32) names it, in their order; one
// invocation per output texel.
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

// The row of the whole that row 0 of a piece is.
layout(constant_id = 16) const uint FIRST_ROW = 0u;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 total = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        for (uint first = 0u; first < B_n0; first += 4u) {
            bvec4 named = equal(B_load4i(first / 4u, 0u, 0u, 0u), ivec4(int(FIRST_ROW + p.i1)));
            // Most output rows have no name among any four ids.
            if (any(named)) {
                for (uint k = 0u; k < 4u; k++) {
                    if (named[k] && first + k < B_n0) {
                        total += A_load4(p.c, first + k, 0u, 0u);
                    }
                }
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, total);
}
