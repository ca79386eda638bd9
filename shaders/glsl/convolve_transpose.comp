// Transposed convolution of the image B by the kernel A, a line's or a plane's: every input adds the kernel of its channel,
// times itself, at steps of the stride; one invocation per output texel.
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

// First and one past the last of the inputs whose kernels reach output o.
uvec2 inputs_of(uint o, uint kernel, uint stride, uint extent) {
    uint first = o >= kernel ? (o - kernel) / stride + 1u : 0u;
    return uvec2(first, min(o / stride + 1u, extent));
}

// Products of the inputs of row y, by row ky of the kernel, at output x.
float row(uint x, uint y, uint ky, Position p) {
    float total = 0.0;
    uvec2 inputs = inputs_of(x, KERNEL_0, STRIDE_0, B_n0);
    for (uint i = inputs.x; i < inputs.y; i++) {
        uint kx = x - i * STRIDE_0;
        for (uint c = 0u; c < CHANNELS; c++) {
            total += KIND == PLANE ? A_load(kx, ky, p.i2, c) * B_load(i, y, c, p.i3)
                                   : A_load(kx, p.i1, c, 0u) * B_load(i, c, 0u, 0u);
        }
    }
    return total;
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 total = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        uvec2 rows = KIND == PLANE ? inputs_of(p.i1, KERNEL_1, STRIDE_1, B_n1) : uvec2(0u, 1u);
        for (uint y = rows.x; y < rows.y; y++) {
            for (uint k = 0u; k < 4u; k++) {
                uint x = 4u * p.c + k;
                if (x < D_n0) {
                    total[k] += row(x, y, p.i1 - y * STRIDE_1, p);
                }
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, total);
}
