// Where attention keeps the logarithms of its sums of weights: behind the heads of a result, in a quad for each head.

uint log_quad(uint head, uint quads) {
    return head % quads;
}

uint log_head(uint head, uint heads, uint quads) {
    return heads + head / quads;
}

// Whether a quad of a head that is none is that of one.
bool holds_log(uint c, uint head, uint heads, uint quads) {
    return head >= heads && c < quads && (head - heads) * quads + c < heads;
}
