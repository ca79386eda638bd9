// The product from shared memory: the workgroup brings tiles of both operands there, each element decoded once, while it sums
// over the tiles before. Included by gemm_product.glsl; tiles and their order are gemm.comp's.

void L(_open_tiles)(uint k4, bool loads_a, bool loads_b) {
    if (loads_a) {
        L(_open_texels)(0u, k4 / L(_quads_of_texel)());
        L(_open_quad)(0u, k4);
    }
    if (loads_b) {
        R(_fill)(0u, k4, 0u);
    }
}

// Puts what is open into buffer number `which`; what lies beyond K becomes zero. k4 may lie there, `inside` does not.
void L(_store_tiles)(uint k4, uint inside, uint which, bool loads_a, bool loads_b) {
    const bool ragged = L(_k) % (4u * TILE_K) != 0u;
    uint lane = gl_LocalInvocationID.x / TILE_K;
    uint row = gl_LocalInvocationID.x % TILE_K;
    if (loads_a) {
        L(_fill)(0u, inside, inside % L(_quads_of_texel)());
        if (ragged) {
            L(_cut)(k4);
        }
        [[unroll]] for (uint q = 0u; q < LOADS_M; q++) {
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                tile_a[staged_place(which, row, kk, lane + q * LOADERS, TILE_M * LANES_M)] = L(_fragment)[4u * q + kk];
            }
        }
    }
    if (loads_b) {
        [[unroll]] for (uint q = 0u; q < LOADS_N; q++) {
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                vec4 b = vec4(R(_value)(0u, kk, 4u * q), R(_value)(0u, kk, 4u * q + 1u),
                              R(_value)(0u, kk, 4u * q + 2u), R(_value)(0u, kk, 4u * q + 3u));
                b = ragged && 4u * k4 + kk >= L(_k) ? vec4(0.0) : b;
                tile_b[staged_place(which, row, kk, lane + q * LOADERS, TILE_N / 4u * LANES_N)] = b;
            }
        }
    }
}

// Adds part number `part` of `parts` of k, for the tile whose first quad of m is m4 and whose first n is n0.
void L(_product)(uint m4, uint n0, uint i2, uint i3, uint part, uint parts) {
    // An invocation loads fragments of one quad of k, LOADERS quads of m (n) apart.
    uint lane = gl_LocalInvocationID.x / TILE_K;
    uint row = gl_LocalInvocationID.x % TILE_K;
    bool loads_a = lane < TILE_M * LANES_M;
    bool loads_b = lane < TILE_N / 4u * LANES_N;
    [[unroll]] for (uint q = 0u; q < LOADS_M; q++) {
        L(_aim)(q, m4 + lane + q * LOADERS, i2, i3);
    }
    R(_aim)(n0 + 4u * lane, i2, i3);

    const uint quads = (L(_k) + 3u) / 4u;
    const uint tiles = (quads + TILE_K - 1u) / TILE_K;
    const uint tiles_of_part = (tiles + parts - 1u) / parts;
    uint first = part * tiles_of_part;
    uint count = min(first + tiles_of_part, tiles) - min(first, tiles);
    // Tile number i is fetched while number i - 1 is summed. The code of both stands here once: drivers inline it.
    for (uint i = 0u; i <= count; i++) {
        uint k4 = (first + i) * TILE_K + row;
        uint inside = min(k4, quads - 1u);
        if (i < count) {
            L(_open_tiles)(inside, loads_a, loads_b);
        }
        if (i > 0u) {
            staged_sum((i - 1u) % BUFFERS);
        }
        if (BUFFERS == 1u) {
            barrier();
        }
        if (i < count) {
            L(_store_tiles)(k4, inside, i % BUFFERS, loads_a, loads_b);
        }
        barrier();
    }
}
