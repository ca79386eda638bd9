// One product by matrix units: a function that adds it to the accumulators. Include after operand.glsl of both operands and
//     #define LEFT A                  the prefix of the left operand
//     #define RIGHT B                 the prefix of the right one
//     #define PRODUCT_AXIS REDUCE     the constant that is the view axis summed over
// which are undefined again at the end. The function is named after the left operand: A_product.

#define OPERAND LEFT
#define SUMMED PRODUCT_AXIS
#include "direction.glsl"
#define OPERAND LEFT
#define EXTENT EXTENT_M
#define LOADS LOADS_M
#include "gemm_octets.glsl"

#define OPERAND RIGHT
#define SUMMED PRODUCT_AXIS
#include "direction.glsl"
#define OPERAND RIGHT
#define EXTENT EXTENT_N
#define LOADS LOADS_N
#define PLAIN
#include "gemm_octets.glsl"

#define L(suffix) OPERAND_PASTE(LEFT, suffix)
#define R(suffix) OPERAND_PASTE(RIGHT, suffix)

// Texels of shared memory before the tiles of B.
uint L(_before)() {
    return BUFFERS * L(_rows)() * L(_stride)();
}

// Adds the products of the tiles in buffer `which`. Rows of a tile are m (n) or k: a matrix is read by rows or by columns.
void L(_sum)(uint which) {
    uint first_a = which * L(_rows)() * L(_stride)();
    uint first_b = L(_before)() + which * R(_rows)() * R(_stride)();
    uint m = gl_SubgroupID % LANES_M * TILE_M * MATRIX_M;
    uint n = gl_SubgroupID / LANES_M * TILE_N * MATRIX_N;
    [[unroll]] for (uint k = 0u; k < EXTENT_K; k += MATRIX_K) {
        coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a[TILE_M];
        [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
            uint o = m + i * MATRIX_M;
            if (L(_way)() == ALONG_K) {
                coopMatLoad(a[i], tiles, first_a + o * L(_stride)() + k / 8u, L(_stride)(), gl_CooperativeMatrixLayoutRowMajor);
            } else {
                coopMatLoad(a[i], tiles, first_a + k * L(_stride)() + o / 8u, L(_stride)(), gl_CooperativeMatrixLayoutColumnMajor);
            }
        }
        [[unroll]] for (uint j = 0u; j < TILE_N; j++) {
            coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b;
            uint o = n + j * MATRIX_N;
            if (R(_way)() == ALONG_K) {
                coopMatLoad(b, tiles, first_b + o * R(_stride)() + k / 8u, R(_stride)(), gl_CooperativeMatrixLayoutColumnMajor);
            } else {
                coopMatLoad(b, tiles, first_b + k * R(_stride)() + o / 8u, R(_stride)(), gl_CooperativeMatrixLayoutRowMajor);
            }
            [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
                acc[TILE_M * j + i] = coopMatMulAdd(a[i], b, acc[TILE_M * j + i]);
            }
        }
    }
}

// Adds part number `part` of `parts` of k, for the tile that starts at these m and n.
void L(_product)(uint m, uint n, uint i2, uint i3, uint part, uint parts) {
    L(_aim)(m, i2, i3);
    R(_aim)(n, i2, i3);
    const uint tiles_of_k = (L(_k) + EXTENT_K - 1u) / EXTENT_K;
    const uint tiles_of_part = (tiles_of_k + parts - 1u) / parts;
    uint first = part * tiles_of_part;
    uint count = min(first + tiles_of_part, tiles_of_k) - min(first, tiles_of_k);
    // The next tile is under way while one is summed: fetched right behind the barrier. NVIDIA's compiler hides fetches before it, or two
    // tiles ahead, so badly that products take half as long again.
    if (count > 0u) {
        L(_open)(first * EXTENT_K);
        R(_open)(first * EXTENT_K);
    }
    for (uint i = 0u; i < count; i++) {
        uint k = (first + i) * EXTENT_K;
        uint which = i % BUFFERS;
        if (BUFFERS == 1u) {
            barrier();
        }
        L(_close)(k, which * L(_rows)() * L(_stride)());
        R(_close)(k, L(_before)() + which * R(_rows)() * R(_stride)());
        barrier();
        if (i + 1u < count) {
            L(_open)(k + EXTENT_K);
            R(_open)(k + EXTENT_K);
        }
        L(_sum)(which);
    }
    barrier();
}

#undef L
#undef R
#undef LEFT
#undef RIGHT
#undef PRODUCT_AXIS
