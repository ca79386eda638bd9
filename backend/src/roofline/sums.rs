//! The sums, and the JSON that they are kept as.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::device::Profile;

/// An operand of a step.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// `reads`, `writes` or `updates`.
    pub access: String,
    /// Element type.
    pub dtype: String,
    /// Extents, axis 0 innermost.
    pub shape: [u32; 4],
    /// `buffer` or `image`.
    pub storage: String,
    /// Axis along which the elements of a texel follow each other; none where elements are found by number.
    pub along: Option<usize>,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.shape.iter().rposition(|&n| n > 1).unwrap_or(0);
        let shape: Vec<String> = self.shape[..=last].iter().map(u32::to_string).collect();
        let Self { access, dtype, storage, .. } = self;
        write!(f, "{access} {dtype} {} {storage}", shape.join("x"))?;
        match self.along {
            Some(0) => Ok(()),
            Some(axis) => write!(f, " along {axis}"),
            None => f.write_str(" by number"),
        }
    }
}

/// What steps have in common that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kind {
    /// ggml's names of the ops that a step computes, joined by `+`.
    pub op: String,
    /// True when it only moves bytes.
    pub conversion: bool,
    /// The shader.
    pub shader: String,
    /// How it is spread over invocations, in words.
    pub schedule: String,
    /// Its operands in their order.
    pub operands: Vec<Bound>,
    /// Floating point operations of one step.
    pub flops: u64,
    /// Different bytes that one step touches, padding included; twice those that it reads and writes.
    pub bytes: u64,
    /// Texels that the invocations of one step load and store.
    pub requests: u64,
}

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How often.
    pub count: u64,
    /// Nanoseconds, all together.
    pub total_ns: u64,
    /// Nanoseconds, the shortest.
    pub min_ns: u64,
}

impl Times {
    /// Counts one more.
    pub fn add(&mut self, ns: u64) {
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.count += 1;
        self.total_ns += ns;
    }

    /// Nanoseconds on average; 0 of nothing.
    pub fn mean_ns(&self) -> f64 {
        self.total_ns as f64 / self.count.max(1) as f64
    }
}

/// All steps of a kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sum {
    /// What they have in common.
    #[serde(flatten)]
    pub kind: Kind,
    /// What they took in programs that ran for the first time.
    pub first: Times,
    /// What they took after that. A step that waits for nothing overlaps those before it, and its time is what it adds.
    pub again: Times,
}

/// What the CPU does for a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Finds the host's graph among those known, or translates it.
    Translate,
    /// Brings the tensors that it reads and writes to their homes.
    Bind,
    /// Plans a graph that is new.
    Plan,
    /// Places its memory, builds its pipelines and records its commands.
    Record,
    /// Gives the commands to the device.
    Submit,
    /// Waits for the device.
    Wait,
}

/// Runs of programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    /// From the end of the run before to the end of this one, whoever spent it.
    pub wall: Times,
    /// On the device.
    pub device: Times,
    /// What the CPU did for them.
    pub cpu: BTreeMap<Phase, Times>,
}

/// What a process measured on one device. Programs that run for the first time are counted apart: drivers and memory are cold then.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The device and its driver.
    pub device: String,
    /// What it does at most, where it was probed.
    pub machine: Option<Profile>,
    /// First runs of programs.
    pub first: Runs,
    /// All others.
    pub again: Runs,
    /// Every kind of step.
    pub steps: Vec<Sum>,
}

/// Why a file holds no measured steps.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be read.
    #[error("'{}': {error}", path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// It holds something else.
    #[error("'{}' is not what FBL_ROOFLINE writes: {error}", path.display())]
    Content {
        /// Its path.
        path: PathBuf,
        /// What is wrong.
        error: serde_json::Error,
    },
}

impl Measured {
    /// Reads what [`super::Recorder`] wrote.
    ///
    /// # Errors
    /// The file cannot be read, or holds something else.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let bytes = std::fs::read(path).map_err(|error| ReadError::File { path: path.to_owned(), error })?;
        serde_json::from_slice(&bytes).map_err(|error| ReadError::Content { path: path.to_owned(), error })
    }

    /// Replaces a file at once.
    pub(super) fn write(&self, path: &Path) -> std::io::Result<()> {
        crate::file::replace(path, &[&serde_json::to_vec_pretty(self)?, b"\n"])
    }

    /// The runs that tell what programs take: first ones only where there are no others.
    pub fn runs(&self) -> &Runs {
        if self.again.device.count > 0 { &self.again } else { &self.first }
    }

    /// Kinds of steps with their times in [`Measured::runs`], those that took longest all together first.
    pub fn by_time(&self) -> Vec<(&Kind, Times)> {
        let first = self.again.device.count == 0;
        let times = |sum: &Sum| if first { sum.first } else { sum.again };
        let mut steps: Vec<(&Kind, Times)> = self.steps.iter().map(|sum| (&sum.kind, times(sum))).collect();
        steps.retain(|(_, times)| times.count > 0);
        steps.sort_by_key(|(_, times)| std::cmp::Reverse(times.total_ns));
        steps
    }
}
