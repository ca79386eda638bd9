#version 450
// out = in * FACTOR + BIAS per 32-bit word, modulo 2^32. Operand 0 is read, operand 1 written, a buffer or an image each.
// Built with: glslc --target-env=vulkan1.1 -O affine.comp -o affine.spv
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 16) const uint WIDTH = 1;
layout(constant_id = 17) const uint HEIGHT = 1;
layout(constant_id = 18) const uint FACTOR = 1;
layout(constant_id = 19) const uint BIAS = 0;
layout(constant_id = 64) const uint IN_IMAGE = 0;
layout(constant_id = 112) const uint OUT_IMAGE = 0;

layout(set = 0, binding = 0, std430) readonly buffer InBuffer { uvec4 texels[]; } in_buffer;
layout(set = 0, binding = 1, rgba32ui) readonly uniform uimage2D in_image;
layout(set = 0, binding = 2, std430) buffer OutBuffer { uvec4 texels[]; } out_buffer;
layout(set = 0, binding = 3, rgba32ui) uniform uimage2D out_image;

void main() {
    uvec2 at = gl_GlobalInvocationID.xy;
    if (at.x >= WIDTH || at.y >= HEIGHT) return;
    uvec4 value = IN_IMAGE != 0 ? imageLoad(in_image, ivec2(at)) : in_buffer.texels[at.y * WIDTH + at.x];
    value = value * FACTOR + BIAS;
    if (OUT_IMAGE != 0) imageStore(out_image, ivec2(at), value);
    else out_buffer.texels[at.y * WIDTH + at.x] = value;
}
