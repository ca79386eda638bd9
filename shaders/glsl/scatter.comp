// Writes A (part) to elements of D that its strides name, which need not be whole texels: D's buffer is written word by
// word, halves of a word by atomics, for their neighbours may be another invocation's. With ROWS, ids (B) name the rows.
// One invocation per four elements of A, or per block of a quantized one, whose dtype D shares.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#ifdef BY_ROWS
#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"
#define SLOT 2
#else
#define SLOT 1
#endif
#define OPERAND D
#define ACCESS UPDATE
#define WORDS
#include "operand.glsl"

layout(constant_id = 16) const uint STRIDE_0 = 1u;
layout(constant_id = 17) const uint STRIDE_1 = 0u;
layout(constant_id = 18) const uint STRIDE_2 = 0u;
layout(constant_id = 19) const uint STRIDE_3 = 0u;
layout(constant_id = 20) const uint OFFSET = 0u;
// Add to what D holds.
layout(constant_id = 21) const uint ADD = 0u;
// Rows that an id can name.
layout(constant_id = 22) const uint ROWS = 1u;

// Index in D of the element with this number.
uvec4 index_of(uint number) {
    uint above = number / D_n0;
    return uvec4(number % D_n0, above % D_n1, above / D_n1 % D_n2, above / (D_n1 * D_n2));
}

void set_block(uvec2 from, uvec2 to) {
#ifdef BLOCKS
    if (D_in_blocks()) {
        uint size = A_block_bytes;
        for (uint k = 0u; k < size; k++) {
            D_replace_byte(to.y, to.x * size + k, A_block_rest(from, k) & 0xFFu);
        }
        return;
    }
#endif
    for (uint q = 0u; q < D_quants; q++) {
        uvec4 quants = A_fetch(uvec2(from.x + q, from.y));
        for (uint k = 0u; k < 4u; k++) {
            D_replace(uvec2(to.x + q, to.y), k, quants[k]);
        }
    }
    uint d = to.x % (4u * D_quants + 1u);
    D_replace(uvec2(to.x - d + 4u * D_quants, to.y), d / D_quants, A_scale_word(from));
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    uint row = p.i1;
#ifdef BY_ROWS
    row = uint(B_loadi(p.i1, p.i2 % B_n1, p.i3 % B_n2, 0u));
    if (row >= ROWS) {
        return;
    }
#endif
    uint first = OFFSET + row * STRIDE_1 + p.i2 * STRIDE_2 + p.i3 * STRIDE_3;
    if (D_in_tiles() || D_in_blocks()) {
        uvec4 i = index_of(first + D_lanes * p.c);
        set_block(A_texel_of(D_lanes * p.c, p.i1, p.i2, p.i3), D_texel_of(i.x, i.y, i.z, i.w));
        return;
    }
    for (uint i0 = 4u * p.c; i0 < min(4u * p.c + 4u, A_n0); i0++) {
        uvec4 i = index_of(first + i0 * STRIDE_0);
        uvec2 xy = D_texel_of(i.x, i.y, i.z, i.w);
        uint lane = D_lane(i.x, i.y, i.z, i.w);
        if (D_dtype == DTYPE_I32) {
            D_replace(xy, lane, uint(A_loadi(i0, p.i1, p.i2, p.i3)));
            continue;
        }
        if (D_dtype == DTYPE_I64) {
            uvec2 words = A_load_words(i0, p.i1, p.i2, p.i3);
            D_replace(xy, 2u * lane, words.x);
            D_replace(xy, 2u * lane + 1u, words.y);
            continue;
        }
        float v = A_load(i0, p.i1, p.i2, p.i3);
        if (D_dtype == DTYPE_F16) {
            D_replace_half(xy, lane, operand_half_bits(v));
        } else if (D_dtype == DTYPE_BF16) {
            D_replace_half(xy, lane, operand_pack_upper(vec2(v, 0.0)));
        } else {
            D_replace(xy, lane, floatBitsToUint(ADD == 0u ? v : D_load(i.x, i.y, i.z, i.w) + v));
        }
    }
}
