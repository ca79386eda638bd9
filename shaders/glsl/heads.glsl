// The state S of recurrences with a square matrix per head: a vector of matrices per sequence. Include after block.glsl and
// operand S.

// Quad q of a row of the state before the first token; zero where there is none.
vec4 state_quad(uint row, uint q, Position p) {
    vec4 v = vec4(0.0);
    if (row >= SIZE || q >= QUADS) {
        return v;
    }
    uint first = (p.i1 * SIZE + row) * SIZE;
    if (SIZE % 4u == 0u) {
        return S_load4(first / 4u + q, p.i2, 0u, 0u);
    }
    for (uint k = 0u; k < 4u; k++) {
        if (4u * q + k < SIZE) {
            v[k] = S_load(first + 4u * q + k, p.i2, 0u, 0u);
        }
    }
    return v;
}
