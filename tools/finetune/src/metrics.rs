//! Numbers of each step as JSON lines.

use std::io::Write;
use std::path::Path;

use serde::Serialize;

use crate::error::{Error, Result};
use crate::output::Output;

/// One line of the metrics file.
#[derive(Clone, Debug, Serialize)]
pub struct Metrics {
    /// Step, from 1.
    pub step: usize,
    /// Mean cross-entropy over supervised tokens.
    pub loss: f32,
    /// Share of supervised tokens whose likeliest prediction is right.
    pub accuracy: f32,
    /// Learning rate.
    pub lr: f32,
    /// Tokens read in this step, padding left out.
    pub tokens: usize,
    /// Those tokens by the step's time.
    pub tokens_per_s: f64,
    /// Pieces into which the scheduler cut the graph.
    pub splits: usize,
    /// Nodes that the CPU computed instead of the device.
    pub cpu_nodes: usize,
}

/// The metrics file in the making.
pub struct MetricsFile(Output);

impl MetricsFile {
    /// Starts the file.
    pub fn create(path: &Path) -> Result<MetricsFile> {
        Output::create(path).map(MetricsFile)
    }

    /// Adds a line.
    pub fn add(&mut self, metrics: &Metrics) -> Result<()> {
        let path = self.0.path().to_owned();
        let line = serde_json::to_string(metrics).map_err(|e| Error::io(&path)(e.into()))?;
        writeln!(self.0, "{line}").map_err(Error::io(&path))
    }

    /// Puts the file in its place.
    pub fn commit(self) -> Result<()> {
        self.0.commit()
    }
}
