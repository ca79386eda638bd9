//! The engine behind the plugin.

use fblayout::graph::{DType, Graph, Shape, ValueId};

use crate::engine::{Description, Engine};
use crate::memory::Home;

/// A device opened by `fblayout`. The engine that opens one is not part of this build, so there are none.
pub enum Link {}

/// A tensor of a [`Link`].
#[derive(Clone)]
pub enum Tensor {}

impl Home for Link {
    type Tensor = Tensor;

    fn create(&self, _: DType, _: Shape) -> Result<Tensor, String> {
        match *self {}
    }

    fn write(&self, tensor: &Tensor, _: &[u8]) -> Result<(), String> {
        match *tensor {}
    }

    fn read(&self, tensor: &Tensor) -> Result<Vec<u8>, String> {
        match *tensor {}
    }
}

impl Engine for Link {
    type Adapter = std::convert::Infallible;
    type Program = std::convert::Infallible;

    fn adapters() -> Result<Vec<Self::Adapter>, String> {
        Ok(Vec::new())
    }

    fn describe(adapter: &Self::Adapter) -> Description {
        match *adapter {}
    }

    fn open(adapter: &Self::Adapter) -> Result<Self, String> {
        match *adapter {}
    }

    fn supports(adapter: &Self::Adapter, _: &Graph) -> Result<(), String> {
        match *adapter {}
    }

    fn memory_free(&self) -> u64 {
        match *self {}
    }

    fn compile(&self, _: &Graph) -> Result<Self::Program, String> {
        match *self {}
    }

    fn run(&self, program: &mut Self::Program, _: &[(ValueId, Tensor)]) -> Result<(), String> {
        match *program {}
    }
}
