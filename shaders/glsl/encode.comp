// Encodes numbers in blocks of 32, the dtype of D, as ggml's reference quantizes a row. One invocation per texel of a row of D,
// or of a row of its tiles (BOX_1 counts those): whoever writes a part of a block encodes all of it, so that no two meet in a word.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "uneven.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

// A has another shape: the element with the same number in linear order is meant.
layout(constant_id = 16) const uint RENUMBER = 0u;

// Quads of a block.
const uint QUADS = 8u;

// Magnitudes below this are none to IQ4_NL.
const float LEAST = 1e-15;

// The block at hand: its numbers, what becomes of each, and two halves: the scale, and above it the minimum.
vec4 numbers[QUADS];
uvec4 quants[QUADS];
uint scales;

// Reads block b of a row of D.
void read_numbers(uint b, uint i1, uint i2, uint i3) {
    for (uint q = 0u; q < QUADS; q++) {
        uint c4 = QUADS * b + q;
        if (RENUMBER == 0u) {
            numbers[q] = A_load4(c4, i1, i2, i3);
            continue;
        }
        for (uint k = 0u; k < 4u; k++) {
            uint number = 4u * c4 + k + D_n0 * (i1 + D_n1 * (i2 + D_n2 * i3));
            uint above = number / A_n0;
            numbers[q][k] = A_load(number % A_n0, above % A_n1, above / A_n1 % A_n2, above / (A_n1 * A_n2));
        }
    }
}

// The number of the greatest magnitude, the first of them.
float extreme() {
    float found = 0.0;
    for (uint q = 0u; q < QUADS; q++) {
        for (uint k = 0u; k < 4u; k++) {
            if (abs(found) < abs(numbers[q][k])) {
                found = numbers[q][k];
            }
        }
    }
    return found;
}

// Upper half of the bits of a float; what is left has the lower half.
float upper(float x) {
    precise float c = 4097.0 * x;
    precise float h = c - (c - x);
    return h;
}

// The quotient rounded to nearest: the device's own may be 2.5 ulp off, which moves numbers that lie between two quants. Its error
// is known from the product with the divisor, taken in halves, which are exact.
float quotient(float a, float b) {
    float q = a / b;
    float qh = upper(q);
    float bh = upper(b);
    precise float ql = q - qh;
    precise float bl = b - bh;
    precise float p = q * b;
    precise float lost = ((qh * bh - p) + qh * bl + ql * bh) + ql * bl;
    precise float rest = (a - p) - lost;
    precise float better = q + rest / b;
    return isnan(better) || isinf(better) ? q : better;
}

float inverse(float d) {
    precise float inverted = d == 0.0 ? 0.0 : quotient(1.0, d);
    return inverted;
}

// Whole signed bytes. Halves go to the even one, as processors round and ggml's kernels for them do; its reference rounds them away
// from zero.
void encode_bytes() {
    float most = abs(extreme());
    precise float d = quotient(most, 127.0);
    precise float factor = most == 0.0 ? 0.0 : quotient(127.0, most);
    scales = operand_half_bits(d);
    for (uint q = 0u; q < QUADS; q++) {
        precise vec4 v = numbers[q] * factor;
        quants[q] = uvec4(ivec4(roundEven(v))) & 0xFFu;
    }
}

// From 0 to 2 zero - 1, with a scale by which the extreme is 0 and `zero` is 0.
void encode_around(float zero) {
    precise float d = quotient(extreme(), -zero);
    scales = operand_half_bits(d);
    float factor = inverse(d);
    for (uint q = 0u; q < QUADS; q++) {
        precise vec4 v = numbers[q] * factor + (zero + 0.5);
        quants[q] = uvec4(clamp(v, vec4(0.0), vec4(2.0 * zero - 1.0)));
    }
}

// From the minimum, which is 0, up to the maximum.
void encode_above(float most) {
    vec4 low = numbers[0];
    vec4 high = numbers[0];
    for (uint q = 1u; q < QUADS; q++) {
        low = min(low, numbers[q]);
        high = max(high, numbers[q]);
    }
    float minimum = min(min(low.x, low.y), min(low.z, low.w));
    precise float d = quotient(max(max(high.x, high.y), max(high.z, high.w)) - minimum, most);
    scales = operand_pack_halves(vec2(d, minimum));
    float factor = inverse(d);
    for (uint q = 0u; q < QUADS; q++) {
        precise vec4 v = (numbers[q] - minimum) * factor + 0.5;
        quants[q] = uvec4(clamp(v, vec4(0.0), vec4(most)));
    }
}

float uneven(uint n) {
    return float(bitfieldExtract(int(UNEVEN[n / 4u]), int(8u * (n % 4u)), 8));
}

// Number of the entry of UNEVEN that is nearest to x; of two as near, the greater.
uint nearest(float x) {
    uint above = 1u;
    while (above < 15u && x >= uneven(above)) {
        above++;
    }
    precise float over = x - uneven(above - 1u);
    precise float under = uneven(above) - x;
    return over < under ? above - 1u : above;
}

// Entries of a table, as the extreme asks for them; then the scale that fits them best where great numbers weigh more.
void encode_uneven() {
    scales = 0u;
    float greatest = extreme();
    bool none = abs(greatest) < LEAST;
    precise float factor = none ? 0.0 : quotient(1.0, quotient(greatest, uneven(0u)));
    precise float with_x = 0.0;
    precise float with_q = 0.0;
    for (uint q = 0u; q < QUADS; q++) {
        for (uint k = 0u; k < 4u; k++) {
            float x = numbers[q][k];
            quants[q][k] = none ? 0u : nearest(factor * x);
            float entry = uneven(quants[q][k]);
            precise float weighted = x * x * entry;
            with_x += weighted * x;
            with_q += weighted * entry;
        }
    }
    precise float d = none || with_q <= 0.0 ? 0.0 : quotient(with_x, with_q);
    scales = operand_half_bits(d);
}

void encode(uint b, uint i1, uint i2, uint i3) {
    read_numbers(b, i1, i2, i3);
    switch (D_dtype) {
        case DTYPE_Q8_0: encode_bytes(); break;
        case DTYPE_Q4_0: encode_around(8.0); break;
        case DTYPE_Q5_0: encode_around(16.0); break;
        case DTYPE_Q4_1: encode_above(15.0); break;
        case DTYPE_Q5_1: encode_above(31.0); break;
        default: encode_uneven(); break;
    }
}

uint in_bytes(uvec4 v) {
    return v.x | v.y << 8 | v.z << 16 | v.w << 24;
}

// Word w of the lower four bits: the first half of the block in the low nibbles, the second in the high ones.
uint nibbles(uint w) {
    return in_bytes(quants[w] & 0xFu) | in_bytes(quants[w + 4u] & 0xFu) << 4;
}

// The fifth bits of all quants.
uint fifth_bits() {
    uint bits = 0u;
    for (uint q = 0u; q < QUADS; q++) {
        uvec4 b = quants[q] >> 4 & 1u;
        bits |= (b.x | b.y << 1 | b.z << 2 | b.w << 3) << (4u * q);
    }
    return bits;
}

// A block as the host has it: bytes of scales, words of fifth bits, four words of nibbles.
const uint SCALE_BYTES = D_dtype == DTYPE_Q5_1 ? 4u : 2u;
const uint FIFTHS = D_dtype == DTYPE_Q5_0 || D_dtype == DTYPE_Q5_1 ? 1u : 0u;

uint block_bytes() {
    return SCALE_BYTES + 4u * (FIFTHS + 4u);
}

// The bytes of a row that are texel c.
uvec4 bytes(uint c, uint i1, uint i2, uint i3) {
    uint size = block_bytes();
    uint end = D_n0 / D_lanes * size;
    uvec4 texel = uvec4(0u);
    for (uint at = 16u * c; at < min(16u * c + 16u, end); at++) {
        uint k = at % size;
        if (k == 0u || at == 16u * c) {
            encode(at / size, i1, i2, i3);
        }
        uint w = (k - SCALE_BYTES) / 4u;
        uint word = k < SCALE_BYTES ? scales : (w < FIFTHS ? fifth_bits() : nibbles(w - FIFTHS));
        uint byte = word >> (8u * (k < SCALE_BYTES ? k : (k - SCALE_BYTES) % 4u)) & 0xFFu;
        texel[at / 4u % 4u] |= byte << (8u * (at % 4u));
    }
    return texel;
}

// Texel c of a row of tiles: quants of one of four rows, or the scales of all of them.
uvec4 tiled(uint c, uint tile, uint i2, uint i3) {
    uint width = 4u * D_quants + 1u;
    uint in_tile = c % width;
    uvec4 texel = uvec4(0u);
    for (uint row = 0u; row < 4u; row++) {
        bool all = in_tile == 4u * D_quants;
        if (!(all || in_tile / D_quants == row) || !D_inside(4u * tile + row, i2, i3)) {
            continue;
        }
        encode(c / width, 4u * tile + row, i2, i3);
        if (all) {
            texel[row] = scales;
            continue;
        }
        for (uint w = 0u; w < 4u; w++) {
            texel[w] = D_dtype == DTYPE_Q8_0 ? in_bytes(quants[4u * (in_tile % D_quants) + w]) : nibbles(w);
        }
    }
    return texel;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    if (D_in_tiles()) {
        uvec2 first = D_texel(0u, 4u * p.i1, p.i2, p.i3);
        D_put(first + uvec2(p.c, 0u), tiled(p.c, p.i1, p.i2, p.i3));
    } else {
        // Columns of D count blocks, and rows begin with a texel.
        uvec2 first = D_texel(0u, p.i1, p.i2, p.i3);
        uvec4 texel = D_inside(p.i1, p.i2, p.i3) ? bytes(p.c, p.i1, p.i2, p.i3) : uvec4(0u);
        D_put(uvec2(first.x * block_bytes() / 16u + p.c, first.y), texel);
    }
}
