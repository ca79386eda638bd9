// Angles of a rotary embedding. Include after
//     #define ROPE_FIRST 16           id of the first constant
//     #define ROPE_FACTOR(pair) 1.0   what divides the angle of a pair

layout(constant_id = ROPE_FIRST) const bool NEOX = false;
// Elements of axis 0 that are rotated; even, at least 2.
layout(constant_id = ROPE_FIRST + 1) const uint N_DIMS = 2u;
layout(constant_id = ROPE_FIRST + 2) const float FREQ_SCALE = 1.0;
layout(constant_id = ROPE_FIRST + 3) const float EXT_FACTOR = 0.0;
// YaRN ramp: pair at which it starts, and its length.
layout(constant_id = ROPE_FIRST + 4) const float RAMP_LOW = 0.0;
layout(constant_id = ROPE_FIRST + 5) const float RAMP_LENGTH = 1.0;
// Factor on cosine, and on sine (negative for the gradient).
layout(constant_id = ROPE_FIRST + 6) const float COS_SCALE = 1.0;
layout(constant_id = ROPE_FIRST + 7) const float SIN_SCALE = 1.0;
// theta_scale^(2^b), so that the frequency of a pair is a product over the bits of its number: exact to a few ulp, which
// the driver's pow is not.
layout(constant_id = ROPE_FIRST + 8) const float POWER_0 = 1.0;
layout(constant_id = ROPE_FIRST + 9) const float POWER_1 = 1.0;
layout(constant_id = ROPE_FIRST + 10) const float POWER_2 = 1.0;
layout(constant_id = ROPE_FIRST + 11) const float POWER_3 = 1.0;
layout(constant_id = ROPE_FIRST + 12) const float POWER_4 = 1.0;
layout(constant_id = ROPE_FIRST + 13) const float POWER_5 = 1.0;
layout(constant_id = ROPE_FIRST + 14) const float POWER_6 = 1.0;
layout(constant_id = ROPE_FIRST + 15) const float POWER_7 = 1.0;
layout(constant_id = ROPE_FIRST + 16) const float POWER_8 = 1.0;
layout(constant_id = ROPE_FIRST + 17) const float POWER_9 = 1.0;

float frequency(uint pair) {
    float f = (pair & 1u) != 0u ? POWER_0 : 1.0;
    f *= (pair & 2u) != 0u ? POWER_1 : 1.0;
    f *= (pair & 4u) != 0u ? POWER_2 : 1.0;
    f *= (pair & 8u) != 0u ? POWER_3 : 1.0;
    f *= (pair & 16u) != 0u ? POWER_4 : 1.0;
    f *= (pair & 32u) != 0u ? POWER_5 : 1.0;
    f *= (pair & 64u) != 0u ? POWER_6 : 1.0;
    f *= (pair & 128u) != 0u ? POWER_7 : 1.0;
    f *= (pair & 256u) != 0u ? POWER_8 : 1.0;
    f *= (pair & 512u) != 0u ? POWER_9 : 1.0;
    return f;
}

// Cosine and sine to 1e-7 for angles up to 2^13 and 2e-6 up to 2^17, where the angle itself is rounded by 8e-3; the built-in
// ones promise 2^-11 within one turn only. The quarter turns are taken off in three parts of pi/2, the first two of which
// have few enough bits for exact products.
vec2 cos_sin(float angle) {
    float turns = round(angle * 0.636619772367581);
    precise float r = angle - turns * 1.5703125;
    r = r - turns * 4.837512969970703e-4;
    r = r - turns * 7.549789948768648e-8;
    float z = r * r;
    float s = r + r * z * (-1.6666654611e-1 + z * (8.3321608736e-3 - z * 1.9515295891e-4));
    float c = 1.0 - 0.5 * z + z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 + z * 2.443315711809948e-5));
    int quarter = int(turns) & 3;
    vec2 swapped = (quarter & 1) != 0 ? vec2(s, c) : vec2(c, s);
    return vec2(quarter == 1 || quarter == 2 ? -swapped.x : swapped.x, quarter >= 2 ? -swapped.y : swapped.y);
}

// Cosine and sine of a pair that has the frequency of pair `power`, scaled.
vec2 rotation(uint pair, uint power, float position) {
    float extrapolated = position * frequency(power) / ROPE_FACTOR(pair);
    float angle = FREQ_SCALE * extrapolated;
    if (EXT_FACTOR != 0.0) {
        float ramp = (1.0 - clamp((float(pair) - RAMP_LOW) / RAMP_LENGTH, 0.0, 1.0)) * EXT_FACTOR;
        angle = angle * (1.0 - ramp) + extrapolated * ramp;
    }
    return cos_sin(angle) * vec2(COS_SCALE, SIN_SCALE);
}
