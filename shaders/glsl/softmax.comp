// softmax(scale * x + mask) along axis 0, the mask (B) with MASK only. A row masked out as a whole becomes zero.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#ifdef MASK
#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 3
#else
#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 2
#endif
#include "epilogue.glsl"

layout(constant_id = 16) const float SCALE = 1.0;
#ifdef MASK
// Axes along which the mask repeats, as bits.
layout(constant_id = 17) const uint WRAP = 0u;
#endif

const uint QUADS = (D_n0 + 3u) / 4u;

vec4 logits(uint c, Position p) {
    vec4 v = SCALE * A_load4(c, p.i1, p.i2, p.i3);
#ifdef MASK
    v += B_repeat4(c, p.i1, p.i2, p.i3, WRAP);
#endif
    return v;
}

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    LogSum acc = logsum_start();
    for (uint c = rows_column(); c < quads; c += COLUMNS) {
        logsum_add(acc, c, D_n0, logits(c, p));
    }
    acc = logsum_join(acc);
    float factor = acc.s > 0.0 ? 1.0 / acc.s : 0.0;

    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
    for (uint c = rows_column(); c < BOX_C; c += COLUMNS) {
        vec4 v = vec4(0.0);
        if (c < quads) {
            v = exp(logits(c, p) - acc.m) * factor;
        }
        STORE4(c, p.i1, p.i2, p.i3, v);
    }
}
