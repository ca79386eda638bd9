// A left factor of products in whole numbers. gemm_dots.glsl includes it, and again with another LEFT for a twin.

// Quants of the rows and scales of their blocks, of parts of sixteen where a type has such.
uvec4 L(_dots_open)[4u * QUADS_A * DOTS_TEXELS];
vec2 L(_dots_scales)[4u * QUADS_A * 2u];

// Whether sixteen k share a scale, and not 32.
bool L(_in_parts)() {
#ifdef BLOCKS
    return L(_dtype) == DTYPE_Q6_K;
#else
    return false;
#endif
}

// Whether a block is a scale and a run of sixteen bytes, 18 in all: it begins at an even byte, and always ends in the next texel.
bool L(_is_scale_and_run)() {
#ifdef BLOCKS
    return L(_dtype) == DTYPE_Q4_0 || L(_dtype) == DTYPE_IQ4_NL;
#else
    return false;
#endif
}

bool L(_has_minimum)() {
    return L(_dtype) == DTYPE_Q4_1 || L(_dtype) == DTYPE_Q5_1 || L(_dtype) == DTYPE_Q4_K || L(_dtype) == DTYPE_Q5_K;
}

// What stands for zero, in the words of L(_word).
int L(_zero)() {
#ifdef BLOCKS
    if (L(_in_blocks)()) {
        int zero = int(blocks_zero(L(_dtype)));
        return zero == 128 ? 0 : zero;
    }
#endif
    return 0;
}

// Blocks of 32 k of a step.
uint L(_blocks)() {
    return L(_dtype) == DTYPE_Q4_K ? 2u : 1u;
}

// Fetches what step s takes of row r of quad q.
void L(_open_row)(uint q, uint r, uint s, uvec4 scales) {
    uint i = 4u * q + r;
#ifdef BLOCKS
    if (L(_dtype) == DTYPE_Q4_K) {
        uvec2 slot = L(_starts)[i] + L(_along)(s / 4u);
        uvec2 first = uvec2(L(_block_bytes) / 16u * slot.x, slot.y);
        uvec4 head = L(_fetch)(first);
        [[unroll]] for (uint h = 0u; h < 2u; h++) {
            L(_dots_open)[DOTS_TEXELS * i + h] = L(_fetch)(first + uvec2(1u + 2u * (s % 4u) + h, 0u));
            L(_dots_scales)[2u * i + h] = blocks_scale_of_texel(4u * (s % 4u) + 2u * h, head);
        }
        return;
    }
    if (L(_in_blocks)()) {
        uint blocks = L(_lanes) / 32u;
        uvec2 slot = L(_starts)[i] + L(_along)(s / blocks);
        if (L(_is_scale_and_run)()) {
            uint byte = L(_block_bytes) * slot.x;
            uvec4 texels[2];
            [[unroll]] for (uint t = 0u; t < 2u; t++) {
                texels[t] = L(_fetch)(uvec2(byte / 16u + t, slot.y));
            }
            uint scale;
            L(_dots_open)[DOTS_TEXELS * i] = dots_run(texels, byte % 16u, scale);
            L(_dots_scales)[2u * i] = vec2(unpackHalf2x16(scale).x, 0.0);
            return;
        }
        uint part = s % blocks * 2u;
        L(_dots_scales)[2u * i] = L(_block_scale)(slot, part);
        if (L(_in_parts)()) {
            L(_dots_scales)[2u * i + 1u] = L(_block_scale)(slot, part + 1u);
        }
        [[unroll]] for (uint c = 0u; c < 8u; c++) {
            L(_dots_open)[DOTS_TEXELS * i + c / 4u][c % 4u] = L(_block_quants)(slot, 4u * part + c);
        }
        return;
    }
#endif
    L(_dots_scales)[2u * i] = L(_row_scale)(scales[r]);
    uvec2 place = L(_starts)[i] + L(_along)(s);
    [[unroll]] for (uint t = 0u; t < L(_quants); t++) {
        L(_dots_open)[DOTS_TEXELS * i + t] = L(_fetch_place)(place + uvec2(t, 0u));
    }
}

// Word c of block h of row i, as signed bytes.
uint L(_word)(uint i, uint h, uint c) {
    uint first = DOTS_TEXELS * i;
    if (L(_dtype) == DTYPE_Q8_0) {
        return L(_dots_open)[first + c / 4u][c % 4u];
    }
#ifdef BLOCKS
    if (L(_dtype) == DTYPE_Q4_K) {
        return (L(_dots_open)[first + c / 4u][c % 4u] >> (4u * h)) & BLOCKS_NIBBLES;
    }
    if (L(_is_scale_and_run)()) {
        uint quants = blocks_quants(L(_dtype), L(_dots_open)[first][c % 4u], c / 4u, 0u);
        return blocks_zero(L(_dtype)) == 128.0 ? quants ^ 0x80808080u : quants;
    }
    if (L(_in_blocks)()) {
        return L(_dots_open)[first + c / 4u][c % 4u];
    }
#endif
    return (L(_dots_open)[first][c % 4u] >> (4u * (c / 4u))) & 0x0F0F0F0Fu;
}

// Sum of the products of some of their k, less what stands for zero; `sum` is that of the bytes of the right factor.
float L(_scaled)(vec2 scale, int products, int sum) {
    float v = scale.x * float(products - L(_zero)() * sum);
    return L(_has_minimum)() ? scale.y * float(sum) + v : v;
}
// Fetches what step s takes of all rows.
void L(_open_rows)(uint s) {
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        uvec4 scales = uvec4(0u);
        if (L(_in_tiles)()) {
            scales = L(_fetch_scales)(L(_starts)[4u * q] + L(_along)(s));
        }
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            L(_open_row)(q, r, s, scales);
        }
    }
}

// Adds the products of what is fetched, to the sums from number `first` on.
void L(_add)(uint first) {
    [[unroll]] for (uint i = 0u; i < 4u * TILE_M; i++) {
        [[unroll]] for (uint h = 0u; h < L(_blocks)(); h++) {
            uint words[8];
            [[unroll]] for (uint c = 0u; c < 8u; c++) {
                words[c] = L(_word)(i, h, c);
            }
            [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
                uint b = DOTS_BLOCKS * n + h;
                ivec2 products = ivec2(0);
                [[unroll]] for (uint c = 0u; c < 8u; c++) {
                    products[c / 4u] += dots_of(words[c], dots_words[8u * b + c]);
                }
                ivec2 sums = dots_sums[b];
                float v;
                if (L(_in_parts)()) {
                    v = L(_scaled)(L(_dots_scales)[2u * i], products.x, sums.x) +
                        L(_scaled)(L(_dots_scales)[2u * i + 1u], products.y, sums.y);
                } else {
                    v = L(_scaled)(L(_dots_scales)[2u * i + h], products.x + products.y, sums.x + sums.y);
                }
                acc[first + TILE_M * n + i / 4u][i % 4u] += dots_scale[b] * v;
            }
        }
    }
}
