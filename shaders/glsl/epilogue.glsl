// What a kernel does with the quads of its result. Include after operand D and
//     #define FIRST_EXTRA 3    operand number of E0
// Then STORE4 stores a quad of the result. In a plain kernel that is D_store4. With FUSED, a program of elementwise ops runs
// on the quad first, with quads of the extra operands E0, E1, E2, which are views of D's shape; D gets the last step's
// result, and any other may go to an extra operand. With ROTATE, which has epilogue_store_rotated instead, D gets the last
// step's result rotated by the positions P and the frequency factors F; these operands lie before the extra ones.
//
// The values of the program: 0 to 2 are the extra operands, 3 is the kernel's result, 4 + n the result of step n. With TWIN 2 is the
// kernel's second result, which is put there before. The program is specialization constants; the other half is backend/src/kernels/epilogue.rs.

#ifndef FUSED

#define STORE4 D_store4

#else

#include "elementwise.glsl"

#ifdef ROTATE
#define OPERAND P
#define SLOT FIRST_EXTRA
#define ACCESS READ
#define DTYPE DTYPE_I32
#include "operand.glsl"

#define OPERAND F
#define SLOT (FIRST_EXTRA + 1)
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#include "rotate.glsl"
#define SLOT_E (FIRST_EXTRA + 2)
#else
#define SLOT_E FIRST_EXTRA
#endif

#define OPERAND E0
#define SLOT SLOT_E
#define ACCESS UPDATE
#define DTYPE DTYPE_F32
#include "operand.glsl"

// All operands of a rotated sum of two products leave room for one extra operand, those of a rotated product with a gain for two.
// With TWIN the kernel has a second result, which takes the place of the last one's value.
#if defined(ROTATE) && defined(PAIR)
#define EXTRAS 1
#elif defined(TWIN) || defined(ROTATE) && defined(NORMED)
#define EXTRAS 2
#else
#define EXTRAS 3
#endif

#if EXTRAS > 1
#define OPERAND E1
#define SLOT (SLOT_E + 1)
#define ACCESS UPDATE
#define DTYPE DTYPE_F32
#include "operand.glsl"
#endif

#if EXTRAS > 2
#define OPERAND E2
#define SLOT (SLOT_E + 2)
#define ACCESS UPDATE
#define DTYPE DTYPE_F32
#include "operand.glsl"
#endif

// What becomes of each extra operand: 0 nothing, EXTRA_READ it is read, EXTRA_GETS + v it gets value v.
layout(constant_id = 36) const uint EXTRA_0 = 0u;
#if EXTRAS > 1
layout(constant_id = 37) const uint EXTRA_1 = 0u;
#endif
#if EXTRAS > 2
layout(constant_id = 38) const uint EXTRA_2 = 0u;
#endif
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

#ifdef TWIN
const uint VALUE_SECOND = 2u;
#endif
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

bool epilogue_inside(uint c4, uint i1, uint i2, uint i3) {
    return 4u * c4 < D_n0 && D_inside(i1, i2, i3);
}

// Runs the program on quad (c4, i1, i2, i3) of the result, which may lie outside the padded box of any operand; the last
// value.
vec4 epilogue_run(uint c4, uint i1, uint i2, uint i3, vec4 v) {
    epilogue_value[VALUE_RESULT] = v;
    // Outside the extents every operand gets zeros, whatever the values are.
    if (epilogue_inside(c4, i1, i2, i3)) {
        EPILOGUE_READ(0)
#if EXTRAS > 1
        EPILOGUE_READ(1)
#endif
#if EXTRAS > 2
        EPILOGUE_READ(2)
#endif
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
#if EXTRAS > 1
    EPILOGUE_GIVE(1)
#endif
#if EXTRAS > 2
    EPILOGUE_GIVE(2)
#endif
    return epilogue_value[VALUE_RESULT + STEPS];
}

void epilogue_put(uint c4, uint i1, uint i2, uint i3, vec4 v) {
    if (D_covers(c4, i1, i2, i3)) {
        D_store4(c4, i1, i2, i3, v);
    }
}

#ifdef ROTATE

// Quads between those of a head that are rotated together.
const uint HALF_HEAD = HEAD_DIM / 8u;

// Ends quad c4 of the result; with NEOX it lies in the first half of its head, and `second` is the quad of the second half that
// is rotated with it.
void epilogue_store_rotated(uint c4, uint i1, uint i2, uint i3, vec4 first, vec4 second) {
    // A loop, so that the program stands here once.
    for (uint h = 0u; h < (NEOX ? 2u : 1u); h++) {
        vec4 v = epilogue_run(c4 + h * HALF_HEAD, i1, i2, i3, h == 0u ? first : second);
        first = h == 0u ? v : first;
        second = h == 0u ? second : v;
    }
    if (epilogue_inside(c4, i1, i2, i3)) {
        float position = rotate_position(i1, i2, i3);
        if (NEOX) {
            rotate_halves(c4, first, second, position);
        } else {
            first = rotate_neighbours(c4, first, position);
        }
    }
    epilogue_put(c4, i1, i2, i3, first);
    if (NEOX) {
        epilogue_put(c4 + HALF_HEAD, i1, i2, i3, second);
    }
}

#else

// Ends a quad of the result.
void epilogue_store4(uint c4, uint i1, uint i2, uint i3, vec4 v) {
    epilogue_put(c4, i1, i2, i3, epilogue_run(c4, i1, i2, i3, v));
}

#define STORE4 epilogue_store4

#endif

#endif
