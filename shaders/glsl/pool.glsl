// The window of a pool over axes 0 and 1.

layout(constant_id = 16) const uint KIND = 0u;
layout(constant_id = 17) const uint EXTENT_0 = 1u;
layout(constant_id = 18) const uint EXTENT_1 = 1u;
layout(constant_id = 19) const uint STRIDE_0 = 1u;
layout(constant_id = 20) const uint STRIDE_1 = 1u;
layout(constant_id = 21) const uint PAD_0 = 0u;
layout(constant_id = 22) const uint PAD_1 = 0u;

const uint MAX = 0u;
// Over the elements of the window, or over those of them that are inside the input.
const uint AVERAGE = 1u;
const uint AVERAGE_INSIDE = 2u;

const float LOWEST = -3.4028235e38;

// First and one past the last of the elements under the window at position o that are inside the input.
uvec2 elements_of(uint o, uint window, uint stride, uint pad, uint extent) {
    uint first = o * stride;
    return uvec2(first > pad ? first - pad : 0u, min(first + window > pad ? first + window - pad : 0u, extent));
}

uvec2 columns_of(uint o, uint extent) {
    return elements_of(o, EXTENT_0, STRIDE_0, PAD_0, extent);
}

uvec2 rows_of(uint o, uint extent) {
    return elements_of(o, EXTENT_1, STRIDE_1, PAD_1, extent);
}

// What the sum over these elements is divided by.
float divisor(uvec2 columns, uvec2 rows) {
    if (KIND == AVERAGE) {
        return float(EXTENT_0 * EXTENT_1);
    }
    // A window wholly outside has no elements, and a sum of zero.
    uint inside = (max(columns.y, columns.x) - columns.x) * (max(rows.y, rows.x) - rows.x);
    return float(max(inside, 1u));
}
