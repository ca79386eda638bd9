// One invocation per texel of the box.

#include "grid.glsl"

// The position of this invocation; false when there is none.
bool texel_position(out Position p) {
    uint index = grid_group() * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
    p = grid_position(index / TILE_ROWS, BOX_C, index % TILE_ROWS);
    return index < BOX_C * BOX_1 * BOX_2 * BOX_3;
}
