// Angles of a rotary embedding. Include after
//     #define ROPE_FIRST 16           id of the first constant
//     #define ROPE_FACTOR(pair) 1.0   what divides the angle of a pair

#include "cos_sin.glsl"

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
    float power_10 = POWER_9 * POWER_9;
    f *= (pair & 1024u) != 0u ? power_10 : 1.0;
    f *= (pair & 2048u) != 0u ? power_10 * power_10 : 1.0;
    return f;
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
