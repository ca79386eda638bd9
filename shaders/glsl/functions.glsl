// Functions of quads, by their numbers in backend/src/kernels/functions.rs. None overflows where its result does not.

#include "cos_sin.glsl"
#include "elementwise.glsl"

// exp(x) - 1: near zero by its series, whose first term left out is below a hundredth of an ulp.
vec4 exponential_minus_one(vec4 x) {
    vec4 series = 1.0 + x / 8.0 * (1.0 + x / 9.0);
    series = 1.0 + x / 6.0 * (1.0 + x / 7.0 * series);
    series = 1.0 + x / 4.0 * (1.0 + x / 5.0 * series);
    series = x * (1.0 + x / 2.0 * (1.0 + x / 3.0 * series));
    return mix(exp(x) - 1.0, series, lessThan(abs(x), vec4(0.5)));
}

// log(1 + z) for 0 <= z <= 1, relative to z: the series of 2 artanh(s) at s = z / (2 + z) <= 1 / 3 to s^15.
vec4 logarithm_of_one_plus(vec4 z) {
    vec4 s = z / (2.0 + z);
    vec4 y = s * s;
    vec4 odd = 1.0 / 9.0 + y * (1.0 / 11.0 + y * (1.0 / 13.0 + y * (1.0 / 15.0)));
    return 2.0 * s * (1.0 + y * (1.0 / 3.0 + y * (1.0 / 5.0 + y * (1.0 / 7.0 + y * odd))));
}

// log(1 + exp(x))
vec4 soft_plus(vec4 x) {
    return max(x, 0.0) + logarithm_of_one_plus(exp(-abs(x)));
}

// erfc(z) for z >= 0. With t = 1 / (1 + z / 2), log(erfc(z) / t) + z^2 is smooth down to t = 1 / 8, where exp(-z^2) vanishes;
// its minimax polynomial there is off by 7.5e-8, which is the relative error of the result.
vec4 complementary_error(vec4 z) {
    vec4 t = 1.0 / (1.0 + 0.5 * z);
    vec4 p = 0.24886597710768357 + t * (-1.1078997967569944 +
             t * (1.4752487140571657 + t * (-0.81969159609607942 + t * 0.17100674945572129)));
    p = -1.2655031539124904 + t * (0.99982765814605098 +
        t * (0.37576629616280831 + t * (0.08930194103986083 + t * (-0.16692271495616952 + t * p))));
    return t * exp(p - z * z);
}

vec4 gelu_erf(vec4 x) {
    vec4 below = 0.5 * complementary_error(abs(x) * 0.7071067811865476);
    return x * mix(1.0 - below, below, lessThan(x, vec4(0.0)));
}

vec4 gelu_quick(vec4 x) {
    return x * sigmoid(1.702 * x);
}

vec4 hard_sigmoid(vec4 x) {
    return clamp((x + 3.0) / 6.0, 0.0, 1.0);
}

// Adding a half would round where x has no bits for it.
vec4 round_half_away(vec4 x) {
    vec4 whole = trunc(x);
    return whole + sign(x) * vec4(greaterThanEqual(abs(x - whole), vec4(0.5)));
}

vec4 xielu(vec4 x, float alpha_n, float alpha_p, float beta, float eps) {
    vec4 below = alpha_n * (exponential_minus_one(min(x, eps)) - x);
    return mix(below, alpha_p * x * x, greaterThan(x, vec4(0.0))) + beta * x;
}

vec4 cosines(vec4 x) {
    return vec4(cos_sin(x.x).x, cos_sin(x.y).x, cos_sin(x.z).x, cos_sin(x.w).x);
}

vec4 sines(vec4 x) {
    return vec4(cos_sin(x.x).y, cos_sin(x.y).y, cos_sin(x.z).y, cos_sin(x.w).y);
}

vec4 function_of_one(uint op, vec4 x, vec4 p) {
    switch (op) {
    case 0u: return abs(x);
    case 1u: return sign(x);
    case 2u: return vec4(greaterThan(x, vec4(0.0)));
    case 3u: return mix(exponential_minus_one(x), x, greaterThan(x, vec4(0.0)));
    case 4u: return max(x, 0.0);
    case 5u: return sigmoid(x);
    case 6u: return gelu_quick(x);
    case 7u: return x * hard_sigmoid(x);
    case 8u: return hard_sigmoid(x);
    case 9u: return exp(x);
    case 10u: return exponential_minus_one(x);
    case 11u: return soft_plus(x);
    case 12u: return gelu_erf(x);
    case 13u: return xielu(x, p.x, p.y, p.z, p.w);
    case 14u: return floor(x);
    case 15u: return ceil(x);
    case 16u: return round_half_away(x);
    case 17u: return trunc(x);
    case 18u: return log(x);
    case 19u: return sines(x);
    case 20u: return cosines(x);
    case 21u: return max(min(x, p.y), p.x);
    default: return max(x, 0.0) + p.x * min(x, 0.0);
    }
}

vec4 function_gated(uint op, vec4 gate, vec4 up, vec4 p) {
    switch (op) {
    case 0u: return max(gate, 0.0) * up;
    case 1u: return gelu_erf(gate) * up;
    case 2u: return gelu_quick(gate) * up;
    default:
        // Both are at most the limit p.y.
        gate = min(gate, p.y);
        up = max(min(up, p.y), -p.y);
        return gate * sigmoid(p.x * gate) * (op == 3u ? 1.0 + up : up);
    }
}
