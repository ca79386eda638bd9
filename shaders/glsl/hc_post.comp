// A layer's result A = [n, tokens] added to residual streams R = [n, streams, tokens] by weights P = [streams, tokens], the streams mixed
// by C = [to, from, tokens] with COMB; one invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND R
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND P
#define SLOT 2
#define ACCESS READ
#include "operand.glsl"

#ifdef COMB
#define OPERAND C
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 4
#define ACCESS WRITE
#include "operand.glsl"
#else
#define OPERAND D
#define SLOT 3
#define ACCESS WRITE
#include "operand.glsl"
#endif

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        v = A_load4(p.c, p.i2, 0u, 0u) * P_load(p.i1, p.i2, 0u, 0u);
#ifdef COMB
        for (uint from = 0u; from < R_n1; from++) {
            v += R_load4(p.c, from, p.i2, 0u) * C_load(p.i1, from, p.i2, 0u);
        }
#else
        v += R_load4(p.c, p.i1, p.i2, 0u);
#endif
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
