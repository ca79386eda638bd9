// The product from registers: every invocation fetches the fragments of its own sums. Included by gemm_product.glsl.

// Adds part number `part` of `parts` of k, for TILE_M quads of m from m4 on, LANES_M apart, and TILE_N values of n from n0
// on, STEP_N apart. Of that part this is every LANES_K-th step, from the invocation's own number on, AHEAD of them at a time. With
// TWIN the sums of A2, which is read as A is, follow those of A.
void L(_product)(uint m4, uint n0, uint i2, uint i3, uint part, uint parts) {
    [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
        L(_aim)(q, m4 + q * LANES_M, i2, i3);
#ifdef TWIN
        A2_aim(q, m4 + q * LANES_M, i2, i3);
#endif
    }
    R(_aim)(n0, i2, i3);

    // Quads of k, the last one perhaps in part.
    const uint quads = (L(_k) + 3u) / 4u;
    const uint step = L(_quads_of_texel)();
    const uint group = min(GROUP_B, step);
    const bool ragged = L(_k) % (4u * step) != 0u;
    const uint steps = (quads + step - 1u) / step;
    const uint steps_of_part = (steps + parts - 1u) / parts;
    const uint turn_k = L(_turn_k)();
    // Whether all invocations have all of their steps: fetches then wait for no comparison.
    const bool whole = steps % (parts * LANES_K * AHEAD) == 0u;
    uint end = min((part + 1u) * steps_of_part, steps);
    for (uint s0 = part * steps_of_part + lane_k; s0 < end; s0 += AHEAD * LANES_K) {
        [[unroll]] for (uint u = 0u; u < AHEAD; u++) {
            uint s = s0 + u * LANES_K;
            if (u == 0u || whole || s < end) {
                L(_open_texels)(u, s);
                L(_open_quad)(u, L(_quad_of)(s, 0u));
#ifdef TWIN
                A2_open_texels(u, s);
                A2_open_quad(u, L(_quad_of)(s, 0u));
#endif
                if (group == step) {
                    [[unroll]] for (uint c = 0u; c < group; c++) {
                        uint k4 = L(_quad_of)(s, c);
                        R(_fill)(u * GROUP_B + c, ragged ? min(k4, quads - 1u) : k4, turn_k);
                    }
                }
            }
        }
        [[unroll]] for (uint u = 0u; u < AHEAD; u++) {
            uint s = s0 + u * LANES_K;
            if (u > 0u && !whole && s >= end) {
                continue;
            }
            for (uint c0 = 0u; c0 < step; c0 += group) {
                if (group < step) {
                    [[unroll]] for (uint c = 0u; c < group; c++) {
                        uint k4 = L(_quad_of)(s, c0 + c);
                        R(_fill)(u * GROUP_B + c, ragged ? min(k4, quads - 1u) : k4, turn_k);
                    }
                }
                [[unroll]] for (uint c = 0u; c < group; c++) {
                    uint k4 = L(_quad_of)(s, c0 + c);
                    L(_fill)(u, k4, c0 + c);
#ifdef TWIN
                    A2_fill(u, k4, c0 + c);
#endif
                    if (ragged) {
                        L(_cut)(k4);
                    }
                    [[unroll]] for (uint kk = 0u; kk < 4u; kk++) {
                        uint k = 4u * k4 + ((kk + turn_k) & 3u);
                        [[unroll]] for (uint n = 0u; n < TILE_N; n++) {
                            float b = ragged && k >= L(_k) ? 0.0 : R(_value)(u * GROUP_B + c, kk, n);
                            [[unroll]] for (uint q = 0u; q < TILE_M; q++) {
                                acc[TILE_M * n + q] += L(_fragment)[4u * q + kk] * b;
#ifdef TWIN
                                acc[TILE_M * (TILE_N + n) + q] += A2_fragment[4u * q + kk] * b;
#endif
                            }
                        }
                    }
                }
            }
        }
    }
}
