// Recurrences whose state is a matrix: a workgroup keeps four of its lines through all tokens of a sequence, and each invocation
// a block of 4 x 4 of it. Include after grid.glsl and operand D.
//
// The box is of quads of lines, heads and sequences. D is numbered by texels: the results, a token after the other, then the
// states, newest first, each row in whole texels. The workgroup size is a power of two that has an invocation for every quad.

// Elements of a row of the state.
layout(constant_id = 16) const uint SIZE = 1u;
// Of a sequence.
layout(constant_id = 17) const uint TOKENS = 1u;
// Rows of the state of a sequence.
layout(constant_id = 18) const uint STATE_ROWS = 1u;
// States that are kept, one per token from the last one back; what lies before the first token is zero.
layout(constant_id = 19) const uint SNAPSHOTS = 1u;

const uint QUADS = (SIZE + 3u) / 4u;

shared vec4 block_partial[gl_WorkGroupSize.x];

// Number of this invocation's quad; without one its vectors are zero.
uint block_quad() {
    return gl_LocalInvocationID.x;
}

// Sum over the workgroup, reached by all of it.
vec4 block_sum(vec4 v) {
    uint self = gl_LocalInvocationID.x;
    block_partial[self] = v;
    barrier();
    for (uint step = gl_WorkGroupSize.x / 2u; step > 0u; step /= 2u) {
        if (self < step) {
            block_partial[self] += block_partial[self + step];
        }
        barrier();
    }
    vec4 total = block_partial[0];
    barrier();
    return total;
}

// The components of a vector's quad q that the row has.
vec4 block_vector(uint q, vec4 v) {
    return operand_mask(q, SIZE, v);
}

void block_put(uint texel, vec4 v) {
    uint columns = (D_n0 + 3u) / 4u;
    D_store4(texel % columns, texel / columns, 0u, 0u, v);
}

// Stores the result of a token for the workgroup's lines.
void block_result(Position p, uint token, vec4 y) {
    if (gl_LocalInvocationID.x == 0u) {
        block_put((token * BOX_1 + p.i1) * BOX_C + p.c, y);
    }
}

// Stores quad q of a row of a sequence's state.
void block_state(uint snapshot, uint sequence, uint row, uint q, vec4 v) {
    uint first = BOX_2 * TOKENS * BOX_1 * BOX_C;
    block_put(first + ((snapshot * BOX_2 + sequence) * STATE_ROWS + row) * QUADS + q, v);
}
