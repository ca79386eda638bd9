// F32 as sums of two of F16, for matrix units: x = 2^-e (high + low), each of 11 bits. Include before gemm_units.glsl.
//
// F16 has few exponents, so that each operand is brought below 2^15 by a power of two, which the greatest number of all its tiles so far
// asks for. It only falls; what was summed before is multiplied then. Numbers within 2^-18 of the greatest keep 21 bits at
// least, those below are off by up to 2^-37 of it. Infinities have no parts: who meets one multiplies one by one, see gemm_matrix.comp.

// Least exponent, as F32 has it, that a power of two follows from: the power itself is a number of F32.
const uint PARTS_LEAST = 14u;

const uint PARTS_INFINITE = 255u;

// Exponents of the greatest numbers of the tiles so far, of A and of B: for all to tell, and as all know them.
shared uint parts_told[2];
uvec2 parts_tops = uvec2(PARTS_LEAST);

// 2^exponent, zero below the numbers of F32.
float parts_power(int exponent) {
    return uintBitsToFloat(uint(max(exponent + 127, 0)) << 23);
}

// What brings an operand below 2^15.
float parts_factor(uint top) {
    return parts_power(141 - int(top));
}

// The exponent of the greatest of eight numbers.
uint parts_exponent(uvec4 a, uvec4 b) {
    uvec4 most = max(a & 0x7FFFFFFFu, b & 0x7FFFFFFFu);
    return max(max(most.x, most.y), max(most.z, most.w)) >> 23;
}

// Halves nearest to four numbers, which leave the rest.
uvec2 parts_take(inout vec4 v) {
    vec4 taken = uintBitsToFloat((floatBitsToUint(v) + 0x1000u) & 0xFFFFE000u);
    v -= taken;
    return uvec2(packHalf2x16(taken.xy), packHalf2x16(taken.zw));
}

// A sum of products of parts as what it stands for. The power may be none of F32's, its root is one.
vec4 parts_sum(vec4 v) {
    int exponent = int(parts_tops.x + parts_tops.y) - 282;
    return v * parts_power(exponent / 2) * parts_power(exponent - exponent / 2);
}
