// Numbers of the workgroup's tile along n and along m: BAND rows of tiles are gone through column by column.
uvec2 banded_tile() {
    if (BAND == 1u) {
        return gl_WorkGroupID.xy;
    }
    uint number = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint first = number / (BAND * gl_NumWorkGroups.x) * BAND;
    uint rows = min(BAND, gl_NumWorkGroups.y - first);
    uint rest = number - first * gl_NumWorkGroups.x;
    return uvec2(rest / rows, first + rest % rows);
}
