// One workgroup per tile of rows: TILE_ROWS rows, each shared by COLUMNS invocations, which step through it by quads and
// meet in shared memory. The workgroup size is TILE_ROWS times a power of two.

#include "grid.glsl"

const uint COLUMNS = gl_WorkGroupSize.x / TILE_ROWS;

// Quads of its row that an invocation keeps in registers from one sweep to the next; 0 where those are more than it has room for, and
// are loaded again.
layout(constant_id = 9) const uint KEPT = 0u;
const uint ROOM = 4u;

// A sweep over the quads c of the row that are an invocation's own, of which c is number n. Where it keeps them their number is a constant, so
// that they have registers of their own; then some may be at `end` or behind it.
#define ROWS_SWEEP(n, c, end) \
    for (uint n = 0u, c = rows_column(); KEPT > 0u ? n < KEPT : c < (end); n++, c += COLUMNS)

const float LOWEST = -3.4028235e38;

shared float rows_partial[gl_WorkGroupSize.x];
shared vec2 rows_partial2[gl_WorkGroupSize.x];

// Column of this invocation: the first quad it takes.
uint rows_column() {
    return gl_LocalInvocationID.x / TILE_ROWS;
}

// The row of this invocation, c = 0; its indices are outside the box when there is none.
Position rows_position() {
    return grid_position(grid_group(), 1u, gl_LocalInvocationID.x % TILE_ROWS);
}

// Sum of v over the invocations of the row. Reached by the whole workgroup, as every reduction here.
float rows_sum(float v) {
    uint self = gl_LocalInvocationID.x;
    rows_partial[self] = v;
    barrier();
    for (uint step = COLUMNS / 2u; step > 0u; step /= 2u) {
        if (rows_column() < step) {
            rows_partial[self] += rows_partial[self + step * TILE_ROWS];
        }
        barrier();
    }
    float total = rows_partial[self % TILE_ROWS];
    barrier();
    return total;
}

// Two sums for the barriers of one.
vec2 rows_sum2(vec2 v) {
    uint self = gl_LocalInvocationID.x;
    rows_partial2[self] = v;
    barrier();
    for (uint step = COLUMNS / 2u; step > 0u; step /= 2u) {
        if (rows_column() < step) {
            rows_partial2[self] += rows_partial2[self + step * TILE_ROWS];
        }
        barrier();
    }
    vec2 total = rows_partial2[self % TILE_ROWS];
    barrier();
    return total;
}

float sum4(vec4 v) {
    return (v.x + v.y) + (v.z + v.w);
}

float max4(vec4 v) {
    return max(max(v.x, v.y), max(v.z, v.w));
}

// Running maximum m and sum s of exp(x - m). m starts at the lowest finite value, so that a row of -inf stays free of
// inf - inf and ends with s = 0.
struct LogSum {
    float m;
    float s;
};

LogSum logsum_start() {
    return LogSum(LOWEST, 0.0);
}

// Adds the components of quad c whose element is below n.
void logsum_add(inout LogSum acc, uint c, uint n, vec4 v) {
    bvec4 inside = lessThan(uvec4(4u * c) + uvec4(0u, 1u, 2u, 3u), uvec4(n));
    vec4 x = mix(vec4(LOWEST), v, inside);
    float m = max(acc.m, max4(x));
    acc.s = acc.s * exp(acc.m - m) + sum4(mix(vec4(0.0), exp(x - m), inside));
    acc.m = m;
}

// Quads that are loaded at once where rows are long: one after the other, each load would wait for the exponentials of the last.
const uint TOGETHER = 4u;

// The same for TOGETHER quads, the last of which is quad c and the greatest.
void logsum_add_all(inout LogSum acc, uint c, uint n, vec4 v[TOGETHER]) {
    bvec4 inside = lessThan(uvec4(4u * c) + uvec4(0u, 1u, 2u, 3u), uvec4(n));
    vec4 last = mix(vec4(LOWEST), v[TOGETHER - 1u], inside);
    vec4 greatest = last;
    for (uint i = 0u; i < TOGETHER - 1u; i++) {
        greatest = max(greatest, v[i]);
    }
    float m = max(acc.m, max4(greatest));
    vec4 sums = mix(vec4(0.0), exp(last - m), inside);
    for (uint i = 0u; i < TOGETHER - 1u; i++) {
        sums += exp(v[i] - m);
    }
    acc.s = acc.s * exp(acc.m - m) + sum4(sums);
    acc.m = m;
}

// Joins the invocations of the row: maxima and sums meet in one tree.
LogSum logsum_join(LogSum acc) {
    uint self = gl_LocalInvocationID.x;
    rows_partial2[self] = vec2(acc.m, acc.s);
    barrier();
    for (uint step = COLUMNS / 2u; step > 0u; step /= 2u) {
        if (rows_column() < step) {
            vec2 own = rows_partial2[self];
            vec2 other = rows_partial2[self + step * TILE_ROWS];
            float m = max(own.x, other.x);
            rows_partial2[self] = vec2(m, own.y * exp(own.x - m) + other.y * exp(other.x - m));
        }
        barrier();
    }
    vec2 total = rows_partial2[self % TILE_ROWS];
    barrier();
    return LogSum(total.x, total.y);
}
