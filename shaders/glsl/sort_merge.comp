// Merges neighbouring runs of indices (B) by the elements of A that they name. A run covers SPAN elements of its row and has its
// first STRIDE indices stored, or fewer where the row ends; of a merged run STRIDE_OUT are stored. One invocation per texel of D: it
// finds how many of the indices before its own come from either run, and takes four more.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "texels.glsl"
#include "sort.glsl"

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"

layout(constant_id = 17) const uint SPAN = 4u;
layout(constant_id = 18) const uint STRIDE = 4u;
layout(constant_id = 19) const uint STRIDE_OUT = 4u;

// Indices that are stored of a run.
uint stored(uint run) {
    uint first = run * SPAN;
    return min(STRIDE, first < A_n0 ? min(SPAN, A_n0 - first) : 0u);
}

int id(uint at, Position p) {
    return B_loadi(at, p.i1, p.i2, p.i3);
}

uint key(uint at, Position p) {
    return sort_key(A_load(uint(id(at, p)), p.i1, p.i2, p.i3));
}

void main() {
    Position p;
    if (!texel_position(p)) {
        return;
    }
    ivec4 v = ivec4(0);
    if (4u * p.c < D_n0 && D_inside(p.i1, p.i2, p.i3)) {
        uint run = 2u * (4u * p.c / STRIDE_OUT);
        uint before = 4u * p.c % STRIDE_OUT;
        uint count_a = stored(run);
        uint count_b = stored(run + 1u);
        uint a = run * STRIDE;
        uint b = a + STRIDE;
        // Of equal elements those of the first run come first.
        uint low = before > count_b ? before - count_b : 0u;
        uint high = min(before, count_a);
        while (low < high) {
            uint middle = (low + high) / 2u;
            if (key(a + middle, p) <= key(b + before - 1u - middle, p)) {
                low = middle + 1u;
            } else {
                high = middle;
            }
        }
        uint i = low;
        uint j = before - low;
        for (uint k = 0u; k < 4u; k++) {
            bool has_a = i < count_a;
            bool has_b = j < count_b;
            if (has_a && has_b) {
                has_a = key(a + i, p) <= key(b + j, p);
            }
            if (has_a) {
                v[k] = id(a + i, p);
                i++;
            } else if (has_b) {
                v[k] = id(b + j, p);
                j++;
            }
        }
    }
    D_store4i(p.c, p.i1, p.i2, p.i3, v);
}
