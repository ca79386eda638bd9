// What matrix units do at most: products in registers. See backend/src/probe.
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#define ELEMENT float16_t
#endif

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;

// What a unit multiplies: M by K with K by N.
layout(constant_id = 10) const uint MATRIX_M = 16u;
layout(constant_id = 11) const uint MATRIX_N = 16u;
layout(constant_id = 13) const uint MATRIX_K = 16u;

layout(set = 0, binding = 0) buffer Exchange {
    // Steps of every subgroup.
    uvec4 parameters;
    // Where results would go.
    uvec4 sink;
};

// Sums, so that none waits for its own product, and products of each in a step: unrolled, so that the loop costs little beside.
const uint CHAINS = 8u;
const uint ROUNDS = 8u;

void main() {
    float seed = 1e-3 * float(gl_WorkGroupID.x % 1024u);
    coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA> a =
        coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_M, MATRIX_K, gl_MatrixUseA>(ELEMENT(seed));
    coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB> b =
        coopmat<ELEMENT, gl_ScopeSubgroup, MATRIX_K, MATRIX_N, gl_MatrixUseB>(ELEMENT(0.5 - seed));
    coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator> sums[CHAINS];
    [[unroll]] for (uint c = 0u; c < CHAINS; c++) {
        sums[c] = coopmat<float, gl_ScopeSubgroup, MATRIX_M, MATRIX_N, gl_MatrixUseAccumulator>(float(c));
    }
    uint steps = parameters.x;
    for (uint i = 0u; i < steps; i++) {
        [[unroll]] for (uint j = 0u; j < ROUNDS; j++) {
            [[unroll]] for (uint c = 0u; c < CHAINS; c++) {
                sums[c] = coopMatMulAdd(a, b, sums[c]);
            }
        }
    }
    // Of every element: what is not asked for is not computed.
    float sum = 0.0;
    [[unroll]] for (uint c = 0u; c < CHAINS; c++) {
        [[unroll]] for (uint i = 0u; i < sums[c].length(); i++) {
            sum += sums[c][i];
        }
    }
    // Never so, but no compiler knows.
    if (floatBitsToUint(sum) == 0x9e3779b9u) {
        sink = uvec4(floatBitsToUint(sum));
    }
}
