#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

// dst[m, n] = sum over k of a[.] b[.], batched over view axes 2 and 3: MUL_MAT sums over view axis 0 of both operands,
// OUT_PROD over view axis 1. With PAIR, a second product of the same result is added, times a factor. An invocation keeps
// TILE_M quads of m by TILE_N values of n in registers.
//
// Direct: an invocation fetches what it needs itself; caches do the sharing. LANES_K invocations may go over k together, whose
// sums are added up at the end. STAGED: the workgroup's tiles of both operands pass through shared memory.

layout(local_size_x_id = 0) in;

// Quads of m an invocation holds, LANES_M quads apart, and values of n: a multiple of 4, or (direct) no less than n's extent.
layout(constant_id = 3) const uint TILE_M = 1u;
layout(constant_id = 4) const uint TILE_N = 8u;
// Invocations of a workgroup along m and along n. One along n leaves the addresses of B uniform over the workgroup.
layout(constant_id = 5) const uint LANES_M = 32u;
layout(constant_id = 6) const uint LANES_N = 1u;
// Workgroups that each sum one part of k; more than one write their parts along axis 3 of dst.
layout(constant_id = 7) const uint PARTS = 1u;
#ifdef SUBGROUP
// Invocations that share their fetches of B: a power of two, no more than a subgroup has; LANES_N is 1.
layout(constant_id = 8) const uint SHARE = 8u;
#endif
// Matrices along axis 2 of the result.
layout(constant_id = 9) const uint MATRICES = 1u;

#ifdef STAGED
// Rows of tiles whose workgroups follow each other, so that what they share of B stays in a cache with what they share of A.
layout(constant_id = 8) const uint BAND = 1u;
// Quads of k of a tile; this, LANES_M, LANES_N, TILE_M and TILE_N / 4 are powers of two.
layout(constant_id = 12) const uint TILE_K = 4u;
// Tiles of each operand that shared memory holds: one that is read, and perhaps one that is written.
layout(constant_id = 13) const uint BUFFERS = 2u;
// Quads of m, and of n, that an invocation loads of a tile.
layout(constant_id = 14) const uint LOADS_M = 1u;
layout(constant_id = 15) const uint LOADS_N = 1u;

// Invocations that load the same quad of k.
#define LOADERS (gl_WorkGroupSize.x / TILE_K)
#define QUADS_A LOADS_M
#define COLUMNS_B (4u * LOADS_N)
#define STEP_B 1u
#define QUAD_STEP_B (4u * LOADERS)
#else
// Values of n of an invocation lie so far apart: 1, or LANES_N where the texels of B run along k. Neighbouring invocations
// then want neighbouring n, which are neighbouring texels in an R-Tile.
layout(constant_id = 10) const uint STEP_N = 1u;
#define QUADS_A TILE_M
#define COLUMNS_B TILE_N
#define STEP_B STEP_N
#define QUAD_STEP_B (4u * STEP_N)
#ifdef SUBGROUP
const uint LANES_K = 1u;
#else
// Invocations of a workgroup along k, and sums that half of the workgroup holds, if they are more than one.
layout(constant_id = 11) const uint LANES_K = 1u;
layout(constant_id = 15) const uint SUMS = 1u;
shared vec4 sums[SUMS];
#endif
// Number of this invocation along k.
uint lane_k = 0u;
#endif

// View axis that is summed over.
layout(constant_id = 16) const uint REDUCE = 0u;
#ifdef PAIR
// The same of the second product, and the factor on it.
layout(constant_id = 17) const uint REDUCE_2 = 0u;
layout(constant_id = 18) const float SCALE_2 = 1.0;
#endif

#include "gemm_operands.glsl"

vec4 acc[TILE_M * TILE_N];

#ifdef STAGED
#include "gemm_tiles.glsl"
#include "gemm_band.glsl"
#endif

#define LEFT A
#define RIGHT B
#define PRODUCT_AXIS REDUCE
#include "gemm_product.glsl"

#ifdef PAIR
#define LEFT A2
#define RIGHT B2
#define PRODUCT_AXIS REDUCE_2
#include "gemm_product.glsl"
#endif

#if !defined(STAGED) && !defined(SUBGROUP)
// Adds up the sums of the invocations along k, in a fixed order; whether this invocation has the result.
bool gather_sums() {
    // Invocations that hold the same part of k.
    const uint others = LANES_M * LANES_N;
    for (uint half_k = LANES_K / 2u; half_k > 0u; half_k /= 2u) {
        uint at = TILE_M * TILE_N * (gl_LocalInvocationID.x % (half_k * others));
        if (lane_k >= half_k && lane_k < 2u * half_k) {
            [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
                sums[at + i] = acc[i];
            }
        }
        barrier();
        if (lane_k < half_k) {
            [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
                acc[i] += sums[at + i];
            }
        }
        barrier();
    }
    return lane_k == 0u;
}
#endif

// Distance of the invocation's value number i of n from its first one.
uint column(uint i) {
#ifdef STAGED
    return i / 4u * 4u * LANES_N + i % 4u;
#else
    return i * STEP_N;
#endif
}

void main() {
    uint lane_m = LANES_M == 1u ? 0u : gl_LocalInvocationID.x % LANES_M;
    uint lane_n = LANES_N == 1u ? 0u : gl_LocalInvocationID.x / LANES_M;
    // Along n and along m. Workgroups with the same m follow each other: A is the large one.
    uvec2 tile = gl_WorkGroupID.xy;
#ifdef STAGED
    tile = banded_tile();
    uint first_m4 = tile.y * LANES_M * TILE_M;
    uint first_n = tile.x * LANES_N * TILE_N;
    uint m4 = first_m4 + lane_m;
    uint n0 = first_n + 4u * lane_n;
#else
#ifndef SUBGROUP
    if (LANES_K > 1u) {
        lane_n %= LANES_N;
        lane_k = gl_LocalInvocationID.x / (LANES_M * LANES_N);
    }
#endif
    uint m4 = tile.y * LANES_M * TILE_M + lane_m;
    uint n0 = tile.x * LANES_N * TILE_N + lane_n * (STEP_N == 1u ? TILE_N : 1u);
    uint first_m4 = m4;
    uint first_n = n0;
#endif
    uint i2 = gl_WorkGroupID.z % MATRICES;
    uint i3 = gl_WorkGroupID.z / MATRICES;
    uint part = 0u;
    uint d3 = i3;
    if (PARTS > 1u) {
        part = i3;
        i3 = 0u;
    }

    [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
        acc[i] = vec4(0.0);
    }
#ifdef PAIR
    // First, so that the factor needs no registers of its own. The whole of it belongs to the first part.
    if (part == 0u) {
        A2_product(first_m4, first_n, i2, i3, 0u, 1u);
        [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
            acc[i] *= SCALE_2;
        }
    }
#endif
    A_product(first_m4, first_n, i2, i3, part, PARTS);

#if !defined(STAGED) && !defined(SUBGROUP)
    if (LANES_K > 1u && !gather_sums()) {
        return;
    }
#endif

    // Rolled, with the accumulator picked by comparisons: some compilers pay dearly for every store they see.
#ifdef ROTATE
    // Two quads at a time where they are rotated together: TILE_M is 2 then, and LANES_M half a head.
    const uint together = NEOX ? 2u : 1u;
    [[dont_unroll]] for (uint i = 0u; i < TILE_M * TILE_N / together; i++) {
        vec4 first = acc[0];
        vec4 second = acc[0];
        [[unroll]] for (uint j = 1u; j < TILE_M * TILE_N; j++) {
            first = together * i == j ? acc[j] : first;
            second = together * i + 1u == j ? acc[j] : second;
        }
        uint q = together * i;
        epilogue_store_rotated(m4 + q % TILE_M * LANES_M, n0 + column(q / TILE_M), i2, d3, first, second);
    }
#else
    [[dont_unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
        vec4 v = acc[0];
        [[unroll]] for (uint j = 1u; j < TILE_M * TILE_N; j++) {
            v = i == j ? acc[j] : v;
        }
        uint c4 = m4 + i % TILE_M * LANES_M;
        uint n = n0 + column(i / TILE_M);
#ifdef FUSED
        STORE4(c4, n, i2, d3, v);
#else
        if (4u * c4 < D_p0 && n < D_p1) {
            STORE4(c4, n, i2, d3, v);
        }
#endif
    }
#endif
}
