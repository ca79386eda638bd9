// Tiles of both operands in shared memory, and the sums over one. gemm.comp includes it.
//
// A row is one k: the quads of m, or of n, side by side. Those of the rows of k4 are exchanged by the bits of k4: invocations
// that store go along k4 first, and meet no bank twice; those that read have one k4 and stay side by side.

shared vec4 tile_a[BUFFERS * 4u * TILE_K * TILE_M * LANES_M];
shared vec4 tile_b[BUFFERS * TILE_K * TILE_N * LANES_N];

// Quads of 16 bytes that the banks of shared memory serve at a time.
const uint QUADS_OF_BANKS = 8u;

// Place of quad `quad` at k = 4 k4 + kk, in rows of `width` quads, a power of two.
uint staged_place(uint which, uint k4, uint kk, uint quad, uint width) {
    uint turned = k4 * max(QUADS_OF_BANKS / TILE_K, 1u) & (min(width, QUADS_OF_BANKS) - 1u);
    return ((which * TILE_K + k4) * 4u + kk) * width + (quad ^ turned);
}

// Adds the products of the tiles in buffer `which`.
void staged_sum(uint which) {
    uint lane_m = gl_LocalInvocationID.x % LANES_M;
    uint lane_n = gl_LocalInvocationID.x / LANES_M;
    for (uint k4 = 0u; k4 < TILE_K; k4++) {
        [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
            vec4 a[TILE_M];
            [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
                a[q] = tile_a[staged_place(which, k4, kk, lane_m + q * LANES_M, TILE_M * LANES_M)];
            }
            [[unroll]] for (uint j = 0u; j < TILE_N / 4u; j++) {
                vec4 b = tile_b[staged_place(which, k4, kk, lane_n + j * LANES_N, TILE_N / 4u * LANES_N)];
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
                        acc[TILE_M * (4u * j + e) + q] += a[q] * b[e];
                    }
                }
            }
        }
    }
}
