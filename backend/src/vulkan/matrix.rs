//! Matrix units (VK_KHR_cooperative_matrix): which of them kernels can use, what more they do with sums (VK_NV_cooperative_matrix2), and what
//! a logical device enables for them.

use std::ffi::{CStr, c_char, c_void};

use ash::{ext, khr, vk};

use crate::device::{Limits, MatrixType, MatrixUnit};

use super::error::{Error, Result};
use super::instance::{Instance, MODULES_VERSION};

/// What modules with cooperative matrices stand on beside Vulkan 1.1: their memory model, f16 in registers and in shared memory, and
/// subgroups that are full and of a known size.
const EXTENSIONS: [&CStr; 4] = [
    khr::cooperative_matrix::NAME,
    khr::vulkan_memory_model::NAME,
    khr::shader_float16_int8::NAME,
    ext::subgroup_size_control::NAME,
];

/// What modules stand on whose units take sums: their SPIR-V 1.6 gives workgroups' sizes by constants.
const SUMS_EXTENSIONS: [&CStr; 2] = [c"VK_NV_cooperative_matrix2", khr::maintenance4::NAME];

const BFLOAT16_EXTENSION: &CStr = c"VK_KHR_shader_bfloat16";

/// `VK_COMPONENT_TYPE_BFLOAT16_KHR`; younger than the bindings.
const BFLOAT16: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_141_000);

/// `VkPhysicalDeviceShaderBfloat16FeaturesKHR`; younger than the bindings.
#[repr(C)]
struct Bfloat16Features {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    shader_bfloat16_type: vk::Bool32,
    shader_bfloat16_dot_product: vk::Bool32,
    shader_bfloat16_cooperative_matrix: vk::Bool32,
}

impl Default for Bfloat16Features {
    fn default() -> Self {
        Self {
            s_type: <Self as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            shader_bfloat16_type: vk::FALSE,
            shader_bfloat16_dot_product: vk::FALSE,
            shader_bfloat16_cooperative_matrix: vk::FALSE,
        }
    }
}

// SAFETY: the fields are those of the specification's struct, the type and the chain's pointer first.
unsafe impl vk::TaggedStructure for Bfloat16Features {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_141_000);
}
// SAFETY: the specification lets this struct extend both.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Bfloat16Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsDeviceCreateInfo for Bfloat16Features {}

/// `VkPhysicalDeviceCooperativeMatrix2FeaturesNV`; younger than the bindings.
#[repr(C)]
struct Matrix2Features {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    workgroup_scope: vk::Bool32,
    flexible_dimensions: vk::Bool32,
    reductions: vk::Bool32,
    conversions: vk::Bool32,
    per_element_operations: vk::Bool32,
    tensor_addressing: vk::Bool32,
    block_loads: vk::Bool32,
}

impl Default for Matrix2Features {
    fn default() -> Self {
        Self {
            s_type: <Self as vk::TaggedStructure>::STRUCTURE_TYPE,
            p_next: std::ptr::null_mut(),
            workgroup_scope: vk::FALSE,
            flexible_dimensions: vk::FALSE,
            reductions: vk::FALSE,
            conversions: vk::FALSE,
            per_element_operations: vk::FALSE,
            tensor_addressing: vk::FALSE,
            block_loads: vk::FALSE,
        }
    }
}

// SAFETY: the fields are those of the specification's struct, the type and the chain's pointer first.
unsafe impl vk::TaggedStructure for Matrix2Features {
    const STRUCTURE_TYPE: vk::StructureType = vk::StructureType::from_raw(1_000_593_000);
}
// SAFETY: the specification lets this struct extend both.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Matrix2Features {}
// SAFETY: as above.
unsafe impl vk::ExtendsDeviceCreateInfo for Matrix2Features {}

/// The structs of all features that matrix modules use; what a device has of them, or what is enabled.
#[derive(Default)]
pub(super) struct Features {
    matrix: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    memory_model: vk::PhysicalDeviceVulkanMemoryModelFeatures<'static>,
    small_types: vk::PhysicalDeviceShaderFloat16Int8Features<'static>,
    storage: vk::PhysicalDevice16BitStorageFeatures<'static>,
    subgroups: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
    /// Only on devices of the extension.
    bfloat16: Option<Bfloat16Features>,
    /// Only on devices of the extensions.
    sums: Option<(Matrix2Features, vk::PhysicalDeviceMaintenance4Features<'static>)>,
}

impl Features {
    /// What a device with [`EXTENSIONS`] has.
    fn of(instance: &Instance, raw: vk::PhysicalDevice, bfloat16: bool, sums: bool) -> Self {
        let mut features = Self {
            bfloat16: bfloat16.then(Bfloat16Features::default),
            sums: sums.then(Default::default),
            ..Self::default()
        };
        let Self { matrix, memory_model, small_types, storage, subgroups, bfloat16, sums } = &mut features;
        let mut query = vk::PhysicalDeviceFeatures2::default()
            .push_next(matrix)
            .push_next(memory_model)
            .push_next(small_types)
            .push_next(storage)
            .push_next(subgroups);
        if let Some(bfloat16) = bfloat16 {
            query = query.push_next(bfloat16);
        }
        if let Some((matrix2, maintenance4)) = sums {
            query = query.push_next(matrix2).push_next(maintenance4);
        }
        // SAFETY: every struct of the chain is core in 1.1 or of an extension the device has, and lives until the call returns.
        unsafe { instance.raw.get_physical_device_features2(raw, &mut query) };
        features
    }

    /// What a device that computes with the units of these limits must have enabled.
    pub fn needed_by(limits: &Limits) -> Self {
        let bfloat16 = limits.matrix_units.iter().any(|unit| unit.factors == MatrixType::Bf16);
        let sums = || {
            let matrix2 = Matrix2Features { reductions: vk::TRUE, conversions: vk::TRUE, ..Matrix2Features::default() };
            (matrix2, vk::PhysicalDeviceMaintenance4Features::default().maintenance4(true))
        };
        Self {
            matrix: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true),
            memory_model: vk::PhysicalDeviceVulkanMemoryModelFeatures::default()
                .vulkan_memory_model(true)
                .vulkan_memory_model_device_scope(true),
            small_types: vk::PhysicalDeviceShaderFloat16Int8Features::default().shader_float16(true),
            storage: vk::PhysicalDevice16BitStorageFeatures::default().storage_buffer16_bit_access(true),
            subgroups: vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
                .subgroup_size_control(true)
                .compute_full_subgroups(true),
            bfloat16: bfloat16.then(|| Bfloat16Features {
                shader_bfloat16_type: vk::TRUE,
                shader_bfloat16_cooperative_matrix: vk::TRUE,
                ..Bfloat16Features::default()
            }),
            sums: limits.matrix_sums.then(sums),
        }
    }

    fn take_f16(&self) -> bool {
        [
            self.matrix.cooperative_matrix,
            self.memory_model.vulkan_memory_model,
            self.memory_model.vulkan_memory_model_device_scope,
            self.small_types.shader_float16,
            self.storage.storage_buffer16_bit_access,
            self.subgroups.subgroup_size_control,
            self.subgroups.compute_full_subgroups,
        ]
        .iter()
        .all(|&feature| feature == vk::TRUE)
    }

    fn take_bf16(&self) -> bool {
        self.bfloat16
            .as_ref()
            .is_some_and(|f| f.shader_bfloat16_type == vk::TRUE && f.shader_bfloat16_cooperative_matrix == vk::TRUE)
    }

    fn take_sums(&self) -> bool {
        self.sums.as_ref().is_some_and(|(matrix2, maintenance4)| {
            [matrix2.reductions, matrix2.conversions, maintenance4.maintenance4].iter().all(|&f| f == vk::TRUE)
        })
    }

    /// The extensions that they are of.
    pub fn extensions(&self) -> impl Iterator<Item = *const c_char> {
        let bfloat16 = self.bfloat16.as_ref().map(|_| BFLOAT16_EXTENSION);
        let sums = self.sums.as_ref().map(|_| SUMS_EXTENSIONS).into_iter().flatten();
        EXTENSIONS.into_iter().chain(bfloat16).chain(sums).map(CStr::as_ptr)
    }

    /// Enables them.
    pub fn enable<'a>(&'a mut self, info: vk::DeviceCreateInfo<'a>) -> vk::DeviceCreateInfo<'a> {
        let mut info = info
            .push_next(&mut self.matrix)
            .push_next(&mut self.memory_model)
            .push_next(&mut self.small_types)
            .push_next(&mut self.storage)
            .push_next(&mut self.subgroups);
        if let Some(bfloat16) = &mut self.bfloat16 {
            info = info.push_next(bfloat16);
        }
        if let Some((matrix2, maintenance4)) = &mut self.sums {
            info = info.push_next(matrix2).push_next(maintenance4);
        }
        info
    }
}

/// The matrix units of a device that kernels can use, sorted, and whether they take sums; none where one of the extensions or features is
/// missing. `version` is the Vulkan that the device speaks.
pub(super) fn units(
    instance: &Instance,
    raw: vk::PhysicalDevice,
    version: u32,
    has: impl Fn(&CStr) -> bool,
) -> Result<(Vec<MatrixUnit>, bool)> {
    let none = || Ok((Vec::new(), false));
    if !EXTENSIONS.into_iter().all(&has) {
        return none();
    }
    let sums = version >= MODULES_VERSION && SUMS_EXTENSIONS.into_iter().all(&has);
    let features = Features::of(instance, raw, has(BFLOAT16_EXTENSION), sums);
    if !features.take_f16() {
        return none();
    }

    let mut subgroup = vk::PhysicalDeviceSubgroupProperties::default();
    let mut control = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut matrix = vk::PhysicalDeviceCooperativeMatrixPropertiesKHR::default();
    let mut query = vk::PhysicalDeviceProperties2::default()
        .push_next(&mut subgroup)
        .push_next(&mut control)
        .push_next(&mut matrix);
    // SAFETY: every struct of the chain is core in 1.1 or of an extension the device has, and lives until the call returns.
    unsafe { instance.raw.get_physical_device_properties2(raw, &mut query) };
    let invocations = query.properties.limits.max_compute_work_group_invocations;
    let stages = [control.required_subgroup_size_stages, matrix.cooperative_matrix_supported_stages];
    if !stages.iter().all(|stages| stages.contains(vk::ShaderStageFlags::COMPUTE)) {
        return none();
    }

    let matrices = khr::cooperative_matrix::Instance::new(&instance.entry, &instance.raw);
    // SAFETY: the device belongs to the live instance and has the extension; ash sizes the array.
    let properties = unsafe { matrices.get_physical_device_cooperative_matrix_properties(raw) }
        .map_err(|r| Error::of_call("vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", r))?;
    // What a pipeline may require; by the device's choice of size the units are known to work.
    let size = subgroup.subgroup_size.clamp(control.min_subgroup_size, control.max_subgroup_size);
    let max_invocations = invocations.min(size.saturating_mul(control.max_compute_workgroup_subgroups));
    let mut units: Vec<MatrixUnit> = properties
        .iter()
        .filter_map(|p| {
            let factors = usable(p).filter(|factors| *factors == MatrixType::F16 || features.take_bf16())?;
            Some(MatrixUnit { factors, m: p.m_size, n: p.n_size, k: p.k_size, subgroup: size, max_invocations })
        })
        .collect();
    units.sort_unstable();
    units.dedup();
    let sums = !units.is_empty() && features.take_sums();
    Ok((units, sums))
}

/// The type of the factors, if both have one that kernels deal in and a subgroup sums their products in f32.
fn usable(p: &vk::CooperativeMatrixPropertiesKHR<'_>) -> Option<MatrixType> {
    let sums = vk::ComponentTypeKHR::FLOAT32;
    if p.scope != vk::ScopeKHR::SUBGROUP || p.a_type != p.b_type || p.c_type != sums || p.result_type != sums {
        return None;
    }
    match p.a_type {
        vk::ComponentTypeKHR::FLOAT16 => Some(MatrixType::F16),
        BFLOAT16 => Some(MatrixType::Bf16),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_that_sum_in_f32_are_usable() {
        type Type = vk::ComponentTypeKHR;
        let unit = |a, b, c, result, scope| {
            let p = vk::CooperativeMatrixPropertiesKHR::default();
            usable(&p.a_type(a).b_type(b).c_type(c).result_type(result).scope(scope))
        };
        let (f16, f32, subgroup) = (Type::FLOAT16, Type::FLOAT32, vk::ScopeKHR::SUBGROUP);
        assert_eq!(unit(f16, f16, f32, f32, subgroup), Some(MatrixType::F16));
        assert_eq!(unit(BFLOAT16, BFLOAT16, f32, f32, subgroup), Some(MatrixType::Bf16));
        assert_eq!(unit(f16, f16, f16, f16, subgroup), None);
        assert_eq!(unit(f16, f16, f32, f16, subgroup), None);
        assert_eq!(unit(f16, BFLOAT16, f32, f32, subgroup), None);
        assert_eq!(unit(f16, f16, f32, f32, vk::ScopeKHR::WORKGROUP), None);
        assert_eq!(unit(Type::SINT8, Type::SINT8, Type::SINT32, Type::SINT32, subgroup), None);
    }

    #[test]
    fn what_units_take_is_enabled() {
        let unit = |factors| MatrixUnit { factors, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
        let with = |matrix_units, matrix_sums| Limits { matrix_units, matrix_sums, ..Limits::for_tests() };
        let takes = |limits: &Limits| {
            let needed = Features::needed_by(limits);
            assert!(needed.take_f16());
            (needed.take_bf16(), needed.take_sums(), needed.extensions().count() - EXTENSIONS.len())
        };
        assert_eq!(takes(&with(vec![unit(MatrixType::F16), unit(MatrixType::Bf16)], false)), (true, false, 1));
        assert_eq!(takes(&with(vec![unit(MatrixType::F16)], false)), (false, false, 0));
        assert_eq!(takes(&with(vec![unit(MatrixType::F16)], true)), (false, true, 2));
    }
}
