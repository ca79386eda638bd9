// Which tiles of pairs see each other: of SEGMENT tiles at a time, before the first of them is fetched. Include after operand.glsl of Q, K
// and, with MASK, M, and
//     #define SEEN_KEYS           keys of a tile, 4 times a power of two
//     #define SEEN_EACH           also tells keys that no row of the segment sees (seen_keys), where tiles go along keys
// With KEYS tiles go along rows of queries and all have the same keys, else along keys and all have the same rows.

const uint SEGMENT = 32u;

// Tiles of the segment with a pair that sees each other, and those with one that does not or whose score is changed.
struct Seen {
    uint some;
    uint mixed;
};

#ifdef MASK

// Tiles looked at together, so that what is fetched of them is under way together.
const uint LOOKS = 8u;

// Of this segment and the one before.
shared uint seen_some[2];
shared uint seen_mixed[2];
#ifdef SEEN_EACH
// A bit for every key of the segment's tiles that a row sees.
shared uint seen_keys[SEGMENT * (SEEN_KEYS + 31u) / 32u];
#endif

// Looks at tiles first .. first + count of segment number `segment`. A tile is `rows` rows from first_row on and SEEN_KEYS keys from first_key on,
// either of which moves on by as many with each tile. All invocations call it; what it says is the same for all.
Seen look(uint segment, uint count, uint first_row, uint rows, uint first_key) {
    const uint quads = SEEN_KEYS / 4u;
    uint lane = gl_LocalInvocationID.x;
    uint which = segment % 2u;
    if (lane == 0u) {
        seen_some[which] = 0u;
        seen_mixed[which] = 0u;
    }
#ifdef SEEN_EACH
    for (uint i = lane; i < SEGMENT * (SEEN_KEYS + 31u) / 32u; i += gl_WorkGroupSize.x) {
        seen_keys[i] = 0u;
    }
#endif
    barrier();
    // Heads that share a mask have one row of it.
    const uint together = M_n2 == 1u ? HEADS : 1u;
    bool aligned = rows % together == 0u && first_row % together == 0u;
    uint looked = aligned ? rows / together : (rows - 1u) / together + 2u;
    uint quad = lane % quads;
    [[dont_unroll]] for (uint t = 0u; t < count; t += LOOKS) {
        uint some[LOOKS];
        bool mixed[LOOKS];
        [[unroll]] for (uint u = 0u; u < LOOKS; u++) {
            some[u] = 0u;
            mixed[u] = false;
        }
        [[dont_unroll]] for (uint i = lane / quads; i < looked; i += gl_WorkGroupSize.x / quads) {
            vec4 mask[LOOKS];
            bool inside[LOOKS];
            [[unroll]] for (uint u = 0u; u < LOOKS; u++) {
#ifdef KEYS
                uint r = first_row + (t + u) * rows;
                uint key = first_key + 4u * quad;
#else
                uint r = first_row;
                uint key = first_key + (t + u) * SEEN_KEYS + 4u * quad;
#endif
                uint last = min(r + rows, Q_n1 * HEADS);
                r = (r / together + i) * together;
                inside[u] = t + u < count && r < last && key < K_n1;
                mask[u] = vec4(0.0);
                if (inside[u]) {
                    mask[u] = M_load4(key / 4u, r / HEADS, (first_head + r % HEADS) % M_n2, batch % M_n3);
                }
            }
            [[unroll]] for (uint u = 0u; u < LOOKS; u++) {
#ifdef KEYS
                uint key = first_key + 4u * quad;
#else
                uint key = first_key + (t + u) * SEEN_KEYS + 4u * quad;
#endif
                bvec4 there = lessThan(uvec4(key) + uvec4(0u, 1u, 2u, 3u), uvec4(K_n1));
                bvec4 hidden = lessThanEqual(mask[u], vec4(HIDDEN));
                if (inside[u]) {
                    some[u] |= uint(there.x && !hidden.x) | uint(there.y && !hidden.y) << 1 |
                               uint(there.z && !hidden.z) << 2 | uint(there.w && !hidden.w) << 3;
                    mixed[u] = mixed[u] || any(notEqual(operand_mask(key / 4u, K_n1, mask[u]), vec4(0.0)));
                }
            }
        }
        [[unroll]] for (uint u = 0u; u < LOOKS; u++) {
            uint bit = 1u << (t + u);
#ifdef SEEN_EACH
            if (some[u] != 0u) {
                uint at = (t + u) * SEEN_KEYS + 4u * quad;
                atomicOr(seen_keys[at / 32u], some[u] << (at % 32u));
            }
#endif
#ifndef KEYS
            // Keys that are not there are hidden like others.
            mixed[u] = mixed[u] || (t + u < count && first_key + (t + u + 1u) * SEEN_KEYS > K_n1);
#endif
            if (some[u] != 0u && (seen_some[which] & bit) == 0u) {
                atomicOr(seen_some[which], bit);
            }
            if (mixed[u] && (seen_mixed[which] & bit) == 0u) {
                atomicOr(seen_mixed[which], bit);
            }
        }
    }
    barrier();
    return Seen(seen_some[which], seen_mixed[which]);
}

#else

Seen look(uint segment, uint count, uint first_row, uint rows, uint first_key) {
    uint all = count == 32u ? ~0u : (1u << count) - 1u;
#ifdef KEYS
    return Seen(all, 0u);
#else
    bool ragged = first_key + count * SEEN_KEYS > K_n1;
    return Seen(all, ragged ? 1u << (count - 1u) : 0u);
#endif
}

#endif
