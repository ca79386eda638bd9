// A matrix operand seen from the axis that is summed over: which way its lanes run, and places that step along k.
//
// Include after operand.glsl, once per operand, after
//     #define OPERAND A       the prefix operand.glsl was given
//     #define SUMMED REDUCE   the constant that is the view axis summed over: 0 or 1
// which are undefined again at the end. "Outer" is the other one of view axes 0 and 1: m of A, n of B.
//
// A place is what a texel's coordinates become before a loop over k adds to them: in a buffer they are linear already, so
// that a step needs no multiplication by the pitch. Of blocks as the host has them it is the column and the row of a block.

#ifndef DIRECTION_COMMON
#define DIRECTION_COMMON

const uint ALONG_K = 0u;
const uint ALONG_OUTER = 1u;
// The lane digit is on a batch axis or nowhere, or four neighbouring rows are not the four rows of a quantized tile.
const uint SCATTERED = 2u;

#endif

const uint NAME(_k) = SUMMED == 0u ? NAME(_n0) : NAME(_n1);
const uint NAME(_outer) = SUMMED == 0u ? NAME(_n1) : NAME(_n0);

// Innermost digit of the axis that the lanes do not run along.
const uint NAME(_row_radix) = NAME(_lane_axis) == 0u ? NAME(_r10) : NAME(_r00);
const uint NAME(_row_stride) = NAME(_lane_axis) == 0u ? NAME(_x10) : NAME(_x00);

// A function: glslang misplaces constants that are derived from derived constants.
uint NAME(_way)() {
    bool tiled = NAME(_row_radix) == 4u && NAME(_row_stride) == NAME(_quants) &&
                 NAME(_origin_x) % (4u * NAME(_quants) + 1u) == 0u;
    if (NAME(_in_tiles)() && !tiled) {
        return SCATTERED;
    }
    return NAME(_lane_axis) == SUMMED ? ALONG_K : (NAME(_lane_axis) == 1u - SUMMED ? ALONG_OUTER : SCATTERED);
}

uvec2 NAME(_place)(uvec2 xy) {
    return NAME(_storage) == STORAGE_BUFFER && !NAME(_in_blocks)() ? uvec2(xy.y * NAME(_pitch) + xy.x, 0u) : xy;
}

uvec4 NAME(_fetch_place)(uvec2 place) {
    OPERAND_COUNT(place, 0u);
    return NAME(_storage) == STORAGE_BUFFER ? NAME(_texels)[place.x] : imageLoad(NAME(_image), ivec2(place));
}

// Place at k = 0; o counts slots where the lanes run along the outer axis.
uvec2 NAME(_start)(uint o, uint i2, uint i3) {
    return NAME(_place)(SUMMED == 0u ? NAME(_texel)(0u, o, i2, i3) : NAME(_texel)(o, 0u, i2, i3));
}

// Step to index k of the reduction axis; k counts slots where the lanes run along it.
uvec2 NAME(_along)(uint k) {
    return NAME(_place)(SUMMED == 0u ? NAME(_move0)(k) : NAME(_move1)(k));
}

// Elements o .. o + 3 of the outer axis at k, one by one. What lies beyond the extents is read from inside them.
vec4 NAME(_gather)(uint o, uint k, uint i2, uint i3) {
    vec4 v;
    k = min(k, NAME(_k) - 1u);
    for (uint e = 0u; e < 4u; e++) {
        uint i = min(o + e, NAME(_outer) - 1u);
        uvec2 at = SUMMED == 0u ? uvec2(k, i) : uvec2(i, k);
        v[e] = NAME(_load)(at.x, at.y, i2, i3);
    }
    return v;
}

#undef OPERAND
#undef SUMMED
