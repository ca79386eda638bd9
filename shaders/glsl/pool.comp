// Greatest or mean of the elements of A under a window; one invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "pool.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

float pooled(uint o, Position p) {
    uvec2 columns = columns_of(o, A_n0);
    uvec2 rows = rows_of(p.i1, A_n1);
    float total = 0.0;
    if (KIND == MAX) {
        total = LOWEST;
    }
    for (uint y = rows.x; y < rows.y; y++) {
        for (uint x = columns.x; x < columns.y; x++) {
            float v = A_load(x, y, p.i2, p.i3);
            total = KIND == MAX ? max(total, v) : total + v;
        }
    }
    return KIND == MAX ? total : total / divisor(columns, rows);
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        for (uint k = 0u; k < 4u; k++) {
            uint o = 4u * p.c + k;
            if (o < D_n0) {
                v[k] = pooled(o, p);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
