// One AdamW step, in place; one invocation per texel of the weight. Padding is zero already and is left alone.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND W
#define SLOT 0
#define ACCESS UPDATE
#include "operand.glsl"

#define OPERAND G
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND M
#define SLOT 2
#define ACCESS UPDATE
#include "operand.glsl"

#define OPERAND V
#define SLOT 3
#define ACCESS UPDATE
#include "operand.glsl"

// alpha, beta1, beta2, eps, weight decay, 1 / (1 - beta1^t), 1 / (1 - beta2^t)
#define OPERAND P
#define SLOT 4
#define ACCESS READ
#include "operand.glsl"

void main() {
    Position p;
    if (!texel_position(p) || 4u * p.c >= W_n0 || !W_inside(p.i1, p.i2, p.i3)) {
        return;
    }
    vec4 first = P_load4(0u, 0u, 0u, 0u);
    vec4 last = P_load4(1u, 0u, 0u, 0u);
    float alpha = first.x;
    float beta1 = first.y;
    float beta2 = first.z;
    float eps = first.w;
    float decay = last.x;

    vec4 g = G_load4(p.c, p.i1, p.i2, p.i3);
    vec4 m = M_load4(p.c, p.i1, p.i2, p.i3) * beta1 + g * (1.0 - beta1);
    vec4 v = V_load4(p.c, p.i1, p.i2, p.i3) * beta2 + g * g * (1.0 - beta2);
    vec4 w = W_load4(p.c, p.i1, p.i2, p.i3);
    w = w * (1.0 - alpha * decay) - alpha * (m * last.y) / (sqrt(v * last.z) + eps);
    M_store4(p.c, p.i1, p.i2, p.i3, m);
    V_store4(p.c, p.i1, p.i2, p.i3, v);
    W_store4(p.c, p.i1, p.i2, p.i3, w);
}
