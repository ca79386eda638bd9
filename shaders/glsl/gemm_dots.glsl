// The product of quantized weights in whole numbers: gemm_product.glsl includes it in place of gemm_direct.glsl.
//
// The right factor is rounded as it is read: of every 32 k of a column, to signed bytes of one scale, a 127th of the greatest magnitude.
// Quants are bytes, four to a word, so that a product of four of each is one instruction; scales and minima come in once for 32 k, or
// for 16 where a type has as many. Every invocation rounds what it reads itself, once for all of its rows.
//
// Both factors run along K, the left one in blocks. A step is a block of 32 k, of Q4_K the two that share 32 bytes.

#ifndef DOTS_COMMON
#define DOTS_COMMON

// OpSDot of four signed bytes in a word each; the format is PackedVectorFormat4x8Bit.
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019], id = 4450)
int dots_packed(uint a, uint b, spirv_literal int format);

int dots_of(uint a, uint b) {
    return dots_packed(a, b, 0);
}

// What is added to a number up to 2^22 in magnitude to round it: the lowest bits of the sum are the whole number's. The bits of four
// such sums, each with 128 more, make a word of bytes and this.
const float DOTS_WHOLE = 12582912.0;
const uint DOTS_REST = 0x8B400000u;
// A bit that no such sum has set, and every infinity or NaN has.
const uint DOTS_ODD = 0x20000000u;
// Least magnitude whose scale is a normal number, 2^-119. What is smaller is rounded to zero.
const float DOTS_LEAST = 1.504632769e-36;

// Blocks of 32 k of a step, at most.
const uint DOTS_BLOCKS = 2u;
// Texels of a row's quants in a step, at most.
const uint DOTS_TEXELS = 2u;

// The right factor: column n of block h has eight words, a scale, and the sums of its first and its last sixteen bytes.
uint dots_words[8u * DOTS_BLOCKS * TILE_N];
float dots_scale[DOTS_BLOCKS * TILE_N];
ivec2 dots_sums[DOTS_BLOCKS * TILE_N];

// Quad number c of a block is fetched as number c ^ dots_turn: invocations side by side read blocks side by side, and would all meet in
// one part of a cache's banks.
uint dots_turn = 0u;

// Four numbers, and 128 more of each, as a word of bytes.
uint dots_word(uvec4 bits) {
    uint word = bits.x + (bits.y << 8) + (bits.z << 16) + (bits.w << 24);
    return (word - DOTS_REST) ^ 0x80808080u;
}

// What stands for numbers where one of the block is infinite: its sign, and zero for others.
uint dots_signs(vec4 x) {
    uvec4 bits = floatBitsToUint(x);
    uvec4 infinite = uvec4(equal(bits & 0x7FFFFFFFu, uvec4(0x7F800000u)));
    uvec4 signs = (1u - 2u * (bits >> 31)) * infinite & 0xFFu;
    return signs.x | signs.y << 8 | signs.z << 16 | signs.w << 24;
}

// The sixteen bytes that follow the half at byte `at` of two texels, which is even; the half is the lower one of `half_before`.
uvec4 dots_run(uvec4 texels[2], uint at, out uint half_before) {
    uvec4 low = texels[0];
    uvec2 high = texels[1].xy;
    if ((at & 8u) != 0u) {
        low = uvec4(low.zw, high);
        high = texels[1].zw;
    }
    if ((at & 4u) != 0u) {
        low = uvec4(low.yzw, high.x);
        high.x = high.y;
    }
    uvec4 next = uvec4(low.yzw, high.x);
    bool second = (at & 2u) != 0u;
    half_before = second ? low.x >> 16 : low.x;
    return mix(low >> 16 | next << 16, next, bvec4(second));
}

#endif

// Quants of the rows and scales of their blocks, of parts of sixteen where a type has such.
uvec4 L(_dots_open)[4u * QUADS_A * DOTS_TEXELS];
vec2 L(_dots_scales)[4u * QUADS_A * 2u];

// Rounds column n of the block from quad k4 on, as block h.
void R(_round)(uint h, uint n, uint k4) {
    vec4 most = vec4(0.0);
    [[unroll]] for (uint c = 0u; c < 8u; c++) {
        R(_fill_texel)(c, n, k4 + (c ^ dots_turn), 0u);
        most = max(most, abs(R(_fragment)[c * TEXELS_N + n]));
    }
    float greatest = max(max(most.x, most.y), max(most.z, most.w));
    float scale = greatest < DOTS_LEAST ? 0.0 : greatest * (1.0 / 127.0);
    float inverse = greatest < DOTS_LEAST ? 0.0 : 127.0 / greatest;
    uint word[8];
    uint seen = 0u;
    [[unroll]] for (uint c = 0u; c < 8u; c++) {
        uvec4 bits = floatBitsToUint(R(_fragment)[c * TEXELS_N + n] * inverse + (DOTS_WHOLE + 128.0));
        seen |= bits.x | bits.y | bits.z | bits.w;
        word[c] = dots_word(bits);
    }
    if ((seen & DOTS_ODD) != 0u) {
        // Infinities give infinities of the sign that their sum has, or NaN where it is zero; a NaN gives NaN.
        bool defined = true;
        [[unroll]] for (uint c = 0u; c < 8u; c++) {
            vec4 x = R(_fragment)[c * TEXELS_N + n];
            word[c] = dots_signs(x);
            defined = defined && all(lessThanEqual(floatBitsToUint(x) & 0x7FFFFFFFu, uvec4(0x7F800000u)));
        }
        scale = uintBitsToFloat(defined ? 0x7F800000u : 0x7FC00000u);
    }
    [[unroll]] for (uint bit = 0u; bit < 3u; bit++) {
        uint other[8];
        [[unroll]] for (uint c = 0u; c < 8u; c++) {
            other[c] = (dots_turn >> bit & 1u) != 0u ? word[c ^ (1u << bit)] : word[c];
        }
        word = other;
    }
    uint i = DOTS_BLOCKS * n + h;
    ivec2 sums = ivec2(0);
    [[unroll]] for (uint c = 0u; c < 8u; c++) {
        dots_words[8u * i + c] = word[c];
        sums[c / 4u] += dots_of(word[c], 0x01010101u);
    }
    dots_sums[i] = sums;
    dots_scale[i] = scale;
}

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

// Adds part number `part` of `parts` of k, see gemm_direct.glsl.
void L(_product)(uint m4, uint n0, uint i2, uint i3, uint part, uint parts) {
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        L(_aim)(q, m4 + q * LANES_M, i2, i3);
    }
    R(_aim)(n0, i2, i3);
    dots_turn = lane_k % 8u;

    const uint blocks = L(_blocks)();
    const uint steps = L(_k) / (32u * blocks);
    const uint steps_of_part = (steps + parts - 1u) / parts;
    uint end = min((part + 1u) * steps_of_part, steps);
    for (uint s = part * steps_of_part + lane_k; s < end; s += LANES_K) {
        [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
            uvec4 scales = uvec4(0u);
            if (L(_in_tiles)()) {
                scales = L(_fetch_scales)(L(_starts)[4u * q] + L(_along)(s));
            }
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                L(_open_row)(q, r, s, scales);
            }
        }
        [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
            [[unroll]] for (uint h = 0u; h < blocks; h++) {
                R(_round)(h, n, 8u * (blocks * s + h));
            }
        }
        [[unroll]] for (uint i = 0u; i < 4u * TILE_M; i++) {
            [[unroll]] for (uint h = 0u; h < blocks; h++) {
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
                    acc[TILE_M * n + i / 4u][i % 4u] += dots_scale[b] * v;
                }
            }
        }
    }
}
