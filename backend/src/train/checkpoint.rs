//! What training needs to go on: weights and moments in a safetensors file, with the number of steps in its metadata.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};

use super::{Optimizer, Trainer};
use crate::graph::Desc;
use crate::recipe::TensorId;
use crate::session::Error;

/// What safetensors files call their metadata, and no tensor.
pub(super) const RESERVED: &str = "__metadata__";
/// Keys of the metadata.
const STEPS: &str = "fblayout.steps";
const OPTIMIZER: &str = "fblayout.optimizer";

/// Why a checkpoint was not saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The device.
    #[error(transparent)]
    Session(#[from] Error),
    /// The file cannot be read or written.
    #[error("'{}': {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The file holds something else.
    #[error("'{}': {rule}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        rule: String,
    },
}

impl Trainer {
    /// Writes what is trained, with the optimizer's moments, to a safetensors file, at once: whoever reads it finds the old file or the
    /// new. Its tensors are F32 under their names, rows first; moments end in `.m` and `.v`.
    ///
    /// # Errors
    /// The device is lost, or the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), CheckpointError> {
        let mut held = Vec::new();
        for (name, id) in self.kept() {
            let desc = self.session.recipe().desc(id).map_err(Error::from)?;
            let mut bytes = vec![0; desc.bytes() as usize];
            self.session.download(id, 0, &mut bytes)?;
            held.push((name, rows_first(desc), bytes));
        }
        let content = |error: &dyn std::fmt::Display| content(path, error.to_string());
        let views = held.iter().map(|(name, shape, bytes)| {
            Ok((name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).map_err(|e| content(&e))?))
        });
        let views = views.collect::<Result<Vec<_>, CheckpointError>>()?;
        let metadata = [(STEPS, self.steps.to_string()), (OPTIMIZER, self.optimizer_name().to_owned())];
        let metadata: HashMap<String, String> = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        let bytes = safetensors::serialize(views, Some(metadata)).map_err(|e| content(&e))?;
        crate::file::replace(path, &[&bytes]).map_err(|error| CheckpointError::File { path: path.to_owned(), error })
    }

    /// Goes on from a file of [`Trainer::save`]. Nothing changes after an error, unless the device is lost.
    ///
    /// # Errors
    /// The file cannot be read, or is that of another optimizer, other weights or other shapes.
    pub fn load(&mut self, path: &Path) -> Result<(), CheckpointError> {
        let bytes = std::fs::read(path).map_err(|error| CheckpointError::File { path: path.to_owned(), error })?;
        let content = |error: &dyn std::fmt::Display| content(path, error.to_string());
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|e| content(&e))?;
        let told = |key: &str| header.metadata().as_ref().and_then(|metadata| metadata.get(key));
        let optimizer = told(OPTIMIZER).ok_or_else(|| content(&"is no checkpoint of training"))?;
        if optimizer != self.optimizer_name() {
            return Err(content(&format!("is of {optimizer}, not {}", self.optimizer_name())));
        }
        // One step more must be a number too.
        let steps = told(STEPS).and_then(|steps| steps.parse().ok()).filter(|&steps: &u64| steps < u64::MAX);
        let steps = steps.ok_or_else(|| content(&"has no number of steps"))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|e| content(&e))?;
        let kept = self.kept();
        if let Some(name) = file.names().iter().find(|name| kept.iter().all(|(own, _)| own != *name)) {
            return Err(content(&format!("has {name:?}, which is not trained")));
        }
        let mut found = Vec::with_capacity(kept.len());
        for (name, id) in kept {
            let desc = self.session.recipe().desc(id).map_err(Error::from)?;
            let tensor = file.tensor(&name).map_err(|_| content(&format!("has no {name:?}")))?;
            if tensor.dtype() != Dtype::F32 || tensor.shape() != rows_first(desc) {
                let rule = format!(
                    "{name:?} is {:?} {:?}, must be F32 {:?}",
                    tensor.dtype(),
                    tensor.shape(),
                    rows_first(desc)
                );
                return Err(content(&rule));
            }
            found.push((id, tensor));
        }
        for (id, tensor) in found {
            self.session.upload(id, 0, tensor.data())?;
        }
        self.steps = steps;
        Ok(())
    }

    /// Everything that is kept, by name.
    pub(super) fn kept(&self) -> Vec<(String, TensorId)> {
        let of = |trained: &super::Trained| {
            let moments = trained.moments.iter().map(|(ending, id)| (format!("{}.{ending}", trained.name), *id));
            [(trained.name.clone(), trained.weight)].into_iter().chain(moments).collect::<Vec<_>>()
        };
        self.trained.iter().flat_map(of).collect()
    }

    fn optimizer_name(&self) -> &'static str {
        match self.optimizer {
            Optimizer::AdamW { .. } => "adamw",
            Optimizer::Sgd => "sgd",
        }
    }
}

fn content(path: &Path, rule: String) -> CheckpointError {
    CheckpointError::Content { path: path.to_owned(), rule }
}

/// Extents as safetensors has them, outermost first, without the outer ones of one element.
fn rows_first(desc: Desc) -> Vec<usize> {
    let used = (0..4).rev().find(|&axis| desc.shape[axis] != 1).map_or(1, |axis| axis + 1);
    desc.shape[..used].iter().rev().map(|&n| n as usize).collect()
}
