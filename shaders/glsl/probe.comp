// What the units of a machine do at most: arithmetic in registers, loads of texels from a buffer or an image. See backend/src/probe.
#version 450

layout(local_size_x_id = 0) in;

layout(constant_id = 16) const uint WORK = 0u;
layout(constant_id = 17) const uint IMAGE = 0u;

const uint FMA = 0u;
const uint ADD = 1u;
const uint MUL = 2u;
const uint MUL_HIGH = 3u;
const uint STREAM = 4u;
const uint SPREAD_X = 5u;
const uint SPREAD_Y = 6u;

layout(set = 0, binding = 0) readonly buffer Source {
    uvec4 source[];
};
layout(set = 0, binding = 1, rgba32ui) readonly uniform uimage2D source_image;
layout(set = 0, binding = 2) buffer Exchange {
    // Steps of every invocation, binary logarithms of the columns and rows of the region, texels from lane to lane.
    uvec4 parameters;
    // Where results would go.
    uvec4 sink;
};

uvec4 load(uint x, uint y, uint columns) {
    return IMAGE == 0u ? source[(y << columns) + x] : imageLoad(source_image, ivec2(x, y));
}

// Spreads neighbouring numbers over all words.
uint scattered(uint n) {
    n = (n ^ (n >> 16)) * 0x7feb352du;
    n = (n ^ (n >> 15)) * 0x846ca68bu;
    return n ^ (n >> 16);
}

// Unrolled, so that the loop costs little beside.
const uint ROUNDS = 8u;

// Eight chains, so that none waits for its own result.
uvec4 arithmetic(uint steps, uint seed) {
    if (WORK == FMA) {
        vec4 a = vec4(seed, seed + 1u, seed + 2u, seed + 3u) * 1e-9;
        vec4 b = a + 0.5;
        float factor = 0.999 - a.x;
        for (uint i = 0u; i < steps; i++) {
            for (uint j = 0u; j < ROUNDS; j++) {
                a = fma(a, vec4(factor), vec4(0.25));
                b = fma(b, vec4(factor), vec4(0.125));
            }
        }
        return floatBitsToUint(a + b);
    }
    uvec4 a = uvec4(seed, seed + 1u, seed + 2u, seed + 3u) * 2654435761u;
    uvec4 b = a ^ 0x55555555u;
    for (uint i = 0u; i < steps; i++) {
        for (uint j = 0u; j < ROUNDS; j++) {
            if (WORK == ADD) {
                // The other operand changes, so that steps do not fold into one.
                a += b;
                b += a;
            } else if (WORK == MUL) {
                a *= b;
                b *= a;
            } else {
                uvec4 low;
                umulExtended(a, b, a, low);
                umulExtended(b, uvec4(0xfffffff1u), b, low);
            }
        }
    }
    return a ^ b;
}

uvec4 loads(uint steps, uint group, uint lane) {
    uint columns = parameters.y;
    uint rows = parameters.z;
    uint stride = parameters.w;
    uvec4 sum = uvec4(0u);
    for (uint i = 0u; i < steps; i++) {
        uint step = group * steps + i;
        uint x;
        uint y;
        if (WORK == STREAM) {
            // Blocks of eight by eight of an image, rows of 64 in a buffer: each lies together in memory.
            uint block = step & ((1u << (columns + rows - 6u)) - 1u);
            uint across = columns - (IMAGE == 0u ? 6u : 3u);
            x = IMAGE == 0u ? lane : lane & 7u;
            y = IMAGE == 0u ? 0u : lane >> 3;
            x += (block & ((1u << across) - 1u)) << (columns - across);
            y += (block >> across) << (IMAGE == 0u ? 0u : 3u);
        } else {
            uint at = scattered(step);
            uint along = WORK == SPREAD_X ? columns : rows;
            uint other = WORK == SPREAD_X ? rows : columns;
            uint first = (at >> 16) * 64u * stride & ((1u << along) - 1u);
            uint line = at & ((1u << other) - 1u);
            x = WORK == SPREAD_X ? first + lane * stride : line;
            y = WORK == SPREAD_X ? line : first + lane * stride;
        }
        sum ^= load(x, y, columns);
    }
    return sum;
}

void main() {
    uint steps = parameters.x;
    uint lane = gl_LocalInvocationIndex;
    uint group = gl_WorkGroupID.x;
    uvec4 result = WORK < STREAM ? arithmetic(steps, group * 64u + lane) : loads(steps, group, lane);
    // Never so, but no compiler knows.
    if (result == uvec4(0x9e3779b9u, 0x85ebca6bu, 0xc2b2ae35u, 0x27d4eb2fu)) {
        sink = result;
    }
}
