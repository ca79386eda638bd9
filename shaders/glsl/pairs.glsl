// Sums that lose nothing of note: a pair is a sum in f32 and what was rounded off of it. For losses and their like, whose differences
// matter. Behind rows.glsl.

shared vec2 pairs_partial[gl_WorkGroupSize.x];

// a + b, exactly.
vec2 pair_of(float a, float b) {
    precise float sum = a + b;
    precise float of_b = sum - a;
    precise float low = (a - (sum - of_b)) + (b - of_b);
    return vec2(sum, low);
}

vec2 pair_sum(vec2 a, vec2 b) {
    vec2 sum = pair_of(a.x, b.x);
    precise float low = sum.y + (a.y + b.y);
    return vec2(sum.x, low);
}

// What was rounded off of infinity is no number.
float pair_value(vec2 pair) {
    return abs(pair.x) <= -LOWEST ? pair.x + pair.y : pair.x;
}

// As rows_sum.
vec2 rows_pair_sum(vec2 v) {
    uint self = gl_LocalInvocationID.x;
    pairs_partial[self] = v;
    barrier();
    for (uint step = COLUMNS / 2u; step > 0u; step /= 2u) {
        if (rows_column() < step) {
            pairs_partial[self] = pair_sum(pairs_partial[self], pairs_partial[self + step * TILE_ROWS]);
        }
        barrier();
    }
    vec2 total = pairs_partial[self % TILE_ROWS];
    barrier();
    return total;
}
