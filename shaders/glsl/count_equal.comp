// How many elements of A and B are equal: one count per row in D, [1, ..] in 32 bits; with TOTAL the sum of such counts, A = [1, rows], as
// the 64-bit scalar D.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#ifdef TOTAL
#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"
#else
#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#endif

shared uint counts[gl_WorkGroupSize.x];

// Sum of n over the invocations of the row.
uint count_sum(uint n) {
    uint self = gl_LocalInvocationID.x;
    counts[self] = n;
    barrier();
    for (uint step = COLUMNS / 2u; step > 0u; step /= 2u) {
        if (rows_column() < step) {
            counts[self] += counts[self + step * TILE_ROWS];
        }
        barrier();
    }
    return counts[self % TILE_ROWS];
}

#ifdef TOTAL

void main() {
    uint n = 0u;
    for (uint i1 = rows_column(); i1 < A_n1; i1 += COLUMNS) {
        n += uint(A_loadi(0u, i1, 0u, 0u));
    }
    n = count_sum(n);
    // The output's padded box, whatever its tile.
    for (uint index = rows_column(); index < BOX_C * BOX_1 * BOX_2 * BOX_3; index += COLUMNS) {
        Position p = grid_position(index, BOX_C, 0u);
        D_store2l(p.c, p.i1, p.i2, p.i3, uvec4(n, 0u, 0u, 0u));
    }
}

#else

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? (A_n0 + 3u) / 4u : 0u;
    uint n = 0u;
    for (uint c = rows_column(); c < quads; c += COLUMNS) {
        ivec4 a = A_load4i(c, p.i1, p.i2, p.i3);
        ivec4 b = B_load4i(c, p.i1, p.i2, p.i3);
        for (uint k = 0u; k < 4u; k++) {
            n += 4u * c + k < A_n0 && a[k] == b[k] ? 1u : 0u;
        }
    }
    n = count_sum(n);
    if (p.i1 < BOX_1 && p.i2 < BOX_2 && p.i3 < BOX_3 && rows_column() == 0u) {
        D_store4i(0u, p.i1, p.i2, p.i3, ivec4(n));
    }
}

#endif
