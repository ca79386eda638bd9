// Operands of a product, or of two, and what is done with the result. Include where neither has been declared; gives A, B, D and
// the epilogue's STORE4 or epilogue_store_rotated, with PAIR also A2 and B2, with TWIN A2, with NORMED the gain G, one for each k.
// With PARTED A and B are F32 in any case.

#define OPERAND A
#define SLOT 0
#define ACCESS READ
#ifdef PARTED
#define DTYPE DTYPE_F32
#else
#define ENCODED
#endif
#include "operand.glsl"

#define OPERAND B
#define SLOT 1
#define ACCESS READ
#ifdef PARTED
#define DTYPE DTYPE_F32
#endif
#include "operand.glsl"

#ifdef PAIR
#define OPERAND A2
#define SLOT 2
#define ACCESS READ
#define ENCODED
#include "operand.glsl"

#define OPERAND B2
#define SLOT 3
#define ACCESS READ
#include "operand.glsl"

#define OPERAND D
#define SLOT 4
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 5
#elif defined(NORMED)
#ifdef TWIN
#define OPERAND A2
#define SLOT 2
#define ACCESS READ
#define ENCODED
#include "operand.glsl"
#define SLOT_G 3
#else
#define SLOT_G 2
#endif

#define OPERAND G
#define SLOT SLOT_G
#define ACCESS READ
#define DTYPE DTYPE_F32
#include "operand.glsl"

#define OPERAND D
#define SLOT (SLOT_G + 1)
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA (SLOT_G + 2)
#else
#define OPERAND D
#define SLOT 2
#define ACCESS WRITE
#include "operand.glsl"
#define FIRST_EXTRA 3
#endif
#include "epilogue.glsl"
