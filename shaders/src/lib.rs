//! The compute shaders of fblayout: SPIR-V built from `glsl/` and committed, with what reflection says of each module.
//!
//! `./x shaders` rebuilds `spirv/` after a change in `glsl/` or `manifest`; the build script refuses a stale one.

#[cfg_attr(not(test), allow(dead_code, reason = "the build script packs"))]
mod pack;
mod reflect;
mod spirv;

pub use reflect::{BindingKind, Reflection, reflect};
pub use spirv::{Packed, Spirv};

/// One resource a shader binds, in descriptor set 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Binding {
    /// Binding number.
    pub binding: u32,
    /// Kind of resource.
    pub kind: BindingKind,
}

/// A compiled shader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shader {
    /// Name in the manifest.
    pub name: &'static str,
    /// The module.
    pub spirv: Spirv,
    /// What it binds, sorted by binding.
    pub bindings: &'static [Binding],
    /// Ids of its specialization constants, sorted.
    pub constants: &'static [u32],
    /// It computes with matrix units: its pipelines need a device that has them, and full subgroups of the size that they take.
    pub matrix: bool,
    /// These units take sums as factors: its pipelines need a device whose units do.
    pub matrix_sums: bool,
    /// It computes dot products of packed bytes, which a device must have.
    pub dots: bool,
}

include!(concat!(env!("OUT_DIR"), "/shaders.rs"));

/// The shader of that name.
pub fn get(name: &str) -> Option<&'static Shader> {
    SHADERS.binary_search_by(|shader| shader.name.cmp(name)).ok().map(|index| &SHADERS[index])
}
