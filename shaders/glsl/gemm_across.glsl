// The sums of invocations that go over k together. gemm.comp includes it.

// A slot for every sum of every invocation; in turn, those of the invocations side by side lie side by side.
shared vec4 across_sums[SUMS];

// How many of what each sum has been added up to are left.
const uint ACROSS_READERS = 16u;

// Sums of an invocation: with NORMED the squares of its values of n are the last ones, four in each.
#ifdef NORMED
const uint ACROSS_OWN = PRODUCTS * TILE_M * TILE_N + (TILE_N + 3u) / 4u;
#else
const uint ACROSS_OWN = PRODUCTS * TILE_M * TILE_N;
#endif

uint across_left() {
    // A power of two of them, which the workgroup has invocations for.
    uint readers = 1u << findMSB(max(LANES_K / ACROSS_OWN, 1u));
    return readers == 1u ? LANES_K : min(readers, ACROSS_READERS);
}

// Puts all sums into shared memory and adds them up in part, in a fixed order: what is left of one is side by side.
void across_share() {
    const uint lanes = LANES_M * LANES_N;
    const uint size = lanes * LANES_K;
    uint self = gl_LocalInvocationID.x;
    // What was turned on the way is put back in place.
    uint rows = (4u - A_turn_rows()) & 3u;
    [[unroll]] for (uint i = 0u; i < TILE_M * TILE_N; i++) {
        uint q = TILE_M * turned(i / TILE_M, B_turn_columns()) + i % TILE_M;
        [[unroll]] for (uint p = 0u; p < PRODUCTS; p++) {
            uint first = p * TILE_M * TILE_N;
            across_sums[(first + q) * size + self] = turned4(acc[first + i], rows);
        }
    }
#ifdef NORMED
    uint columns = (4u - B_turn_columns()) & 3u;
    [[unroll]] for (uint j = 0u; j < TEXELS_N / 4u; j++) {
        uint t = 4u * j;
        vec4 squares = vec4(B_squares[t], B_squares[t + 1u], B_squares[t + 2u], B_squares[t + 3u]);
        across_sums[(PRODUCTS * TILE_M * TILE_N + j) * size + self] = turned4(squares, columns);
    }
#endif
    barrier();
    uint left = across_left();
    if (left == LANES_K) {
        return;
    }
    uint width = left * lanes;
    bool reads = self < ACROSS_OWN * width;
    vec4 sum = vec4(0.0);
    if (reads) {
        uint at = self / width * size + self % width;
        for (uint i = 0u; i < LANES_K / left; i++) {
            sum += across_sums[at + i * width];
        }
    }
    barrier();
    if (reads) {
        across_sums[self] = sum;
    }
    barrier();
}

// Sum number q of all invocations that are number `lane` of those with the same k.
vec4 across_sum(uint q, uint lane) {
    const uint lanes = LANES_M * LANES_N;
    uint left = across_left();
    vec4 sum = vec4(0.0);
    for (uint i = 0u; i < left; i++) {
        sum += across_sums[(q * left + i) * lanes + lane];
    }
    return sum;
}

#ifdef NORMED
// What normalises the results of the invocation's value number i of n: 1 over the root of the mean of squares.
float across_norm(uint i, uint lane) {
    return !NORM ? 1.0 : 1.0 / sqrt(across_sum(PRODUCTS * TILE_M * TILE_N + i / 4u, lane)[i % 4u] / float(B_k) + EPS);
}
#endif
