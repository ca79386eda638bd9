//! The engine as a device: poisons what a run must write, checks what it must leave.

use std::sync::Arc;

use fblayout::engine::{Engine, EngineOptions, Tensor};
use fblayout::graph::{Graph, ValueId};
use fblayout::plan::StorageChoice;

use crate::{Device, Outcome};

/// The storages that every case runs in.
pub const STORAGES: [StorageChoice; 2] = [StorageChoice::Buffer, StorageChoice::Image];

/// A quiet NaN as F32 and as two F16, and no id of any row.
const POISON: u32 = 0xffff_ffff;

/// The first adapter, with tensors in one kind of storage.
pub struct VulkanDevice {
    engine: Arc<Engine>,
}

impl VulkanDevice {
    /// Opens the device; validation by `FBL_VALIDATION`.
    pub fn open(storage: StorageChoice) -> Result<Self, String> {
        let options = EngineOptions { storage, ..EngineOptions::from_env().map_err(|e| e.to_string())? };
        Ok(Self { engine: Engine::open(0, &options).map_err(|e| e.to_string())? })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Fails with the messages that validation sent, if any.
    pub fn assert_valid(&self) {
        let gpu = self.engine.gpu();
        assert_eq!(gpu.validation_count(), 0, "{:#?}", gpu.validation_messages());
    }

    /// Texels of a tensor, which must be zero wherever no element is.
    fn texels(&self, tensor: &Tensor, what: &str) -> Result<Vec<u8>, String> {
        let texels = self.engine.gpu().download(tensor.storage()).map_err(|e| e.to_string())?;
        let home = tensor.home();
        let clean = home.pack(&home.unpack(&texels));
        let stained = texels.chunks_exact(16).zip(clean.chunks_exact(16)).filter(|(a, b)| a != b).count();
        match texels.chunks_exact(16).zip(clean.chunks_exact(16)).position(|(a, b)| a != b) {
            None => Ok(texels),
            Some(first) => Err(format!(
                "{what}: padding is not zero in {stained} texels, the first at ({}, {}) of {} x {}",
                first % home.width as usize,
                first / home.width as usize,
                home.width,
                home.height,
            )),
        }
    }
}

impl Device for VulkanDevice {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        let text = |e: fblayout::engine::Error| e.to_string();
        let mut externals: Vec<(ValueId, Tensor)> = Vec::new();
        for (id, bytes) in data {
            let desc = graph.value(*id).ok_or("data of no value")?.desc();
            let tensor = self.engine.create(desc.dtype, desc.shape).map_err(text)?;
            self.engine.write(&tensor, bytes).map_err(text)?;
            externals.push((*id, tensor));
        }
        let mut program = self.engine.compile(graph, &externals).map_err(text)?;
        let before = externals
            .iter()
            .map(|(id, tensor)| self.texels(tensor, &format!("operand {} before the run", id.index())))
            .collect::<Result<Vec<_>, _>>()?;
        self.engine.poison(&program, POISON).map_err(text)?;
        program.run().map_err(text)?;

        for ((id, tensor), before) in externals.iter().zip(before) {
            let what = format!("operand {}", id.index());
            if !read.contains(id) && self.texels(tensor, &what)? != before {
                return Err(format!("{what} was written"));
            }
        }
        let external = |id: ValueId| externals.iter().find(|(e, _)| *e == id).map(|(_, tensor)| tensor);
        let content = |&id: &ValueId| {
            let tensor =
                program.kept(id).or_else(|| external(id)).ok_or("a value that is neither kept nor external")?;
            self.texels(tensor, "output")?;
            self.engine.read(tensor).map_err(text)
        };
        Ok(Outcome { bytes: read.iter().map(content).collect::<Result<_, _>>()? })
    }
}
