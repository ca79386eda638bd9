#version 450
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require

// dst[m, n] = sum over k of a[.] b[.], batched over view axes 2 and 3: MUL_MAT sums over view axis 0 of both operands,
// OUT_PROD over view axis 1. An invocation keeps TILE_M quads of m by TILE_N n in registers.

layout(local_size_x_id = 0) in;

// Quads of m an invocation holds, M_STRIDE quads apart.
layout(constant_id = 3) const uint TILE_M = 1u;
layout(constant_id = 4) const uint TILE_N = 8u;
// Invocations of a workgroup along m and along n. One along n leaves the addresses of B uniform over the workgroup.
layout(constant_id = 5) const uint LANES_M = 32u;
layout(constant_id = 6) const uint LANES_N = 1u;
layout(constant_id = 7) const uint M_STRIDE = 1u;
// View axis that is summed over.
layout(constant_id = 16) const uint REDUCE = 0u;

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

#define OPERAND A
#define QUADS TILE_M
#include "gemm_operand.glsl"

const uint QUADS_N = (TILE_N + 3u) / 4u;

#define OPERAND B
#define QUADS QUADS_N
#include "gemm_operand.glsl"

void main() {
    const uint step = max(A_step(), B_step());
    uint lane_m = LANES_M == 1u ? 0u : gl_LocalInvocationID.x % LANES_M;
    uint lane_n = LANES_N == 1u ? 0u : gl_LocalInvocationID.x / LANES_M;
    uint tm = gl_WorkGroupID.x * LANES_M + lane_m;
    uint n0 = (gl_WorkGroupID.y * LANES_N + lane_n) * TILE_N;
    uint i2 = gl_WorkGroupID.z % D_p2;
    uint i3 = gl_WorkGroupID.z / D_p2;

    uint m4[TILE_M];
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        m4[q] = (tm / M_STRIDE) * (M_STRIDE * TILE_M) + tm % M_STRIDE + q * M_STRIDE;
        A_aim(q, m4[q], i2, i3);
    }
    [[unroll]] for (uint q = 0u; q < QUADS_N; q++) {
        B_aim(q, n0 / 4u + q, i2, i3);
    }

    vec4 acc[TILE_M * TILE_N];
    [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
        acc[i] = vec4(0.0);
    }

    for (uint s = 0u; s < (A_k + step - 1u) / step; s++) {
        A_open(s);
        for (uint c = 0u; c < step / 4u; c++) {
            uint k4 = s * (step / 4u) + c;
            A_load_fragment(k4, c);
            B_open(min(k4, (A_k - 1u) / 4u));
            B_load_fragment(k4, 0u);
            if (A_k % step != 0u) {
                A_cut(k4);
                B_cut(k4);
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
                    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
                        acc[TILE_M * n + q] += A_frag[4u * q + kk] * B_frag[4u * (n / 4u) + kk][n % 4u];
                    }
                }
            }
        }
    }

    [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
        [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
            if (4u * m4[q] < D_p0 && n0 + n < D_p1) {
                D_store4(m4[q], n0 + n, i2, i3, acc[TILE_M * n + q]);
            }
        }
    }
}
