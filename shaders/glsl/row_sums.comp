// Sum of each row of A, times a factor: D is [1, ..]. With PAIRS a texel of D has the sum and what was rounded off of it.
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

const uint QUADS = (A_n0 + 3u) / 4u;

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    vec2 sum = vec2(0.0);
    for (uint c = rows_column(); c < quads; c += COLUMNS) {
        vec4 v = operand_mask(c, A_n0, A_load4(c, p.i1, p.i2, p.i3));
        sum = pair_sum(sum, pair_sum(pair_of(v.x, v.y), pair_of(v.z, v.w)));
    }
    sum = rows_pair_sum(sum);
    vec4 value = PAIRS != 0u ? vec4(sum, 0.0, 0.0) : vec4(FACTOR * pair_value(sum));
    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
    for (uint c = rows_column(); c < BOX_C; c += COLUMNS) {
        D_store4(c, p.i1, p.i2, p.i3, value);
    }
}
