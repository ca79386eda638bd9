// The right operand of a product, F32, as fragments of 4 k by COLUMNS_B values of n: one texel per n, whichever way the lanes
// run. Include after direction.glsl and
//     #define OPERAND B       the prefix operand.glsl was given
// which is undefined again at the end. What stays defined: COLUMNS_B, a multiple of 4 or no less than n's extent; STEP_B and
// QUAD_STEP_B, the distances of values of n within four and of fours. STEP_B is 1 unless texels run along K. FRAGMENTS_B fragments
// are there at a time.
//
// Where texels run along K, those of four n are gone through from number `turn` on: so turned are the sums.
//
// Where no invocations of a subgroup are spread along n they all want the same fragment. With SUBGROUP, each of the first
// SHARE of them (the others double them) fetches its share of the texels and hands it around.
//
// With NORMED texels run along K, and k is a whole number of steps: fragments are multiplied by the gain as they are filled, and the
// squares of what they were before are summed.

#ifndef GEMM_B_COMMON
#define GEMM_B_COMMON

const uint TEXELS_N = 4u * ((COLUMNS_B + 3u) / 4u);

#endif

// Lanes along K: [n] holds four k. Lanes along n: [4 q + kk] holds quad q of n at k = 4 k4 + kk.
vec4 NAME(_fragment)[FRAGMENTS_B * TEXELS_N];

uvec2 NAME(_places)[TEXELS_N];
#ifdef NORMED
// Sums of squares of each value of n, as they are turned.
float NAME(_squares)[TEXELS_N];
#endif
uint NAME(_first);
uint NAME(_i2);
uint NAME(_i3);

// Texels of a fragment.
uint NAME(_texels_n)() {
    return NAME(_way)() == ALONG_K ? COLUMNS_B : TEXELS_N;
}

// What values of n are turned by among four.
uint NAME(_turn_columns)() {
    return NAME(_way)() == ALONG_K && COLUMNS_B % 4u == 0u ? turn : 0u;
}

// Where texel t of the fragment starts.
uvec2 NAME(_start_of)(uint t) {
    if (NAME(_way)() == ALONG_K) {
        t = turned(t, NAME(_turn_columns)());
        return NAME(_start)(min(NAME(_first) + t / 4u * QUAD_STEP_B + t % 4u * STEP_B, NAME(_outer) - 1u), NAME(_i2), NAME(_i3));
    }
    return NAME(_start)(min(NAME(_first) + t / 4u * QUAD_STEP_B, NAME(_outer) - 1u) / 4u, NAME(_i2), NAME(_i3));
}

// Texel t of the fragment, which starts at `start`; k is turned by `turn_k` among four.
vec4 NAME(_texel_at)(uvec2 start, uint t, uint k4, uint turn_k) {
    if (NAME(_way)() == ALONG_K) {
        return turned4(uintBitsToFloat(NAME(_fetch_place)(start + NAME(_along)(k4))), turn_k);
    }
    uint k = 4u * k4 + ((t + turn_k) & 3u);
    if (NAME(_way)() == SCATTERED) {
        return NAME(_gather)(NAME(_first) + t / 4u * QUAD_STEP_B, k, NAME(_i2), NAME(_i3));
    }
    k = NAME(_k) % 4u == 0u ? k : min(k, NAME(_k) - 1u);
    return uintBitsToFloat(NAME(_fetch_place)(start + NAME(_along)(k)));
}

// Points the fragment at COLUMNS_B values of n from n on. What lies beyond the extents is read from inside them: the store drops it.
void NAME(_aim)(uint n, uint i2, uint i3) {
    NAME(_first) = n;
    NAME(_i2) = min(i2, NAME(_n2) - 1u);
    NAME(_i3) = min(i3, NAME(_n3) - 1u);
#ifdef NORMED
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t++) {
        NAME(_squares)[t] = 0.0;
    }
#endif
#ifdef SUBGROUP
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t += SHARE) {
        NAME(_places)[t] = NAME(_start_of)(t + gl_SubgroupInvocationID % SHARE);
    }
#else
    [[unroll]] for (uint t = 0u; t < NAME(_texels_n)(); t++) {
        NAME(_places)[t] = NAME(_start_of)(t);
    }
#endif
}

// Fills texel t of fragment number f for k = 4 k4 .. 4 k4 + 3, turned by `turn_k`.
void NAME(_fill_texel)(uint f, uint t, uint k4, uint turn_k) {
    vec4 v = NAME(_texel_at)(NAME(_places)[t], t, k4, turn_k);
#ifdef NORMED
    NAME(_squares)[t] += NORM ? dot(v, v) : 0.0;
    if (GAIN) {
        v *= turned4(G_load4(k4, 0u, 0u, 0u), turn_k);
    }
#endif
    NAME(_fragment)[f * TEXELS_N + t] = v;
}

// Fills fragment number f.
void NAME(_fill)(uint f, uint k4, uint turn_k) {
#ifdef SUBGROUP
    [[unroll]] for (uint t = 0u; t < TEXELS_N; t += SHARE) {
        vec4 mine = NAME(_texel_at)(NAME(_places)[t], t + gl_SubgroupInvocationID % SHARE, k4, turn_k);
        [[unroll]] for (uint e = 0u; e < min(SHARE, TEXELS_N - t); e++) {
            NAME(_fragment)[f * TEXELS_N + t + e] = subgroupShuffle(mine, e);
        }
    }
#else
    [[unroll]] for (uint t = 0u; t < NAME(_texels_n)(); t++) {
        NAME(_fill_texel)(f, t, k4, turn_k);
    }
#endif
}

// b at k = 4 k4 + kk and number n of fragment number f, both as they are turned.
float NAME(_value)(uint f, uint kk, uint n) {
    uint first = f * TEXELS_N;
    return NAME(_way)() == ALONG_K ? NAME(_fragment)[first + n][kk] : NAME(_fragment)[first + 4u * (n / 4u) + kk][n % 4u];
}

#undef OPERAND
