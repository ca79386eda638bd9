// The elementwise ops on quads, by their numbers in backend/src/kernels/elementwise.rs.

#ifndef ELEMENTWISE
#define ELEMENTWISE

vec4 sigmoid(vec4 x) {
    return 1.0 / (1.0 + exp(-x));
}

// tanh(x): near zero by its series, whose first term left out is below half an ulp, elsewhere without overflow.
vec4 hyperbolic_tangent(vec4 x) {
    vec4 y = x * x;
    vec4 series = x * (1.0 + y * (-1.0 / 3.0 + y * (2.0 / 15.0 + y * (-17.0 / 315.0 + y * (62.0 / 2835.0)))));
    return mix(1.0 - 2.0 / (1.0 + exp(2.0 * x)), series, lessThan(abs(x), vec4(0.25)));
}

// GELU's approximation is x sigmoid(z) with z = 2 sqrt(2 / pi) (x + 0.044715 x^3).
const float GELU_SLOPE = 1.5957691216057308;
const float GELU_CUBIC = 0.044715;

vec4 gelu_argument(vec4 x) {
    return GELU_SLOPE * x * (1.0 + GELU_CUBIC * x * x);
}

vec4 elementwise_two(uint op, vec4 a, vec4 b) {
    switch (op) {
    case 0u: return a + b;
    case 1u: return a - b;
    case 2u: return a * b;
    case 3u: return a / b;
    case 4u: {
        // Gradient of SiLU: a is dy, b is x.
        vec4 s = sigmoid(b);
        return a * s * (1.0 + b * (1.0 - s));
    }
    case 5u: return a * sigmoid(a) * b;
    case 6u: {
        // Gradient of GELU: a is dy, b is x. The sigmoid and its complement are 1 and e over their sum, in the order of z's sign.
        vec4 z = gelu_argument(b);
        vec4 e = exp(-abs(z));
        vec4 large = 1.0 / (1.0 + e);
        vec4 small = e * large;
        vec4 s = mix(small, large, greaterThanEqual(z, vec4(0.0)));
        return a * (s + b * (large * small) * (GELU_SLOPE * (1.0 + 3.0 * GELU_CUBIC * b * b)));
    }
    case 7u: return a * sigmoid(gelu_argument(a)) * b;
    default:
        // Gradient of tanh: a is dy, b is tanh(x).
        return a * (1.0 - b * b);
    }
}

vec4 elementwise_one(uint op, vec4 x, float scale, float bias) {
    switch (op) {
    case 0u: return x * scale + bias;
    case 1u: return x * sigmoid(x);
    case 2u: return -x;
    case 3u: return x * x;
    case 4u: return sqrt(x);
    case 5u: return hyperbolic_tangent(x);
    default: return x * sigmoid(gelu_argument(x));
    }
}

#endif
