// Rotary embedding of A by the positions B (I32, one per index of axis 2), with FACTORS by the frequency factors C; with MULTI by
// one of four positions, as the section of a pair says. One invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#ifdef FACTORS
#define OPERAND C
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 3
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 4
#else
#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 3
#endif
#include "epilogue.glsl"

#ifdef MULTI
// There is no epilogue: its ids are free.
layout(constant_id = 36) const bool HAS_FACTORS = false;
// Pairs of each section; the first three dealt out one by one; each counted from 0.
layout(constant_id = 37) const uint SECTION_0 = 1u;
layout(constant_id = 38) const uint SECTION_1 = 0u;
layout(constant_id = 39) const uint SECTION_2 = 0u;
layout(constant_id = 40) const uint SECTION_3 = 0u;
layout(constant_id = 41) const bool INTERLEAVED = false;
layout(constant_id = 42) const bool RESTARTED = false;
#endif

#define ROPE_FIRST 16
#ifdef MULTI
#define ROPE_FACTOR(pair) (HAS_FACTORS ? C_load(pair, 0u, 0u, 0u) : 1.0)
#elif defined(FACTORS)
#define ROPE_FACTOR(pair) C_load(pair, 0u, 0u, 0u)
#else
#define ROPE_FACTOR(pair) 1.0
#endif
#include "rope.glsl"

// First element that is rotated.
layout(constant_id = 34) const uint OFFSET = 0u;

#ifdef MULTI
// Which of a token's positions turns a pair; power is the pair whose frequency it has.
uint section(uint pair, out uint power) {
    uint at = pair % (SECTION_0 + SECTION_1 + SECTION_2 + SECTION_3);
    power = pair;
    if (INTERLEAVED) {
        uint axis = at % 3u;
        uint pairs = axis == 0u ? SECTION_0 : (axis == 1u ? SECTION_1 : SECTION_2);
        return at < 3u * pairs ? axis : 3u;
    }
    uint axis = 0u;
    uint start = 0u;
    if (at >= SECTION_0) {
        axis = 1u;
        start = SECTION_0;
    }
    if (at >= SECTION_0 + SECTION_1) {
        axis = 2u;
        start = SECTION_0 + SECTION_1;
    }
    if (at >= SECTION_0 + SECTION_1 + SECTION_2) {
        axis = 3u;
        start = SECTION_0 + SECTION_1 + SECTION_2;
    }
    if (RESTARTED) {
        power = at - start;
    }
    return axis;
}
#endif

// Element i0 of the rotated row; self is element i0 of the input.
float rotated(uint i0, float self, Position p, float position) {
    uint j = i0 - OFFSET;
    if (i0 < OFFSET || j >= N_DIMS) {
        return self;
    }
    uint half_dims = N_DIMS / 2u;
    uint pair = NEOX ? j % half_dims : j / 2u;
    bool second = NEOX ? j >= half_dims : (j & 1u) != 0u;
    uint distance = NEOX ? half_dims : 1u;
    float other = A_load(second ? i0 - distance : i0 + distance, p.i1, p.i2, p.i3);
    uint power = pair;
#ifdef MULTI
    uint axis = section(pair, power);
    position = float(B_loadi(p.i2 + axis * D_n2, 0u, 0u, 0u));
#endif
    vec2 turn = rotation(pair, power, position);
    return second ? other * turn.y + self * turn.x : self * turn.x - other * turn.y;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
#ifdef MULTI
        float position = 0.0;
#else
        float position = float(B_loadi(p.i2, 0u, 0u, 0u));
#endif
        vec4 x = A_load4(p.c, p.i1, p.i2, p.i3);
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k;
            v[k] = i0 < D_n0 ? rotated(i0, x[k], p, position) : 0.0;
        }
    }
    STORE4(p.c, p.i1, p.i2, p.i3, v);
}
