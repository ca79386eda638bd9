//! What of a model is trained, and on how much.

use fblayout::graph::{DType, GraphError, ViewError};

/// Which tensors a step trains.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Training {
    /// Every parameter, held in F32.
    Full,
    /// A pair of rank `rank` beside each projection of attention and feed-forward; the model itself is frozen.
    Lora {
        /// Columns of A, rows of B.
        rank: u32,
        /// The pair's product is scaled by `alpha / rank`.
        alpha: f32,
        /// Element type of the frozen matrices; norms and biases are F32.
        base: DType,
    },
}

/// One step's shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// Sequences.
    pub batch: u32,
    /// Tokens of a sequence.
    pub seq: u32,
    /// Positions, of all `batch * seq`, that the loss is a mean over; the others are masked.
    pub targets: u32,
    /// What is trained.
    pub training: Training,
}

impl Options {
    /// A step that learns from every position.
    pub fn new(batch: u32, seq: u32, training: Training) -> Self {
        Self { batch, seq, targets: batch.saturating_mul(seq), training }
    }

    /// Positions of the whole batch, when the options make sense.
    pub(crate) fn tokens(&self) -> Result<u32, Error> {
        let &Self { batch, seq, targets, training } = self;
        let refuse = |rule: String| Err(Error::Options(rule));
        let Some(tokens) = batch.checked_mul(seq).filter(|&n| n > 0 && i32::try_from(n).is_ok()) else {
            return refuse(format!("{batch} sequences of {seq} tokens: between 1 and 2^31 - 1 tokens make a batch"));
        };
        if targets == 0 || targets > tokens {
            return refuse(format!("{targets} positions are trained, must be between 1 and the batch's {tokens}"));
        }
        match training {
            Training::Lora { rank: 0, .. } => refuse("the rank of LoRA is 0, must be at least 1".to_owned()),
            Training::Lora { base: DType::I32, .. } => refuse("weights cannot be I32".to_owned()),
            Training::Lora { .. } | Training::Full => Ok(tokens),
        }
    }
}

/// Why a model has no such graph.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// Options that contradict each other.
    #[error("{0}")]
    Options(String),
    /// A node or value breaks a rule, as a quantized matrix whose rows are no whole blocks.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A window that cannot be formed, as heads that do not fill a projection.
    #[error(transparent)]
    View(#[from] ViewError),
}
