//! The facade: tensors with homes on one device, graphs compiled to programs that are recorded once and replayed.

mod program;
mod self_test;
mod tensor;

pub use program::Program;
pub use self_test::self_test;
pub use tensor::Tensor;

use std::borrow::Cow;
use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::device::{Limits, Preset, Profile, Tested};
use crate::graph::{DType, Desc, Graph, GraphError, Shape, ValueId};
use crate::kernels::StorageKind;
use crate::layout::Illegal;
use crate::plan::{
    self, Attention, AttentionScope, Budget, Footprint, Head, HeadChoice, Home, Plan, PlanError, PlanOptions, Planner,
    Policy, Recompute, Rewritten, Selector, Size, chunk_head, replace_attention,
};
use crate::probe;
use crate::roofline::{self, Phase, Recorder};
use crate::vulkan::{self, AdapterInfo, Gpu, GpuOptions, TapeOptions};

/// How an engine opens its device.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Validation, clamps and the like.
    pub gpu: GpuOptions,
    /// Storage of tensors, and how layouts are treated.
    pub plan: PlanOptions,
    /// How layouts of computed tensors are selected, and for what machine; the rule if nothing is said.
    pub selection: Option<(Selector, &'static Profile)>,
    /// Memory that a program may take with the tensors it is given; values are recomputed rather than kept where it would take more.
    pub budget: Option<Budget>,
    /// How programs are recorded.
    pub tape: TapeOptions,
    /// What is done with attention that a graph trains as products and a softmax.
    pub attention: AttentionChoice,
    /// What is done with heads whose loss the graph computes.
    pub head: HeadChoice,
    /// A file for what every kind of step took, see [`crate::roofline`]; programs take timestamps then. That of the first engine of a
    /// process: `.1`, `.2` and so on follow the names of the others' files.
    pub roofline: Option<PathBuf>,
    /// What came of the tests of the device's schedules; those that failed are not used. Unless it is said, what is kept of them counts,
    /// see [`EngineOptions::tested_on`].
    pub tested: Option<Vec<Tested>>,
}

/// What becomes of attention that a graph trains as products and a softmax, where layouts are treated by [`Policy::Full`]: results are
/// the same but for rounding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionChoice {
    /// Fused where matrix units compute it, for 256 queries or more, unfused elsewhere.
    #[default]
    Auto,
    /// Computed as it is written.
    Unfused,
    /// Replaced by attention in one sweep wherever nobody else reads its weights: [`replace_attention`]. Scores of all pairs need no memory
    /// then. Without matrix units lavapipe takes 3 to 20 times as long, an H200 a third longer for a whole step.
    Fused,
}

impl std::str::FromStr for AttentionChoice {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "auto" => Ok(Self::Auto),
            "fused" => Ok(Self::Fused),
            "unfused" => Ok(Self::Unfused),
            _ => Err(format!("attention '{s}' is not one of auto, fused, unfused")),
        }
    }
}

impl EngineOptions {
    /// Options from `FBL_STORAGE`, `FBL_POLICY`, `FBL_PROFILE`, `FBL_SELECTOR`, `FBL_BUDGET`,
    /// `FBL_ATTENTION`, `FBL_HEAD` and `FBL_ROOFLINE`, and those of [`GpuOptions::from_env`].
    pub fn from_env() -> Result<Self, Error> {
        let storage = from_var("FBL_STORAGE")?.unwrap_or_default();
        let policy = from_var("FBL_POLICY")?.unwrap_or_default();
        let plan = PlanOptions { storage, policy, ..PlanOptions::default() };
        let selection = selection(from_var("FBL_PROFILE")?, from_var("FBL_SELECTOR")?)?;
        let budget = from_var("FBL_BUDGET")?;
        let attention = from_var("FBL_ATTENTION")?.unwrap_or_default();
        let head = from_var("FBL_HEAD")?.unwrap_or_default();
        let roofline = std::env::var_os("FBL_ROOFLINE").filter(|file| !file.is_empty()).map(PathBuf::from);
        let gpu = GpuOptions::from_env()?;
        let tape = TapeOptions::under(gpu.validation);
        Ok(Self { gpu, plan, selection, budget, tape, attention, head, roofline, tested: None })
    }

    /// The options with what is kept of the tests of a device's schedules, unless they say it; a file that cannot be read says nothing.
    pub fn tested_on(self, adapter: &AdapterInfo) -> Self {
        let kept = || {
            probe::kept_tests(&self.gpu, adapter).unwrap_or_else(|why| {
                log::warn!("{}: {why}; its schedules count as untested", adapter.name);
                Vec::new()
            })
        };
        let tested = Some(self.tested.clone().unwrap_or_else(kept));
        Self { tested, ..self }
    }

    /// The limits under which an engine plans: those of the device, clamped as asked, without what schedules need that failed.
    pub fn limits(&self, adapter: &AdapterInfo) -> Limits {
        self.gpu.limits(adapter).without_failed(self.tested.as_deref().unwrap_or_default())
    }
}

/// How layouts are selected on a machine whose profile is named: along chains unless another selector is.
fn selection(
    machine: Option<Machine>,
    selector: Option<Selector>,
) -> Result<Option<(Selector, &'static Profile)>, Error> {
    match (machine, selector) {
        (None, Some(selector)) if selector != Selector::Rule => {
            let why = "nothing is known of the device's speed; name its preset in FBL_PROFILE".into();
            Err(Error::Option { name: "FBL_SELECTOR", why })
        }
        (machine, selector) => Ok(machine.map(|Machine(profile)| (selector.unwrap_or(Selector::ChainDp), profile))),
    }
}

/// What a machine that is known by name does.
struct Machine(&'static Profile);

impl std::str::FromStr for Machine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Preset::machines().map(|(preset, _)| preset.name).collect::<Vec<_>>().join(", ");
        let found = Preset::machines().find(|(preset, _)| preset.name == name);
        found.map(|(_, profile)| Self(profile)).ok_or_else(|| format!("{name:?} is not one of {}", known()))
    }
}

/// The value of an environment variable, unless it is unset or empty.
fn from_var<T: std::str::FromStr<Err = String>>(name: &'static str) -> Result<Option<T>, Error> {
    match std::env::var(name) {
        Ok(text) if !text.is_empty() => text.parse().map(Some).map_err(|why| Error::Option { name, why }),
        _ => Ok(None),
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
    /// Texels that do not fit a layout.
    #[error(transparent)]
    Layout(#[from] Illegal),
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

/// Queries from which an H200 is quicker with attention in one sweep: with 128 two layers take a twentieth longer, with 512 a tenth less.
const UNITS_FROM: u32 = 256;

/// What was replaced in a graph before it was planned, and what was not.
#[derive(Default)]
struct Replaced {
    attention: Attention,
    head: Head,
}

impl Replaced {
    /// Nothing was: the graph with it cannot be planned.
    fn refuse(&mut self, why: &Error) {
        let all = format!("any: {why}");
        if self.attention.replaced > 0 {
            self.attention.replaced = 0;
            self.attention.refused.push(all.clone());
        }
        if !(self.head.chunks.is_empty() && self.head.gradients.is_empty()) {
            self.head.chunks.clear();
            self.head.gradients.clear();
            self.head.refused.push(all);
        }
    }

    fn tell(self, plan: &mut Plan) {
        plan.report.attention = self.attention;
        plan.report.head = self.head;
    }
}

/// A graph rewritten once more.
fn then<'g, R>(
    graph: Cow<'g, Graph>,
    rewrite: impl for<'a> FnOnce(&'a Graph) -> (Cow<'a, Graph>, R),
    report: &mut R,
) -> Cow<'g, Graph> {
    match graph {
        Cow::Borrowed(graph) => {
            let (rewritten, what) = rewrite(graph);
            *report = what;
            rewritten
        }
        Cow::Owned(graph) => {
            let (rewritten, what) = rewrite(&graph);
            *report = what;
            match rewritten {
                Cow::Owned(rewritten) => Cow::Owned(rewritten),
                Cow::Borrowed(_) => Cow::Owned(graph),
            }
        }
    }
}

/// One device, its pipelines, and the rule by which tensors get their homes.
pub struct Engine {
    gpu: Arc<Gpu>,
    options: EngineOptions,
    limits: Limits,
    /// What is known from the graphs planned so far.
    planner: Mutex<Planner<'static>>,
    recorder: Option<Arc<Recorder>>,
}

impl Engine {
    /// Devices of this machine, real GPUs first.
    pub fn adapters() -> Result<Vec<AdapterInfo>, Error> {
        Ok(vulkan::adapters()?)
    }

    /// Opens the adapter of this index, without the schedules whose kept tests failed.
    pub fn open(adapter: usize, options: &EngineOptions) -> Result<Arc<Self>, Error> {
        let gpu = Gpu::open(adapter, &options.gpu)?;
        let options = options.clone().tested_on(gpu.adapter());
        for tested in options.tested.iter().flatten() {
            if let Some(why) = tested.failure() {
                let (name, schedule) = (&gpu.adapter().name, tested.schedule);
                log::warn!("{name}: schedule {schedule} of products failed its test: {why}");
            }
        }
        let limits = options.limits(gpu.adapter());
        let recorder = options.roofline.as_deref().map(|file| Arc::new(recorder(file, &gpu)));
        Ok(Arc::new(Self::over(gpu, options, limits, recorder)))
    }

    fn over(gpu: Arc<Gpu>, options: EngineOptions, limits: Limits, recorder: Option<Arc<Recorder>>) -> Self {
        let planner = Mutex::new(Planner::new(&limits, options.plan, options.selection));
        Self { gpu, options, limits, planner, recorder }
    }

    /// An engine over the same device that plans otherwise; what the options say of the device itself does not count.
    pub fn beside(&self, options: &EngineOptions) -> Arc<Self> {
        let EngineOptions { gpu, tested, .. } = self.options.clone();
        let options = EngineOptions { gpu, tested, ..options.clone() };
        Arc::new(Self::over(Arc::clone(&self.gpu), options, self.limits.clone(), self.recorder.clone()))
    }

    /// How it was opened.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// The device.
    pub fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// Does some work of the CPU, whose time counts where steps are measured.
    pub fn timed<T>(&self, phase: Phase, work: impl FnOnce() -> T) -> T {
        match &self.recorder {
            Some(recorder) => recorder.timed(phase, work),
            None => work(),
        }
    }

    /// Writes what steps took until now, where they are measured.
    pub fn keep_measured(&self) {
        if let Some(recorder) = &self.recorder {
            recorder.keep();
        }
    }

    /// The file that they are kept in.
    pub fn measured_file(&self) -> Option<&Path> {
        self.recorder.as_ref().map(|recorder| recorder.file())
    }

    /// Limits under which it plans: those of the device, clamped as asked, without what schedules need that failed their tests.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// A zero-filled tensor in the home that its dtype and shape prescribe.
    pub fn create(&self, dtype: DType, shape: Shape) -> Result<Tensor, Error> {
        Tensor::create(&self.gpu, self.home(dtype, shape)?, Desc { dtype, shape })
    }

    /// The home that dtype and shape prescribe.
    pub fn home(&self, dtype: DType, shape: Shape) -> Result<Home, Error> {
        Ok(Home::of(dtype, &shape, self.limits(), self.options.plan)?)
    }

    /// Sets a tensor from the host's linear bytes.
    pub fn write(&self, tensor: &Tensor, bytes: &[u8]) -> Result<(), Error> {
        tensor.write(&self.gpu, bytes)
    }

    /// Sets all of a tensor to zero bits, on the device alone.
    pub fn zero(&self, tensor: &Tensor) -> Result<(), Error> {
        Ok(self.gpu.fill(tensor.storage(), 0)?)
    }

    /// The tensor's content in the host's linear form.
    pub fn read(&self, tensor: &Tensor) -> Result<Vec<u8>, Error> {
        tensor.read(&self.gpu)
    }

    /// Sets a part of a tensor, from byte `offset` of the host's linear bytes on. What lies in the same rows of texels travels with it.
    ///
    /// # Errors
    /// The tensor has no such bytes, or the device is lost.
    pub fn write_part(&self, tensor: &Tensor, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        tensor.write_part(&self.gpu, offset, bytes)
    }

    /// A part of the tensor's content, from byte `offset` of the host's linear bytes on, as much as fills `bytes`.
    ///
    /// # Errors
    /// As [`Engine::write_part`].
    pub fn read_part(&self, tensor: &Tensor, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        tensor.read_part(&self.gpu, offset, bytes)
    }

    /// Whether [`Engine::compile`] would plan this graph; the error says why not.
    pub fn supports(&self, graph: &Graph) -> Result<(), Error> {
        graph.verify()?;
        Ok(plan::supports(graph, &self.limits, self.options.plan)?)
    }

    /// [`Engine::supports`] of an engine that is not open yet; its options are to be [`EngineOptions::tested_on`] the device.
    pub fn would_support(adapter: &AdapterInfo, options: &EngineOptions, graph: &Graph) -> Result<(), Error> {
        graph.verify()?;
        Ok(plan::supports(graph, &options.limits(adapter), options.plan)?)
    }

    /// What [`Engine::compile`] would do with this graph. Steps name nodes of the graph as it is run, see [`Engine::planned`].
    pub fn plan(&self, graph: &Graph) -> Result<Plan, Error> {
        Ok(self.planned(graph)?.1)
    }

    /// The graph rewritten so that a program takes no more than a budget, or, without one, the least that is found.
    pub fn recompute(&self, graph: &Graph, budget: Option<Budget>) -> Result<Rewritten, Error> {
        graph.verify()?;
        let (graph, replaced) = self.replaced(graph);
        let mut rewritten = self.recomputed(&graph, budget)?;
        replaced.tell(&mut rewritten.plan);
        Ok(rewritten)
    }

    fn recomputed(&self, graph: &Graph, budget: Option<Budget>) -> Result<Rewritten, Error> {
        let EngineOptions { plan, selection, .. } = self.options;
        let memory = DeviceMemory::of(&self.gpu);
        let recompute = Recompute { limits: self.limits(), options: plan, footprint: &memory, selection };
        let rewritten = match budget {
            Some(Budget(bytes)) => recompute.within(graph, bytes),
            None => recompute.smallest(graph),
        };
        rewritten.map_err(|why| memory.reason(why))
    }

    /// Plans a graph, places its memory and records its tape.
    pub fn compile(&self, graph: &Graph, externals: &[(ValueId, Tensor)]) -> Result<Program, Error> {
        let (graph, plan) = self.timed(Phase::Plan, || self.planned(graph))?;
        log::debug!("plan of {} nodes: {}", graph.nodes.len(), plan.report);
        self.realise(&graph, plan, externals)
    }

    /// Places the memory of a plan and records its tape. The plan may come from elsewhere; its slots belong to values of `graph`.
    pub fn realise(&self, graph: &Graph, plan: Plan, externals: &[(ValueId, Tensor)]) -> Result<Program, Error> {
        self.realise_as(graph, plan, externals, &self.options.tape)
    }

    /// [`Engine::realise`], with a tape recorded another way than the engine's options say.
    pub fn realise_as(
        &self,
        graph: &Graph,
        plan: Plan,
        externals: &[(ValueId, Tensor)],
        tape: &TapeOptions,
    ) -> Result<Program, Error> {
        let Some(recorder) = &self.recorder else { return Program::new(&self.gpu, tape, graph, plan, externals) };
        let kinds = recorder.number(roofline::kinds(&plan, graph, self.limits().subgroup_size));
        let tape = TapeOptions { timing: true, ..*tape };
        let program = recorder.timed(Phase::Record, || Program::new(&self.gpu, &tape, graph, plan, externals))?;
        Ok(program.watched(Arc::clone(recorder), kinds))
    }

    /// The graph as [`Engine::compile`] would run it, with its plan: rewritten by [`replace_attention`] and [`chunk_head`], and where
    /// values are recomputed by [`Engine::recompute`].
    ///
    /// # Errors
    /// The graph is not well formed or cannot be planned.
    pub fn planned<'g>(&self, graph: &'g Graph) -> Result<(Cow<'g, Graph>, Plan), Error> {
        graph.verify()?;
        let (replaced, mut report) = self.replaced(graph);
        let (graph, mut plan) = match replaced {
            Cow::Borrowed(graph) => self.planned_as_written(graph)?,
            Cow::Owned(replaced) => match self.planned_as_written(&replaced) {
                Ok((Cow::Owned(recomputed), plan)) => (Cow::Owned(recomputed), plan),
                Ok((Cow::Borrowed(_), plan)) => (Cow::Owned(replaced), plan),
                // What can be planned as it is written is planned.
                Err(why) => {
                    report.refuse(&why);
                    self.planned_as_written(graph)?
                }
            },
        };
        report.tell(&mut plan);
        Ok((graph, plan))
    }

    /// The graph with its attention and its heads as the options say.
    fn replaced<'g>(&self, graph: &'g Graph) -> (Cow<'g, Graph>, Replaced) {
        let EngineOptions { plan: PlanOptions { policy, .. }, attention, head, .. } = self.options;
        let mut replaced = Replaced::default();
        let mut graph = Cow::Borrowed(graph);
        if policy != Policy::Full {
            return (graph, replaced);
        }
        let scope = match attention {
            AttentionChoice::Unfused => None,
            AttentionChoice::Auto if self.limits().matrix_units.is_empty() => None,
            AttentionChoice::Auto => Some(AttentionScope::ByUnits(UNITS_FROM)),
            AttentionChoice::Fused => Some(AttentionScope::All),
        };
        if let Some(scope) = scope {
            graph = then(graph, |graph| replace_attention(graph, self.limits(), scope), &mut replaced.attention);
        }
        graph = then(graph, |graph| chunk_head(graph, self.limits(), head), &mut replaced.head);
        (graph, replaced)
    }

    fn planned_as_written<'g>(&self, graph: &'g Graph) -> Result<(Cow<'g, Graph>, Plan), Error> {
        if self.options.budget.is_some() {
            let Rewritten { graph, plan, .. } = self.recomputed(graph, self.options.budget)?;
            return Ok((Cow::Owned(graph), plan));
        }
        // What a planner knows is right even where another thread broke off in the midst of it.
        let mut planner = self.planner.lock().unwrap_or_else(PoisonError::into_inner);
        let memory = DeviceMemory::of(&self.gpu);
        let plan = planner.plan(graph, &memory).map_err(|why| memory.reason(why))?;
        Ok((Cow::Borrowed(graph), plan))
    }

    /// Sets every word of the memory that a run writes before it reads (kept results and the arena) to `pattern`, so that a test sees
    /// what the run leaves unwritten.
    pub fn poison(&self, program: &Program, pattern: u32) -> Result<(), Error> {
        program.written().iter().try_for_each(|storage| Ok(self.gpu.fill(storage, pattern)?))
    }
}

/// Engines of this process that measure: each keeps a file of its own, also those of one device.
static MEASURING: AtomicU32 = AtomicU32::new(0);

/// The recorder of a device for the file that was asked for.
fn recorder(file: &Path, gpu: &Gpu) -> Recorder {
    let adapter = gpu.adapter();
    let mut file = file.as_os_str().to_owned();
    match MEASURING.fetch_add(1, Ordering::Relaxed) {
        0 => {}
        others => file.push(format!(".{others}")),
    }
    log::info!("{}: what steps take is kept in '{}'", adapter.name, file.display());
    Recorder::new(Path::new(&file), format!("{}, {}", adapter.name, adapter.driver), probe::kept(gpu).ok())
}

/// What storages take on the device at hand.
struct DeviceMemory<'a> {
    gpu: &'a Gpu,
    /// What the device could not say for another reason than a limit, so that it says nothing of the graph.
    failed: OnceCell<vulkan::Error>,
}

impl<'a> DeviceMemory<'a> {
    fn of(gpu: &'a Gpu) -> Self {
        Self { gpu, failed: OnceCell::new() }
    }

    /// Why there is no plan.
    fn reason(&self, why: PlanError) -> Error {
        self.failed.get().cloned().map_or(why.into(), Error::Device)
    }

    fn text(&self, error: vulkan::Error) -> String {
        let text = error.to_string();
        if !matches!(error, vulkan::Error::LimitExceeded { .. } | vulkan::Error::Invalid { .. }) {
            self.failed.get_or_init(|| error);
        }
        text
    }
}

impl Footprint for DeviceMemory<'_> {
    fn size(&self, kind: StorageKind, width: u32, height: u32) -> Result<Size, String> {
        let f = self.gpu.storage_footprint(kind, width, height).map_err(|e| self.text(e))?;
        Ok(Size { bytes: f.bytes, alignment: f.alignment })
    }

    fn block_bytes(&self) -> u64 {
        self.gpu.arena_block_bytes()
    }

    fn alone(&self, kind: StorageKind, width: u32, height: u32) -> Result<u64, String> {
        self.gpu.storage_bytes(kind, width, height).map_err(|e| self.text(e))
    }

    fn block(&self, bytes: u64) -> Result<u64, String> {
        self.gpu.arena_bytes(bytes).map_err(|e| self.text(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_named_to_select_for_it() {
        let machine = |name: &str| name.parse::<Machine>().map(Some);
        let selected = selection(machine("h200").unwrap(), None).unwrap().map(|(selector, _)| selector);
        assert_eq!(selected, Some(Selector::ChainDp));
        let by_rule = selection(machine("adreno-830").unwrap(), Some(Selector::Rule)).unwrap().map(|(s, _)| s);
        assert_eq!(by_rule, Some(Selector::Rule));
        assert!(selection(None, None).unwrap().is_none() && selection(None, Some(Selector::Rule)).unwrap().is_none());
        let unknown = machine("vulkan-minimum").err().unwrap();
        assert!(unknown.contains("adreno-830") && !unknown.contains(", vulkan-minimum"), "{unknown}");
        let refused = selection(None, Some(Selector::Pbqp)).unwrap_err().to_string();
        assert!(refused.contains("FBL_SELECTOR") && refused.contains("FBL_PROFILE"), "{refused}");
    }
}
