// Convolution of the image B by the kernel A: a plane's or a solid's channels summed, or each channel by its own kernel; one
// invocation per output texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "window.glsl"

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

// Outputs of a solid's image.
const uint OUTPUTS = KIND == SOLID ? A_n3 / CHANNELS : 1u;

// Element (kx, ky, kz) of the kernel of channel c that the output is made with.
float weight(uint kx, uint ky, uint kz, uint c, Position p) {
    if (KIND == SOLID) {
        return A_load(kx, ky, kz, p.i3 % OUTPUTS * CHANNELS + c);
    }
    return KIND == DEPTHWISE ? A_load(kx, ky, 0u, p.i2) : A_load(kx, ky, c, p.i2);
}

// Element (x, y, z) of channel c of the output's image.
float value(uint x, uint y, uint z, uint c, Position p) {
    if (KIND == SOLID) {
        return B_load(x, y, z, p.i3 / OUTPUTS * CHANNELS + c);
    }
    return KIND == DEPTHWISE ? B_load(x, y, p.i2, p.i3) : B_load(x, y, c, p.i3);
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 total = vec4(0.0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        for (uint kz = 0u; kz < KERNEL_2; kz++) {
            uint z = KIND == SOLID ? slide_2(p.i2, kz) : 0u;
            if (KIND == SOLID && z >= B_n2) {
                continue;
            }
            for (uint ky = 0u; ky < KERNEL_1; ky++) {
                uint y = slide_1(p.i1, ky);
                if (y >= B_n1) {
                    continue;
                }
                for (uint kx = 0u; kx < KERNEL_0; kx++) {
                    for (uint c = 0u; c < CHANNELS; c++) {
                        float w = weight(kx, ky, kz, c, p);
                        for (uint k = 0u; k < 4u; k++) {
                            uint x = slide_0(4u * p.c + k, kx);
                            if (x < B_n0) {
                                total[k] += w * value(x, y, z, c, p);
                            }
                        }
                    }
                }
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, total);
}
