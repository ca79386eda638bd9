// Joins what attention left of each part of the keys (A), whose parts are above the batches of axis 3: sums of weighted
// values, and in one quad behind them the greatest score and the sum of weights. With SINKS, each head has the logit (B) of
// one more key without a value. One invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

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

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 sum = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        const uint behind = (D_n0 + 3u) / 4u;
        float greatest = HIDDEN;
#ifdef SINKS
        greatest = max(greatest, B_load(p.i1, 0u, 0u, 0u));
#endif
        for (uint part = 0u; part < PARTS; part++) {
            greatest = max(greatest, A_load4(behind, p.i1, p.i2, part * D_n3 + p.i3).x);
        }
        float total = 0.0;
#ifdef SINKS
        total = exp(B_load(p.i1, 0u, 0u, 0u) - greatest);
#endif
        for (uint part = 0u; part < PARTS; part++) {
            vec4 state = A_load4(behind, p.i1, p.i2, part * D_n3 + p.i3);
            float shrink = exp(state.x - greatest);
            total += state.y * shrink;
            sum += shrink * A_load4(p.c, p.i1, p.i2, part * D_n3 + p.i3);
        }
        sum *= total > 0.0 ? 1.0 / total : 0.0;
    }
    D_store4(p.c, p.i1, p.i2, p.i3, sum);
}
