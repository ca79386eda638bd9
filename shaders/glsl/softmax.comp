// softmax(scale * x + slope * mask) along axis 0, the mask (B) with MASK only; with SINKS (C) one more logit per head in the sum. A row
// without any finite logit becomes zero.
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
#define MASKS 1
#else
#define MASKS 0
#endif

#ifdef SINKS
#define OPERAND C
#define SLOT (1 + MASKS)
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT (2 + MASKS)
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA (3 + MASKS)
#else
#define OPERAND D
#define SLOT (1 + MASKS)
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA (2 + MASKS)
#endif
#include "epilogue.glsl"

layout(constant_id = 16) const float SCALE = 1.0;
#ifdef MASK
// Axes along which the mask repeats, as bits.
layout(constant_id = 17) const uint WRAP = 0u;
// ALiBi: heads of the first series of slopes, and the exponent from each of them to the next; 0 for no slopes.
layout(constant_id = 18) const uint HEADS = 1u;
layout(constant_id = 19) const float DECAY = 0.0;
// The head of the whole that head 0 of a piece is.
layout(constant_id = 20) const uint FIRST_HEAD = 0u;

// Factor on the mask of a head.
float slope(uint of_piece) {
    uint head = FIRST_HEAD + of_piece;
    return DECAY == 0.0 ? 1.0 : exp2(DECAY * (head < HEADS ? float(head + 1u) : float(head - HEADS) + 0.5));
}
#endif

const uint QUADS = (D_n0 + 3u) / 4u;

vec4 logits(uint c, Position p) {
    vec4 v = SCALE * A_load4(c, p.i1, p.i2, p.i3);
#ifdef MASK
    v += slope(p.i2) * B_repeat4(c, p.i1, p.i2, p.i3, WRAP);
#endif
    return v;
}

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    LogSum acc = logsum_start();
    vec4 kept[ROOM];
    ROWS_SWEEP(n, c, quads) {
        if (c < quads) {
            vec4 x = logits(c, p);
            logsum_add(acc, c, D_n0, x);
            if (KEPT > 0u) {
                kept[n] = x;
            }
        }
    }
#ifdef SINKS
    if (quads > 0u && rows_column() == 0u) {
        logsum_add(acc, 0u, 1u, vec4(C_load(p.i2, 0u, 0u, 0u)));
    }
#endif
    acc = logsum_join(acc);
    float factor = acc.s > 0.0 ? 1.0 / acc.s : 0.0;

    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
    ROWS_SWEEP(n, c, BOX_C) {
        vec4 v = vec4(0.0);
        if (c < quads) {
            v = exp((KEPT > 0u ? kept[n] : logits(c, p)) - acc.m) * factor;
        }
        if (c < BOX_C) {
            STORE4(c, p.i1, p.i2, p.i3, v);
        }
    }
}
