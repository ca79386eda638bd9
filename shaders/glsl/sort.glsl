// The order of elements: smaller numbers come first.

layout(constant_id = 16) const bool DESCENDING = false;

// A number in the order of all floats, infinities included; NaNs come last among those of their sign.
uint sort_key(float x) {
    uint bits = floatBitsToUint(x);
    bits ^= (bits & 0x80000000u) != 0u ? 0xFFFFFFFFu : 0x80000000u;
    return DESCENDING ? ~bits : bits;
}
