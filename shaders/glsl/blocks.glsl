// Blocks of quantized types as the host has them, for one operand; operand.glsl includes it for encoded operands of shaders compiled with BLOCKS.
//
// A row of the storage is the bytes of its blocks, one behind the other from the row's first texel on: a slot (x, y) is the
// block at byte x * _block_bytes of row y. Whatever the type, four elements are four bytes, `_block_quants`, less what stands for
// zero, `blocks_zero`, times the scale and plus the minimum that sixteen elements share, `_block_scale`; a part is sixteen elements.
//
// Where a type keeps what a quad needs, and what is made of it, are functions of numbers alone; an operand fetches in between.
// Compilers inline all of it wherever a quad is loaded, so that fetches are written once for all types.

#ifndef BLOCKS_COMMON
#define BLOCKS_COMMON

#include "uneven.glsl"

const uint BLOCKS_NIBBLES = 0x0F0F0F0Fu;
const uint BLOCKS_PAIRS = 0x03030303u;
const uint BLOCKS_BITS = 0x01010101u;

// Twice the sixteen numbers of a float of four bits, as signed bytes.
const uvec4 BLOCKS_FP4 = uvec4(0x03020100u, 0x0C080604u, 0xFDFEFF00u, 0xF4F8FAFCu);

// Bit k of four becomes the lowest of byte k.
uint blocks_spread(uint bits) {
    return (bits & 1u) | (bits & 2u) << 7 | (bits & 4u) << 14 | (bits & 8u) << 21;
}

// The entries of a table of signed bytes that four nibbles, one in each byte, are the numbers of; 128 more.
uint blocks_look_up(uvec4 table, uint nibbles) {
    uint found = 0u;
    for (uint k = 0u; k < 4u; k++) {
        uint n = (nibbles >> (8u * k)) & 0xFu;
        found |= ((table[n / 4u] >> (8u * (n % 4u))) & 0xFFu) << (8u * k);
    }
    return found ^ 0x80808080u;
}

// Digits of four fractions in base 3: a byte is 256 times the fraction, `power` 3 to the number of the digit.
uint blocks_digits(uint bytes, uint power) {
    uint digits = 0u;
    for (uint k = 0u; k < 4u; k++) {
        uint rest = ((bytes >> (8u * k)) * power) & 0xFFu;
        digits |= ((rest * 3u) >> 8) << (8u * k);
    }
    return digits;
}

uint blocks_power_of_3(uint n) {
    return n == 0u ? 1u : (n == 1u ? 3u : (n == 2u ? 9u : (n == 3u ? 27u : 81u)));
}

// Half of 2 to the exponent of a float, given as its byte.
float blocks_half_power(uint exponent) {
    return uintBitsToFloat(exponent < 2u ? 0x00200000u << exponent : (exponent - 1u) << 23);
}

// Bits of a quant in the first of its two words.
uint blocks_width(uint dtype) {
    switch (dtype) {
        case DTYPE_Q2_K: case DTYPE_Q3_K: case DTYPE_TQ2_0: return 2u;
        case DTYPE_TQ1_0: return 8u;
        default: return 4u;
    }
}

// Byte of the first word of quad q, and the number of its field in each byte, lowest bits first. Blocks of 32 have two runs of
// 16 elements in the same bytes; those of 256 have runs of 32, two or four in 32 bytes, or (Q6_K) two by two in 64 bytes.
uvec2 blocks_low(uint dtype, uint q) {
    switch (dtype) {
        case DTYPE_Q5_0: return uvec2(6u + 4u * (q % 4u), q / 4u);
        case DTYPE_Q5_1: return uvec2(8u + 4u * (q % 4u), q / 4u);
        case DTYPE_MXFP4: return uvec2(1u + 4u * (q % 4u), q / 4u);
        case DTYPE_Q2_K: return uvec2(16u + 32u * (q / 32u) + 4u * (q % 8u), q / 8u % 4u);
        case DTYPE_Q3_K: return uvec2(32u + 32u * (q / 32u) + 4u * (q % 8u), q / 8u % 4u);
        case DTYPE_Q4_K: return uvec2(16u + 32u * (q / 16u) + 4u * (q % 8u), q / 8u % 2u);
        case DTYPE_Q5_K: return uvec2(48u + 32u * (q / 16u) + 4u * (q % 8u), q / 8u % 2u);
        case DTYPE_Q6_K: return uvec2(64u * (q / 32u) + 4u * (q % 16u), q / 16u % 2u);
        case DTYPE_IQ4_XS: return uvec2(8u + 16u * (q / 8u) + 4u * (q % 4u), q / 4u % 2u);
        // 32 bytes of five elements, 16 bytes of five, 4 bytes of four; a field is a digit.
        case DTYPE_TQ1_0:
            return q < 40u ? uvec2(4u * (q % 8u), q / 8u)
                           : (q < 60u ? uvec2(32u + 4u * (q % 4u), (q - 40u) / 4u) : uvec2(48u, q - 60u));
        case DTYPE_TQ2_0: return uvec2(32u * (q / 32u) + 4u * (q % 8u), q / 8u % 4u);
        default: return uvec2(2u + 4u * (q % 4u), q / 4u);
    }
}

bool blocks_have_high(uint dtype) {
    return dtype == DTYPE_Q5_0 || dtype == DTYPE_Q5_1 || dtype == DTYPE_Q3_K || dtype == DTYPE_Q5_K || dtype == DTYPE_Q6_K;
}

// Byte of the second word of quad q, whose bits lie above those of the first, and how far it is shifted.
uvec2 blocks_high(uint dtype, uint q) {
    switch (dtype) {
        case DTYPE_Q5_0: return uvec2(2u + q / 2u, 4u * (q % 2u));
        case DTYPE_Q5_1: return uvec2(4u, 4u * q);
        case DTYPE_Q3_K: return uvec2(4u * (q % 8u), q / 8u);
        case DTYPE_Q5_K: return uvec2(16u + 4u * (q % 8u), q / 8u);
        default: return uvec2(128u + 32u * (q / 32u) + 4u * (q % 8u), 2u * (q / 8u % 4u));
    }
}

// Four bytes of the two words; `field` is that of the first, the second is shifted.
uint blocks_quants(uint dtype, uint low, uint field, uint high) {
    uint width = blocks_width(dtype);
    uint quants = (low >> (width * field)) & (width == 2u ? BLOCKS_PAIRS : BLOCKS_NIBBLES);
    switch (dtype) {
        case DTYPE_Q5_0: case DTYPE_Q5_1: return quants | blocks_spread(high) << 4;
        case DTYPE_IQ4_NL: case DTYPE_IQ4_XS: return blocks_look_up(UNEVEN, quants);
        case DTYPE_MXFP4: return blocks_look_up(BLOCKS_FP4, quants);
        case DTYPE_Q3_K: return quants | (high & BLOCKS_BITS) << 2;
        case DTYPE_Q5_K: return quants | (high & BLOCKS_BITS) << 4;
        case DTYPE_Q6_K: return quants | (high & BLOCKS_PAIRS) << 4;
        case DTYPE_TQ1_0: return blocks_digits(low, blocks_power_of_3(field));
        default: return quants;
    }
}

// The byte that stands for zero.
float blocks_zero(uint dtype) {
    switch (dtype) {
        case DTYPE_Q5_1: case DTYPE_Q2_K: case DTYPE_Q4_K: case DTYPE_Q5_K: return 0.0;
        case DTYPE_TQ1_0: case DTYPE_TQ2_0: return 1.0;
        case DTYPE_Q3_K: return 4.0;
        case DTYPE_Q5_0: return 16.0;
        case DTYPE_Q6_K: return 32.0;
        case DTYPE_IQ4_NL: case DTYPE_IQ4_XS: case DTYPE_MXFP4: return 128.0;
        default: return 8.0;
    }
}

// Bytes that a part has of its own.
uint blocks_scale_bytes(uint dtype) {
    switch (dtype) {
        case DTYPE_Q2_K: case DTYPE_Q6_K: return 1u;
        case DTYPE_Q3_K: case DTYPE_IQ4_XS: return 2u;
        default: return 0u;
    }
}

// Where they are, after the scale of the block, with its minimum where it has one.
uvec3 blocks_scales(uint dtype, uint part) {
    switch (dtype) {
        case DTYPE_Q2_K: return uvec3(80u, part, 0u);
        case DTYPE_Q3_K: return uvec3(108u, 96u + part % 8u, 104u + part % 4u);
        case DTYPE_Q6_K: return uvec3(208u, 192u + part, 0u);
        case DTYPE_IQ4_XS: return uvec3(0u, 4u + part / 4u, 2u + part / 8u);
        case DTYPE_TQ1_0: return uvec3(52u, 0u, 0u);
        case DTYPE_TQ2_0: return uvec3(64u, 0u, 0u);
        default: return uvec3(0u);
    }
}

// Scale and minimum of a part, of what is from these bytes on.
vec2 blocks_scale(uint dtype, uint part, uint whole, uint first, uint second) {
    vec2 dm = unpackHalf2x16(whole);
    switch (dtype) {
        case DTYPE_Q5_1: return dm;
        case DTYPE_MXFP4: return vec2(blocks_half_power(whole & 0xFFu), 0.0);
        case DTYPE_Q2_K: return dm * vec2(first & 15u, -float(first >> 4 & 15u));
        case DTYPE_Q3_K: {
            uint bits = (first >> (4u * (part / 8u)) & 15u) | (second >> (2u * (part / 4u)) & 3u) << 4;
            return vec2(dm.x * (float(bits) - 32.0), 0.0);
        }
        case DTYPE_Q6_K: return vec2(dm.x * float(bitfieldExtract(int(first), 0, 8)), 0.0);
        case DTYPE_IQ4_XS: {
            uint bits = (first >> (4u * (part / 2u % 2u)) & 15u) | (second >> (2u * (part / 2u % 4u)) & 3u) << 4;
            return vec2(dm.x * (float(bits) - 32.0), 0.0);
        }
        default: return vec2(dm.x, 0.0);
    }
}

// The same for Q4_K and Q5_K, whose first texel has all of it: scale and minimum of the block, and twelve bytes that hold eight
// scales and eight minima of six bits.
vec2 blocks_scale_of_texel(uint part, uvec4 head) {
    uint j = part / 2u;
    uvec3 bytes = (head.yzw >> (8u * (j % 4u))) & 0xFFu;
    uvec2 bits = j < 4u ? bytes.xy & 63u : uvec2(bytes.z & 15u, bytes.z >> 4) | bytes.xy >> 6 << 4;
    return unpackHalf2x16(head.x) * vec2(bits) * vec2(1.0, -1.0);
}

#endif

// A block's word from a byte on, as far as it goes: whole where the byte is a multiple of 4.
uint NAME(_block_rest)(uvec2 slot, uint at) {
    uint byte = slot.x * NAME(_block_bytes) + at;
    uvec4 texel = NAME(_fetch)(uvec2(byte / 16u, slot.y));
    return texel[byte / 4u % 4u] >> (8u * (byte % 4u));
}

// Four bytes of a block; blocks of whole words have their words at whole words.
uint NAME(_block_word)(uvec2 slot, uint at) {
    uint byte = slot.x * NAME(_block_bytes) + at;
    uint word = byte / 4u;
    uvec4 texel = NAME(_fetch)(uvec2(word / 4u, slot.y));
    uint low = texel[word % 4u];
    uint shift = 8u * (byte % 4u);
    if (NAME(_block_bytes) % 4u == 0u || shift == 0u) {
        return low;
    }
    uint high = word % 4u < 3u ? texel[(word + 1u) % 4u] : NAME(_fetch)(uvec2(word / 4u + 1u, slot.y)).x;
    return low >> shift | high << (32u - shift);
}

// Scale and minimum of a part.
vec2 NAME(_block_scale)(uvec2 slot, uint part) {
    if (NAME(_dtype) == DTYPE_Q4_K || NAME(_dtype) == DTYPE_Q5_K) {
        uint texels = NAME(_block_bytes) / 16u;
        return blocks_scale_of_texel(part, NAME(_fetch)(uvec2(slot.x * texels, slot.y)));
    }
    uvec3 at = blocks_scales(NAME(_dtype), part);
    uint whole = NAME(_block_rest)(slot, at.x);
    uint first = blocks_scale_bytes(NAME(_dtype)) > 0u ? NAME(_block_rest)(slot, at.y) : 0u;
    uint second = blocks_scale_bytes(NAME(_dtype)) > 1u ? NAME(_block_rest)(slot, at.z) : 0u;
    return blocks_scale(NAME(_dtype), part, whole, first, second);
}

// Quad q of a block as four bytes.
uint NAME(_block_quants)(uvec2 slot, uint q) {
    uvec2 low = blocks_low(NAME(_dtype), q);
    uint high = 0u;
    if (blocks_have_high(NAME(_dtype))) {
        uvec2 at = blocks_high(NAME(_dtype), q);
        high = NAME(_block_word)(slot, at.x) >> at.y;
    }
    return blocks_quants(NAME(_dtype), NAME(_block_word)(slot, low.x), low.y, high);
}

// Quad q of a block, given the scale of its part.
vec4 NAME(_block_quad)(uvec2 slot, uint q, vec2 scale) {
    return scale.x * (operand_unsigned_bytes(NAME(_block_quants)(slot, q)) - blocks_zero(NAME(_dtype))) + scale.y;
}
