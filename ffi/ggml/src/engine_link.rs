//! The engine behind the plugin: `fblayout`'s own.

use std::sync::Arc;

use fblayout::engine::{self, EngineOptions};
use fblayout::graph::{DType, Graph, Shape, ValueId};
use fblayout::roofline::Phase;
use fblayout::vulkan::{self, AdapterInfo, AdapterKind};

use crate::engine::{Description, Engine};
use crate::memory::Home;

/// A device opened by `fblayout`.
pub struct Link(Arc<engine::Engine>);

/// A device that can be opened, and the environment's wishes for it.
#[derive(Clone)]
pub struct Adapter {
    info: AdapterInfo,
    options: EngineOptions,
}

/// A graph, and the program recorded for the tensors it was last run with.
pub struct Program {
    graph: Graph,
    recorded: Option<engine::Program>,
}

impl Adapter {
    /// The same, keeping what its steps take in a file.
    #[cfg(test)]
    pub fn measuring(mut self, file: &std::path::Path) -> Self {
        self.options.roofline = Some(file.to_owned());
        self
    }
}

impl Link {
    /// The engine itself, for what only tests ask.
    #[cfg(test)]
    pub fn engine(&self) -> &engine::Engine {
        &self.0
    }

    /// What the validation layer said so far.
    #[cfg(test)]
    pub fn validation_messages(&self) -> Vec<String> {
        self.0.gpu().validation_messages()
    }
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Home for Link {
    type Tensor = engine::Tensor;

    fn create(&self, dtype: DType, shape: Shape) -> Result<Self::Tensor, String> {
        self.0.create(dtype, shape).map_err(text)
    }

    fn write(&self, tensor: &Self::Tensor, bytes: &[u8]) -> Result<(), String> {
        self.0.write(tensor, bytes).map_err(text)
    }

    /// Caches begin as zeros, and may be most of a device's memory.
    fn zero(&self, tensor: &Self::Tensor, _: usize) -> Result<(), String> {
        self.0.zero(tensor).map_err(text)
    }

    fn read(&self, tensor: &Self::Tensor) -> Result<Vec<u8>, String> {
        self.0.read(tensor).map_err(text)
    }

    fn read_part(&self, tensor: &Self::Tensor, from: usize, out: &mut [u8]) -> Result<(), String> {
        self.0.read_part(tensor, from as u64, out).map_err(text)
    }
}

impl Engine for Link {
    type Adapter = Adapter;
    type Program = Program;

    fn adapters() -> Result<Vec<Adapter>, String> {
        let options = EngineOptions::from_env().map_err(text)?;
        let adapters = engine::Engine::adapters().map_err(text)?;
        let adapter = |info| Adapter { options: options.clone().tested_on(&info), info };
        Ok(adapters.into_iter().map(adapter).collect())
    }

    fn describe(adapter: &Adapter) -> Description {
        Description {
            name: adapter.info.name.clone(),
            integrated: adapter.info.kind == AdapterKind::Integrated,
            memory: adapter.options.gpu.limits(&adapter.info).heap_bytes,
        }
    }

    fn open(adapter: &Adapter) -> Result<Self, String> {
        engine::Engine::open(adapter.info.index, &adapter.options).map(Self).map_err(text)
    }

    fn supports(adapter: &Adapter, graph: &Graph) -> Result<(), String> {
        engine::Engine::would_support(&adapter.info, &adapter.options, graph).map_err(text)
    }

    fn memory_free(adapter: &Adapter, open: Option<&Self>) -> u64 {
        let (within_limit, free) = match open {
            Some(link) => {
                let memory = link.0.gpu().memory();
                (memory.limit.saturating_sub(memory.in_use), memory.free)
            }
            None => (Self::describe(adapter).memory, vulkan::free_memory(adapter.info.index).ok().flatten()),
        };
        free.map_or(within_limit, |free| free.min(within_limit))
    }

    fn program_bytes(&self, program: &Program) -> u64 {
        program.recorded.as_ref().map_or(0, |recorded| recorded.plan().arena.iter().sum())
    }

    /// A quarter of the device's memory.
    fn kept_bytes(&self) -> u64 {
        self.0.gpu().memory().limit / 4
    }

    fn compile(&self, graph: &Graph) -> Result<Program, String> {
        Ok(Program { graph: graph.clone(), recorded: None })
    }

    fn run(&self, program: &mut Program, externals: &[(ValueId, engine::Tensor)]) -> Result<(), String> {
        let fits = |recorded: &engine::Program| externals.iter().all(|(id, tensor)| recorded.is_bound(*id, tensor));
        if !program.recorded.as_ref().is_some_and(fits) {
            // The old recording's memory goes before the new one's is taken.
            program.recorded = None;
            program.recorded = Some(self.0.compile(&program.graph, externals).map_err(text)?);
        }
        match &mut program.recorded {
            Some(recorded) => recorded.run().map_err(text),
            None => Err("the graph was not recorded".into()),
        }
    }

    fn timed<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        self.0.timed(phase, work)
    }

    fn freed(&self) {
        self.0.keep_measured();
    }
}
