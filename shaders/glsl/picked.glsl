// What ids pick, which a dispatch has all of, or, as one of several pieces, so much from FIRST on.

layout(constant_id = 16) const uint FIRST = 0u;
// How many there are in all pieces; 0 where there is no other.
layout(constant_id = 17) const uint ALL = 0u;

// Whether this piece, which has `own` of them, writes what an id gives. The first one has what no id picks, too.
bool picked_here(uint id, uint own) {
    return id - FIRST < own || (FIRST == 0u && id >= ALL);
}
