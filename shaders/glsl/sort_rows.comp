// Indices that sort each row of A, or each chunk of a long one, by a bitonic network in shared memory: CHUNK is a power of two, and a
// workgroup has ENTRIES / CHUNK chunks. Of each chunk the first RUN indices go to D, where the runs of a row follow each other. Equal
// elements keep their order.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "grid.glsl"
#include "sort.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 1
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 17) const uint CHUNK = 4u;
layout(constant_id = 18) const uint ENTRIES = 4u;
layout(constant_id = 19) const uint CHUNKS = 1u;
layout(constant_id = 20) const uint RUN = 4u;

// What fills the last chunk of a row comes after all elements.
const uint NONE = 0xFFFFFFFFu;

shared uint keys[ENTRIES];
shared uint ids[ENTRIES];

// Row of a chunk of this workgroup; c is the number of the chunk in it.
Position chunk_position(uint chunk) {
    uint number = grid_group() * (ENTRIES / CHUNK) + chunk;
    Position p;
    p.c = number % CHUNKS;
    number /= CHUNKS;
    p.i1 = number % BOX_1;
    number /= BOX_1;
    p.i2 = number % BOX_2;
    p.i3 = number / BOX_2;
    return p;
}

void load_quad(uint quad) {
    Position p = chunk_position(quad / (CHUNK / 4u));
    uint c = p.c * (CHUNK / 4u) + quad % (CHUNK / 4u);
    bool inside = 4u * c < A_n0 && D_inside(p.i1, p.i2, p.i3);
    vec4 x = inside ? A_load4(c, p.i1, p.i2, p.i3) : vec4(0.0);
    for (uint k = 0u; k < 4u; k++) {
        uint i0 = 4u * c + k;
        bool real = inside && i0 < A_n0;
        keys[4u * quad + k] = real ? sort_key(x[k]) : NONE;
        ids[4u * quad + k] = real ? i0 : NONE;
    }
}

// Puts the earlier of two entries first, or last.
void exchange(uint a, uint b, bool forward) {
    bool later = keys[a] > keys[b] || (keys[a] == keys[b] && ids[a] > ids[b]);
    if (later == forward) {
        uint key = keys[a];
        uint id = ids[a];
        keys[a] = keys[b];
        ids[a] = ids[b];
        keys[b] = key;
        ids[b] = id;
    }
}

void main() {
    uint self = gl_LocalInvocationID.x;
    uint size = gl_WorkGroupSize.x;
    for (uint quad = self; quad < ENTRIES / 4u; quad += size) {
        load_quad(quad);
    }
    barrier();
    for (uint sorted = 2u; sorted <= CHUNK; sorted *= 2u) {
        for (uint distance = sorted / 2u; distance > 0u; distance /= 2u) {
            for (uint pair = self; pair < ENTRIES / 2u; pair += size) {
                uint a = 2u * pair - pair % distance;
                exchange(a, a + distance, (a % CHUNK & sorted) == 0u);
            }
            barrier();
        }
    }
    // A single run covers the padded box of the row.
    uint texels = CHUNKS == 1u ? BOX_C : RUN / 4u;
    for (uint t = self; t < ENTRIES / CHUNK * texels; t += size) {
        uint chunk = t / texels;
        uint quad = t % texels;
        Position p = chunk_position(chunk);
        if (p.i3 >= BOX_3) {
            continue;
        }
        ivec4 v = ivec4(0);
        if (quad < CHUNK / 4u) {
            uint first = chunk * CHUNK + 4u * quad;
            v = ivec4(ids[first], ids[first + 1u], ids[first + 2u], ids[first + 3u]);
        }
        D_store4i(p.c * (RUN / 4u) + quad, p.i1, p.i2, p.i3, v);
    }
}
