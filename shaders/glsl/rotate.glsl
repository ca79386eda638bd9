// The rotary embedding of a kernel's result: the last stage of an epilogue. Include after the operands P, the positions (I32),
// and F, the frequency factors.

// Heads follow each other along axis 0; rotated are the leading elements of each.
layout(constant_id = 466) const uint HEAD_DIM = 4u;
// Axis along which the positions run: 1, 2 or 3.
layout(constant_id = 467) const uint POSITION_AXIS = 1u;
layout(constant_id = 468) const bool HAS_FACTORS = false;

float rotate_factor(uint pair) {
    return HAS_FACTORS ? F_load(pair, 0u, 0u, 0u) : 1.0;
}

#define ROPE_FIRST 448
#define ROPE_FACTOR(pair) rotate_factor(pair)
#include "rope.glsl"

float rotate_position(uint i1, uint i2, uint i3) {
    return float(P_loadi(POSITION_AXIS == 1u ? i1 : (POSITION_AXIS == 2u ? i2 : i3), 0u, 0u, 0u));
}

vec2 rotate_pair(vec2 v, uint pair, float position) {
    vec2 turn = rotation(pair, pair, position);
    return vec2(v.x * turn.x - v.y * turn.y, v.x * turn.y + v.y * turn.x);
}

// Quad c4 of a row, whose pairs are neighbours.
vec4 rotate_neighbours(uint c4, vec4 v, float position) {
    uint i0 = 4u * c4 % HEAD_DIM;
    if (i0 < N_DIMS) {
        v.xy = rotate_pair(v.xy, i0 / 2u, position);
    }
    if (i0 + 2u < N_DIMS) {
        v.zw = rotate_pair(v.zw, i0 / 2u + 1u, position);
    }
    return v;
}

// Quad c4 of a row, in the first half of its head, and the quad in the second half whose elements are paired with its own.
void rotate_halves(uint c4, inout vec4 first, inout vec4 second, float position) {
    for (uint k = 0u; k < 4u; k++) {
        vec2 v = rotate_pair(vec2(first[k], second[k]), 4u * c4 % HEAD_DIM + k, position);
        first[k] = v.x;
        second[k] = v.y;
    }
}
