// Sums element 0 of every row of A = [1, rows] into the scalar D, times a factor; a single workgroup. With PAIRS each row is a sum and what
// was rounded off of it.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"
#include "pairs.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const float FACTOR = 1.0;
layout(constant_id = 17) const uint PAIRS = 0u;

void main() {
    vec2 sum = vec2(0.0);
    for (uint i1 = rows_column(); i1 < A_n1; i1 += COLUMNS) {
        vec2 row = A_load4(0u, i1, 0u, 0u).xy;
        sum = pair_sum(sum, PAIRS != 0u ? row : vec2(row.x, 0.0));
    }
    float total = FACTOR * pair_value(rows_pair_sum(sum));
    // The output's padded box, whatever its tile.
    for (uint index = rows_column(); index < BOX_C * BOX_1 * BOX_2 * BOX_3; index += COLUMNS) {
        Position p = grid_position(index, BOX_C, 0u);
        D_store4(p.c, p.i1, p.i2, p.i3, vec4(total));
    }
}
