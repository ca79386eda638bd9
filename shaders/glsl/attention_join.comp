// Joins what attention left of each part of the keys (A), whose parts are above the batches of axis 3: sums of weighted
// values, and in one quad behind them the greatest score and the sum of weights. With SINKS, each head has the logit (B) of
// one more key without a value. A result with more heads than the parts keeps the logarithms of the sums of weights there. One
// invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "attention_logs.glsl"
#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#ifdef SINKS
#define OPERAND B
#define SLOT 1
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#define DTYPE DTYPE_F32
#include "operand.glsl"
#else
#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#define DTYPE DTYPE_F32
#include "operand.glsl"
#endif

layout(constant_id = 16) const uint PARTS = 1u;

// What a part without a visible key has as its greatest score.
const float HIDDEN = -3.4028235e38;

// The greatest score of a head's row, and the sum of its weights.
vec2 joined(uint head, uint query, uint batch) {
    const uint behind = (D_n0 + 3u) / 4u;
    float greatest = HIDDEN;
#ifdef SINKS
    greatest = max(greatest, B_load(head, 0u, 0u, 0u));
#endif
    for (uint part = 0u; part < PARTS; part++) {
        greatest = max(greatest, A_load4(behind, head, query, part * D_n3 + batch).x);
    }
    float total = 0.0;
#ifdef SINKS
    total = exp(B_load(head, 0u, 0u, 0u) - greatest);
#endif
    for (uint part = 0u; part < PARTS; part++) {
        vec4 state = A_load4(behind, head, query, part * D_n3 + batch);
        total += state.y * exp(state.x - greatest);
    }
    return vec2(greatest, total);
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    const uint quads = (D_n0 + 3u) / 4u;
    vec4 sum = vec4(0.0);
    if (p.c < quads && D_inside(p.i1, p.i2, p.i3)) {
        bool is_head = p.i1 < A_n1;
        uint head = is_head ? p.i1 : (p.i1 - A_n1) * quads + p.c;
        vec2 of = head < A_n1 ? joined(head, p.i2, p.i3) : vec2(0.0);
        if (is_head) {
            for (uint part = 0u; part < PARTS; part++) {
                float greatest = A_load4(quads, p.i1, p.i2, part * D_n3 + p.i3).x;
                sum += exp(greatest - of.x) * A_load4(p.c, p.i1, p.i2, part * D_n3 + p.i3);
            }
            sum *= of.y > 0.0 ? 1.0 / of.y : 0.0;
        } else if (of.y > 0.0) {
            sum.x = of.x + log(of.y);
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, sum);
}
