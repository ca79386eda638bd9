//! The model that a plan is made for: a known one by name, or that of a GGUF file.

use std::path::Path;

use fblayout::graph::Graph;
use fblayout_models::{Config, Gguf, GgufError, Options, loss_graph, train_graph};

/// Which part of a step a graph is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: loss, gradients, updates.
    Step,
    /// The forward pass and its loss.
    Forward,
}

/// A model, and the file that it was read from.
pub struct Model {
    config: Config,
    file: Option<Gguf>,
}

impl Model {
    /// The model of that name, or of the file of that path: what ends in `.gguf` or has a slash is a path.
    pub fn find(name: &str) -> Result<Self, String> {
        if !(name.ends_with(".gguf") || name.contains(['/', '\\'])) {
            let config = fblayout_models::find(name);
            return Ok(Self {
                config: config.map_err(|e| format!("--model: {e}, or the path of a GGUF file"))?,
                file: None,
            });
        }
        let read = || {
            let file = Gguf::open(Path::new(name))?;
            Ok(Self { config: file.config()?, file: Some(file) })
        };
        read().map_err(|e: GgufError| format!("{name}: {e}"))
    }

    /// The graph of a training step. With `keep_types` the frozen matrices of a file have its own element types.
    pub fn graph(&self, options: &Options, part: Part, keep_types: bool) -> Result<Graph, String> {
        let model = match part {
            Part::Step => train_graph(&self.config, options).map(|step| step.model),
            Part::Forward => loss_graph(&self.config, options),
        };
        let mut model = model.map_err(|e| e.to_string())?;
        if let Some(file) = &self.file {
            file.check(&model).map_err(|e| format!("--model: {e}"))?;
            if keep_types {
                file.keep_types(&mut model).map_err(|e| format!("--model: {e}; name one with --base"))?;
            }
        }
        Ok(model.graph)
    }
}
