//! The engine as a device: poisons what a run must write, checks what it must leave.

use std::sync::Arc;

use fblayout::device::{LimitsClamp, MatrixType, Profile};
use fblayout::engine::{AttentionChoice, Engine, EngineOptions, Program, Tensor};
use fblayout::graph::{Graph, ValueId};
use fblayout::plan::{HeadChoice, Plan, PlanOptions, Selector, StorageChoice};

use crate::{Device, Outcome, Rounded};

/// The storages that every case runs in.
pub const STORAGES: [StorageChoice; 2] = [StorageChoice::Buffer, StorageChoice::Image];

/// A quiet NaN as F32 and as two F16, and no id of any row.
pub(crate) const POISON: u32 = 0xffff_ffff;

/// The first adapter, with tensors in one kind of storage.
pub struct VulkanDevice {
    engine: Arc<Engine>,
    options: PlanOptions,
}

impl VulkanDevice {
    /// Opens the device; validation by `FBL_VALIDATION`, limits by `FBL_LIMITS`.
    pub fn open(storage: StorageChoice) -> Result<Self, String> {
        Self::open_with(PlanOptions { storage, ..PlanOptions::default() }, None)
    }

    /// Opens the device with these options of plans, and its limits made stricter.
    pub fn open_with(plan: PlanOptions, clamp: Option<LimitsClamp>) -> Result<Self, String> {
        let mut options = EngineOptions { plan, ..EngineOptions::from_env().map_err(|e| e.to_string())? };
        if clamp.is_some() {
            options.gpu.limits_clamp = clamp;
        }
        Self::open_as(&options)
    }

    /// Opens the device with layouts selected for a machine, whichever the device is.
    pub fn open_selecting(plan: PlanOptions, selector: Selector, profile: &'static Profile) -> Result<Self, String> {
        let selection = Some((selector, profile));
        Self::open_as(&EngineOptions { plan, selection, ..EngineOptions::from_env().map_err(|e| e.to_string())? })
    }

    /// How heads are computed with their losses: small as they are, in chunks.
    pub const HEAD: HeadChoice = HeadChoice::Tokens(4);

    fn open_as(options: &EngineOptions) -> Result<Self, String> {
        // Tests run what GPUs run.
        let options = &EngineOptions { attention: AttentionChoice::Fused, head: Self::HEAD, ..options.clone() };
        Ok(Self { engine: Engine::open(0, options).map_err(|e| e.to_string())?, options: options.plan })
    }

    /// The engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// The options of plans.
    pub fn options(&self) -> PlanOptions {
        self.options
    }

    /// Runs a plan made elsewhere as [`Device::run`] runs a graph; its slots belong to values of `graph`.
    pub fn run_plan(
        &self,
        graph: &Graph,
        plan: Plan,
        data: &[(ValueId, Vec<u8>)],
        read: &[ValueId],
    ) -> Result<Outcome, String> {
        self.run_program(graph, data, read, |externals| self.engine.realise(graph, plan, externals))
    }

    /// Fails with the messages that validation sent, if any.
    pub fn assert_valid(&self) {
        let log = self.engine.gpu().validation();
        let messages = log.messages();
        assert_eq!(log.count(), 0, "the first message is {}", messages.first().map_or("lost", String::as_str));
    }

    /// Texels of a tensor, which must be zero wherever no element is.
    fn texels(&self, tensor: &Tensor, what: &str) -> Result<Vec<u8>, String> {
        let texels = self.engine.gpu().download(tensor.storage()).map_err(|e| e.to_string())?;
        let home = tensor.home();
        let clean = home.unpack(&texels).and_then(|linear| home.pack(&linear)).map_err(|e| e.to_string())?;
        let pairs = texels.chunks_exact(16).zip(clean.chunks_exact(16)).enumerate();
        let stained: Vec<usize> = pairs.filter(|(_, (texel, clean))| texel != clean).map(|(at, _)| at).collect();
        match stained.first() {
            None => Ok(texels),
            Some(first) => Err(format!(
                "{what}: padding is not zero in {} texels, the first at ({}, {}) of {} x {}, {:02x?}",
                stained.len(),
                first % home.width as usize,
                first / home.width as usize,
                home.width,
                home.height,
                &texels[16 * first..16 * (first + 1)],
            )),
        }
    }

    /// Gives the data homes, lets `compile` make a program of them, and runs it.
    fn run_program(
        &self,
        graph: &Graph,
        data: &[(ValueId, Vec<u8>)],
        read: &[ValueId],
        compile: impl FnOnce(&[(ValueId, Tensor)]) -> Result<Program, fblayout::engine::Error>,
    ) -> Result<Outcome, String> {
        let text = |e: fblayout::engine::Error| e.to_string();
        let mut externals: Vec<(ValueId, Tensor)> = Vec::new();
        for (id, bytes) in data {
            let desc = graph.value(*id).ok_or("data of no value")?.desc();
            let tensor = self.engine.create(desc.dtype, desc.shape).map_err(text)?;
            self.engine.write(&tensor, bytes).map_err(text)?;
            externals.push((*id, tensor));
        }
        let mut program = compile(&externals).map_err(text)?;
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
        let rounded = rounding_of(program.plan());
        Ok(Outcome { bytes: read.iter().map(content).collect::<Result<_, _>>()?, rounded })
    }
}

impl Device for VulkanDevice {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        self.run_program(graph, data, read, |externals| self.engine.compile(graph, externals))
    }
}

/// What the products of a plan round their factors to, the coarsest of it.
pub(crate) fn rounding_of(plan: &Plan) -> Option<Rounded> {
    plan.steps.iter().filter_map(|step| rounding(step.shader)).max()
}

/// What a shader rounds the factors of products to.
fn rounding(shader: &str) -> Option<Rounded> {
    if shader.starts_with("attention_matrix") || shader.starts_with("attention_back_matrix") {
        return Some(Rounded::To(MatrixType::F16));
    }
    if shader.starts_with("gemm_dots") {
        return Some(Rounded::Bytes);
    }
    Some(match shader.strip_prefix("gemm_matrix")? {
        rest if rest.starts_with("_parted") => Rounded::Parts,
        rest if rest.starts_with("_bf16") => Rounded::To(MatrixType::Bf16),
        _ => Rounded::To(MatrixType::F16),
    })
}
