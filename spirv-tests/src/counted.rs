//! The device run with modules that count their accesses, and what the cost model says of the same dispatches.
//!
//! `./x counted` compiles every variant of the manifest with `COUNTED`: such a module adds one to a counter of its own for every load
//! and every store of every texel, in a buffer behind its operands'. A plan's steps then run one by one, each slot in memory of its
//! own, so that a storage's counters are those of one operand of one dispatch.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use fblayout::device::LimitsClamp;
use fblayout::graph::{Form, Graph, ValueId};
use fblayout::kernels::{Access, Traffic, traffic};
use fblayout::plan::{self, Owner, Plan, PlanOptions, Step, TEXEL_BYTES, UpperBound};
use fblayout::vulkan::{self, Gpu, GpuOptions, Operand, Storage, Tape, TapeOptions, Work};
use fblayout_shaders::{Binding, Shader, Spirv, reflect};

use crate::vulkan::{POISON, rounding_of};
use crate::{Device, Outcome};

/// Environment variable that names the folder of the modules.
const FOLDER: &str = "FBL_COUNTED";

/// Slot of the counters: the binding behind those of the operands.
const COUNTERS: u32 = 8;

/// Words before the first counter; the first eight say where each operand's begin.
const HEADER: usize = 8;

/// What was counted of one operand of a dispatch, in texels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Loads of all invocations.
    pub loads: u64,
    /// Stores of all invocations.
    pub stores: u64,
    /// Different texels that were loaded.
    pub loaded: u64,
    /// Different texels that were stored.
    pub stored: u64,
    /// Different texels that were loaded or stored.
    pub touched: u64,
}

/// One operand of one dispatch, counted and predicted.
#[derive(Clone, Debug)]
pub struct Counted {
    /// Number of the step.
    pub step: usize,
    /// Number of the operand.
    pub slot: usize,
    /// What the device did.
    pub count: Count,
    /// What the model says.
    pub predicted: Traffic,
}

/// What a run left and what it took.
#[derive(Clone, Debug)]
pub struct CountedRun {
    /// Host bytes of the values asked for.
    pub outcome: Outcome,
    /// The plan that was run.
    pub plan: Plan,
    /// Every operand of every step.
    pub operands: Vec<Counted>,
}

/// The first adapter, with the counting modules.
pub struct CountedDevice {
    gpu: Arc<Gpu>,
    modules: HashMap<&'static str, Shader>,
}

impl CountedDevice {
    /// Opens the device; validation by `FBL_VALIDATION`, limits as given, modules in the folder `FBL_COUNTED`.
    pub fn open(clamp: Option<LimitsClamp>) -> Result<Self, String> {
        let mut options = GpuOptions::from_env().map_err(|e| e.to_string())?;
        if clamp.is_some() {
            options.limits_clamp = clamp;
        }
        // Modules that use matrix units do not count: a subgroup loads a matrix, not an invocation its texels.
        options.limits_clamp.get_or_insert_default().matrix_units = Some(Vec::new());
        let folder = std::env::var_os(FOLDER).ok_or(format!("{FOLDER} names no folder of modules: run ./x counted"))?;
        Ok(Self { gpu: Gpu::open(0, &options).map_err(|e| e.to_string())?, modules: modules(Path::new(&folder))? })
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Plans a graph with these options.
    pub fn plan(&self, graph: &Graph, options: PlanOptions) -> Result<Plan, String> {
        let limits = self.gpu.limits();
        plan::plan(graph, limits, options, &UpperBound(limits)).map_err(|e| e.to_string())
    }

    /// Runs a plan of the graph once and counts.
    pub fn run(&self, plan: Plan, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<CountedRun, String> {
        let storages = self.storages(&plan, data)?;
        let mut operands = Vec::new();
        for (number, step) in plan.steps.iter().enumerate() {
            let fail = |e: String| format!("step {number}, {} ({}): {e}", step.label, step.shader);
            let bound: Vec<&Storage> = step.args.iter().map(|&(slot, _)| &storages[slot]).collect();
            let counts = self.count(step, &bound).map_err(fail)?;
            let accesses: Vec<Access> = step.args.iter().map(|&(_, access)| access).collect();
            let subgroup = self.gpu.limits().subgroup_size;
            let predicted = traffic(step.shader, &step.constants, step.groups, &accesses, subgroup);
            if predicted.len() != counts.len() {
                return Err(fail(format!("the model sees {} operands of {}", predicted.len(), counts.len())));
            }
            let pairs = counts.into_iter().zip(predicted).enumerate();
            operands.extend(pairs.map(|(slot, (count, predicted))| Counted { step: number, slot, count, predicted }));
        }
        let content = |id: &ValueId| {
            let is = |owner: Owner| matches!(owner, Owner::External(of) | Owner::Kept(of) if of == *id);
            let slot = plan.slots.iter().position(|slot| is(slot.owner)).ok_or("a value without a slot")?;
            let texels = self.gpu.download(&storages[slot]).map_err(|e| e.to_string())?;
            plan.slots[slot].home.unpack(&texels).map_err(|e| e.to_string())
        };
        let bytes = read.iter().map(content).collect::<Result<_, String>>()?;
        let rounded = rounding_of(&plan);
        Ok(CountedRun { outcome: Outcome { bytes, rounded }, plan, operands })
    }

    /// A storage for every slot: those of external values with their data, all others poisoned.
    fn storages(&self, plan: &Plan, data: &[(ValueId, Vec<u8>)]) -> Result<Vec<Storage>, String> {
        let storage = |slot: &plan::Slot| {
            let home = &slot.home;
            let storage = self.gpu.create(home.kind, home.width, home.height).map_err(|e| e.to_string())?;
            match slot.owner {
                Owner::External(id) => {
                    let (_, bytes) = data.iter().find(|(of, _)| *of == id).ok_or("an external value without data")?;
                    let texels = home.pack(bytes).map_err(|e| e.to_string())?;
                    self.gpu.upload(&storage, &texels).map_err(|e| e.to_string())?;
                }
                Owner::Kept(_) | Owner::Arena { .. } => {
                    self.gpu.fill(&storage, POISON).map_err(|e| e.to_string())?;
                }
            }
            Ok(storage)
        };
        plan.slots.iter().map(storage).collect()
    }

    /// Runs one step and reads its counters.
    fn count(&self, step: &Step, bound: &[&Storage]) -> Result<Vec<Count>, String> {
        let module = self.modules.get(step.shader).ok_or("no module of this shader counts: run ./x counted")?;
        let mut words = vec![0_u32; HEADER];
        for (slot, storage) in bound.iter().enumerate() {
            words[slot] = u32::try_from(words.len()).map_err(|e| e.to_string())?;
            words.resize(words.len() + 2 * storage.texels() as usize, 0);
        }
        let starts: Vec<usize> = words[..bound.len()].iter().map(|&start| start as usize).collect();
        let texels = words.len().div_ceil(TEXEL_BYTES as usize / 4);
        words.resize(texels * (TEXEL_BYTES as usize / 4), 0);

        let counters = self.gpu.create_buffer(texels as u32, 1).map_err(|e| e.to_string())?;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.gpu.upload(&counters, &bytes).map_err(|e| e.to_string())?;
        self.dispatch(module, step, bound, &counters).map_err(|e| e.to_string())?;
        let bytes = self.gpu.download(&counters).map_err(|e| e.to_string())?;
        let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let of = |(&start, storage): (&usize, &&Storage)| Count::of(&words[start..][..2 * storage.texels() as usize]);
        Ok(starts.iter().zip(bound).map(of).collect())
    }

    fn dispatch(&self, module: &Shader, step: &Step, bound: &[&Storage], counters: &Storage) -> vulkan::Result<()> {
        let pipeline = self.gpu.pipeline(module, &step.constants)?;
        let mut operands: Vec<Operand<'_>> = (0..).zip(bound).map(|(slot, &s)| Operand::new(slot, s)).collect();
        operands.push(Operand::new(COUNTERS, counters));
        let work = Work::Dispatch { pipeline: &pipeline, operands: &operands, groups: step.groups };
        let steps = [vulkan::Step { work, barrier_before: false, discard: &[] }];
        let mut tape = Tape::record(&self.gpu, &steps, &TapeOptions::default())?;
        tape.submit()?;
        tape.wait()
    }
}

impl Count {
    /// Sums up a storage's counters: loads and stores of each texel.
    fn of(words: &[u32]) -> Self {
        let mut count = Self::default();
        for pair in words.chunks_exact(2) {
            let [loads, stores] = [pair[0], pair[1]].map(u64::from);
            count.loads += loads;
            count.stores += stores;
            count.loaded += loads.min(1);
            count.stored += stores.min(1);
            count.touched += (loads + stores).min(1);
        }
        count
    }

    /// Bytes from and to memory, if each direction moves a texel once.
    pub fn moved_bytes(&self) -> u64 {
        TEXEL_BYTES * (self.loaded + self.stored)
    }
}

impl CountedRun {
    /// What the model says and the device does not, operand by operand.
    pub fn differences(&self) -> Vec<String> {
        self.operands.iter().filter_map(|counted| self.difference(counted)).collect()
    }

    /// The model is exact but for two things that data decide, where it is bounded: `get_rows` touches a row once however often ids
    /// name it; `cross_entropy` reads a quad of logits again where its labels are not zero. Which elements that are found by number
    /// share a texel it does not count, nor which positions the sections of a rotation name. Blocks as the host has them it estimates.
    fn difference(&self, counted: &Counted) -> Option<String> {
        let Counted { step, slot, count, predicted } = counted;
        let step = &self.plan.steps[*step];
        let requests = count.loads + count.stores;
        let bytes = TEXEL_BYTES * count.touched;
        let (requests_agree, bytes_agree) = match (step.shader, slot) {
            ("get_rows", 0) => (requests == predicted.requests, bytes <= predicted.bytes),
            ("cross_entropy", 0) => {
                let (once, both) = (count.touched, [requests, predicted.requests]);
                let bounded =
                    both.iter().all(|&n| once <= n && n <= 2 * once) || predicted.addressing.lane_axis != Some(0);
                (bounded, bytes == predicted.bytes)
            }
            ("rope_multi", 1 | 2) => (requests == predicted.requests, bytes <= predicted.bytes),
            _ if predicted.addressing.dtype.form() == Form::Block => (true, true),
            _ if predicted.addressing.flat => (requests == predicted.requests, bytes <= predicted.bytes),
            _ => (requests == predicted.requests, bytes == predicted.bytes),
        };
        let access_agrees = match predicted.access {
            Access::Read => count.stores == 0,
            Access::Write => count.loads == 0,
            Access::ReadWrite => count.loads > 0 && count.stores > 0,
        };
        let agrees = requests_agree && bytes_agree && access_agrees;
        (!agrees).then(|| {
            let Traffic { access, requests: model, bytes: model_bytes, ref addressing, .. } = *predicted;
            format!(
                "{} ({}), operand {slot}, {access:?} {:?} {:?} lanes {:?}: {requests} requests, predicted {model}; {bytes} bytes, \
                 predicted {model_bytes}",
                step.label, step.shader, addressing.dtype, addressing.extents, addressing.lane_axis
            )
        })
    }
}

/// Runs graphs under given options of plans; a run whose counts are not the model's is an error.
pub struct CountingDevice<'a> {
    /// The device.
    pub device: &'a CountedDevice,
    /// Options of its plans.
    pub options: PlanOptions,
}

impl Device for CountingDevice<'_> {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        let run = self.device.run(self.device.plan(graph, self.options)?, data, read)?;
        match run.differences() {
            differences if differences.is_empty() => Ok(run.outcome),
            differences => Err(differences.join("\n")),
        }
    }
}

/// The modules of a folder, by the names of the shaders that they are variants of. They live as long as the process.
fn modules(folder: &Path) -> Result<HashMap<&'static str, Shader>, String> {
    let mut modules = HashMap::new();
    // A shader without operands, such as that of the micro-benchmarks, has nothing to count; those with matrix units have no variant
    // that does.
    let counts = |shader: &&Shader| !shader.matrix && shader.constants.iter().any(|&id| id >= 64);
    for shader in fblayout_shaders::SHADERS.iter().filter(counts) {
        let path = folder.join(format!("{}.spv", shader.name));
        let fail = |e: String| format!("{}: {e}: run ./x counted", path.display());
        let bytes = fs::read(&path).map_err(|e| fail(e.to_string()))?;
        let spirv: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let reflection = reflect(&spirv).map_err(fail)?;
        let bindings: Vec<Binding> =
            reflection.bindings.into_iter().map(|(binding, kind)| Binding { binding, kind }).collect();
        if !bindings.iter().any(|b| b.binding == 2 * COUNTERS) || reflection.constants != shader.constants {
            return Err(fail("is not the counting variant of its shader".to_owned()));
        }
        let counting = Shader { spirv: Spirv::new(spirv.leak()), bindings: bindings.leak(), ..*shader };
        modules.insert(shader.name, counting);
    }
    Ok(modules)
}
