// Tiles of one operand for matrix units: octets, eight elements side by side along its texels, fetched by the invocations of a
// workgroup, decoded, rounded and laid down in rows of shared memory. Include after direction.glsl and
//     #define OPERAND A           the prefix operand.glsl was given, with ENCODED
//     #define EXTENT EXTENT_M     elements of the tile along the outer axis
//     #define LOADS LOADS_M       loads of an invocation, at most
//     #define PLAIN               the operand is never in blocks
// which are undefined again at the end.
//
// A load is the octets of one texel, or one octet of two texels; of blocks it is the two that share a scale. With PARTED, of operands of F32,
// an octet is laid down in two parts (gemm_parts.glsl).
//
// A row of the tile is an index of the axis that texels do not run along, of m (n) or of k. Four of them are neighbours in an R-Tile,
// so that neighbouring invocations take these first, then the octets of a row. Rows lie one texel apart: neighbours that read the same
// octet of eight rows meet no bank twice.

#ifndef OCTETS_COMMON
#define OCTETS_COMMON

// Elements as matrix units take them.
uvec2 octets_round(vec4 v) {
#ifdef BF16
    // To nearest, but for what lies in the middle, which grows.
    uvec4 bits = floatBitsToUint(v) + 0x8000u;
    return (bits.xz >> 16) | (bits.yw & 0xFFFF0000u);
#else
    return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
#endif
}

// The first `count` of the eight elements, the others zero.
uvec4 octets_first(uvec4 octet, uint count) {
    uvec4 low = mix(uvec4(0u), octet & 0xFFFFu, lessThan(uvec4(0u, 2u, 4u, 6u), uvec4(count)));
    uvec4 high = mix(uvec4(0u), octet & 0xFFFF0000u, lessThan(uvec4(1u, 3u, 5u, 7u), uvec4(count)));
    return low | high;
}

#endif

// Where the texels of a load start at k = 0: one of them, or the two that an octet of F32 takes.
uvec2 NAME(_starts)[2u * LOADS];
// What is open of each load, and its scale and minimum.
uvec4 NAME(_texels_open)[2u * LOADS];
vec2 NAME(_scales)[LOADS];
uint NAME(_first);
uint NAME(_i2);
uint NAME(_i3);

bool NAME(_by_k)() {
    return NAME(_way)() == ALONG_K;
}

uint NAME(_octets)() {
    return NAME(_by_k)() ? EXTENT_K / 8u : EXTENT / 8u;
}

uint NAME(_rows)() {
    return NAME(_by_k)() ? EXTENT : EXTENT_K;
}

// Texels from one row in shared memory to the next.
uint NAME(_stride)() {
    return NAME(_octets)() + 1u;
}

// Octets of a load.
uint NAME(_together)() {
    uint octets = NAME(_dtype) == DTYPE_Q4_1 ? 4u : (NAME(_in_tiles)() || NAME(_in_blocks)() ? 2u : 1u);
    return NAME(_way)() == SCATTERED ? 1u : min(octets, NAME(_octets)());
}

// Row of load l of this invocation, and its first octet; whether the tile has it.
bool NAME(_item)(uint l, out uint row, out uint octet) {
    uint loads = NAME(_octets)() / NAME(_together)();
    uint item = gl_LocalInvocationID.x + l * gl_WorkGroupSize.x;
    row = item / (4u * loads) * 4u + item % 4u;
    octet = item / 4u % loads * NAME(_together)();
    // Known before the invocation is, but for the last ones.
    uint items = NAME(_rows)() * loads;
    return (l + 1u) * gl_WorkGroupSize.x <= items || (l * gl_WorkGroupSize.x < items && item < items);
}

// Slot t of an octet along an axis of so many elements, inside it.
uint NAME(_slot)(uint octet, uint t, uint extent) {
    return min((8u * octet + 4u * t) / NAME(_lanes), (extent - 1u) / NAME(_lanes));
}

// Texels that a load is in.
uint NAME(_texels_of_load)() {
    return NAME(_lanes) == 4u ? 2u : 1u;
}

// Number of an octet's first quad in its slot.
uint NAME(_quad_of)(uint octet) {
    return 2u * octet % max(NAME(_lanes) / 4u, 1u);
}

// Points at the tile whose first index along the outer axis is o. What lies beyond the extents is read from inside them: the
// store drops it.
void NAME(_aim)(uint o, uint i2, uint i3) {
    NAME(_first) = o;
    NAME(_i2) = min(i2, NAME(_n2) - 1u);
    NAME(_i3) = min(i3, NAME(_n3) - 1u);
    [[unroll]] for (uint l = 0u; l < LOADS; l++) {
        uint row, octet;
        NAME(_item)(l, row, octet);
        if (NAME(_by_k)()) {
            NAME(_starts)[2u * l] = NAME(_start)(min(o + row, NAME(_outer) - 1u), NAME(_i2), NAME(_i3));
        } else if (NAME(_way)() == ALONG_OUTER) {
            [[unroll]] for (uint t = 0u; t < NAME(_texels_of_load)(); t++) {
                NAME(_starts)[2u * l + t] = NAME(_start)(NAME(_slot)(o / 8u + octet, t, NAME(_outer)), NAME(_i2), NAME(_i3));
            }
        }
    }
}

// Fetches the loads of the tile that starts at k.
void NAME(_open)(uint k) {
    [[unroll]] for (uint l = 0u; l < LOADS; l++) {
        uint row, octet;
        if (!NAME(_item)(l, row, octet)) {
            continue;
        }
        uint to = 2u * l;
        if (NAME(_way)() == SCATTERED) {
            uint o = NAME(_first) + 8u * octet;
            uint kk = min(k + row, NAME(_k) - 1u);
            vec4 low = NAME(_gather)(o, kk, NAME(_i2), NAME(_i3));
            vec4 high = NAME(_gather)(o + 4u, kk, NAME(_i2), NAME(_i3));
#ifdef PARTED
            NAME(_texels_open)[to] = floatBitsToUint(low);
            NAME(_texels_open)[to + 1u] = floatBitsToUint(high);
#else
            NAME(_texels_open)[to] = uvec4(octets_round(low), octets_round(high));
#endif
            continue;
        }
        // Row of the operand, and octet of it.
        uint at = NAME(_by_k)() ? min(NAME(_first) + row, NAME(_outer) - 1u) : min(k + row, NAME(_k) - 1u);
        uint number = (NAME(_by_k)() ? k : NAME(_first)) / 8u + octet;
        uint quad = NAME(_quad_of)(number);
        [[unroll]] for (uint t = 0u; t < NAME(_texels_of_load)(); t++) {
            uvec2 place = NAME(_by_k)() ? NAME(_starts)[2u * l] + NAME(_along)(NAME(_slot)(number, t, NAME(_k)))
                                        : NAME(_starts)[2u * l + t] + NAME(_along)(at);
#if defined(BLOCKS) && !defined(PLAIN)
            if (NAME(_in_blocks)()) {
                vec2 scale = NAME(_block_scale)(place, quad / 4u);
                [[unroll]] for (uint u = 0u; u < NAME(_together)(); u++) {
                    NAME(_texels_open)[to + u].xy = octets_round(NAME(_block_quad)(place, quad + 2u * u, scale));
                    NAME(_texels_open)[to + u].zw = octets_round(NAME(_block_quad)(place, quad + 2u * u + 1u, scale));
                }
                continue;
            }
#endif
            if (NAME(_in_tiles)()) {
                uint r = at % 4u;
                vec2 dm = unpackHalf2x16(NAME(_fetch_place)(place + uvec2((4u - r) * NAME(_quants), 0u))[r]);
                NAME(_scales)[to / 2u] = NAME(_dtype) == DTYPE_Q8_0 ? vec2(dm.x, 0.0) : dm;
            }
            NAME(_texels_open)[to + t] = NAME(_fetch_place)(place + uvec2(NAME(_quad_texel)(quad), 0u));
        }
    }
}

#ifdef PARTED

// The exponent of the greatest number that is open.
uint NAME(_exponent_open)() {
    uint most = 0u;
    [[unroll]] for (uint l = 0u; l < LOADS; l++) {
        uint row, octet;
        if (NAME(_item)(l, row, octet)) {
            most = max(most, parts_exponent(NAME(_texels_open)[2u * l], NAME(_texels_open)[2u * l + 1u]));
        }
    }
    return most;
}

// Takes halves of the octet that is open at `from`, which leave the rest open.
uvec4 NAME(_part)(uint from) {
    vec4 low = uintBitsToFloat(NAME(_texels_open)[from]);
    vec4 high = uintBitsToFloat(NAME(_texels_open)[from + 1u]);
    uvec4 part = uvec4(parts_take(low), parts_take(high));
    NAME(_texels_open)[from] = floatBitsToUint(low);
    NAME(_texels_open)[from + 1u] = floatBitsToUint(high);
    return part;
}

#else

// Octet u of the load that is open at `from`, as matrix units take it; `number` is that of the octet along its axis.
uvec4 NAME(_rounded)(uint from, uint u, uint number) {
#ifdef BF16
    bool ready = NAME(_dtype) == DTYPE_BF16;
#else
    bool ready = NAME(_dtype) == DTYPE_F16;
#endif
    if (NAME(_way)() == SCATTERED || NAME(_in_blocks)() || ready) {
        return NAME(_texels_open)[from + u];
    }
    uvec4 texel = NAME(_texels_open)[from];
    if (NAME(_dtype) == DTYPE_F32) {
        return uvec4(octets_round(uintBitsToFloat(texel)), octets_round(uintBitsToFloat(NAME(_texels_open)[from + 1u])));
    }
    uint quad = NAME(_quad_of)(number);
    vec2 scale = NAME(_scales)[from / 2u];
    return uvec4(octets_round(NAME(_decode)(texel, quad, scale)), octets_round(NAME(_decode)(texel, quad + 1u, scale)));
}

#endif

// Lays what is open down in shared memory from texel `first` on, as the tile that starts at k. What lies beyond K becomes zero.
#ifdef PARTED
// Times a factor, in two parts: the second lies behind all rows of the first.
void NAME(_close)(uint k, uint first, float factor) {
#else
void NAME(_close)(uint k, uint first) {
#endif
    const bool ragged = NAME(_k) % EXTENT_K != 0u;
    [[unroll]] for (uint l = 0u; l < LOADS; l++) {
        uint row, octet;
        if (!NAME(_item)(l, row, octet)) {
            continue;
        }
#ifdef PARTED
        const uint pieces = 2u;
        [[unroll]] for (uint t = 0u; t < 2u; t++) {
            NAME(_texels_open)[2u * l + t] = floatBitsToUint(factor * uintBitsToFloat(NAME(_texels_open)[2u * l + t]));
        }
#else
        const uint pieces = NAME(_together)();
#endif
        [[unroll]] for (uint u = 0u; u < pieces; u++) {
#ifdef PARTED
            uint number = (NAME(_by_k)() ? k : NAME(_first)) / 8u + octet;
            uint at = first + u * NAME(_rows)() * NAME(_stride)() + row * NAME(_stride)() + octet;
            uvec4 value = NAME(_part)(2u * l);
#else
            uint number = (NAME(_by_k)() ? k : NAME(_first)) / 8u + octet + u;
            uint at = first + row * NAME(_stride)() + octet + u;
            uvec4 value = NAME(_rounded)(2u * l, u, number);
#endif
            if (ragged) {
                uint from = NAME(_by_k)() ? 8u * number : k + row;
                uint inside = NAME(_k) - min(from, NAME(_k));
                value = octets_first(value, NAME(_by_k)() ? inside : 8u * inside);
            }
            tiles[at] = value;
        }
    }
}

#undef OPERAND
#undef EXTENT
#undef LOADS
#undef PLAIN
