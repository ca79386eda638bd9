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

#include "gemm_dots_left.glsl"
#ifdef TWIN
#undef LEFT
#define LEFT A2
#include "gemm_dots_left.glsl"
#undef LEFT
#define LEFT A
#endif

// Adds part number `part` of `parts` of k, see gemm_direct.glsl.
void L(_product)(uint m4, uint n0, uint i2, uint i3, uint part, uint parts) {
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        L(_aim)(q, m4 + q * LANES_M, i2, i3);
#ifdef TWIN
        A2_aim(q, m4 + q * LANES_M, i2, i3);
#endif
    }
    R(_aim)(n0, i2, i3);
    dots_turn = lane_k % 8u;

    const uint blocks = L(_blocks)();
    const uint steps = L(_k) / (32u * blocks);
    const uint steps_of_part = (steps + parts - 1u) / parts;
    uint end = min((part + 1u) * steps_of_part, steps);
    for (uint s = part * steps_of_part + lane_k; s < end; s += LANES_K) {
        L(_open_rows)(s);
#ifdef TWIN
        A2_open_rows(s);
#endif
        [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
            [[unroll]] for (uint h = 0u; h < blocks; h++) {
                R(_round)(h, n, 8u * (blocks * s + h));
            }
        }
        L(_add)(0u);
#ifdef TWIN
        A2_add(TILE_M * TILE_N);
#endif
    }
}
