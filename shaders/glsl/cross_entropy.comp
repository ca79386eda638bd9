// Cross entropy of one row, sum of labels * log_softmax(x), with A = x, B = labels. D has one texel per row.
#version 450
#extension GL_GOOGLE_include_directive : require

#include "rows.glsl"

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

const uint QUADS = (A_n0 + 3u) / 4u;

// What the labels of quad c add.
float labelled(vec4 labels, uint c, Position p, float m, float log_sum) {
    vec4 label = operand_mask(c, A_n0, labels);
    // Labels are mostly zero: the row is read once more only where they are not.
    if (label == vec4(0.0)) {
        return 0.0;
    }
    vec4 x = operand_mask(c, A_n0, A_load4(c, p.i1, p.i2, p.i3));
    return dot(label, (x - m) - log_sum);
}

void main() {
    Position p = rows_position();
    bool inside = p.i1 < A_n1 && p.i2 < A_n2 && p.i3 < A_n3;
    uint quads = inside ? QUADS : 0u;
    LogSum acc = logsum_start();
    uint c = rows_column();
    for (; c + (TOGETHER - 1u) * COLUMNS < quads; c += TOGETHER * COLUMNS) {
        vec4 x[TOGETHER];
        for (uint i = 0u; i < TOGETHER; i++) {
            x[i] = A_load4(c + i * COLUMNS, p.i1, p.i2, p.i3);
        }
        logsum_add_all(acc, c + (TOGETHER - 1u) * COLUMNS, A_n0, x);
    }
    for (; c < quads; c += COLUMNS) {
        logsum_add(acc, c, A_n0, A_load4(c, p.i1, p.i2, p.i3));
    }
    acc = logsum_join(acc);
    float log_sum = log(acc.s);

    float total = 0.0;
    c = rows_column();
    for (; c + (TOGETHER - 1u) * COLUMNS < quads; c += TOGETHER * COLUMNS) {
        vec4 label[TOGETHER];
        for (uint i = 0u; i < TOGETHER; i++) {
            label[i] = B_load4(c + i * COLUMNS, p.i1, p.i2, p.i3);
        }
        for (uint i = 0u; i < TOGETHER; i++) {
            total += labelled(label[i], c + i * COLUMNS, p, acc.m, log_sum);
        }
    }
    for (; c < quads; c += COLUMNS) {
        total += labelled(B_load4(c, p.i1, p.i2, p.i3), c, p, acc.m, log_sum);
    }
    total = rows_sum(total);
    if (inside && rows_column() == 0u) {
        D_store4(0u, p.i1, p.i2, p.i3, vec4(total));
    }
}
