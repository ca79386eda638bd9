// One operand of a kernel: its two bindings, its coordinate maps and the loads and stores through them.
//
// Include once per operand, after
//     #define OPERAND A       prefix of every name declared here: A_load4, A_n0, ..
//     #define SLOT 0          operand number p: storage buffer at binding 2p, storage image at 2p + 1
//     #define ACCESS READ     READ, WRITE or UPDATE
// and, where the operand has one dtype in any case,
//     #define DTYPE DTYPE_F32
// or, where it may hold weights,
//     #define ENCODED
// which are undefined again at the end. Encoded operands decode blocks as the host has them (blocks.glsl) in the variants of
// a shader that are compiled with BLOCKS; constant 47 is theirs alone. With WORDS defined the buffer is one of words, which can be replaced one by one
// (replace); such an operand is never an image.
//
// Vocabulary. A texel is 16 bytes (uvec4). A slot is what one step of a coordinate map reaches: a texel of a plain
// type, one block of a quantized one. A quad is four consecutive elements along view axis 0, number i0 / 4.
//
// Maps are specialization constants 64 + 48 p + field (see docs/architecture.md): after specialization a constant radix
// turns its divisions into shifts or multiplications, and the branches on storage and dtype disappear.

#ifndef OPERAND_COMMON
#define OPERAND_COMMON

#define OPERAND_PASTE2(a, b) a##b
#define OPERAND_PASTE(a, b) OPERAND_PASTE2(a, b)
#define NAME(suffix) OPERAND_PASTE(OPERAND, suffix)

#define READ 0
#define WRITE 1
#define UPDATE 2

const uint STORAGE_BUFFER = 0u;

// Lane axis of a view whose columns are numbers of elements: any strides. Kernels reach its elements by _load, _load4,
// _loadi, _load4i and _repeat4 alone.
const uint FLAT = 5u;

const uint DTYPE_F32 = 0u;
const uint DTYPE_F16 = 1u;
const uint DTYPE_I32 = 2u;
const uint DTYPE_BF16 = 3u;
const uint DTYPE_I64 = 4u;
// Blocks of 32 in tiles of four slots.
const uint DTYPE_Q8_0 = 8u;
const uint DTYPE_Q4_1 = 9u;
// Blocks of 32 as the host has them.
const uint DTYPE_Q4_0 = 16u;
const uint DTYPE_Q5_0 = 17u;
const uint DTYPE_Q5_1 = 18u;
const uint DTYPE_IQ4_NL = 19u;
const uint DTYPE_MXFP4 = 20u;
// Blocks of 256 as the host has them.
const uint DTYPE_Q2_K = 32u;
const uint DTYPE_Q3_K = 33u;
const uint DTYPE_Q4_K = 34u;
const uint DTYPE_Q5_K = 35u;
const uint DTYPE_Q6_K = 36u;
const uint DTYPE_IQ4_XS = 37u;
const uint DTYPE_TQ1_0 = 38u;
const uint DTYPE_TQ2_0 = 39u;

// Signed byte k of a word, k = 0..3 in the four components.
vec4 operand_bytes(uint word) {
    return vec4(bitfieldExtract(int(word), 0, 8), bitfieldExtract(int(word), 8, 8), bitfieldExtract(int(word), 16, 8),
                bitfieldExtract(int(word), 24, 8));
}

// Unsigned byte k of a word, likewise.
vec4 operand_unsigned_bytes(uint word) {
    return vec4(word & 0xFFu, (word >> 8) & 0xFFu, (word >> 16) & 0xFFu, word >> 24);
}

// Zeroes the components of quad c4 whose element is not below n.
vec4 operand_mask(uint c4, uint n, vec4 v) {
    return mix(vec4(0.0), v, lessThan(uvec4(4u * c4) + uvec4(0u, 1u, 2u, 3u), uvec4(n)));
}

// Bits of the half nearest to x, ties to even. packHalf2x16 leaves the rounding to the driver.
uint operand_half_bits(float x) {
    uint bits = floatBitsToUint(x);
    uint sign = (bits >> 16) & 0x8000u;
    uint mag = bits & 0x7FFFFFFFu;
    if (mag > 0x7F800000u) {
        return sign | 0x7E00u | ((mag >> 13) & 0x1FFu);
    }
    if (mag >= 0x47800000u) {
        return sign | 0x7C00u;
    }
    if (mag < 0x33000000u) {
        return sign;
    }
    // Below 2^-14 the result is a multiple of 2^-24: the significand is cut by more bits, and carries no exponent.
    bool subnormal = mag < 0x38800000u;
    uint cut = subnormal ? 126u - (mag >> 23) : 13u;
    uint value = subnormal ? (mag & 0x7FFFFFu) | 0x800000u : mag - 0x38000000u;
    uint half_up = (1u << (cut - 1u)) - 1u + ((value >> cut) & 1u);
    return sign | ((value + half_up) >> cut);
}

uint operand_pack_halves(vec2 v) {
    return operand_half_bits(v.x) | (operand_half_bits(v.y) << 16);
}

// Upper halves of two floats, rounded to nearest, ties to even; NaNs stay and are quiet.
uint operand_pack_upper(vec2 v) {
    uvec2 bits = floatBitsToUint(v);
    uvec2 rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
    uvec2 upper = mix(rounded, bits >> 16 | 0x40u, greaterThan(bits & 0x7FFFFFFFu, uvec2(0x7F800000u)));
    return upper.x | upper.y << 16;
}

// With COUNTED, a module for tests of the cost model: every access counts itself in one more buffer, behind the operands'.
// Word p says where the counters of operand p start: one of loads and one of stores for every texel of its storage.
#ifdef COUNTED
layout(set = 0, binding = 16) buffer OperandCounters {
    uint operand_counters[];
};
#define OPERAND_COUNT(xy, store) NAME(_count)(xy, store)
#else
#define OPERAND_COUNT(xy, store)
#endif

#endif

#if ACCESS == READ
#define OPERAND_QUALIFIER readonly
#elif ACCESS == WRITE
#define OPERAND_QUALIFIER writeonly
#else
#define OPERAND_QUALIFIER
#endif

#ifdef WORDS
layout(set = 0, binding = 2 * SLOT) OPERAND_QUALIFIER buffer NAME(_Buffer) {
    uint NAME(_words)[];
};
#else
layout(set = 0, binding = 2 * SLOT) OPERAND_QUALIFIER buffer NAME(_Buffer) {
    uvec4 NAME(_texels)[];
};
#endif
layout(set = 0, binding = 2 * SLOT + 1, rgba32ui) OPERAND_QUALIFIER uniform uimage2D NAME(_image);

#define OPERAND_FIELD(field, name, initial) \
    layout(constant_id = 64 + 48 * SLOT + (field)) const uint NAME(name) = initial
#define OPERAND_AXIS(a, r0, r1, x0, y0, x1, y1, x2, y2) \
    OPERAND_FIELD(14 + 8 * a, r0, 1u); \
    OPERAND_FIELD(15 + 8 * a, r1, 1u); \
    OPERAND_FIELD(16 + 8 * a, x0, 0u); \
    OPERAND_FIELD(17 + 8 * a, y0, 0u); \
    OPERAND_FIELD(18 + 8 * a, x1, 0u); \
    OPERAND_FIELD(19 + 8 * a, y1, 0u); \
    OPERAND_FIELD(20 + 8 * a, x2, 0u); \
    OPERAND_FIELD(21 + 8 * a, y2, 0u)

OPERAND_FIELD(0, _storage, 0u);
#ifdef DTYPE
const uint NAME(_dtype) = DTYPE;
#else
OPERAND_FIELD(1, _dtype, 0u);
#endif
OPERAND_FIELD(2, _pitch, 1u);
// 0..3, 4 when no axis of the view carries a lane digit, or FLAT.
OPERAND_FIELD(3, _lane_axis, 0u);
// Extents, elements.
OPERAND_FIELD(4, _n0, 1u);
OPERAND_FIELD(5, _n1, 1u);
OPERAND_FIELD(6, _n2, 1u);
OPERAND_FIELD(7, _n3, 1u);
// Padded extents, elements.
OPERAND_FIELD(8, _p0, 4u);
OPERAND_FIELD(9, _p1, 1u);
OPERAND_FIELD(10, _p2, 1u);
OPERAND_FIELD(11, _p3, 1u);
OPERAND_FIELD(12, _origin_x, 0u);
OPERAND_FIELD(13, _origin_y, 0u);
OPERAND_AXIS(0, _r00, _r01, _x00, _y00, _x01, _y01, _x02, _y02);
OPERAND_AXIS(1, _r10, _r11, _x10, _y10, _x11, _y11, _x12, _y12);
OPERAND_AXIS(2, _r20, _r21, _x20, _y20, _x21, _y21, _x22, _y22);
OPERAND_AXIS(3, _r30, _r31, _x30, _y30, _x31, _y31, _x32, _y32);
// Lane of every element when no axis carries a lane digit.
OPERAND_FIELD(46, _origin_lane, 0u);

// Elements of a slot along the lane axis, and texels of quants per slot.
const uint NAME(_lanes) =
    NAME(_dtype) >= DTYPE_Q2_K ? 256u
    : (NAME(_dtype) >= DTYPE_Q8_0 ? 32u
       : (NAME(_dtype) == DTYPE_F16 || NAME(_dtype) == DTYPE_BF16 ? 8u : (NAME(_dtype) == DTYPE_I64 ? 2u : 4u)));
const uint NAME(_quants) = NAME(_dtype) == DTYPE_Q8_0 ? 2u : 1u;

#define OPERAND_MOVE(name, r0, r1, x0, y0, x1, y1, x2, y2) \
    uvec2 NAME(name)(uint i) { \
        uint d0 = i % NAME(r0); \
        uint d1 = (i / NAME(r0)) % NAME(r1); \
        uint d2 = i / (NAME(r0) * NAME(r1)); \
        return uvec2(NAME(x0) * d0 + NAME(x1) * d1 + NAME(x2) * d2, NAME(y0) * d0 + NAME(y1) * d1 + NAME(y2) * d2); \
    }

// Displacement in texels of index i of each axis; on the lane axis i counts slots.
OPERAND_MOVE(_move0, _r00, _r01, _x00, _y00, _x01, _y01, _x02, _y02)
OPERAND_MOVE(_move1, _r10, _r11, _x10, _y10, _x11, _y11, _x12, _y12)
OPERAND_MOVE(_move2, _r20, _r21, _x20, _y20, _x21, _y21, _x22, _y22)
OPERAND_MOVE(_move3, _r30, _r31, _x30, _y30, _x31, _y31, _x32, _y32)

// Whether slots are in tiles, and whether they are blocks as the host has them.
bool NAME(_in_tiles)() {
    return NAME(_dtype) == DTYPE_Q8_0 || NAME(_dtype) == DTYPE_Q4_1;
}

bool NAME(_in_blocks)() {
    return NAME(_dtype) >= DTYPE_Q4_0;
}

// First texel of a slot, or column of blocks and row; the index of the lane axis counts slots, the others elements. Of a
// flat view it is the number of an element, as a column.
uvec2 NAME(_texel)(uint s0, uint s1, uint s2, uint s3) {
    return uvec2(NAME(_origin_x), NAME(_origin_y)) + NAME(_move0)(s0) + NAME(_move1)(s1) + NAME(_move2)(s2) +
           NAME(_move3)(s3);
}

#ifdef COUNTED
void NAME(_count)(uvec2 xy, uint store) {
    atomicAdd(operand_counters[operand_counters[SLOT] + 2u * (xy.y * NAME(_pitch) + xy.x) + store], 1u);
}
#endif

#if ACCESS != WRITE

uvec4 NAME(_fetch)(uvec2 xy) {
    OPERAND_COUNT(xy, 0u);
#ifdef WORDS
    uint w = 4u * (xy.y * NAME(_pitch) + xy.x);
    return uvec4(NAME(_words)[w], NAME(_words)[w + 1u], NAME(_words)[w + 2u], NAME(_words)[w + 3u]);
#else
    if (NAME(_storage) == STORAGE_BUFFER) {
        return NAME(_texels)[xy.y * NAME(_pitch) + xy.x];
    }
    return imageLoad(NAME(_image), ivec2(xy));
#endif
}

// Word of scales of the quantized slot whose first texel is xy. A tile is four slots and one scale texel, and tiles start at
// multiples of their width, so that the slot's number in its tile can be read off xy.
uint NAME(_scale_word)(uvec2 xy) {
    uint in_tile = xy.x % (4u * NAME(_quants) + 1u);
    uvec4 words = NAME(_fetch)(uvec2(xy.x - in_tile + 4u * NAME(_quants), xy.y));
    return words[in_tile / NAME(_quants)];
}

// Its scale d and minimum m.
vec2 NAME(_scale)(uvec2 xy) {
    vec2 dm = unpackHalf2x16(NAME(_scale_word)(xy));
    return NAME(_dtype) == DTYPE_Q8_0 ? vec2(dm.x, 0.0) : dm;
}

// Texel of a slot (0 .. quants - 1) that holds its quad q (0 .. lanes / 4 - 1).
uint NAME(_quad_texel)(uint q) {
    return NAME(_dtype) == DTYPE_Q8_0 ? q / 4u : 0u;
}

// Quad q of a slot, from the texel that holds it; dm is the slot's scale, ignored by plain types.
vec4 NAME(_decode)(uvec4 texel, uint q, vec2 dm) {
    if (NAME(_dtype) == DTYPE_F32) {
        return uintBitsToFloat(texel);
    }
    uvec2 pair = q == 0u ? texel.xy : texel.zw;
    if (NAME(_dtype) == DTYPE_F16) {
        return vec4(unpackHalf2x16(pair.x), unpackHalf2x16(pair.y));
    }
    if (NAME(_dtype) == DTYPE_BF16) {
        return uintBitsToFloat(uvec4(pair.x << 16, pair.x & 0xFFFF0000u, pair.y << 16, pair.y & 0xFFFF0000u));
    }
    if (NAME(_dtype) == DTYPE_Q8_0) {
        return dm.x * operand_bytes(texel[q % 4u]);
    }
    if (NAME(_dtype) == DTYPE_Q4_1) {
        return dm.x * operand_unsigned_bytes(texel[q % 4u] >> (4u * (q / 4u)) & 0x0F0F0F0Fu) + dm.y;
    }
    return vec4(ivec4(texel));
}

#if defined(BLOCKS) && defined(ENCODED)
// Bytes of a block.
OPERAND_FIELD(47, _block_bytes, 16u);
#include "blocks.glsl"
#endif

// Quad q of the slot that is at xy.
vec4 NAME(_load_quad)(uvec2 xy, uint q) {
#if defined(BLOCKS) && defined(ENCODED)
    if (NAME(_in_blocks)()) {
        return NAME(_block_quad)(xy, q, NAME(_block_scale)(xy, q / 4u));
    }
#endif
    vec2 dm = NAME(_in_tiles)() ? NAME(_scale)(xy) : vec2(0.0);
    return NAME(_decode)(NAME(_fetch)(uvec2(xy.x + NAME(_quad_texel)(q), xy.y)), q, dm);
}

// Whether quads of axis 0 are quads of a flat view's texels. Step by step: glslang misplaces constants that are derived from
// derived constants.
bool NAME(_flat_quads)() {
    bool along = NAME(_lane_axis) == FLAT;
    along = along && NAME(_r00) == 1u;
    along = along && NAME(_r01) == 1u;
    along = along && NAME(_x02) == 1u;
    uvec3 above = uvec3(NAME(_x10), NAME(_x11), NAME(_x12));
    above |= uvec3(NAME(_x20), NAME(_x21), NAME(_x22));
    above |= uvec3(NAME(_x30), NAME(_x31), NAME(_x32));
    return along && (NAME(_origin_x) | above.x | above.y | above.z) % 4u == 0u;
}

// Texel of element number e of a flat view.
uvec2 NAME(_flat_texel)(uint e) {
    uint texel = e / NAME(_lanes);
    return NAME(_storage) == STORAGE_BUFFER ? uvec2(texel, 0u) : uvec2(texel % NAME(_pitch), texel / NAME(_pitch));
}

// Lane of an element.
uint NAME(_lane)(uint i0, uint i1, uint i2, uint i3) {
    if (NAME(_lane_axis) == FLAT) {
        return NAME(_texel)(i0, i1, i2, i3).x % NAME(_lanes);
    }
    uint i = NAME(_lane_axis) == 0u ? i0 : (NAME(_lane_axis) == 1u ? i1 : (NAME(_lane_axis) == 2u ? i2 : i3));
    return NAME(_lane_axis) < 4u ? i % NAME(_lanes) : NAME(_origin_lane);
}

// First texel of the slot of an element.
uvec2 NAME(_texel_of)(uint i0, uint i1, uint i2, uint i3) {
    if (NAME(_lane_axis) == FLAT) {
        return NAME(_flat_texel)(NAME(_texel)(i0, i1, i2, i3).x);
    }
    return NAME(_texel)(NAME(_lane_axis) == 0u ? i0 / NAME(_lanes) : i0, NAME(_lane_axis) == 1u ? i1 / NAME(_lanes) : i1,
                        NAME(_lane_axis) == 2u ? i2 / NAME(_lanes) : i2, NAME(_lane_axis) == 3u ? i3 / NAME(_lanes) : i3);
}

// One element, any dtype but I64.
float NAME(_load)(uint i0, uint i1, uint i2, uint i3) {
    uint lane = NAME(_lane)(i0, i1, i2, i3);
    return NAME(_load_quad)(NAME(_texel_of)(i0, i1, i2, i3), lane / 4u)[lane % 4u];
}

// One element of an I64 operand: its low word and its high one.
uvec2 NAME(_load_words)(uint i0, uint i1, uint i2, uint i3) {
    uvec4 texel = NAME(_fetch)(NAME(_texel_of)(i0, i1, i2, i3));
    return NAME(_lane)(i0, i1, i2, i3) % 2u == 0u ? texel.xy : texel.zw;
}

// One element of an I32 operand, or the low word of one of an I64 operand.
int NAME(_loadi)(uint i0, uint i1, uint i2, uint i3) {
    if (NAME(_dtype) == DTYPE_I64) {
        return int(NAME(_load_words)(i0, i1, i2, i3).x);
    }
    return int(NAME(_fetch)(NAME(_texel_of)(i0, i1, i2, i3))[NAME(_lane)(i0, i1, i2, i3) % 4u]);
}

// Elements 4 c4 .. 4 c4 + 3 of axis 0 of such an operand, zero from extent 0 on where they are gathered.
ivec4 NAME(_load4i)(uint c4, uint i1, uint i2, uint i3) {
    if (NAME(_lane_axis) == 0u && NAME(_dtype) != DTYPE_I64) {
        return ivec4(NAME(_fetch)(NAME(_texel)(c4, i1, i2, i3)));
    }
    if (NAME(_dtype) != DTYPE_I64 && NAME(_flat_quads)()) {
        return ivec4(NAME(_fetch)(NAME(_texel_of)(4u * c4, i1, i2, i3)));
    }
    ivec4 v = ivec4(0);
    for (uint k = 0u; k < 4u; k++) {
        uint i0 = 4u * c4 + k;
        if (i0 < NAME(_n0)) {
            v[k] = NAME(_loadi)(i0, i1, i2, i3);
        }
    }
    return v;
}

// Elements 4 c4 .. 4 c4 + 3 of axis 0, any float dtype. The first of them must be below extent 0; what the components
// beyond extent 0 hold is unspecified (operand_mask zeroes them).
vec4 NAME(_load4)(uint c4, uint i1, uint i2, uint i3) {
    if (NAME(_lane_axis) == 0u) {
        uint quads = NAME(_lanes) / 4u;
        return NAME(_load_quad)(NAME(_texel)(c4 / quads, i1, i2, i3), c4 % quads);
    }
    if (NAME(_flat_quads)()) {
        return NAME(_load_quad)(NAME(_texel_of)(4u * c4, i1, i2, i3), NAME(_lane)(4u * c4, i1, i2, i3) / 4u);
    }
    vec4 v = vec4(0.0);
    for (uint k = 0u; k < 4u; k++) {
        uint i0 = 4u * c4 + k;
        if (i0 < NAME(_n0)) {
            v[k] = NAME(_load)(i0, i1, i2, i3);
        }
    }
    return v;
}

// The operand repeated: indices of the axes in the bit set `wrap` are taken modulo its own extents.
vec4 NAME(_repeat4)(uint c4, uint i1, uint i2, uint i3, uint wrap) {
    uint j1 = (wrap & 2u) != 0u ? i1 % NAME(_n1) : i1;
    uint j2 = (wrap & 4u) != 0u ? i2 % NAME(_n2) : i2;
    uint j3 = (wrap & 8u) != 0u ? i3 % NAME(_n3) : i3;
    if ((wrap & 1u) == 0u) {
        return NAME(_load4)(c4, j1, j2, j3);
    }
    vec4 v;
    for (uint k = 0u; k < 4u; k++) {
        v[k] = NAME(_load)((4u * c4 + k) % NAME(_n0), j1, j2, j3);
    }
    return v;
}

#endif

#ifdef WORDS

// Sets word k of a texel.
void NAME(_replace)(uvec2 xy, uint k, uint word) {
    NAME(_words)[4u * (xy.y * NAME(_pitch) + xy.x) + k] = word;
}

// Sets bits of a word, the others of which other invocations may set at the same time.
void NAME(_replace_bits)(uint w, uint shift, uint mask, uint bits) {
    atomicAnd(NAME(_words)[w], ~(mask << shift));
    atomicOr(NAME(_words)[w], bits << shift);
}

// Sets half k of a texel.
void NAME(_replace_half)(uvec2 xy, uint k, uint bits) {
    NAME(_replace_bits)(4u * (xy.y * NAME(_pitch) + xy.x) + k / 2u, 16u * (k % 2u), 0xFFFFu, bits);
}

// Sets a byte of row y of the storage.
void NAME(_replace_byte)(uint y, uint byte, uint bits) {
    NAME(_replace_bits)(4u * y * NAME(_pitch) + byte / 4u, 8u * (byte % 4u), 0xFFu, bits);
}

#elif ACCESS != READ

void NAME(_put)(uvec2 xy, uvec4 texel) {
    OPERAND_COUNT(xy, 1u);
    if (NAME(_storage) == STORAGE_BUFFER) {
        NAME(_texels)[xy.y * NAME(_pitch) + xy.x] = texel;
    } else {
        imageStore(NAME(_image), ivec2(xy), texel);
    }
}

// Whether position (i1, i2, i3) is inside the extents; a writer stores zeros where it is not.
bool NAME(_inside)(uint i1, uint i2, uint i3) {
    return i1 < NAME(_n1) && i2 < NAME(_n2) && i3 < NAME(_n3);
}

// Whether the padded box has quad c4 of a row.
bool NAME(_covers)(uint c4, uint i1, uint i2, uint i3) {
    return 4u * c4 < NAME(_p0) && i1 < NAME(_p1) && i2 < NAME(_p2) && i3 < NAME(_p3);
}

// Stores one whole texel of an F32 operand whose axis 0 carries the lane digit: zero outside the extents.
void NAME(_store4)(uint c4, uint i1, uint i2, uint i3, vec4 v) {
    vec4 kept = NAME(_inside)(i1, i2, i3) ? operand_mask(c4, NAME(_n0), v) : vec4(0.0);
    NAME(_put)(NAME(_texel)(c4, i1, i2, i3), floatBitsToUint(kept));
}

// The same for an F16 or BF16 operand: texel c8 holds elements 8 c8 .. 8 c8 + 7.
void NAME(_store8)(uint c8, uint i1, uint i2, uint i3, vec4 lo, vec4 hi) {
    bool inside = NAME(_inside)(i1, i2, i3);
    vec4 a = inside ? operand_mask(2u * c8, NAME(_n0), lo) : vec4(0.0);
    vec4 b = inside ? operand_mask(2u * c8 + 1u, NAME(_n0), hi) : vec4(0.0);
    uvec2 xy = NAME(_texel)(c8, i1, i2, i3);
    if (NAME(_dtype) == DTYPE_BF16) {
        NAME(_put)(xy, uvec4(operand_pack_upper(a.xy), operand_pack_upper(a.zw), operand_pack_upper(b.xy),
                             operand_pack_upper(b.zw)));
    } else {
        NAME(_put)(xy, uvec4(operand_pack_halves(a.xy), operand_pack_halves(a.zw), operand_pack_halves(b.xy),
                             operand_pack_halves(b.zw)));
    }
}

// The same for an I32 operand.
void NAME(_store4i)(uint c4, uint i1, uint i2, uint i3, ivec4 v) {
    uvec4 kept = mix(uvec4(0u), uvec4(v), lessThan(uvec4(4u * c4) + uvec4(0u, 1u, 2u, 3u), uvec4(NAME(_n0))));
    NAME(_put)(NAME(_texel)(c4, i1, i2, i3), NAME(_inside)(i1, i2, i3) ? kept : uvec4(0u));
}

// The same for an I64 operand: texel c2 holds elements 2 c2 and 2 c2 + 1, each a low word and a high one.
void NAME(_store2l)(uint c2, uint i1, uint i2, uint i3, uvec4 v) {
    uvec4 kept = uvec4(2u * c2 < NAME(_n0) ? v.xy : uvec2(0u), 2u * c2 + 1u < NAME(_n0) ? v.zw : uvec2(0u));
    NAME(_put)(NAME(_texel)(c2, i1, i2, i3), NAME(_inside)(i1, i2, i3) ? kept : uvec4(0u));
}

#endif

#undef OPERAND_QUALIFIER
#undef OPERAND_FIELD
#undef OPERAND_AXIS
#undef OPERAND_MOVE
#undef OPERAND
#undef SLOT
#undef ACCESS
#undef WORDS
#undef DTYPE
#undef ENCODED
