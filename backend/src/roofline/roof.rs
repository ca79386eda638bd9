//! The least time that a step could take on a machine.

use serde::Serialize;

use crate::device::{MatrixType, Profile};
use crate::kernels;

use super::Kind;

/// What a step cannot be faster than.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ceiling {
    /// Its operations at the rate of what computes them: multiply-adds in f32, or matrix units.
    Arithmetic,
    /// Its bytes from and to memory.
    Memory,
    /// Its bytes from the cache that all cores share, half of which holds them.
    Cache,
    /// A dispatch that does nothing.
    Launch,
}

impl Ceiling {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Arithmetic => "arithmetic",
            Self::Memory => "memory",
            Self::Cache => "cache",
            Self::Launch => "launch",
        }
    }
}

/// The least time of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Roof {
    /// Seconds.
    pub seconds: f64,
    /// What takes them.
    pub ceiling: Ceiling,
}

impl Roof {
    /// What a step of this kind takes at least on a machine, in the middle of its ranges. Operands that half of the shared cache holds
    /// may be there already.
    pub fn of(kind: &Kind, machine: &Profile) -> Self {
        let bytes = kind.bytes as f64;
        let moved = match bytes <= machine.l2_bytes.mid / 2.0 {
            true => (Ceiling::Cache, bytes / machine.l2_rate.mid.max(machine.memory_rate.mid)),
            false => (Ceiling::Memory, bytes / machine.memory_rate.mid),
        };
        let arithmetic = (Ceiling::Arithmetic, kind.flops as f64 / rate(kind, machine));
        let launch = (Ceiling::Launch, machine.launch.mid);
        let longest =
            [arithmetic, moved].into_iter().fold(launch, |most, next| if next.1 > most.1 { next } else { most });
        Self { ceiling: longest.0, seconds: longest.1 }
    }
}

/// Operations a second of what computes a kind; no bound where its matrix units were not measured.
fn rate(kind: &Kind, machine: &Profile) -> f64 {
    let Some((factors, products)) = kernels::matrix_products(&kind.shader) else { return machine.flops_f32.mid };
    let rate = match factors {
        MatrixType::F16 => machine.matrix_f16,
        MatrixType::Bf16 => machine.matrix_bf16,
    };
    rate.map_or(f64::INFINITY, |rate| rate.mid / f64::from(products))
}
