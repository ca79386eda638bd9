// Patches (A) added where they came from in an image: the transpose of im2col; one invocation per texel.
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

// The position whose window has its element k on an element of the image; false if there is none.
bool position_of(uint element, uint k, uint stride, uint pad, uint dilation, uint positions, out uint o) {
    uint whole = element + pad;
    uint before = k * dilation;
    o = (whole - before) / stride;
    return whole >= before && (whole - before) % stride == 0u && o < positions;
}

// All that falls on element x of the image.
float element(uint x, Position p) {
    float total = 0.0;
    for (uint ky = 0u; ky < KERNEL_1; ky++) {
        uint oy = 0u;
        if (KIND == PLANE && !position_of(p.i1, ky, STRIDE_1, PAD_1, DILATION_1, A_n2, oy)) {
            continue;
        }
        for (uint kx = 0u; kx < KERNEL_0; kx++) {
            uint ox;
            if (position_of(x, kx, STRIDE_0, PAD_0, DILATION_0, A_n1, ox)) {
                total += KIND == PLANE ? A_load(kx + KERNEL_0 * (ky + KERNEL_1 * p.i2), ox, oy, p.i3)
                                       : A_load(kx + KERNEL_0 * p.i1, ox, p.i2, 0u);
            }
        }
    }
    return total;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        for (uint k = 0u; k < 4u; k++) {
            uint x = 4u * p.c + k;
            if (x < D_n0) {
                v[k] = element(x, p);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
