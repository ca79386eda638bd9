// The patches of the image A under a kernel's windows, as columns; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "window.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

// Element i0 of the patch at the position, zero outside the image.
float element(uint i0, Position p) {
    uint c = i0 / (KERNEL_0 * KERNEL_1 * KERNEL_2);
    uint x = slide_0(p.i1, i0 % KERNEL_0);
    if (x >= A_n0) {
        return 0.0;
    }
    if (KIND == LINE) {
        return A_load(x, c, p.i2, 0u);
    }
    uint y = slide_1(p.i2, (i0 / KERNEL_0) % KERNEL_1);
    if (y >= A_n1) {
        return 0.0;
    }
    if (KIND == PLANE) {
        return A_load(x, y, c, p.i3);
    }
    uint z = slide_2(p.i3 % DEPTH, (i0 / (KERNEL_0 * KERNEL_1)) % KERNEL_2);
    return z < A_n2 ? A_load(x, y, z, p.i3 / DEPTH * CHANNELS + c) : 0.0;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k;
            if (i0 < D_n0) {
                v[k] = element(i0, p);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
