// How invocations are spread over a box of positions (c, i1, i2, i3), c counting texels or quads along axis 0.
//
// Neighbouring invocations take the rows of one tile first, since these are neighbouring texels: TILE_ROWS consecutive
// indices of TILE_AXIS (1, 2 or 3), which divide the box. Workgroups are numbered over x, y and z, so that a box may need
// more of them than one dimension allows; the last ones may lie outside the box.

layout(local_size_x_id = 0) in;

layout(constant_id = 3) const uint TILE_AXIS = 1u;
layout(constant_id = 4) const uint TILE_ROWS = 1u;
layout(constant_id = 5) const uint BOX_C = 1u;
layout(constant_id = 6) const uint BOX_1 = 1u;
layout(constant_id = 7) const uint BOX_2 = 1u;
layout(constant_id = 8) const uint BOX_3 = 1u;

struct Position {
    uint c;
    uint i1;
    uint i2;
    uint i3;
};

uint grid_group() {
    return gl_WorkGroupID.x + gl_NumWorkGroups.x * (gl_WorkGroupID.y + gl_NumWorkGroups.y * gl_WorkGroupID.z);
}

// Position number `tile` of the box counted in whole tiles, c innermost among `columns`, at row `row` of its tile.
Position grid_position(uint tile, uint columns, uint row) {
    uint box1 = TILE_AXIS == 1u ? BOX_1 / TILE_ROWS : BOX_1;
    uint box2 = TILE_AXIS == 2u ? BOX_2 / TILE_ROWS : BOX_2;
    Position p;
    p.c = tile % columns;
    tile /= columns;
    p.i1 = tile % box1;
    tile /= box1;
    p.i2 = tile % box2;
    p.i3 = tile / box2;
    if (TILE_AXIS == 1u) {
        p.i1 = p.i1 * TILE_ROWS + row;
    } else if (TILE_AXIS == 2u) {
        p.i2 = p.i2 * TILE_ROWS + row;
    } else {
        p.i3 = p.i3 * TILE_ROWS + row;
    }
    return p;
}
