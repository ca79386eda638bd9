// Rotary embedding of A by the positions B (I32, one per index of axis 2), with FACTORS by the frequency factors C; one
// invocation per output texel.
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

#define ROPE_FIRST 16
#ifdef FACTORS
#define ROPE_FACTOR(pair) C_load(pair, 0u, 0u, 0u)
#else
#define ROPE_FACTOR(pair) 1.0
#endif
#include "rope.glsl"

// Element i0 of the rotated row; self is element i0 of the input.
float rotated(uint i0, float self, Position p, float position) {
    if (i0 >= N_DIMS) {
        return self;
    }
    uint half_dims = N_DIMS / 2u;
    uint pair = NEOX ? i0 % half_dims : i0 / 2u;
    bool second = NEOX ? i0 >= half_dims : (i0 & 1u) != 0u;
    uint distance = NEOX ? half_dims : 1u;
    float other = A_load(second ? i0 - distance : i0 + distance, p.i1, p.i2, p.i3);
    vec2 turn = rotation(pair, position);
    return second ? other * turn.y + self * turn.x : self * turn.x - other * turn.y;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        float position = float(B_loadi(p.i2, 0u, 0u, 0u));
        vec4 x = A_load4(p.c, p.i1, p.i2, p.i3);
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k;
            v[k] = i0 < D_n0 ? rotated(i0, x[k], p, position) : 0.0;
        }
    }
    STORE4(p.c, p.i1, p.i2, p.i3, v);
}
