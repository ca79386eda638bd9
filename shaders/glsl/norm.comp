// RMS normalisation along axis 0 (A = x), or with BACK its gradient (A = dy, B = x), or with L2 division by the length.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#ifdef BACK
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

layout(constant_id = 16) const float EPS = 0.0;

const uint QUADS = (D_n0 + 3u) / 4u;

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    vec4 kept[ROOM];
#ifdef BACK
    vec4 kept_dy[ROOM];
    vec2 sums = vec2(0.0);
    ROWS_SWEEP(n, c, quads) {
        if (c < quads) {
            vec4 x = operand_mask(c, D_n0, B_load4(c, p.i1, p.i2, p.i3));
            vec4 dy = operand_mask(c, D_n0, A_load4(c, p.i1, p.i2, p.i3));
            sums += vec2(dot(x, x), dot(x, dy));
            if (KEPT > 0u) {
                kept[n] = x;
                kept_dy[n] = dy;
            }
        }
    }
    sums = rows_sum2(sums);
    float squares = sums.x;
    float factor = sums.y / (squares + EPS * float(D_n0));
#else
    float squares = 0.0;
    ROWS_SWEEP(n, c, quads) {
        if (c < quads) {
            vec4 x = operand_mask(c, D_n0, A_load4(c, p.i1, p.i2, p.i3));
            squares += dot(x, x);
            if (KEPT > 0u) {
                kept[n] = x;
            }
        }
    }
    squares = rows_sum(squares);
#endif
#ifdef L2
    float scale = 1.0 / max(sqrt(squares), EPS);
#else
    float scale = 1.0 / sqrt(squares / float(D_n0) + EPS);
#endif

    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
#ifdef ROTATE
    // A row is a head: with NEOX each quad of its first half comes with one of the second, and what is left of the box alone.
    const uint half_head = NEOX ? HALF_HEAD : 0u;
    for (uint i = rows_column(); i < BOX_C - half_head; i += COLUMNS) {
        uint c = NEOX && i >= HALF_HEAD ? i + HALF_HEAD : i;
        vec4 first = vec4(0.0);
        vec4 second = vec4(0.0);
        if (c < quads) {
            first = scale * A_load4(c, p.i1, p.i2, p.i3);
            second = NEOX ? scale * A_load4(c + HALF_HEAD, p.i1, p.i2, p.i3) : first;
        }
        epilogue_store_rotated(c, p.i1, p.i2, p.i3, first, second);
    }
#else
    ROWS_SWEEP(n, c, BOX_C) {
        vec4 v = vec4(0.0);
        if (c < quads) {
#ifdef BACK
            vec4 x = KEPT > 0u ? kept[n] : B_load4(c, p.i1, p.i2, p.i3);
            vec4 dy = KEPT > 0u ? kept_dy[n] : A_load4(c, p.i1, p.i2, p.i3);
            v = (dy - x * factor) * scale;
#else
            v = scale * (KEPT > 0u ? kept[n] : A_load4(c, p.i1, p.i2, p.i3));
#endif
        }
        if (c < BOX_C) {
            STORE4(c, p.i1, p.i2, p.i3, v);
        }
    }
#endif
}
