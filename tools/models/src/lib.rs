//! Training graphs of known decoder models, at true sizes.
//!
//! [`find`] gives a known model's [`Config`], [`Gguf::config`] that of a file; [`loss_graph`] builds its forward pass and masked cross entropy, [`train_graph`] adds the
//! gradients and one AdamW step per trained tensor. Heads are split, permuted and shared by windows; the one copy that a layer asks for
//! (joining its heads) is left to the planner to make coordinates of.

mod config;
mod contents;
mod forward;
mod gguf;
mod known;
mod options;
mod train;

pub use config::{Config, Gate, Llama3Scaling, Rotary, Sliding};
pub use contents::{BETA1, Noise, contents};
pub use forward::{Inputs, Model, Parameter, causal_mask, loss_graph};
pub use gguf::{Gguf, GgufError};
pub use known::{MODELS, UnknownModel, find};
pub use options::{Error, Options, Training};
pub use train::{TrainGraph, Update, train_graph};
