// Operand A of the GEMM as fragments of 4 k by 4 TILE_M values of m, decoded from any dtype.
//
// Lanes along K: a texel is a run of k of one row, four rows make a fragment. Lanes along m: a texel is a run of m of one
// k, four k make a fragment. Which of the two is a matter of naming registers.

// [4 q + kk]: quad q of m at k = 4 k4 + kk.
vec4 a_fragment[4u * TILE_M];

// Lanes along K: where the four rows of quad q start. Lanes along m: [4 q] is where the slot of quad q starts.
uvec2 a_start[4u * TILE_M];
// Lanes along m: number of quad q in its slot. Scattered: number of quad q in the axis.
uint a_quad[TILE_M];
uint a_i2;
uint a_i3;

// Lanes along K: the open texel of every row, and the scale of its slot.
uvec4 a_open[4u * TILE_M];
vec2 a_scale[4u * TILE_M];

// Quads of k a texel holds that runs along K.
uint a_quads_of_texel() {
    return A_way() != ALONG_K ? 1u : (A_dtype == DTYPE_F32 ? 1u : (A_dtype == DTYPE_F16 ? 2u : (A_dtype == DTYPE_Q8_0 ? 4u : 8u)));
}

bool a_quantized() {
    return A_dtype >= DTYPE_Q8_0;
}

// Step from the first slot of a quantized tile to its scale texel.
uvec4 a_fetch_scales(uvec2 place) {
    return A_fetch_place(place + uvec2(4u * A_quants, 0u));
}

// Scale and minimum of a row of a tile from its scale texel.
vec2 a_row_scale(uint word) {
    vec2 dm = unpackHalf2x16(word);
    return A_dtype == DTYPE_Q8_0 ? vec2(dm.x, 0.0) : dm;
}

// Points quad q at m = 4 m4 .. 4 m4 + 3. What lies beyond the extents is read from inside them: the store drops it.
void a_aim(uint q, uint m4, uint i2, uint i3) {
    m4 = min(m4, (A_outer - 1u) / 4u);
    a_i2 = min(i2, A_n2 - 1u);
    a_i3 = min(i3, A_n3 - 1u);
    a_quad[q] = m4;
    if (A_way() == ALONG_K) {
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            // Where the rows of a quad are one digit, those beyond the extent are padding.
            uint m = A_row_radix % 4u == 0u ? 4u * m4 + r : min(4u * m4 + r, A_outer - 1u);
            a_start[4u * q + r] = A_start(m, a_i2, a_i3);
        }
    } else if (A_way() == ALONG_OUTER) {
        a_quad[q] = m4 % (A_lanes / 4u);
        a_start[4u * q] = A_start(m4 / (A_lanes / 4u), a_i2, a_i3);
    }
}

// Fetches texel s along K of every row.
void a_open_texels(uint s) {
    if (A_way() != ALONG_K) {
        return;
    }
    uvec2 along = A_along(s / A_quants) + uvec2(s % A_quants, 0u);
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        if (a_quantized()) {
            uvec4 words = a_fetch_scales(a_start[4u * q] + A_along(s / A_quants));
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                a_scale[4u * q + r] = a_row_scale(words[r]);
            }
        }
        [[unroll]] for (uint r = 0u; r < 4u; r++) {
            a_open[4u * q + r] = A_fetch_place(a_start[4u * q + r] + along);
        }
    }
}

// Fills the fragment for k = 4 k4 .. 4 k4 + 3, quad number c of the open texels.
void a_load(uint k4, uint c) {
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        if (A_way() == ALONG_K) {
            vec4 row[4];
            [[unroll]] for (uint r = 0u; r < 4u; r++) {
                row[r] = A_decode(a_open[4u * q + r], c, a_scale[4u * q + r]);
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                a_fragment[4u * q + kk] = vec4(row[0][kk], row[1][kk], row[2][kk], row[3][kk]);
            }
        } else if (A_way() == ALONG_OUTER) {
            uvec4 words = uvec4(0u);
            if (a_quantized()) {
                words = a_fetch_scales(a_start[4u * q] + A_along(4u * k4));
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                uint k = A_k % 4u == 0u ? 4u * k4 + kk : min(4u * k4 + kk, A_k - 1u);
                uvec2 place = a_start[4u * q] + A_along(k) + uvec2(A_quad_texel(a_quad[q]), 0u);
                a_fragment[4u * q + kk] = A_decode(A_fetch_place(place), a_quad[q], a_row_scale(words[kk]));
            }
        } else {
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                a_fragment[4u * q + kk] = A_gather(4u * a_quad[q], 4u * k4 + kk, a_i2, a_i3);
            }
        }
    }
}

// Zeroes what the fragment holds beyond K.
void a_cut(uint k4) {
    [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
        [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
            a_fragment[4u * q + kk] = 4u * k4 + kk < A_k ? a_fragment[4u * q + kk] : vec4(0.0);
        }
    }
}
