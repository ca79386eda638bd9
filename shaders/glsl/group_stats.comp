// Mean and 1 / sqrt(variance + eps) of each group of CHANNELS neighbours of axis 2, over axes 0 and 1: D is [2, groups of all samples].
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const float EPS = 0.0;
layout(constant_id = 17) const uint CHANNELS = 1u;

const uint QUADS = (A_n0 + 3u) / 4u;
const uint GROUPS = (A_n2 + CHANNELS - 1u) / CHANNELS;

void main() {
    uint group = rows_position().i1;
    uint i3 = group / GROUPS;
    uint first = group % GROUPS * CHANNELS;
    // The last group may be shorter.
    uint rows = A_n1 * min(CHANNELS, A_n2 - first);
    uint count = group < D_n1 ? QUADS * rows : 0u;
    float sum = 0.0;
    for (uint q = rows_column(); q < count; q += COLUMNS) {
        uint c = q % QUADS;
        uint row = q / QUADS;
        sum += sum4(operand_mask(c, A_n0, A_load4(c, row % A_n1, first + row / A_n1, i3)));
    }
    float elements = float(A_n0 * rows);
    float mean = rows_sum(sum) / elements;
    float squares = 0.0;
    for (uint q = rows_column(); q < count; q += COLUMNS) {
        uint c = q % QUADS;
        uint row = q / QUADS;
        vec4 x = operand_mask(c, A_n0, A_load4(c, row % A_n1, first + row / A_n1, i3) - mean);
        squares += dot(x, x);
    }
    float scale = 1.0 / sqrt(rows_sum(squares) / elements + EPS);
    if (group < BOX_1 && rows_column() == 0u) {
        D_store4(0u, group, 0u, 0u, vec4(mean, scale, 0.0, 0.0));
    }
}
