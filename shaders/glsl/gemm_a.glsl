// The left operand of a product as fragments of 4 k by 4 QUADS_A values of m, decoded from any dtype. Include after
// direction.glsl and
//     #define OPERAND A       the prefix operand.glsl was given, with ENCODED
// which is undefined again at the end. QUADS_A stays defined, and AHEAD, the number of steps that are open at a time.
//
// Lanes along K: a texel is a run of k of one row, four rows make a fragment. Lanes along m: a texel is a run of m of one
// k, four k make a fragment. Which of the two is a matter of naming registers.
//
// Four texels side by side are gone through from number `turn` on: rows (and so the sums) where lanes run along K, k where they
// run along m. Of quantized types along K it is the words of a texel, and with them the quads of k, that are turned, so that
// invocations side by side want quads of B in turned order.
//
// Quantized along K, a step takes a texel of quants: 16 bytes, of types whose nibbles hold two parts of 16 elements both of these.

#ifdef BLOCKS
#include "gemm_runs.glsl"
#endif

// [4 q + kk]: quad q of m at k = 4 k4 + kk.
vec4 NAME(_fragment)[4u * QUADS_A];

// Lanes along K: where the four rows of quad q start. Lanes along m: [4 q] is where the slot of quad q starts.
uvec2 NAME(_starts)[4u * QUADS_A];
// Lanes along m: number of quad q in its slot. Scattered: number of quad q in the axis.
uint NAME(_quad)[QUADS_A];
uint NAME(_i2);
uint NAME(_i3);

// The open texels and the scales of their slots: of every row where lanes run along K, of every k where they run along m. Of
// blocks along K whose quants are not in runs, it is a part of one, sixteen elements, that is open: the step to the block, and the
// part's number in it. Runs have a second part, with a scale of its own.
uvec4 NAME(_open)[AHEAD * 4u * QUADS_A];
vec2 NAME(_scales)[AHEAD * 4u * QUADS_A];
#ifdef BLOCKS
vec2 NAME(_second_scales)[AHEAD * 4u * QUADS_A];
uvec2 NAME(_block)[AHEAD];
uint NAME(_part)[AHEAD];
#endif

bool NAME(_is_plain)() {
    return !NAME(_in_tiles)() && !NAME(_in_blocks)();
}

// Whether a step takes 16 bytes of a block's nibbles.
bool NAME(_in_runs)() {
#if defined(BLOCKS) && !defined(STAGED)
    return NAME(_in_blocks)() && NAME(_way)() == ALONG_K && blocks_have_runs(NAME(_dtype));
#else
    return false;
#endif
}

// What is turned among four: rows, and so components of the sums; k; words of a texel.
uint NAME(_turn_rows)() {
    return NAME(_way)() == ALONG_K && NAME(_is_plain)() ? turn : 0u;
}

uint NAME(_turn_k)() {
    return NAME(_way)() == ALONG_OUTER && NAME(_is_plain)() ? turn : 0u;
}

uint NAME(_turn_words)() {
    return NAME(_way)() == ALONG_K && (NAME(_in_tiles)() || NAME(_in_runs)()) ? turn : 0u;
}

// Quads of k that are open at a time where texels run along K.
uint NAME(_quads_of_texel)() {
    if (NAME(_way)() != ALONG_K) {
        return 1u;
    }
#ifdef BLOCKS
    if (NAME(_in_blocks)()) {
        return NAME(_in_runs)() ? 8u : 4u;
    }
#endif
    return NAME(_lanes) / (4u * NAME(_quants));
}

// Quad of k that is quad number c of step s.
uint NAME(_quad_of)(uint s, uint c) {
    c = turned(c, NAME(_turn_words)());
#ifdef BLOCKS
    if (NAME(_in_runs)()) {
        uint runs = NAME(_lanes) / 32u;
        return s / runs * (NAME(_lanes) / 4u) + 4u * blocks_part_of_run(NAME(_dtype), s % runs, c / 4u) + c % 4u;
    }
#endif
    return s * NAME(_quads_of_texel)() + c;
}

// Step from the first slot of a quantized tile to its scale texel.
uvec4 NAME(_fetch_scales)(uvec2 place) {
    return NAME(_fetch_place)(place + uvec2(4u * NAME(_quants), 0u));
}

// Scale and minimum of a row of a tile from its scale texel.
vec2 NAME(_row_scale)(uint word) {
    vec2 dm = unpackHalf2x16(word);
    return NAME(_dtype) == DTYPE_Q8_0 ? vec2(dm.x, 0.0) : dm;
}

// Points quad q at m = 4 m4 .. 4 m4 + 3. What lies beyond the extents is read from inside them: the store drops it.
void NAME(_aim)(uint q, uint m4, uint i2, uint i3) {
    m4 = min(m4, (NAME(_outer) - 1u) / 4u);
    NAME(_i2) = min(i2, NAME(_n2) - 1u);
    NAME(_i3) = min(i3, NAME(_n3) - 1u);
    NAME(_quad)[q] = m4;
    if (NAME(_way)() == ALONG_K) {
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            // Where the rows of a quad are one digit, those beyond the extent are padding.
            uint m = 4u * m4 + turned(r, NAME(_turn_rows)());
            m = NAME(_row_radix) % 4u == 0u ? m : min(m, NAME(_outer) - 1u);
            NAME(_starts)[4u * q + r] = NAME(_start)(m, NAME(_i2), NAME(_i3));
        }
    } else if (NAME(_way)() == ALONG_OUTER) {
        NAME(_quad)[q] = m4 % (NAME(_lanes) / 4u);
        NAME(_starts)[4u * q] = NAME(_start)(m4 / (NAME(_lanes) / 4u), NAME(_i2), NAME(_i3));
    }
}

// Fetches texel s along K of every row, as number u of what is open.
void NAME(_open_texels)(uint u, uint s) {
    if (NAME(_way)() != ALONG_K) {
        return;
    }
#ifdef BLOCKS
    if (NAME(_in_blocks)()) {
        uint parts = NAME(_lanes) / (NAME(_in_runs)() ? 32u : 16u);
        NAME(_block)[u] = NAME(_along)(s / parts);
        NAME(_part)[u] = s % parts;
        [[unroll]] for (uint r = 0u; r < 4u * QUADS_A; r++) {
            uint i = 4u * QUADS_A * u + r;
            uvec2 slot = NAME(_starts)[r] + NAME(_block)[u];
            if (NAME(_in_runs)()) {
                uint first = blocks_part_of_run(NAME(_dtype), NAME(_part)[u], 0u);
                uvec4 quants = NAME(_block_texel)(slot, blocks_low(NAME(_dtype), 4u * first).x);
                NAME(_open)[i] = turned4u(quants, NAME(_turn_words)());
                NAME(_scales)[i] = NAME(_block_scale)(slot, first);
                uint second = blocks_part_of_run(NAME(_dtype), NAME(_part)[u], 1u);
                NAME(_second_scales)[i] = NAME(_lanes) == 32u ? NAME(_scales)[i] : NAME(_block_scale)(slot, second);
            } else {
                NAME(_scales)[i] = NAME(_block_scale)(slot, NAME(_part)[u]);
            }
        }
        return;
    }
#endif
    uvec2 along = NAME(_along)(s / NAME(_quants)) + uvec2(s % NAME(_quants), 0u);
    [[unroll]] for (uint q = 0u; q < QUADS_A; q++) {
        uint i = 4u * (QUADS_A * u + q);
        if (NAME(_in_tiles)()) {
            uvec4 words = NAME(_fetch_scales)(NAME(_starts)[4u * q] + NAME(_along)(s / NAME(_quants)));
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                NAME(_scales)[i + r] = NAME(_row_scale)(words[r]);
            }
        }
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            uvec4 texel = NAME(_fetch_place)(NAME(_starts)[4u * q + r] + along);
            NAME(_open)[i + r] = turned4u(texel, NAME(_turn_words)());
        }
    }
}

// Index 4 k4 + kk of the axis that is summed over, or its last one.
uint NAME(_inside_k)(uint k4, uint kk) {
    return NAME(_k) % 4u == 0u ? 4u * k4 + kk : min(4u * k4 + kk, NAME(_k) - 1u);
}

// Where texels run along m: fetches those of k = 4 k4 .. 4 k4 + 3, as number u of what is open.
void NAME(_open_quad)(uint u, uint k4) {
    if (NAME(_way)() != ALONG_OUTER || NAME(_in_blocks)()) {
        return;
    }
    [[unroll]] for (uint q = 0u; q < QUADS_A; q++) {
        uvec4 words = uvec4(0u);
        if (NAME(_in_tiles)()) {
            words = NAME(_fetch_scales)(NAME(_starts)[4u * q] + NAME(_along)(4u * k4));
        }
        [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
            uint i = 4u * (QUADS_A * u + q) + kk;
            uvec2 slot = NAME(_starts)[4u * q] + NAME(_along)(NAME(_inside_k)(k4, turned(kk, NAME(_turn_k)())));
            NAME(_scales)[i] = NAME(_row_scale)(words[kk]);
            NAME(_open)[i] = NAME(_fetch_place)(slot + uvec2(NAME(_quad_texel)(NAME(_quad)[q]), 0u));
        }
    }
}

// Fills the fragment for k = 4 k4 .. 4 k4 + 3 from number u of what is open, quad number c of the texels where they run along K.
void NAME(_fill)(uint u, uint k4, uint c) {
    [[unroll]] for (uint q = 0u; q < QUADS_A; q++) {
        if (NAME(_way)() == ALONG_K) {
            vec4 row[4];
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                uint i = 4u * (QUADS_A * u + q) + r;
#ifdef BLOCKS
                if (NAME(_in_runs)()) {
                    vec2 scale = c < 4u ? NAME(_scales)[i] : NAME(_second_scales)[i];
                    uint quants = blocks_quants(NAME(_dtype), NAME(_open)[i][c % 4u], c / 4u, 0u);
                    row[r] = scale.x * (operand_unsigned_bytes(quants) - blocks_zero(NAME(_dtype))) + scale.y;
                    continue;
                }
                if (NAME(_in_blocks)()) {
                    uvec2 slot = NAME(_starts)[4u * q + r] + NAME(_block)[u];
                    row[r] = NAME(_block_quad)(slot, 4u * NAME(_part)[u] + c, NAME(_scales)[i]);
                    continue;
                }
#endif
                row[r] = NAME(_decode)(NAME(_open)[i], c, NAME(_scales)[i]);
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                NAME(_fragment)[4u * q + kk] = vec4(row[0][kk], row[1][kk], row[2][kk], row[3][kk]);
            }
        } else if (NAME(_way)() == ALONG_OUTER) {
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
#ifdef BLOCKS
                if (NAME(_in_blocks)()) {
                    uvec2 slot = NAME(_starts)[4u * q] + NAME(_along)(NAME(_inside_k)(k4, kk));
                    NAME(_fragment)[4u * q + kk] = NAME(_load_quad)(slot, NAME(_quad)[q]);
                    continue;
                }
#endif
                uint i = 4u * (QUADS_A * u + q) + kk;
                NAME(_fragment)[4u * q + kk] = NAME(_decode)(NAME(_open)[i], NAME(_quad)[q], NAME(_scales)[i]);
            }
        } else {
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                NAME(_fragment)[4u * q + kk] = NAME(_gather)(4u * NAME(_quad)[q], 4u * k4 + kk, NAME(_i2), NAME(_i3));
            }
        }
    }
}

// Zeroes what the fragment holds beyond K.
void NAME(_cut)(uint k4) {
    [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
        uint k = 4u * k4 + turned(kk, NAME(_turn_k)());
        [[unroll]] for (uint q = 0u; q < QUADS_A; q++) {
            NAME(_fragment)[4u * q + kk] = k < NAME(_k) ? NAME(_fragment)[4u * q + kk] : vec4(0.0);
        }
    }
}

#undef OPERAND
