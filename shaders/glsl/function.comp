// A function of one element, or of two with GATED; one invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#ifdef GATED
#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#else
#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"
#endif
#include "functions.glsl"

layout(constant_id = 16) const uint OP = 0u;
// The function's parameters, in the order of backend/src/kernels/functions.rs.
layout(constant_id = 17) const float PARAMETER_0 = 0.0;
layout(constant_id = 18) const float PARAMETER_1 = 0.0;
layout(constant_id = 19) const float PARAMETER_2 = 0.0;
layout(constant_id = 20) const float PARAMETER_3 = 0.0;

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 parameters = vec4(PARAMETER_0, PARAMETER_1, PARAMETER_2, PARAMETER_3);
    vec4 v = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        vec4 a = A_load4(p.c, p.i1, p.i2, p.i3);
#ifdef GATED
        v = function_gated(OP, a, B_load4(p.c, p.i1, p.i2, p.i3), parameters);
#else
        v = function_of_one(OP, a, parameters);
#endif
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
