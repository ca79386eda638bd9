//! Matrix units, where a device has them.

use serde::{Deserialize, Serialize};

/// What the elements of a matrix unit's factors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatrixType {
    /// IEEE 754 of 16 bits.
    F16,
    /// The upper half of an f32.
    Bf16,
}

/// One product that the invocations of a subgroup compute together: `m x k` times `k x n`, added to sums of `m x n` in f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MatrixUnit {
    /// Elements of both factors.
    pub factors: MatrixType,
    /// Rows of the first factor and of the sums.
    pub m: u32,
    /// Columns of the second factor and of the sums.
    pub n: u32,
    /// Columns of the first factor, rows of the second.
    pub k: u32,
    /// Invocations of the subgroups that compute it. Unlike `Limits::subgroup_size` a fact: pipelines of matrix modules have
    /// subgroups of this size, all of them full, so that a workgroup is a multiple of it wide.
    pub subgroup: u32,
    /// Most invocations of a workgroup of such subgroups.
    pub max_invocations: u32,
}
