// One product of the GEMM: a function that adds it to the accumulators. Include after operand.glsl of both operands and
//     #define LEFT A                  the prefix of the left operand
//     #define RIGHT B                 the prefix of the right one
//     #define PRODUCT_AXIS REDUCE     the constant that is the view axis summed over
// which are undefined again at the end. The function is named after the left operand: A_product.

#define OPERAND LEFT
#define SUMMED PRODUCT_AXIS
#include "direction.glsl"
#define OPERAND LEFT
#include "gemm_a.glsl"

#ifdef TWIN
#define OPERAND A2
#define SUMMED PRODUCT_AXIS
#include "direction.glsl"
#define OPERAND A2
#include "gemm_a.glsl"
#endif

#define OPERAND RIGHT
#define SUMMED PRODUCT_AXIS
#include "direction.glsl"
#define OPERAND RIGHT
#include "gemm_b.glsl"

#define L(suffix) OPERAND_PASTE(LEFT, suffix)
#define R(suffix) OPERAND_PASTE(RIGHT, suffix)

#ifdef STAGED
#include "gemm_staged.glsl"
#elif defined(DOTS)
#include "gemm_dots.glsl"
#else
#include "gemm_direct.glsl"
#endif

#undef L
#undef R
#undef LEFT
#undef RIGHT
#undef PRODUCT_AXIS
