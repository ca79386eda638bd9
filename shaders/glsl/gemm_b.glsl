// Operand B of the GEMM, F32, as fragments of 4 k by TILE_N values of n: one texel per n, whichever way the lanes run.
//
// Where no invocations of a subgroup are spread along n they all want the same fragment. With SUBGROUP, each of the first
// SHARE of them (the others double them) fetches its share of the texels and hands it around.

const uint TEXELS_N = 4u * ((TILE_N + 3u) / 4u);

// Lanes along K: [n] holds four k. Lanes along n: [4 q + kk] holds quad q of n at k = 4 k4 + kk.
vec4 b_fragment[TEXELS_N];

uvec2 b_place[TEXELS_N];
uint b_n;
uint b_i2;
uint b_i3;

// Where texel t of the fragment starts.
uvec2 b_start(uint t) {
    if (B_way() == ALONG_K) {
        return B_start(min(b_n + t, B_outer - 1u), b_i2, b_i3);
    }
    return B_start(min(b_n + 4u * (t / 4u), B_outer - 1u) / 4u, b_i2, b_i3);
}

// Texel t of the fragment, which starts at `start`.
vec4 b_texel(uvec2 start, uint t, uint k4) {
    if (B_way() == SCATTERED) {
        return B_gather(b_n + 4u * (t / 4u), 4u * k4 + t % 4u, b_i2, b_i3);
    }
    uint k = B_way() == ALONG_K ? k4 : (B_k % 4u == 0u ? 4u * k4 + t % 4u : min(4u * k4 + t % 4u, B_k - 1u));
    return uintBitsToFloat(B_fetch_place(start + B_along(k)));
}

// Points the fragment at n .. n + TILE_N - 1. What lies beyond the extents is read from inside them: the store drops it.
void b_aim(uint n, uint i2, uint i3) {
    b_n = n;
    b_i2 = min(i2, B_n2 - 1u);
    b_i3 = min(i3, B_n3 - 1u);
#ifdef SUBGROUP
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t += SHARE) {
        b_place[t] = b_start(t + gl_SubgroupInvocationID % SHARE);
    }
#else
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t++) {
        b_place[t] = b_start(t);
    }
#endif
}

// Fills the fragment for k = 4 k4 .. 4 k4 + 3.
void b_load(uint k4) {
#ifdef SUBGROUP
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t += SHARE) {
        vec4 mine = b_texel(b_place[t], t + gl_SubgroupInvocationID % SHARE, k4);
        [[unroll]] for (uint e = 0u; e < min(SHARE, TEXELS_N - t); e++) {
            b_fragment[t + e] = subgroupShuffle(mine, e);
        }
    }
#else
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t++) {
        b_fragment[t] = b_texel(b_place[t], t, k4);
    }
#endif
}

// b at k = 4 k4 + kk and number n of the fragment.
float b_value(uint kk, uint n) {
    return B_way() == ALONG_K ? b_fragment[n][kk] : b_fragment[4u * (n / 4u) + kk][n % 4u];
}
