//! The facade: tensors with homes on one device, graphs compiled to programs that are recorded once and replayed.

mod program;
mod tensor;

pub use program::Program;
pub use tensor::Tensor;

use std::sync::{Arc, Mutex};

use crate::device::Limits;
use crate::graph::{DType, Desc, Graph, GraphError, Shape, ValueId};
use crate::plan::{self, Home, PlanError, StorageChoice};
use crate::vulkan::{self, AdapterInfo, Gpu, GpuOptions, Pipelines};

/// How an engine opens its device.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Validation, clamps and the like.
    pub gpu: GpuOptions,
    /// What tensors live in.
    pub storage: StorageChoice,
}

impl EngineOptions {
    /// Options from `FBL_STORAGE`, and those of [`GpuOptions::from_env`].
    pub fn from_env() -> Result<Self, Error> {
        let storage = match std::env::var("FBL_STORAGE") {
            Ok(text) => text.parse().map_err(|why| Error::Option { name: "FBL_STORAGE", why })?,
            Err(_) => StorageChoice::Auto,
        };
        Ok(Self { gpu: GpuOptions::from_env()?, storage })
    }
}

/// Why an engine could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device or its driver.
    #[error(transparent)]
    Device(#[from] vulkan::Error),
    /// The graph cannot be planned.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The graph is not well formed.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// An environment variable does not parse.
    #[error("{name}: {why}")]
    Option {
        /// The variable.
        name: &'static str,
        /// The rule.
        why: String,
    },
    /// Host bytes of the wrong length.
    #[error("{given} bytes for a {dtype:?} tensor of shape {shape:?}, which has {expected}")]
    Length {
        /// Bytes given.
        given: u64,
        /// Bytes of the tensor.
        expected: u64,
        /// Element type.
        dtype: DType,
        /// Extents.
        shape: Shape,
    },
    /// An external value got no tensor, or one of another dtype or shape.
    #[error("external value {value:?}: {why}")]
    External {
        /// Name of the value.
        value: String,
        /// The rule.
        why: String,
    },
}

/// One device, its pipelines, and the rule by which tensors get their homes.
pub struct Engine {
    gpu: Arc<Gpu>,
    pipelines: Mutex<Pipelines>,
    storage: StorageChoice,
}

impl Engine {
    /// Devices of this machine, real GPUs first.
    pub fn adapters() -> Result<Vec<AdapterInfo>, Error> {
        Ok(vulkan::adapters()?)
    }

    /// Opens the adapter of this index.
    pub fn open(adapter: usize, options: &EngineOptions) -> Result<Arc<Self>, Error> {
        let gpu = Gpu::open(adapter, &options.gpu)?;
        let pipelines = Mutex::new(Pipelines::new(&gpu)?);
        Ok(Arc::new(Self { gpu, pipelines, storage: options.storage }))
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Limits of the device, clamped as asked.
    pub fn limits(&self) -> &Limits {
        self.gpu.limits()
    }

    /// A zero-filled tensor in the home that its dtype and shape prescribe.
    pub fn create(&self, dtype: DType, shape: Shape) -> Result<Tensor, Error> {
        Tensor::create(&self.gpu, Home::of(dtype, &shape, self.limits(), self.storage)?, Desc { dtype, shape })
    }

    /// Sets a tensor from the host's linear bytes.
    pub fn write(&self, tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
        tensor.write(&self.gpu, bytes)
    }

    /// The tensor's content in the host's linear form.
    pub fn read(&self, tensor: &Tensor) -> Result<Vec<u8>, Error> {
        tensor.read(&self.gpu)
    }

    /// Whether [`Engine::compile`] would plan this graph; the error says why not.
    pub fn supports(&self, graph: &Graph) -> Result<(), Error> {
        graph.verify()?;
        Ok(plan::supports(graph, self.limits(), self.storage)?)
    }

    /// Plans a graph, places its memory and records its tape.
    pub fn compile(&self, graph: &Graph, externals: &[(ValueId, Tensor)]) -> Result<Program, Error> {
        graph.verify()?;
        let footprint = |kind, width, height| self.gpu.storage_footprint(kind, width, height);
        let plan = plan::plan(graph, self.limits(), self.storage, &footprint)?;
        let mut pipelines = self.pipelines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Program::new(&self.gpu, &mut pipelines, graph, plan, externals)
    }
}
