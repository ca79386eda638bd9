// Rows of one operand as matrix units take them: octets, eight halves side by side along axis 0, fetched by the invocations of a workgroup
// and laid down in rows of shared memory. Include after operand.glsl and
//     #define OPERAND K           the prefix operand.glsl was given
//     #define LOADS LOADS_K       octets of a tile that an invocation fetches, at most
//     #define WIDTH               elements of a row in shared memory; those that the operand does not have are zero
//     #define ROWS                rows of a tile, a multiple of 4
//     #define PLACE key_place     a function: indices of axes 1, 2 and 3 of a row, which are inside the operand
//     #define KEPT key_kept       a function: whether a row is there; others become zero
// which are undefined again at the end. Four rows are neighbours in an R-Tile, so that neighbouring invocations take these first. Rows lie
// one texel apart in shared memory: neighbours that read the same octet of eight rows meet no bank twice.

#ifndef ROWS_COMMON
#define ROWS_COMMON

uvec2 rows_halves(vec4 v) {
    return uvec2(packHalf2x16(v.xy), packHalf2x16(v.zw));
}

#endif

// What is open of each load: two quads of floats, or an octet.
uvec4 NAME(_open)[2u * LOADS];

// Row and octet of load l of this invocation; whether the tile has it.
bool NAME(_item)(uint l, out uint row, out uint octet) {
    const uint octets = WIDTH / 8u;
    uint item = gl_LocalInvocationID.x + l * gl_WorkGroupSize.x;
    row = item / (4u * octets) * 4u + item % 4u;
    octet = item / 4u % octets;
    // Known before the invocation is, but for the last ones.
    uint items = ROWS * octets;
    return (l + 1u) * gl_WorkGroupSize.x <= items || item < items;
}

// Quad c of a row of floats; behind the last quad that one again.
uvec4 NAME(_floats)(uint c, uvec3 at) {
    uint quad = min(c, (NAME(_n0) - 1u) / 4u);
    if (NAME(_lane_axis) == 0u && NAME(_dtype) == DTYPE_F32) {
        return NAME(_fetch)(NAME(_texel)(quad, at.x, at.y, at.z));
    }
    return floatBitsToUint(NAME(_load4)(quad, at.x, at.y, at.z));
}

// Fetches an octet of a row to number `to` of what is open.
void NAME(_fetch_octet)(uint to, uint octet, uint row) {
    uvec3 at = PLACE(row);
    if (NAME(_dtype) == DTYPE_F16 && NAME(_lane_axis) == 0u) {
        NAME(_open)[2u * to] = NAME(_fetch)(NAME(_texel)(min(octet, (NAME(_n0) - 1u) / 8u), at.x, at.y, at.z));
        return;
    }
    uvec4 low = NAME(_floats)(2u * octet, at);
    uvec4 high = NAME(_floats)(2u * octet + 1u, at);
    if (NAME(_dtype) == DTYPE_F32) {
        NAME(_open)[2u * to] = low;
        NAME(_open)[2u * to + 1u] = high;
    } else {
        NAME(_open)[2u * to] = uvec4(rows_halves(uintBitsToFloat(low)), rows_halves(uintBitsToFloat(high)));
    }
}

// The octet that is open as number `from`, floats times a factor.
uvec4 NAME(_octet)(uint from, uint octet, uint row, float factor) {
    uvec4 v = NAME(_open)[2u * from];
    if (NAME(_dtype) == DTYPE_F32) {
        v = uvec4(rows_halves(factor * uintBitsToFloat(v)),
                  rows_halves(factor * uintBitsToFloat(NAME(_open)[2u * from + 1u])));
    }
    if (NAME(_n0) < WIDTH) {
        uint count = NAME(_n0) - min(8u * octet, NAME(_n0));
        uvec4 low = mix(uvec4(0u), v & 0xFFFFu, lessThan(uvec4(0u, 2u, 4u, 6u), uvec4(count)));
        uvec4 high = mix(uvec4(0u), v & 0xFFFF0000u, lessThan(uvec4(1u, 3u, 5u, 7u), uvec4(count)));
        v = low | high;
    }
    return KEPT(row) ? v : uvec4(0u);
}

// Fetches the tile that starts at a row.
void NAME(_open_rows)(uint first) {
    [[unroll]] for (uint l = 0u; l < LOADS; l++) {
        uint row, octet;
        if (NAME(_item)(l, row, octet)) {
            NAME(_fetch_octet)(l, octet, first + row);
        }
    }
}

// Lays what is open down in shared memory from texel `to` on.
void NAME(_close_rows)(uint first, uint to, float factor) {
    [[unroll]] for (uint l = 0u; l < LOADS; l++) {
        uint row, octet;
        if (NAME(_item)(l, row, octet)) {
            pool[to + row * (WIDTH / 8u + 1u) + octet] = NAME(_octet)(l, octet, first + row, factor);
        }
    }
}

// Both, for a tile that is needed at once.
void NAME(_stage_rows)(uint first, uint to, float factor) {
    uint row, octet;
    [[dont_unroll]] for (uint l = 0u; NAME(_item)(l, row, octet); l++) {
        NAME(_fetch_octet)(0u, octet, first + row);
        pool[to + row * (WIDTH / 8u + 1u) + octet] = NAME(_octet)(0u, octet, first + row, factor);
    }
}

#undef OPERAND
#undef LOADS
#undef WIDTH
#undef ROWS
#undef PLACE
#undef KEPT
