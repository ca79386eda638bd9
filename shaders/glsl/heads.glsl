// The state S of recurrences with a square matrix per head, found by the number of its elements: matrices of heads, of sequences.
// Include after block.glsl and operand S.

// Quad q of a row of the state before the first token; zero where there is none.
vec4 state_quad(uint row, uint q, Position p) {
    vec4 v = vec4(0.0);
    if (row >= SIZE || q >= QUADS) {
        return v;
    }
    uint first = ((p.i2 * BOX_1 + p.i1) * SIZE + row) * SIZE + 4u * q;
    bool whole = SIZE % 4u == 0u && S_n0 % 4u == 0u;
    for (uint k = 0u; k < 4u; k++) {
        uint i1 = (first + k) / S_n0;
        uint i2 = i1 / S_n1;
        if (whole) {
            return S_load4(first % S_n0 / 4u, i1 % S_n1, i2 % S_n2, i2 / S_n2);
        }
        if (4u * q + k < SIZE) {
            v[k] = S_load((first + k) % S_n0, i1 % S_n1, i2 % S_n2, i2 / S_n2);
        }
    }
    return v;
}
