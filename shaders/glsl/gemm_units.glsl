// One product by matrix units: a function that adds it to the accumulators. Include after operand.glsl of both operands and
//     #define LEFT A                  the prefix of the left operand
//     #define RIGHT B                 the prefix of the right one
//     #define PRODUCT_AXIS REDUCE     the constant that is the view axis summed over
// which are undefined again at the end. The function is named after the left operand: A_product. With PARTED both operands are F32 in two parts
// (gemm_parts.glsl), and there is one product.

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

#ifdef PARTED
#define PIECES 2u
#else
#define PIECES 1u
#endif

// Texels of shared memory before the tiles of B.
uint L(_before)() {
    return BUFFERS * PIECES * L(_rows)() * L(_stride)();
}

// Rows of a tile are m (n) or k: a matrix is read by rows or by columns.
#define LOAD_LEFT(to, first, o, k) \
    if (L(_way)() == ALONG_K) { \
        coopMatLoad(to, tiles, (first) + (o) * L(_stride)() + (k) / 8u, L(_stride)(), gl_CooperativeMatrixLayoutRowMajor); \
    } else { \
        coopMatLoad(to, tiles, (first) + (k) * L(_stride)() + (o) / 8u, L(_stride)(), gl_CooperativeMatrixLayoutColumnMajor); \
    }
#define LOAD_RIGHT(to, first, o, k) \
    if (R(_way)() == ALONG_K) { \
        coopMatLoad(to, tiles, (first) + (o) * R(_stride)() + (k) / 8u, R(_stride)(), gl_CooperativeMatrixLayoutColumnMajor); \
    } else { \
        coopMatLoad(to, tiles, (first) + (k) * R(_stride)() + (o) / 8u, R(_stride)(), gl_CooperativeMatrixLayoutRowMajor); \
    }

// Adds the products of the tiles in buffer `which`.
void L(_sum)(uint which) {
    uint first_a = which * PIECES * L(_rows)() * L(_stride)();
    uint first_b = L(_before)() + which * PIECES * R(_rows)() * R(_stride)();
    uint m = gl_SubgroupID % LANES_M * TILE_M * MATRIX_M;
    uint n = gl_SubgroupID / LANES_M * TILE_N * MATRIX_N;
    [[unroll]] for (uint k = 0u; k < EXTENT_K; k += MATRIX_K) {
        coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a[TILE_M];
#ifdef PARTED
        coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a_low[TILE_M];
#endif
        [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
            LOAD_LEFT(a[i], first_a, m + i * MATRIX_M, k)
#ifdef PARTED
            LOAD_LEFT(a_low[i], first_a + L(_rows)() * L(_stride)(), m + i * MATRIX_M, k)
#endif
        }
        [[unroll]] for (uint j = 0u; j < TILE_N; j++) {
            coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b;
            LOAD_RIGHT(b, first_b, n + j * MATRIX_N, k)
#ifdef PARTED
            // The smaller products first, each of them of all matrices before the next: none waits for its sum.
            coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b_low;
            LOAD_RIGHT(b_low, first_b + R(_rows)() * R(_stride)(), n + j * MATRIX_N, k)
            [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
                acc[TILE_M * j + i] = coopMatMulAdd(a_low[i], b, acc[TILE_M * j + i]);
            }
            [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
                acc[TILE_M * j + i] = coopMatMulAdd(a[i], b_low, acc[TILE_M * j + i]);
            }
#endif
            [[unroll]] for (uint i = 0u; i < TILE_M; i++) {
                acc[TILE_M * j + i] = coopMatMulAdd(a[i], b, acc[TILE_M * j + i]);
            }
        }
    }
}

#ifdef PARTED

// Makes exponents of what is open known to all, who must all have closed the tile before; sums follow.
void L(_agree)() {
    uvec2 open = uvec2(L(_exponent_open)(), R(_exponent_open)());
    if (open.x > parts_tops.x) {
        atomicMax(parts_told[0], open.x);
    }
    if (open.y > parts_tops.y) {
        atomicMax(parts_told[1], open.y);
    }
    // Nobody tells more before the next barrier.
    barrier();
    uvec2 tops = uvec2(parts_told[0], parts_told[1]);
    uvec2 risen = tops - parts_tops;
    if (risen.x + risen.y > 0u) {
        float fallen = parts_power(-int(risen.x + risen.y));
        [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
            acc[i] *= fallen;
        }
        parts_tops = tops;
    }
}

// Four sums along m at one n, one product after the other.
vec4 L(_sums)(uint m, uint n, uint part, uint parts) {
    const uint tiles_of_k = (L(_k) + EXTENT_K - 1u) / EXTENT_K;
    const uint of_part = (tiles_of_k + parts - 1u) / parts * EXTENT_K;
    vec4 sum = vec4(0.0);
    [[dont_unroll]] for (uint k = part * of_part; k < min((part + 1u) * of_part, L(_k)); k++) {
        sum += L(_gather)(m, k, L(_i2), L(_i3)) * R(_gather)(n, k, R(_i2), R(_i3)).x;
    }
    return sum;
}

#endif

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
#ifdef PARTED
    if (gl_LocalInvocationID.x < 2u) {
        parts_told[gl_LocalInvocationID.x] = PARTS_LEAST;
    }
    barrier();
#endif
    if (count > 0u) {
        L(_open)(first * EXTENT_K);
        R(_open)(first * EXTENT_K);
    }
    for (uint i = 0u; i < count; i++) {
        uint k = (first + i) * EXTENT_K;
        uint which = i % BUFFERS;
#ifdef PARTED
        L(_agree)();
        L(_close)(k, which * PIECES * L(_rows)() * L(_stride)(), parts_factor(parts_tops.x));
        R(_close)(k, L(_before)() + which * PIECES * R(_rows)() * R(_stride)(), parts_factor(parts_tops.y));
#else
        if (BUFFERS == 1u) {
            barrier();
        }
        L(_close)(k, which * L(_rows)() * L(_stride)());
        R(_close)(k, L(_before)() + which * R(_rows)() * R(_stride)());
#endif
        barrier();
        if (i + 1u < count) {
            L(_open)(k + EXTENT_K);
            R(_open)(k + EXTENT_K);
        }
        L(_sum)(which);
    }
    barrier();
}

#undef LOAD_LEFT
#undef LOAD_RIGHT
#undef PIECES
#undef L
#undef R
#undef LEFT
#undef RIGHT
#undef PRODUCT_AXIS
