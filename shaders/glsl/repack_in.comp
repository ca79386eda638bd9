// Bytes of the host to their home; one invocation per texel of the home, padding included, which becomes zero.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "repack.glsl"

// Words of S from byte `at` on, of which `count` bytes count and the others are zero.
uvec4 bytes(uint at, uint count) {
    uint w = at / 4u;
    uint shift = 8u * (at % 4u);
    uvec4 texel = uvec4(S_words[w], S_words[w + 1u], S_words[w + 2u], S_words[w + 3u]);
    if (shift > 0u) {
        uvec4 next = uvec4(texel.yzw, S_words[w + 4u]);
        texel = texel >> shift | next << (32u - shift);
    }
    for (uint k = 0u; k < 4u; k++) {
        uint kept = count < 4u * k ? 0u : min(count - 4u * k, 4u);
        texel[k] = kept == 4u ? texel[k] : texel[k] & ((1u << (8u * kept)) - 1u);
    }
    return texel;
}

// Place in S of a row's first byte.
uint row_at(uint i1, uint i2, uint i3) {
    uint row = i1 + S_words[EXTENTS] * (i2 + S_words[EXTENTS + 1u] * i3);
    return row * S_words[ROW_BYTES] + S_words[SHIFT];
}

// Texel `within` of the tile of block b of the four rows from i1 on.
uvec4 tiled(uint b, uint i1, uint i2, uint i3, uint within) {
    uint scale_bytes = S_words[BLOCK_BYTES] - 16u * QUANTS;
    uint rows = S_words[EXTENTS] - min(i1, S_words[EXTENTS]);
    uint first = b * S_words[BLOCK_BYTES];
    uvec4 texel = uvec4(0u);
    if (within == 4u * QUANTS) {
        for (uint row = 0u; row < min(rows, 4u); row++) {
            texel[row] = bytes(row_at(i1 + row, i2, i3) + first, scale_bytes).x;
        }
    } else if (within / DIVISOR < rows) {
        texel = bytes(row_at(i1 + within / DIVISOR, i2, i3) + first + scale_bytes + 16u * (within % DIVISOR), 16u);
    }
    return texel;
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= S_words[COUNT]) {
        return;
    }
    uint t = S_words[FIRST] + i;
    uint per_column = QUANTS > 0u ? TILE : 1u;
    uint rows = QUANTS > 0u ? 4u : 1u;
    uint within = t % per_column;
    t /= per_column;
    uint c = t % S_words[COLUMNS];
    t /= S_words[COLUMNS];
    uint strips = S_words[PADDED] / rows;
    uint i1 = t % strips * rows;
    t /= strips;
    uint i2 = t % S_words[PADDED + 1u];
    uint i3 = t / S_words[PADDED + 1u];
    uvec4 texel = uvec4(0u);
    if (i2 < S_words[EXTENTS + 1u] && i3 < S_words[EXTENTS + 2u]) {
        uint row_bytes = S_words[ROW_BYTES];
        if (QUANTS > 0u) {
            // Columns behind the last block are padding.
            if (c * S_words[BLOCK_BYTES] < row_bytes) {
                texel = tiled(c, i1, i2, i3, within);
            }
        } else if (i1 < S_words[EXTENTS] && 16u * c < row_bytes) {
            texel = bytes(row_at(i1, i2, i3) + 16u * c, min(row_bytes - 16u * c, 16u));
        }
    }
    H_put(place(uvec4(c, i1, i2, i3), within), texel);
}
