// Index of the last greatest element of each row -> I32 [rows]. A workgroup takes the four rows of one output texel
// (TILE_ROWS is 4), so that no two workgroups write the same texel.
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

const uint QUADS = (A_n0 + 3u) / 4u;
const uint NONE = 0xFFFFFFFFu;

shared uint best_index[gl_WorkGroupSize.x];

bool better(float v, uint i, float best, uint at) {
    return i != NONE && (at == NONE || v > best || (v == best && i > at));
}

void main() {
    uint self = gl_LocalInvocationID.x;
    uint texel = grid_group();
    uint i1 = 4u * texel + self % TILE_ROWS;
    float best = 0.0;
    uint at = NONE;
    uint quads = i1 < A_n1 ? QUADS : 0u;
    for (uint c = rows_column(); c < quads; c += COLUMNS) {
        vec4 v = A_load4(c, i1, 0u, 0u);
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * c + k;
            if (i0 < A_n0 && better(v[k], i0, best, at)) {
                best = v[k];
                at = i0;
            }
        }
    }
    rows_partial[self] = best;
    best_index[self] = at;
    barrier();
    for (uint step = COLUMNS / 2u; step > 0u; step /= 2u) {
        uint other = self + step * TILE_ROWS;
        if (rows_column() < step && better(rows_partial[other], best_index[other], rows_partial[self], best_index[self])) {
            rows_partial[self] = rows_partial[other];
            best_index[self] = best_index[other];
        }
        barrier();
    }
    // A row without any finite element has no greatest: index 0.
    if (self == 0u && texel < BOX_C) {
        ivec4 index;
        for (uint k = 0u; k < 4u; k++) {
            index[k] = best_index[k] == NONE ? 0 : int(best_index[k]);
        }
        D_store4i(texel, 0u, 0u, 0u, index);
    }
}
