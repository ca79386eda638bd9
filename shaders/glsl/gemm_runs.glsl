// Blocks whose quants are nibbles and nothing else, by runs: sixteen bytes side by side hold two parts of sixteen elements, and
// fetched together they are fetched once. gemm_a.glsl includes it for operands in blocks.

#ifndef GEMM_RUNS_COMMON
#define GEMM_RUNS_COMMON

bool blocks_have_runs(uint dtype) {
    switch (dtype) {
        case DTYPE_Q4_0: case DTYPE_IQ4_NL: case DTYPE_MXFP4: case DTYPE_Q4_K: case DTYPE_IQ4_XS: return true;
        default: return false;
    }
}

// The part in the lower nibbles of a run, or (half_of_bytes 1) the one in the upper ones.
uint blocks_part_of_run(uint dtype, uint run, uint half_of_bytes) {
    return dtype == DTYPE_Q4_K ? run / 2u * 4u + run % 2u + 2u * half_of_bytes : 2u * run + half_of_bytes;
}

#endif

// Sixteen bytes of a block.
uvec4 NAME(_block_texel)(uvec2 slot, uint at) {
    uint byte = slot.x * NAME(_block_bytes) + at;
    uvec2 xy = uvec2(byte / 16u, slot.y);
    uvec4 low = NAME(_fetch)(xy);
    // Of blocks of whole texels, they are one.
    if (NAME(_block_bytes) % 16u == 0u || byte % 16u == 0u) {
        return low;
    }
    uvec4 high = NAME(_fetch)(uvec2(xy.x + 1u, xy.y));
    if ((byte & 8u) != 0u) {
        low = uvec4(low.zw, high.xy);
        high.xy = high.zw;
    }
    if ((byte & 4u) != 0u) {
        low = uvec4(low.yzw, high.x);
        high.x = high.y;
    }
    uint shift = 8u * (byte % 4u);
    // In two steps: a shift by all of a word is none.
    return low >> shift | uvec4(low.yzw, high.x) << 1u << (31u - shift);
}
