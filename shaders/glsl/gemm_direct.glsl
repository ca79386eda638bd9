// The product from registers: every invocation fetches the fragments of its own sums. Included by gemm_product.glsl.

// Adds part number `part` of `parts` of k, for TILE_M quads of m from m4 on, LANES_M apart, and TILE_N values of n from n0
// on, STEP_N apart. Of that part this is every LANES_K-th step, from the invocation's own number on.
void L(_product)(uint m4, uint n0, uint i2, uint i3, uint part, uint parts) {
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        L(_aim)(q, m4 + q * LANES_M, i2, i3);
    }
    R(_aim)(n0, i2, i3);

    // Quads of k, the last one perhaps in part.
    const uint quads = (L(_k) + 3u) / 4u;
    const uint step = L(_quads_of_texel)();
    const bool ragged = L(_k) % (4u * step) != 0u;
    const uint steps = (quads + step - 1u) / step;
    const uint steps_of_part = (steps + parts - 1u) / parts;
    uint end = min((part + 1u) * steps_of_part, steps);
    for (uint s = part * steps_of_part + lane_k; s < end; s += LANES_K) {
        L(_open_texels)(s);
        for (uint c = 0u; c < step; c++) {
            uint k4 = s * step + c;
            L(_open_quad)(k4);
            L(_fill)(k4, c);
            R(_fill)(ragged ? min(k4, quads - 1u) : k4);
            if (ragged) {
                L(_cut)(k4);
            }
            [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
                    float b = ragged && 4u * k4 + kk >= L(_k) ? 0.0 : R(_value)(kk, n);
                    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
                        acc[TILE_M * n + q] += L(_fragment)[4u * q + kk] * b;
                    }
                }
            }
        }
    }
}
