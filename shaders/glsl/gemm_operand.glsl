// One operand of a GEMM as fragments of 4 k by 4 outer indices (m of A, n of B), whichever way its lanes run.
//
// Include after operand.glsl, once per operand, after
//     #define OPERAND A       the prefix operand.glsl was given
//     #define QUADS TILE_M    quads of the outer axis an invocation holds
// which are undefined again at the end. REDUCE names the view axis that is summed over.
//
// Lanes along K: a texel is four k of one row, and a fragment is four rows. Lanes along the outer axis: a texel is four
// outer indices of one k, and a fragment is four k. Either way four texels make a fragment, and turning it is a matter of
// naming its registers. Everything that does not depend on k is computed by aim() before the loop over k; the loop adds
// displacements of the K axis alone, which are uniform over the workgroup.

#ifndef GEMM_OPERAND_COMMON
#define GEMM_OPERAND_COMMON

const uint ALONG_K = 0u;
const uint ALONG_OUTER = 1u;
// The lane digit is on a batch axis or nowhere, or the rows of a quantized tile are not four neighbours of an axis.
const uint SCATTERED = 2u;

#endif

const uint NAME(_k) = REDUCE == 0u ? NAME(_n0) : NAME(_n1);
const uint NAME(_outer) = REDUCE == 0u ? NAME(_n1) : NAME(_n0);

// Radices and innermost stride of the axis that the lanes do not run along.
const uint NAME(_row_r0) = NAME(_lane_axis) == 0u ? NAME(_r10) : NAME(_r00);
const uint NAME(_row_r1) = NAME(_lane_axis) == 0u ? NAME(_r11) : NAME(_r01);
const uint NAME(_row_x0) = NAME(_lane_axis) == 0u ? NAME(_x10) : NAME(_x00);

// Whether four neighbours of the row axis are the four rows of a quantized tile.
bool NAME(_tiled)() {
    return NAME(_row_r0) == 4u && NAME(_row_x0) == NAME(_quants) && NAME(_origin_x) % (4u * NAME(_quants) + 1u) == 0u;
}

// A function, not a constant: glslang misplaces constants derived from derived constants.
uint NAME(_way)() {
    if (NAME(_dtype) >= DTYPE_Q8_0 && !NAME(_tiled)()) {
        return SCATTERED;
    }
    return NAME(_lane_axis) == REDUCE ? ALONG_K : (NAME(_lane_axis) == 1u - REDUCE ? ALONG_OUTER : SCATTERED);
}

// Values of k that one open() serves.
uint NAME(_step)() {
    return NAME(_way)() == ALONG_K ? NAME(_lanes) : 4u;
}

// Component kk of quad q of the fragment: [4 q + kk], four outer indices each.
vec4 NAME(_frag)[4u * QUADS];

// Along K: the slots of the rows at k = 0. Along the outer axis: [4 q] is the slot of quad q at k = 0.
uvec2 NAME(_base)[4u * QUADS];
uint NAME(_quad)[QUADS];
uint NAME(_i2);
uint NAME(_i3);

// Texels of the rows' slots, and their scales.
uvec4 NAME(_raw)[4u * QUADS * NAME(_quants)];
vec2 NAME(_dm)[4u * QUADS];

// A texel's place, made linear in a buffer so that displacements need no multiplication by the pitch.
uvec2 NAME(_flat)(uvec2 xy) {
    return NAME(_storage) == STORAGE_BUFFER ? uvec2(xy.y * NAME(_pitch) + xy.x, 0u) : xy;
}

uvec4 NAME(_fetch_flat)(uvec2 at) {
    return NAME(_storage) == STORAGE_BUFFER ? NAME(_texels)[at.x] : imageLoad(NAME(_image), ivec2(at));
}

uvec2 NAME(_move_k)(uint s) {
    return NAME(_flat)(REDUCE == 0u ? NAME(_move0)(s) : NAME(_move1)(s));
}

// Scale and minimum of row r of a quantized tile from its scale texel.
vec2 NAME(_row_scale)(uvec4 words, uint r) {
    vec2 dm = unpackHalf2x16(words[r]);
    return NAME(_dtype) == DTYPE_Q8_0 ? vec2(dm.x, 0.0) : dm;
}

// Points quad q at outer indices 4 o4 .. 4 o4 + 3 of batch (i2, i3). What lies beyond the extents is read from inside them:
// the caller drops it.
void NAME(_aim)(uint q, uint o4, uint i2, uint i3) {
    o4 = min(o4, (NAME(_outer) - 1u) / 4u);
    NAME(_i2) = min(i2, NAME(_n2) - 1u);
    NAME(_i3) = min(i3, NAME(_n3) - 1u);
    NAME(_quad)[q] = o4;
    if (NAME(_way)() == ALONG_K) {
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            uint o = NAME(_row_r0) % 4u == 0u ? 4u * o4 + r : min(4u * o4 + r, NAME(_outer) - 1u);
            NAME(_base)[4u * q + r] = NAME(_flat)(REDUCE == 0u ? NAME(_texel)(0u, o, NAME(_i2), NAME(_i3))
                                                               : NAME(_texel)(o, 0u, NAME(_i2), NAME(_i3)));
        }
    } else if (NAME(_way)() == ALONG_OUTER) {
        uint s = o4 / (NAME(_lanes) / 4u);
        NAME(_quad)[q] = o4 % (NAME(_lanes) / 4u);
        NAME(_base)[4u * q] = NAME(_flat)(REDUCE == 0u ? NAME(_texel)(0u, s, NAME(_i2), NAME(_i3))
                                                       : NAME(_texel)(s, 0u, NAME(_i2), NAME(_i3)));
    }
}

// Fetches what the step of k = step * s needs from its slots.
void NAME(_open)(uint s) {
    if (NAME(_way)() != ALONG_K) {
        return;
    }
    uvec2 dk = NAME(_move_k)(s);
    [[unroll]] for (uint q = 0u; q < QUADS; q++) {
        if (NAME(_dtype) >= DTYPE_Q8_0) {
            uvec4 words = NAME(_fetch_flat)(NAME(_base)[4u * q] + dk + uvec2(4u * NAME(_quants), 0u));
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                NAME(_dm)[4u * q + r] = NAME(_row_scale)(words, r);
            }
        }
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            [[unroll]] for (uint t = 0u; t < NAME(_quants); t++) {
                NAME(_raw)[(4u * q + r) * NAME(_quants) + t] =
                    NAME(_fetch_flat)(NAME(_base)[4u * q + r] + dk + uvec2(t, 0u));
            }
        }
    }
}

// Zeroes the k of the fragment that are not below K.
void NAME(_cut)(uint k4) {
    [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
        bool inside = 4u * k4 + kk < NAME(_k);
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            NAME(_frag)[4u * q + kk] = inside ? NAME(_frag)[4u * q + kk] : vec4(0.0);
        }
    }
}

// Fills the fragment for k = 4 k4 .. 4 k4 + 3; c is the number of that quad in the open step.
void NAME(_load_fragment)(uint k4, uint c) {
    if (NAME(_way)() == ALONG_K) {
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            vec4 row[4];
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                uvec4 texel = NAME(_raw)[(4u * q + r) * NAME(_quants)];
                if (NAME(_quants) == 2u && c >= 4u) {
                    texel = NAME(_raw)[(4u * q + r) * NAME(_quants) + NAME(_quants) - 1u];
                }
                row[r] = NAME(_decode)(texel, c, NAME(_dm)[4u * q + r]);
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                NAME(_frag)[4u * q + kk] = vec4(row[0][kk], row[1][kk], row[2][kk], row[3][kk]);
            }
        }
    } else if (NAME(_way)() == ALONG_OUTER) {
        uint last = NAME(_k) - 1u;
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            uvec4 words;
            if (NAME(_dtype) >= DTYPE_Q8_0) {
                words = NAME(_fetch_flat)(NAME(_base)[4u * q] + NAME(_move_k)(4u * k4) + uvec2(4u * NAME(_quants), 0u));
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                uint k = NAME(_k) % 4u == 0u ? 4u * k4 + kk : min(4u * k4 + kk, last);
                uvec2 at = NAME(_base)[4u * q] + NAME(_move_k)(k);
                uvec4 texel = NAME(_fetch_flat)(at + uvec2(NAME(_quad_texel)(NAME(_quad)[q]), 0u));
                NAME(_frag)[4u * q + kk] = NAME(_decode)(texel, NAME(_quad)[q], NAME(_row_scale)(words, kk));
            }
        }
    } else {
        [[unroll]] for (uint q = 0u; q < QUADS; q++) {
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                uint k = min(4u * k4 + kk, NAME(_k) - 1u);
                vec4 v;
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    uint o = min(4u * NAME(_quad)[q] + e, NAME(_outer) - 1u);
                    v[e] = REDUCE == 0u ? NAME(_load)(k, o, NAME(_i2), NAME(_i3)) : NAME(_load)(o, k, NAME(_i2), NAME(_i3));
                }
                NAME(_frag)[4u * q + kk] = v;
            }
        }
    }
}

#undef OPERAND
#undef QUADS
