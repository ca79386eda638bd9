// Two views side by side along an axis, as words or halves; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

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

layout(constant_id = 16) const uint AXIS = 0u;
// Extent of A along it.
layout(constant_id = 17) const uint FIRST = 1u;

// Whether every quad of D is a quad of A or of B.
const bool BY_QUADS = uint(AXIS == 0u) * (FIRST % 4u) == 0u;

// Whether an element of D comes from B; then its index there.
bool of_second(inout uvec4 i) {
    bool second = i[AXIS] >= FIRST;
    i[AXIS] -= second ? FIRST : 0u;
    return second;
}

#define QUAD(vec, name, load4, load) \
    vec name(uint c4, uint i1, uint i2, uint i3) { \
        uvec4 i = uvec4(4u * c4, i1, i2, i3); \
        if (BY_QUADS) { \
            return of_second(i) ? B_##load4(i.x / 4u, i.y, i.z, i.w) : A_##load4(i.x / 4u, i.y, i.z, i.w); \
        } \
        vec v = vec(0); \
        for (uint k = 0u; k < 4u; k++) { \
            i = uvec4(4u * c4 + k, i1, i2, i3); \
            if (i.x < D_n0) { \
                v[k] = of_second(i) ? B_##load(i.x, i.y, i.z, i.w) : A_##load(i.x, i.y, i.z, i.w); \
            } \
        } \
        return v; \
    }

QUAD(vec4, halves, load4, load)
QUAD(ivec4, words, load4i, loadi)

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    bool inside = D_inside(p.i1, p.i2, p.i3);
    if (D_dtype != DTYPE_F16) {
        ivec4 v = ivec4(0);
        if (inside && 4u * p.c < D_n0) {
            v = words(p.c, p.i1, p.i2, p.i3);
        }
        D_store4i(p.c, p.i1, p.i2, p.i3, v);
        return;
    }
    vec4 v[2] = vec4[2](vec4(0.0), vec4(0.0));
    for (uint h = 0u; h < 2u; h++) {
        uint c4 = 2u * p.c + h;
        if (inside && 4u * c4 < D_n0) {
            v[h] = halves(c4, p.i1, p.i2, p.i3);
        }
    }
    D_store8(p.c, p.i1, p.i2, p.i3, v[0], v[1]);
}
