#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#endif

// The product of gemm.comp by the device's matrix units: F16, or with BF16 that type, sums in F32. The workgroup's tiles of both
// operands pass through shared memory, decoded and rounded once. A subgroup holds TILE_M by TILE_N matrices of sums. With PARTED both operands
// are F32 and not rounded but taken apart (gemm_parts.glsl): three products for one, and what the units do not compute is summed in the epilogue.

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

layout(constant_id = 3) const uint TILE_M = 2u;
layout(constant_id = 4) const uint TILE_N = 2u;
// Subgroups of a workgroup along m and along n.
layout(constant_id = 5) const uint LANES_M = 2u;
layout(constant_id = 6) const uint LANES_N = 2u;
// Workgroups that each sum one part of k; more than one write their parts along axis 3 of dst.
layout(constant_id = 7) const uint PARTS = 1u;
// Rows of tiles whose workgroups follow each other, so that what they share of B stays in a cache with what they share of A.
layout(constant_id = 8) const uint BAND = 1u;
// Matrices along axis 2 of the result.
layout(constant_id = 9) const uint MATRICES = 1u;
// What a matrix unit multiplies: M by K with K by N.
layout(constant_id = 10) const uint MATRIX_M = 16u;
layout(constant_id = 11) const uint MATRIX_N = 16u;
layout(constant_id = 13) const uint MATRIX_K = 16u;
// Quads of k of a tile, an even number.
layout(constant_id = 12) const uint TILE_K = 8u;
// Tiles of each operand that shared memory holds: one that is read, and perhaps one that is written.
layout(constant_id = 19) const uint BUFFERS = 2u;
// Octets, eight elements along its texels, that an invocation loads of a tile of A and of B.
layout(constant_id = 14) const uint LOADS_M = 1u;
layout(constant_id = 15) const uint LOADS_N = 1u;
// Texels of shared memory.
layout(constant_id = 20) const uint SHARED = 1u;

// View axis that is summed over.
layout(constant_id = 16) const uint REDUCE = 0u;
#ifdef PAIR
// The same of the second product, and the factor on it.
layout(constant_id = 17) const uint REDUCE_2 = 0u;
layout(constant_id = 18) const float SCALE_2 = 1.0;
#endif

#include "gemm_operands.glsl"

#ifdef BF16
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif

// Elements of the workgroup's tile.
const uint EXTENT_M = MATRIX_M * TILE_M * LANES_M;
const uint EXTENT_N = MATRIX_N * TILE_N * LANES_N;
const uint EXTENT_K = 4u * TILE_K;

coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> acc[TILE_M * TILE_N];

// Tiles of both operands while there is something to sum, a column of the subgroups' sums after that.
shared uvec4 tiles[SHARED];

#include "gemm_band.glsl"
#ifdef PARTED
#include "gemm_parts.glsl"
#endif

#define LEFT A
#define RIGHT B
#define PRODUCT_AXIS REDUCE
#include "gemm_units.glsl"

#ifdef PAIR
#define LEFT A2
#define RIGHT B2
#define PRODUCT_AXIS REDUCE_2
#include "gemm_units.glsl"
#endif

// Four sums as the units left them, as what they are.
vec4 finished(vec4 v, uint c4, uint n, uint part) {
#ifdef PARTED
    if (max(parts_tops.x, parts_tops.y) == PARTS_INFINITE) {
        return A_sums(4u * c4, n, part, PARTS);
    }
    return parts_sum(v);
#else
    return v;
#endif
}

void main() {
    uvec2 tile = banded_tile();
    uint first_m = tile.y * EXTENT_M;
    uint first_n = tile.x * EXTENT_N;
    uint i2 = gl_WorkGroupID.z % MATRICES;
    uint i3 = gl_WorkGroupID.z / MATRICES;
    uint part = 0u;
    uint d3 = i3;
    if (PARTS > 1u) {
        part = i3;
        i3 = 0u;
    }

    [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
        acc[i] = coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(0.0);
    }
#ifdef PAIR
    // First, so that the factor needs no registers of its own. The whole of it belongs to the first part.
    if (part == 0u) {
        A2_product(first_m, first_n, i2, i3, 0u, 1u);
        [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
            acc[i] *= SCALE_2;
        }
    }
#endif
    A_product(first_m, first_n, i2, i3, part, PARTS);

    // One matrix of every subgroup's row at a time, so that the epilogue stands here once. Quads of m lie one after the other.
    const uint column = EXTENT_M / 4u + 1u;
    const uint columns = MATRIX_N * LANES_N;
    uint group_m = gl_SubgroupID % LANES_M;
    uint group_n = gl_SubgroupID / LANES_M;
    for (uint j = 0u; j < TILE_N; j++) {
        [[unroll]] for (uint jj = 0u; jj < TILE_N; jj++) {
            if (j == jj) {
                [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
                    uint at = group_n * MATRIX_N * column + (group_m * TILE_M + i) * MATRIX_M / 4u;
                    coopMatStore(acc[TILE_M * jj + i], tiles, at, column, gl_CooperativeMatrixLayoutColumnMajor);
                }
            }
        }
        barrier();
#ifdef ROTATE
        // Halves of a head are rotated together.
        const uint together = NEOX ? 2u : 1u;
#else
        const uint together = 1u;
#endif
        const uint quads = EXTENT_M / 4u / together;
        for (uint i = gl_LocalInvocationID.x; i < quads * columns; i += gl_WorkGroupSize.x) {
            // Four columns of a quad are neighbours in an R-Tile.
            uint c = i / (4u * quads) * 4u + i % 4u;
            uint q = i / 4u % quads;
#ifdef ROTATE
            q = NEOX ? q / HALF_HEAD * 2u * HALF_HEAD + q % HALF_HEAD : q;
#endif
            uint c4 = first_m / 4u + q;
            uint n = first_n + (c / MATRIX_N * TILE_N + j) * MATRIX_N + c % MATRIX_N;
            vec4 v = finished(uintBitsToFloat(tiles[c * column + q]), c4, n, part);
#if defined(ROTATE)
            vec4 second = v;
            if (NEOX) {
                second = finished(uintBitsToFloat(tiles[c * column + q + HALF_HEAD]), c4 + HALF_HEAD, n, part);
            }
            epilogue_store_rotated(c4, n, i2, d3, v, second);
#elif defined(FUSED)
            STORE4(c4, n, i2, d3, v);
#else
            if (4u * c4 < D_p0 && n < D_p1) {
                STORE4(c4, n, i2, d3, v);
            }
#endif
        }
        barrier();
    }
}
