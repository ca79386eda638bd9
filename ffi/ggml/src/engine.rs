//! What the plugin needs of an engine; everything above this trait is translation.

use fblayout::graph::{Graph, ValueId};
use fblayout::roofline::Phase;

use crate::memory::Home;

/// What a host may know of a device before it is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Description {
    /// For people, as the driver names it.
    pub name: String,
    /// True for a GPU that shares the host's memory.
    pub integrated: bool,
    /// Bytes of device memory.
    pub memory: u64,
}

/// A device that compiles and runs graphs. Shared by the buffers and streams of one ggml device, which call from any thread.
pub trait Engine: Home<Tensor: Send> + Send + Sync + Sized + 'static {
    /// A device that can be opened.
    type Adapter: Clone + Send + Sync;
    /// A compiled graph.
    type Program: Send;

    /// The devices of this machine, best first. Starts no device.
    fn adapters() -> Result<Vec<Self::Adapter>, String>;
    /// What the device is.
    fn describe(adapter: &Self::Adapter) -> Description;
    /// Opens a device.
    fn open(adapter: &Self::Adapter) -> Result<Self, String>;
    /// Whether [`Self::compile`] would accept the graph on this device, or the op and the rule that it breaks.
    fn supports(adapter: &Self::Adapter, graph: &Graph) -> Result<(), String>;
    /// Bytes of device memory that are free now; `open` is the engine of this adapter, if there is one.
    fn memory_free(adapter: &Self::Adapter, open: Option<&Self>) -> u64;
    /// Bytes of device memory that a program holds, besides the tensors it is run with.
    fn program_bytes(&self, program: &Self::Program) -> u64;
    /// Bytes that programs kept for another run may hold together.
    fn kept_bytes(&self) -> u64;
    /// Compiles a graph whose external values will be homes of this engine.
    fn compile(&self, graph: &Graph) -> Result<Self::Program, String>;
    /// Runs a program with a tensor for each external value, and returns when its results are in them.
    fn run(&self, program: &mut Self::Program, externals: &[(ValueId, Self::Tensor)]) -> Result<(), String>;

    /// Does some work of the plugin's own for a graph; an engine that measures counts its time.
    fn timed<T>(&self, _: Phase, work: impl FnOnce() -> T) -> T {
        work()
    }

    /// A stream is freed: what was measured until now is kept.
    fn freed(&self) {}
}
