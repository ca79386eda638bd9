//! Optimizers: the op that steps, and the numbers that it takes.

use crate::graph::Op;

/// How weights follow gradients.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// AdamW.
    AdamW {
        /// Decay of the first moment.
        beta1: f32,
        /// Decay of the second moment.
        beta2: f32,
        /// Added to the root of the second moment.
        eps: f32,
    },
    /// Gradient descent.
    Sgd,
}

impl Default for Optimizer {
    fn default() -> Self {
        Self::AdamW { beta1: 0.9, beta2: 0.999, eps: 1e-8 }
    }
}

/// The speed of learning; may change from step to step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Step size.
    pub learning_rate: f32,
    /// Weights shrink by `learning_rate` times this a step.
    pub weight_decay: f32,
}

impl Default for Pace {
    fn default() -> Self {
        Self { learning_rate: 1e-3, weight_decay: 0.0 }
    }
}

impl Optimizer {
    pub(super) fn op(self) -> Op {
        match self {
            Self::AdamW { .. } => Op::AdamW,
            Self::Sgd => Op::Sgd,
        }
    }

    /// Endings of the names of what it keeps of a weight, in the op's order.
    pub(super) fn moments(self) -> &'static [&'static str] {
        match self {
            Self::AdamW { .. } => &["m", "v"],
            Self::Sgd => &[],
        }
    }

    /// Number of the op's settings.
    pub(super) fn settings(self) -> usize {
        self.values(Pace::default(), 1).len()
    }

    /// The op's settings for a step, counted from 1.
    pub(super) fn values(self, pace: Pace, step: u64) -> Vec<f32> {
        let Pace { learning_rate, weight_decay } = pace;
        match self {
            Self::Sgd => vec![learning_rate, weight_decay],
            Self::AdamW { beta1, beta2, eps } => {
                let corrected = |beta: f32| (1.0 / (1.0 - f64::from(beta).powf(step as f64))) as f32;
                vec![learning_rate, beta1, beta2, eps, weight_decay, corrected(beta1), corrected(beta2)]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_corrected_for_their_first_steps() {
        let adamw = Optimizer::AdamW { beta1: 0.5, beta2: 0.75, eps: 1e-8 };
        let pace = Pace { learning_rate: 0.1, weight_decay: 0.2 };
        assert_eq!(adamw.values(pace, 2)[5..], [4.0 / 3.0, 16.0 / 7.0]);
        assert_eq!((adamw.settings(), Optimizer::Sgd.settings()), (7, 2));
    }
}
