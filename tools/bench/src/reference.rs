//! What the comparisons hold fixed: the policy that the others are measured by, the training, the machines.

use fblayout::device::{Limits, Preset, Profile};
use fblayout::graph::DType;
use fblayout::plan::Policy;
use fblayout_models::{Config, MODELS, Training};

use crate::Failure;

/// Rank of the LoRA pairs.
pub const RANK: u32 = 8;

/// LoRA on frozen matrices of F16. Alpha only scales.
pub const LORA: Training = Training::Lora { rank: RANK, alpha: RANK as f32, base: DType::F16 };

/// The policy that the others are measured by: it does all that a planner can.
pub const POLICY: Policy = Policy::Full;

/// Every policy, in the order of the list.
pub fn policies() -> impl Iterator<Item = Policy> {
    Policy::ALL.into_iter().map(|(_, policy)| policy)
}

/// The named models, or all.
pub fn models(names: &[String]) -> Result<Vec<Config>, Failure> {
    if names.is_empty() {
        return Ok(MODELS.to_vec());
    }
    names.iter().map(|name| Ok(fblayout_models::find(name)?)).collect()
}

/// A type by its name in ggml.
pub fn dtype(name: &str) -> Result<DType, String> {
    let found = DType::ALL.into_iter().find(|dtype| format!("{dtype:?}").eq_ignore_ascii_case(name));
    found.ok_or_else(|| format!("{name:?} is not one of {}", DType::ALL.map(|dtype| format!("{dtype:?}")).join(", ")))
}

/// A preset that is a machine.
#[derive(Clone)]
pub struct Machine {
    /// Name of the preset.
    pub name: &'static str,
    /// Its limits, as far as known, and usual ones.
    pub limits: Limits,
    /// What it does.
    pub profile: &'static Profile,
}

impl Machine {
    /// The machine of that name.
    pub fn find(name: &str) -> Result<Self, Failure> {
        let all = || Self::all().map(|machine| machine.name).collect::<Vec<_>>().join(", ");
        Self::all()
            .find(|m| m.name == name)
            .ok_or_else(|| format!("{name:?} is no machine; use one of {}", all()).into())
    }

    /// The named machines, or all.
    pub fn named(names: &[String]) -> Result<Vec<Self>, Failure> {
        if names.is_empty() {
            return Ok(Self::all().collect());
        }
        names.iter().map(|name| Self::find(name)).collect()
    }

    fn all() -> impl Iterator<Item = Self> {
        Preset::machines().map(|(preset, profile)| Self {
            name: preset.name,
            limits: preset.limits.complete(&Limits::USUAL),
            profile,
        })
    }
}

#[cfg(test)]
mod tests {
    use fblayout::device::PRESETS;

    use super::*;

    #[test]
    fn names_are_found_or_refused() {
        assert_eq!(Machine::named(&[]).unwrap().len(), PRESETS.iter().filter(|p| p.profile.is_some()).count());
        assert_eq!(Machine::find("h200").unwrap().name, "h200");
        let refusal = Machine::find("vulkan-minimum").err().unwrap().to_string();
        assert!(refusal.contains("adreno-830, "), "{refusal}");
        assert_eq!(models(&[]).unwrap().len(), MODELS.len());
        assert!(models(&["llama-4".into()]).is_err());
        assert_eq!(dtype("q4_k"), Ok(DType::Q4_K));
        assert!(dtype("q9").unwrap_err().contains("Q8_0"));
    }
}
