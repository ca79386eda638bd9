//! Dot products of packed bytes (VK_KHR_shader_integer_dot_product): what a device has, and what a logical device enables for them.

use std::ffi::CStr;

use ash::{khr, vk};

use crate::device::ByteDots;

use super::instance::Instance;

/// The extension that modules with dot products stand on.
pub(super) const EXTENSION: &CStr = khr::shader_integer_dot_product::NAME;

/// Its feature, enabled.
pub(super) fn enabled() -> vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static> {
    vk::PhysicalDeviceShaderIntegerDotProductFeatures::default().shader_integer_dot_product(true)
}

/// What a device has of dot products of four signed bytes by four, packed in a word each.
pub(super) fn of(instance: &Instance, raw: vk::PhysicalDevice, has: impl Fn(&CStr) -> bool) -> ByteDots {
    if !has(EXTENSION) {
        return ByteDots::None;
    }
    let mut features = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
    let mut query = vk::PhysicalDeviceFeatures2::default().push_next(&mut features);
    // SAFETY: the struct of the chain is of an extension the device has, and lives until the call returns.
    unsafe { instance.raw.get_physical_device_features2(raw, &mut query) };
    let mut properties = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    let mut query = vk::PhysicalDeviceProperties2::default().push_next(&mut properties);
    // SAFETY: as above.
    unsafe { instance.raw.get_physical_device_properties2(raw, &mut query) };
    let accelerated = properties.integer_dot_product4x8_bit_packed_signed_accelerated;
    match (features.shader_integer_dot_product, accelerated) {
        (vk::FALSE, _) => ByteDots::None,
        (_, vk::FALSE) => ByteDots::Emulated,
        _ => ByteDots::Accelerated,
    }
}
