// What a kernel does with the quads of its result. Include after operand D and
//     #define FIRST_EXTRA 3    operand number of E0
// Then STORE4 stores a quad of the result. In a plain kernel that is D_store4. With FUSED, a program of elementwise ops runs
// on the quad first, with quads of the extra operands E0, E1, E2, which are views of D's shape; D gets the last step's
// result, and any other may go to an extra operand.
//
// The values of the program: 0 to 2 are the extra operands, 3 is the kernel's result, 4 + n the result of step n. The
// program is specialization constants; the other half is backend/src/kernels/epilogue.rs.

#ifndef FUSED

#define STORE4 D_store4

#else

#include "elementwise.glsl"

#define OPERAND E0
#define SLOT FIRST_EXTRA
#define ACCESS UPDATE
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND E1
#define SLOT (FIRST_EXTRA + 1)
#define ACCESS UPDATE
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND E2
#define SLOT (FIRST_EXTRA + 2)
#define ACCESS UPDATE
#define DTYPE DTYPE_F32
#include "operand.glsl"

// What becomes of each extra operand: 0 nothing, EXTRA_READ it is read, EXTRA_GETS + v it gets value v.
layout(constant_id = 36) const uint EXTRA_0 = 0u;
layout(constant_id = 37) const uint EXTRA_1 = 0u;
layout(constant_id = 38) const uint EXTRA_2 = 0u;
const uint EXTRA_READ = 0x100u;
const uint EXTRA_GETS = 0x200u;

layout(constant_id = 39) const uint STEPS = 0u;

// A step: its op in the low byte (of one operand from 16 on), then the values that are its operands, a byte each. Factor
// and addend are those of SCALE.
#define EPILOGUE_STEP(n) \
    layout(constant_id = 40 + 3 * n) const uint STEP_##n = 0u; \
    layout(constant_id = 41 + 3 * n) const float STEP_SCALE_##n = 1.0; \
    layout(constant_id = 42 + 3 * n) const float STEP_BIAS_##n = 0.0

EPILOGUE_STEP(0);
EPILOGUE_STEP(1);
EPILOGUE_STEP(2);
EPILOGUE_STEP(3);
EPILOGUE_STEP(4);
EPILOGUE_STEP(5);
EPILOGUE_STEP(6);
EPILOGUE_STEP(7);

const uint VALUE_RESULT = 3u;
const uint OPS_OF_ONE = 16u;

vec4 epilogue_value[12];

vec4 epilogue_step(uint code, float scale, float bias) {
    uint op = code & 0xFFu;
    vec4 a = epilogue_value[(code >> 8) & 0xFFu];
    if (op >= OPS_OF_ONE) {
        return elementwise_one(op - OPS_OF_ONE, a, scale, bias);
    }
    return elementwise_two(op, a, epilogue_value[(code >> 16) & 0xFFu]);
}

#define EPILOGUE_RUN(n) \
    if (STEPS > uint(n)) { \
        epilogue_value[4u + uint(n)] = epilogue_step(STEP_##n, STEP_SCALE_##n, STEP_BIAS_##n); \
    }

#define EPILOGUE_READ(n) \
    if (EXTRA_##n == EXTRA_READ) { \
        epilogue_value[n] = E##n##_load4(c4, i1, i2, i3); \
    }

#define EPILOGUE_GIVE(n) \
    if (EXTRA_##n >= EXTRA_GETS) { \
        if (E##n##_covers(c4, i1, i2, i3)) { \
            E##n##_store4(c4, i1, i2, i3, epilogue_value[EXTRA_##n & 0xFFu]); \
        } \
    }

// Ends quad (c4, i1, i2, i3) of the result, which may lie outside the padded box of any operand.
void epilogue_store4(uint c4, uint i1, uint i2, uint i3, vec4 v) {
    epilogue_value[VALUE_RESULT] = v;
    // Outside the extents every operand gets zeros, whatever the values are.
    if (4u * c4 < D_n0 && D_inside(i1, i2, i3)) {
        EPILOGUE_READ(0)
        EPILOGUE_READ(1)
        EPILOGUE_READ(2)
    }
    EPILOGUE_RUN(0)
    EPILOGUE_RUN(1)
    EPILOGUE_RUN(2)
    EPILOGUE_RUN(3)
    EPILOGUE_RUN(4)
    EPILOGUE_RUN(5)
    EPILOGUE_RUN(6)
    EPILOGUE_RUN(7)
    EPILOGUE_GIVE(0)
    EPILOGUE_GIVE(1)
    EPILOGUE_GIVE(2)
    if (D_covers(c4, i1, i2, i3)) {
        D_store4(c4, i1, i2, i3, epilogue_value[VALUE_RESULT + STEPS]);
    }
}

#define STORE4 epilogue_store4

#endif
