// ALiBi: the exponent of a head's slope falls by SLOPE_STEP per head, for the first SLOPE_HEADS of them; the others have odd
// multiples of half of it.

#ifdef MASK
float slope(uint head) {
    if (SLOPE_STEP == 0.0) {
        return 1.0;
    }
    return head < SLOPE_HEADS ? exp2(SLOPE_STEP * float(head + 1u))
                              : exp2(0.5 * SLOPE_STEP * float(2u * (head - SLOPE_HEADS) + 1u));
}
#endif
