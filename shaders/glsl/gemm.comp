#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef DOTS
#extension GL_EXT_spirv_intrinsics : require
#endif

// dst[m, n] = sum over k of a[.] b[.], batched over view axes 2 and 3: MUL_MAT sums over view axis 0 of both operands,
// OUT_PROD over view axis 1. With PAIR, a second product of the same result is added, times a factor. With NORMED, b is normalised
// (RMS over k) and multiplied by a gain on its way. With TWIN, which has NORMED, a second a, read as the first, gives the epilogue a
// second result. An invocation keeps TILE_M quads of m by TILE_N values of n in registers.
//
// Direct: an invocation fetches what it needs itself; caches do the sharing. LANES_K invocations may go over k together, whose
// sums are added up at the end (gemm_across.glsl). With DOTS these multiply whole numbers (gemm_dots.glsl). STAGED: the workgroup's tiles of both operands pass through shared memory.

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
#define AHEAD 1u
#define FRAGMENTS_B 1u
const uint LANES_K = 1u;
#else
// Values of n of an invocation lie so far apart: 1, or LANES_N where the texels of B run along k. Neighbouring invocations
// then want neighbouring n, which are neighbouring texels in an R-Tile.
layout(constant_id = 10) const uint STEP_N = 1u;
#define QUADS_A TILE_M
#define COLUMNS_B TILE_N
#define STEP_B STEP_N
#define QUAD_STEP_B (4u * STEP_N)
#ifdef SUBGROUP
#define AHEAD 1u
#define GROUP_B 1u
#define FRAGMENTS_B 1u
const uint LANES_K = 1u;
#else
#ifdef DOTS
#define AHEAD 1u
#define FRAGMENTS_B 8u
#else
// Steps along k whose texels of A are fetched before the first is multiplied, and the quads of k of each whose texels of B are.
layout(constant_id = 14) const uint AHEAD = 1u;
layout(constant_id = 13) const uint GROUP_B = 1u;
#define FRAGMENTS_B (AHEAD * GROUP_B)
#endif
// Invocations of a workgroup along k, and sums that the workgroup holds, if they are more than one.
layout(constant_id = 11) const uint LANES_K = 1u;
layout(constant_id = 15) const uint SUMS = 1u;
#endif
#endif
// Number of this invocation along k.
uint lane_k = 0u;

// Four texels that lie side by side are gone through from this one on. Invocations side by side each read such four: in the same
// order, all of them would meet in a quarter of the banks of a cache.
#if defined(STAGED) || defined(SUBGROUP) || defined(PAIR)
const uint turn = 0u;
#else
uint turn = 0u;
#endif

// Number i with its place among four turned.
uint turned(uint i, uint by) {
    return (i & ~3u) | ((i + by) & 3u);
}

// Component k is component k + by of v, counted around.
uvec4 turned4u(uvec4 v, uint by) {
    v = (by & 1u) != 0u ? v.yzwx : v;
    return (by & 2u) != 0u ? v.zwxy : v;
}

vec4 turned4(vec4 v, uint by) {
    return uintBitsToFloat(turned4u(floatBitsToUint(v), by));
}

// View axis that is summed over.
layout(constant_id = 16) const uint REDUCE = 0u;
#ifdef PAIR
// The same of the second product, and the factor on it.
layout(constant_id = 17) const uint REDUCE_2 = 0u;
layout(constant_id = 18) const float SCALE_2 = 1.0;
#endif
#ifdef NORMED
// Whether there is a norm, what it adds to the mean of squares, and whether there is a gain.
layout(constant_id = 23) const bool NORM = true;
layout(constant_id = 24) const float EPS = 0.0;
layout(constant_id = 25) const bool GAIN = false;
#endif

#include "gemm_operands.glsl"

// Products of one right factor, whose sums follow each other.
#ifdef TWIN
const uint PRODUCTS = 2u;
#else
const uint PRODUCTS = 1u;
#endif
vec4 acc[PRODUCTS * TILE_M * TILE_N];

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
#include "gemm_across.glsl"
#endif

// Sum number q of the invocation that is number `lane` of those that have the same k.
vec4 sum_of(uint q, uint lane) {
#if !defined(STAGED) && !defined(SUBGROUP)
    if (LANES_K > 1u) {
#ifdef NORMED
        return across_norm(q % (TILE_M * TILE_N) / TILE_M, lane) * across_sum(q, lane);
#else
        return across_sum(q, lane);
#endif
    }
#endif
    // Picked by comparisons, in a loop that stays one: some compilers pay dearly for every store they see.
    vec4 v = acc[0];
    [[unroll]] for (uint j = 1u; j < TILE_M * TILE_N; j++) {
        v = q == j ? acc[j] : v;
    }
    return v;
}

// First quad of m and first n of such an invocation.
uvec2 place_of(uvec2 tile, uint lane) {
    uint lane_m = LANES_M == 1u ? 0u : lane % LANES_M;
    uint lane_n = LANES_N == 1u ? 0u : lane / LANES_M;
#ifdef STAGED
    uint distance = 4u;
#else
    uint distance = STEP_N == 1u ? TILE_N : 1u;
#endif
    return uvec2(tile.y * LANES_M * TILE_M + lane_m, tile.x * LANES_N * TILE_N + lane_n * distance);
}

// Distance of the invocation's value number i of n from its first one.
uint column(uint i) {
#ifdef STAGED
    return i / 4u * 4u * LANES_N + i % 4u;
#else
    return i * STEP_N;
#endif
}

void main() {
    const uint lanes = LANES_M * LANES_N;
    uint self = gl_LocalInvocationID.x;
    // Along n and along m. Workgroups with the same m follow each other: A is the large one.
    uvec2 tile = gl_WorkGroupID.xy;
#ifdef STAGED
    tile = banded_tile();
    // Tiles are loaded from their first elements on, see gemm_staged.glsl.
    uvec2 first = tile * uvec2(LANES_N * TILE_N, LANES_M * TILE_M);
    first = first.yx;
#else
    if (LANES_K > 1u) {
        lane_k = self / lanes;
#if !defined(SUBGROUP) && !defined(PAIR)
        turn = self / 2u % 4u;
#endif
    }
    uvec2 first = place_of(tile, LANES_K > 1u ? self % lanes : self);
#endif
    uint i2 = gl_WorkGroupID.z % MATRICES;
    uint i3 = gl_WorkGroupID.z / MATRICES;
    uint part = 0u;
    uint d3 = i3;
    if (PARTS > 1u) {
        part = i3;
        i3 = 0u;
    }

    [[unroll]] for (uint i = 0u; i < PRODUCTS * TILE_M * TILE_N; i++) {
        acc[i] = vec4(0.0);
    }
#ifdef PAIR
    // First, so that the factor needs no registers of its own. The whole of it belongs to the first part.
    if (part == 0u) {
        A2_product(first.x, first.y, i2, i3, 0u, 1u);
        [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
            acc[i] *= SCALE_2;
        }
    }
#endif
    A_product(first.x, first.y, i2, i3, part, PARTS);

#if !defined(STAGED) && !defined(SUBGROUP)
    if (LANES_K > 1u) {
        across_share();
    }
#endif

#ifdef ROTATE
    // Two quads at a time where they are rotated together: TILE_M is 2 then, and LANES_M half a head.
    const uint together = NEOX ? 2u : 1u;
#else
    const uint together = 1u;
#endif
    // The workgroup's sums, over all of its invocations where they share them.
    const uint count = TILE_M * TILE_N / together;
    const uint rounds = (count + LANES_K - 1u) / LANES_K;
    [[dont_unroll]] for (uint i = 0u; i < rounds; i++) {
        uint number = LANES_K > 1u ? i * LANES_K + lane_k : i;
        if (number >= count) {
            break;
        }
        uint q = together * number;
        uint lane = LANES_K > 1u ? self % lanes : self;
        uvec2 at = place_of(tile, lane) + uvec2(q % TILE_M * LANES_M, column(q / TILE_M));
#ifdef ROTATE
        epilogue_store_rotated(at.x, at.y, i2, d3, sum_of(q, lane), NEOX ? sum_of(q + 1u, lane) : vec4(0.0));
#elif defined(FUSED)
#ifdef TWIN
        epilogue_value[VALUE_SECOND] = sum_of(TILE_M * TILE_N + q, lane);
#endif
        STORE4(at.x, at.y, i2, d3, sum_of(q, lane));
#else
        if (4u * at.x < D_p0 && at.y < D_p1) {
            STORE4(at.x, at.y, i2, d3, sum_of(q, lane));
        }
#endif
    }
}
