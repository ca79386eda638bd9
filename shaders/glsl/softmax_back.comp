// Gradient of softmax along axis 0: scale * (dy - sum(y dy)) * y, with A = dy, B = y.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 3
#include "epilogue.glsl"

layout(constant_id = 16) const float SCALE = 1.0;

const uint QUADS = (D_n0 + 3u) / 4u;

void main() {
    Position p = rows_position();
    uint quads = D_inside(p.i1, p.i2, p.i3) ? QUADS : 0u;
    float products = 0.0;
    vec4 kept[ROOM];
    vec4 kept_dy[ROOM];
    ROWS_SWEEP(n, c, quads) {
        if (c < quads) {
            vec4 dy = operand_mask(c, D_n0, A_load4(c, p.i1, p.i2, p.i3));
            vec4 y = operand_mask(c, D_n0, B_load4(c, p.i1, p.i2, p.i3));
            products += dot(dy, y);
            if (KEPT > 0u) {
                kept[n] = y;
                kept_dy[n] = dy;
            }
        }
    }
    products = rows_sum(products);

    if (p.i1 >= BOX_1 || p.i2 >= BOX_2 || p.i3 >= BOX_3) {
        return;
    }
    ROWS_SWEEP(n, c, BOX_C) {
        vec4 v = vec4(0.0);
        if (c < quads) {
            vec4 dy = KEPT > 0u ? kept_dy[n] : A_load4(c, p.i1, p.i2, p.i3);
            v = SCALE * (dy - products) * (KEPT > 0u ? kept[n] : B_load4(c, p.i1, p.i2, p.i3));
        }
        if (c < BOX_C) {
            STORE4(c, p.i1, p.i2, p.i3, v);
        }
    }
}
