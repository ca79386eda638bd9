// How the window of a convolution slides over an image: element k of the window at position o lies on element
// o * stride + k * dilation - pad of axis 0, 1 or 2.

layout(constant_id = 16) const uint STRIDE_0 = 1u;
layout(constant_id = 17) const uint STRIDE_1 = 1u;
layout(constant_id = 18) const uint STRIDE_2 = 1u;
layout(constant_id = 19) const uint PAD_0 = 0u;
layout(constant_id = 20) const uint PAD_1 = 0u;
layout(constant_id = 21) const uint PAD_2 = 0u;
layout(constant_id = 22) const uint DILATION_0 = 1u;
layout(constant_id = 23) const uint DILATION_1 = 1u;
layout(constant_id = 24) const uint DILATION_2 = 1u;
// Elements of the window.
layout(constant_id = 25) const uint KERNEL_0 = 1u;
layout(constant_id = 26) const uint KERNEL_1 = 1u;
layout(constant_id = 27) const uint KERNEL_2 = 1u;
// Axes of the image.
layout(constant_id = 28) const uint KIND = 0u;
// Channels of an image.
layout(constant_id = 29) const uint CHANNELS = 1u;
// Positions on axis 2 of a solid's image.
layout(constant_id = 30) const uint DEPTH = 1u;

// [w, c, n]
const uint LINE = 0u;
// [w, h, c, n]
const uint PLANE = 1u;
// [w, h, d, n c]
const uint SOLID = 2u;
// A plane whose channels each have a kernel.
const uint DEPTHWISE = 3u;

// Elements before the image wrap around to large numbers, which are outside as well.
uint slide_0(uint o, uint k) {
    return o * STRIDE_0 + k * DILATION_0 - PAD_0;
}

uint slide_1(uint o, uint k) {
    return o * STRIDE_1 + k * DILATION_1 - PAD_1;
}

uint slide_2(uint o, uint k) {
    return o * STRIDE_2 + k * DILATION_2 - PAD_2;
}
