// Bytes of a home to the host's order; one invocation per 16 bytes of the host.
#version 450
#extension GL_GOOGLE_include_directive : require

#define OUT
#include "repack.glsl"

// Index of a row, column 0.
uvec4 index_of(uint row) {
    uint above = row / S_words[EXTENTS];
    return uvec4(0u, row % S_words[EXTENTS], above % S_words[EXTENTS + 1u], above / S_words[EXTENTS + 1u]);
}

// The texel that holds byte j of a row, and where in it the byte is.
uvec4 texel_of(uint row, uint j, out uint at) {
    uvec4 index = index_of(row);
    at = j % 16u;
    if (QUANTS == 0u) {
        index.x = j / 16u;
        return H_fetch(place(index, 0u));
    }
    uint scale_bytes = S_words[BLOCK_BYTES] - 16u * QUANTS;
    index.x = j / S_words[BLOCK_BYTES];
    uint k = j % S_words[BLOCK_BYTES];
    uint in_strip = index.y % 4u;
    index.y -= in_strip;
    if (k < scale_bytes) {
        at = 4u * in_strip + k;
        return H_fetch(place(index, 4u * QUANTS));
    }
    k -= scale_bytes;
    at = k % 16u;
    return H_fetch(place(index, in_strip * QUANTS + k / 16u));
}

void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= S_words[COUNT]) {
        return;
    }
    uint row_bytes = S_words[ROW_BYTES];
    uint rows = S_words[EXTENTS] * S_words[EXTENTS + 1u] * S_words[EXTENTS + 2u];
    uint first = S_words[SHIFT] + 16u * i;
    uvec4 texel = uvec4(0u);
    if (QUANTS == 0u && (row_bytes | first) % 16u == 0u) {
        uint row = S_words[FIRST] + first / row_bytes;
        uint at;
        if (row < rows) {
            texel = texel_of(row, first % row_bytes, at);
        }
    } else {
        // Bytes of a word that lie together in both forms.
        uint aligned = row_bytes | first | (QUANTS > 0u ? S_words[BLOCK_BYTES] : 0u);
        uint step = aligned % 4u == 0u ? 4u : (aligned % 2u == 0u ? 2u : 1u);
        uint mask = 0xFFFFFFFFu >> (32u - 8u * step);
        for (uint k = 0u; k < 16u; k += step) {
            uint row = S_words[FIRST] + (first + k) / row_bytes;
            uint at;
            if (row < rows) {
                uvec4 found = texel_of(row, (first + k) % row_bytes, at);
                texel[k / 4u] |= ((found[at / 4u] >> (8u * (at % 4u))) & mask) << (8u * (k % 4u));
            }
        }
    }
    uint to = HEADER + 4u * i;
    for (uint k = 0u; k < 4u; k++) {
        S_words[to + k] = texel[k];
    }
}
