// What moves bytes between the host's linear form and a home: operand S holds a header and, behind it, bytes as the host has them;
// operand H is the home. Bits move, whatever they mean. With OUT defined H is read, else written.
//
// All that depends on the tensor is in the header (plan/repack.rs), so that one pipeline serves every shape: a tensor may be moved
// once only. Specialized is what chooses instructions.
//
// A row is axis 0 of the tensor. Columns count texels of a row, or blocks where slots are in tiles of four rows.

layout(local_size_x_id = 0) in;

// Texels of quants of a slot in tiles; 0 where a row of the home is the bytes of a row of the host.
layout(constant_id = 16) const uint QUANTS = 0u;
// The same where nothing is divided by zero.
const uint DIVISOR = QUANTS == 0u ? 1u : QUANTS;

#define OPERAND S
#define SLOT 0
#define ACCESS UPDATE
#define WORDS
#include "operand.glsl"

#define OPERAND H
#define SLOT 1
#ifdef OUT
#define ACCESS READ
#else
#define ACCESS WRITE
#endif
#include "operand.glsl"

// Words of the header.
const uint COUNT = 0u; // invocations
const uint FIRST = 1u; // in: first texel of the home; out: first row
const uint SHIFT = 2u; // in: from a byte's number in the tensor to its place in S, modulo 2^32; out: first byte in the first row
const uint ROW_BYTES = 3u;
const uint COLUMNS = 4u;
const uint EXTENTS = 5u; // of axes 1..3
const uint PADDED = 8u;
const uint PITCH = 11u;
const uint FIRST_Y = 12u; // row of texels that H's binding begins with
const uint X_DIGITS = 13u;
const uint Y_DIGITS = 14u;
const uint BLOCK_BYTES = 15u;
const uint DIGITS = 16u; // axis, stride, radix, step: first those of x, then those of y
const uint HEADER = 64u;

// Texels of a tile of four slots.
const uint TILE = 4u * QUANTS + 1u;

uint digits(uint first, uint count, uvec4 index) {
    uint sum = 0u;
    for (uint d = first; d < first + count; d++) {
        uint at = DIGITS + 4u * d;
        sum += index[S_words[at]] / S_words[at + 1u] % S_words[at + 2u] * S_words[at + 3u];
    }
    return sum;
}

// Where H has a column of a row, or texel `within` of the tile of a block and its neighbours in the four rows from a multiple of 4 on.
uvec2 place(uvec4 index, uint within) {
    uint x = digits(0u, S_words[X_DIGITS], index);
    uint y = digits(S_words[X_DIGITS], S_words[Y_DIGITS], index) - S_words[FIRST_Y];
    if (QUANTS > 0u) {
        x = x / 4u * TILE + within;
    }
    // Buffers are found by the number of a texel alone: their pitch is no constant.
    return H_storage == STORAGE_BUFFER ? uvec2(y * S_words[PITCH] + x, 0u) : uvec2(x, y);
}
