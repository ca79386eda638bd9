// A view sampled at other extents; one invocation per texel.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 16) const uint MODE = 0u;
// Where in its cell an element is.
layout(constant_id = 17) const float OFFSET = 0.5;
// Steps of D to one of A along axes 0 and 1.
layout(constant_id = 18) const float SCALE_0 = 1.0;
layout(constant_id = 19) const float SCALE_1 = 1.0;
// The same of every axis as a ratio: where elements must be found exactly.
layout(constant_id = 20) const uint OVER_0 = 1u;
layout(constant_id = 21) const uint UNDER_0 = 1u;
layout(constant_id = 22) const uint OVER_1 = 1u;
layout(constant_id = 23) const uint UNDER_1 = 1u;
layout(constant_id = 24) const uint OVER_2 = 1u;
layout(constant_id = 25) const uint UNDER_2 = 1u;
layout(constant_id = 26) const uint OVER_3 = 1u;
layout(constant_id = 27) const uint UNDER_3 = 1u;

const uint NEAREST = 0u;
const uint BILINEAR = 1u;
const uint BICUBIC = 2u;

// The element nearest to a place. By components: a vector of two extents would be a constant that spirv-opt puts out of order.
ivec2 within(ivec2 xy) {
    return ivec2(clamp(xy.x, 0, int(A_n0) - 1), clamp(xy.y, 0, int(A_n1) - 1));
}

float at(ivec2 xy, uvec2 above) {
    uvec2 i = uvec2(within(xy));
    return A_load(i.x, i.y, above.x, above.y);
}

float bilinear(vec2 place, uvec2 above) {
    ivec2 first = ivec2(floor(place));
    vec2 share = clamp(place - vec2(within(first)), 0.0, 1.0);
    float low = mix(at(first, above), at(first + ivec2(1, 0), above), share.x);
    float high = mix(at(first + ivec2(0, 1), above), at(first + ivec2(1, 1), above), share.x);
    return mix(low, high, share.y);
}

// Weights of the four elements around a place, x beyond the second.
vec4 cubic(float x) {
    const float a = -0.75;
    vec2 far = vec2(x + 1.0, 2.0 - x);
    vec2 near = vec2(x, 1.0 - x);
    far = ((a * far - 5.0 * a) * far + 8.0 * a) * far - 4.0 * a;
    near = ((a + 2.0) * near - (a + 3.0)) * near * near + 1.0;
    return vec4(far.x, near.x, near.y, far.y);
}

float bicubic(vec2 place, uvec2 above) {
    ivec2 first = ivec2(floor(place));
    vec4 columns = cubic(place.x - floor(place.x));
    vec4 rows = cubic(place.y - floor(place.y));
    float sum = 0.0;
    for (int y = 0; y < 4; y++) {
        vec4 row;
        for (int x = 0; x < 4; x++) {
            row[x] = at(first + ivec2(x - 1, y - 1), above);
        }
        sum += rows[y] * dot(columns, row);
    }
    return sum;
}

// The mean under a triangle around a place, in the coarser of both grids.
float antialiased(vec2 center, uvec2 above) {
    vec2 support = max(1.0 / vec2(SCALE_0, SCALE_1), 1.0);
    ivec2 begin = ivec2(max(center - support + OFFSET, 0.0));
    ivec2 end = ivec2(min(center + support + OFFSET, vec2(A_n0, A_n1)));
    float sum = 0.0;
    float total = 0.0;
    for (int y = begin.y; y < end.y; y++) {
        for (int x = begin.x; x < end.x; x++) {
            vec2 weights = max(1.0 - abs(vec2(x, y) - center + OFFSET) / support, 0.0);
            float weight = weights.x * weights.y;
            sum += weight * at(ivec2(x, y), above);
            total += weight;
        }
    }
    return total > 0.0 ? sum / total : sum;
}

float sampled(uint i0, uint i1, uvec2 above) {
    if (MODE == NEAREST) {
        return at(ivec2(i0 * UNDER_0 / OVER_0, i1 * UNDER_1 / OVER_1), above);
    }
    vec2 center = (vec2(i0, i1) + OFFSET) / vec2(SCALE_0, SCALE_1);
    if (MODE == BILINEAR) {
        return bilinear(center - OFFSET, above);
    }
    if (MODE == BICUBIC) {
        return bicubic(center - OFFSET, above);
    }
    return antialiased(center, above);
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    vec4 v = vec4(0.0);
    if (D_inside(p.i1, p.i2, p.i3)) {
        uvec2 above = uvec2(p.i2 * UNDER_2 / OVER_2, p.i3 * UNDER_3 / OVER_3);
        for (uint k = 0u; k < 4u; k++) {
            uint i0 = 4u * p.c + k;
            if (i0 < D_n0) {
                v[k] = sampled(i0, p.i1, above);
            }
        }
    }
    D_store4(p.c, p.i1, p.i2, p.i3, v);
}
