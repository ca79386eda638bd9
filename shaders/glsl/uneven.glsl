// The sixteen numbers of IQ4_NL and IQ4_XS, as signed bytes.

#ifndef UNEVEN_GLSL
#define UNEVEN_GLSL

const uvec4 UNEVEN = uvec4(0xBFAD9881u, 0xF6EADDCFu, 0x26190D01u, 0x71594535u);

#endif
