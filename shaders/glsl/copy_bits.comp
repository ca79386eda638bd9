// Copies blocks bit by bit: A and D have the same quantized type. One invocation per texel of a row of D, or of a row of its
// tiles; BOX_1 counts those.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

// A has another shape: the block with the same number in linear order is meant.
layout(constant_id = 16) const uint RENUMBER = 0u;

// Slot of A that block b of a row of D comes from.
uvec2 source(uint b, uint i1, uint i2, uint i3) {
    if (RENUMBER != 0u) {
        uint number = b + D_n0 / D_lanes * (i1 + D_n1 * (i2 + D_n2 * i3));
        uint blocks = A_n0 / A_lanes;
        uint above = number / blocks;
        return A_texel(number % blocks, above % A_n1, above / A_n1 % A_n2, above / (A_n1 * A_n2));
    }
    return A_texel(b, i1, i2, i3);
}

// Texel c of a row of blocks as the host has them.
uvec4 bytes(uint c, uint i1, uint i2, uint i3) {
    uint size = A_block_bytes;
    uvec4 texel = uvec4(0u);
    for (uint k = 0u; k < 16u; k++) {
        uint at = 16u * c + k;
        if (at < D_n0 / D_lanes * size && D_inside(i1, i2, i3)) {
            uint byte = A_block_rest(source(at / size, i1, i2, i3), at % size) & 0xFFu;
            texel[k / 4u] |= byte << (8u * (k % 4u));
        }
    }
    return texel;
}

// Texel c of a row of tiles: quants of one of four rows, or the scales of all of them.
uvec4 tiled(uint c, uint tile, uint i2, uint i3) {
    uint width = 4u * D_quants + 1u;
    uint in_tile = c % width;
    uvec4 texel = uvec4(0u);
    for (uint row = 0u; row < 4u; row++) {
        if (!D_inside(4u * tile + row, i2, i3)) {
            continue;
        }
        uvec2 slot = source(c / width, 4u * tile + row, i2, i3);
        if (in_tile == 4u * D_quants) {
            texel[row] = A_scale_word(slot);
        } else if (in_tile / D_quants == row) {
            texel = A_fetch(slot + uvec2(in_tile % D_quants, 0u));
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
        uvec2 first = D_texel(0u, p.i1, p.i2, p.i3);
        D_put(uvec2(first.x * A_block_bytes / 16u + p.c, first.y), bytes(p.c, p.i1, p.i2, p.i3));
    }
}
