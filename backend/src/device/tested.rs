//! What a device's schedules of products were found to be when they were tested on it, and what a device has without those that failed.

use serde::{Deserialize, Serialize};

use super::{ByteDots, Limits, MatrixType};

/// A way to compute products that is tested by itself, named as in files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestedSchedule {
    /// [`super::ProductSchedule::Direct`].
    Direct,
    /// [`super::ProductSchedule::Across`], with factors as they are.
    Across,
    /// The same with the right factor as bytes: [`Limits::byte_dots`].
    Dots,
    /// [`super::ProductSchedule::Staged`].
    Staged,
    /// [`super::ProductSchedule::Matrix`], with factors of F16.
    MatrixF16,
    /// The same with factors of BF16.
    MatrixBf16,
    /// The same with factors of F32 in parts of F16.
    MatrixParts,
}

impl std::fmt::Display for TestedSchedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Direct => "direct",
            Self::Across => "across",
            Self::Dots => "dots",
            Self::Staged => "staged",
            Self::MatrixF16 => "matrix-f16",
            Self::MatrixBf16 => "matrix-bf16",
            Self::MatrixParts => "matrix-parts",
        })
    }
}

/// What came of a test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// All runs were alike and as near to the oracle as they must be.
    Passed,
    /// The product was computed another way, so that nothing was tested: which way.
    Unused(String),
    /// What went wrong.
    Failed(String),
}

/// A schedule and what came of its test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tested {
    /// The schedule.
    pub schedule: TestedSchedule,
    /// What came of it.
    pub outcome: Outcome,
}

impl Tested {
    /// Why it failed, if it did.
    pub fn failure(&self) -> Option<&str> {
        match &self.outcome {
            Outcome::Failed(why) => Some(why),
            Outcome::Passed | Outcome::Unused(_) => None,
        }
    }
}

impl Limits {
    /// The limits without what schedules need that failed. Nothing takes the place of direct ones, which stay.
    pub fn without_failed(mut self, tested: &[Tested]) -> Self {
        for Tested { schedule, .. } in tested.iter().filter(|tested| tested.failure().is_some()) {
            let mut drop_units = |factors| self.matrix_units.retain(|unit| unit.factors != factors);
            match schedule {
                TestedSchedule::Direct => {}
                TestedSchedule::Across => self.products.off.across = true,
                TestedSchedule::Dots => self.byte_dots = ByteDots::None,
                TestedSchedule::Staged => self.products.off.staged = true,
                TestedSchedule::MatrixF16 => drop_units(MatrixType::F16),
                TestedSchedule::MatrixBf16 => drop_units(MatrixType::Bf16),
                TestedSchedule::MatrixParts => self.products.off.parts = true,
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{MatrixUnit, SchedulesOff};

    /// Every failure takes away what its schedule needs and nothing else; what passed or was not used takes nothing.
    #[test]
    fn what_failed_is_taken_away() {
        use TestedSchedule::{Across, Direct, Dots, MatrixBf16, MatrixF16, MatrixParts, Staged};
        let unit = |factors| MatrixUnit { factors, m: 16, n: 16, k: 16, subgroup: 32, max_invocations: 1024 };
        let [half, brain] = [unit(MatrixType::F16), unit(MatrixType::Bf16)];
        let all = Limits { matrix_units: vec![half, brain], ..Limits::for_tests() };
        let without = |schedule, outcome| all.clone().without_failed(&[Tested { schedule, outcome }]);
        let off = |change: fn(&mut SchedulesOff)| {
            let mut limits = all.clone();
            change(&mut limits.products.off);
            limits
        };
        for (schedule, left) in [
            (Direct, all.clone()),
            (Across, off(|off| off.across = true)),
            (Dots, Limits { byte_dots: ByteDots::None, ..all.clone() }),
            (Staged, off(|off| off.staged = true)),
            (MatrixF16, Limits { matrix_units: vec![brain], ..all.clone() }),
            (MatrixBf16, Limits { matrix_units: vec![half], ..all.clone() }),
            (MatrixParts, off(|off| off.parts = true)),
        ] {
            assert_eq!(without(schedule, Outcome::Failed("other bits".into())), left, "{schedule}");
            assert_eq!(without(schedule, Outcome::Passed), all, "{schedule}");
            assert_eq!(without(schedule, Outcome::Unused("direct".into())), all, "{schedule}");
            let named = serde_json::to_string(&schedule).unwrap();
            assert_eq!(named, format!("\"{schedule}\""), "files and people name it alike");
        }
    }
}
