// One AdamW step, in place; one invocation per texel of the weight. Padding is zero already and is left alone.
//
// Where a device binds too few operands, two dispatches make the step: with MOMENTS the moments of the gradient, with WEIGHTS
// the weights from them.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#ifndef MOMENTS
#define OPERAND W
#define SLOT 0
#define ACCESS UPDATE
#include "operand.glsl"
#endif

#ifdef MOMENTS
#define G_SLOT 0
#define INSIDE(p) (4u * p.c < M_n0 && M_inside(p.i1, p.i2, p.i3))
#else
#define G_SLOT 1
#define INSIDE(p) (4u * p.c < W_n0 && W_inside(p.i1, p.i2, p.i3))
#endif
#ifdef WEIGHTS
#define M_SLOT 1
#define V_SLOT 2
#define P_SLOT 3
#define MOMENT_ACCESS READ
#else
#define M_SLOT (G_SLOT + 1)
#define V_SLOT (G_SLOT + 2)
#define P_SLOT (G_SLOT + 3)
#define MOMENT_ACCESS UPDATE

#define OPERAND G
#define SLOT G_SLOT
#define ACCESS READ
#include "operand.glsl"
#endif

#define OPERAND M
#define SLOT M_SLOT
#define ACCESS MOMENT_ACCESS
#include "operand.glsl"

#define OPERAND V
#define SLOT V_SLOT
#define ACCESS MOMENT_ACCESS
#include "operand.glsl"

// alpha, beta1, beta2, eps, weight decay, 1 / (1 - beta1^t), 1 / (1 - beta2^t)
#define OPERAND P
#define SLOT P_SLOT
#define ACCESS READ
#include "operand.glsl"

void main() {
    Position p;
    if (!texel_position(p) || !INSIDE(p)) {
        return;
    }
    vec4 first = P_load4(0u, 0u, 0u, 0u);
    vec4 m = M_load4(p.c, p.i1, p.i2, p.i3);
    vec4 v = V_load4(p.c, p.i1, p.i2, p.i3);
#ifndef WEIGHTS
    float beta1 = first.y;
    float beta2 = first.z;
    vec4 g = G_load4(p.c, p.i1, p.i2, p.i3);
    m = m * beta1 + g * (1.0 - beta1);
    v = v * beta2 + g * g * (1.0 - beta2);
    M_store4(p.c, p.i1, p.i2, p.i3, m);
    V_store4(p.c, p.i1, p.i2, p.i3, v);
#endif
#ifndef MOMENTS
    float alpha = first.x;
    float eps = first.w;
    vec4 last = P_load4(1u, 0u, 0u, 0u);
    float decay = last.x;
    vec4 w = W_load4(p.c, p.i1, p.i2, p.i3);
    w = w * (1.0 - alpha * decay) - alpha * (m * last.y) / (sqrt(v * last.z) + eps);
    W_store4(p.c, p.i1, p.i2, p.i3, w);
#endif
}
