#version 450
// Every subgroup of the one workgroup: its M x K part of A times B of K x N, added in f32 to zero, to its M x N part of C; rows are dense.
// Built by the shaderc crate 0.10.1 from its sources, for Vulkan 1.1 with optimization: `./x shaders --matrix` builds that compiler.
// matrix_bf16.spv has BF16 defined.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#ifdef BF16
#extension GL_EXT_bfloat16 : require
#define FACTOR bfloat16_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define FACTOR float16_t
#endif

layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(constant_id = 16) const uint M = 8;
layout(constant_id = 17) const uint N = 8;
layout(constant_id = 18) const uint K = 8;

// Texels of 16 bytes: eight elements of a factor, four of the sums.
layout(set = 0, binding = 0, std430) readonly buffer A { uvec4 a[]; };
layout(set = 0, binding = 2, std430) readonly buffer B { uvec4 b[]; };
layout(set = 0, binding = 4, std430) buffer C { uvec4 c[]; };

shared uvec4 staged[K * N / 8];

void main() {
    for (uint i = gl_LocalInvocationIndex; i < K * N / 8; i += gl_WorkGroupSize.x) staged[i] = b[i];
    barrier();
    coopmat<FACTOR, gl_ScopeSubgroup, M, K, gl_MatrixUseA> left;
    coopmat<FACTOR, gl_ScopeSubgroup, K, N, gl_MatrixUseB> right;
    coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sums;
    coopMatLoad(left, a, gl_SubgroupID * (M * K / 8), K / 8, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(right, staged, 0, N / 8, gl_CooperativeMatrixLayoutRowMajor);
    sums = coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>(0.0);
    sums = coopMatMulAdd(left, right, sums);
    coopMatStore(sums, c, gl_SubgroupID * (M * N / 4), N / 4, gl_CooperativeMatrixLayoutRowMajor);
}
