//! The device that a plan is for: one of this machine, or one of which only limits are known.

use std::sync::Arc;

use fblayout::device::{Limits, LimitsClamp, Preset, Profile};
use fblayout::engine::{AttentionChoice, Engine, EngineOptions};
use fblayout::graph::{Graph, ValueId};
use fblayout::plan::{
    Budget, Change, ChangeError, Choice, Footprint, HeadChoice, Home, Plan, PlanError, PlanOptions, Planner, Recompute,
    Rewritten, Selection, Selector, UpperBound,
};
use fblayout::probe;
use fblayout::vulkan::{Gpu, GpuOptions};

/// Name of the first Vulkan device of this machine.
const PRESENT: &str = "present";
/// The same by its limits and what `fblayout probe` found of it.
const MEASURED: &str = "measured";

/// Plans one graph after the other.
pub type Plans<'a> = dyn FnMut(&Graph) -> Result<Plan, Box<dyn std::error::Error>> + 'a;

/// A device to plan for.
pub enum Target {
    /// Opened, but nothing is allocated on it.
    Present(Arc<Engine>),
    /// Known by its limits.
    Limits {
        /// The limits.
        limits: Box<Limits>,
        /// Storage and policy.
        options: PlanOptions,
        /// What the machine does, for the presets that are one.
        profile: Option<Box<Profile>>,
    },
}

impl Target {
    /// The device of that name: `present`, `measured`, a preset, or limits as JSON. `FBL_LIMITS` clamps the device present alone.
    pub fn find(name: &str, plan: PlanOptions) -> Result<Self, Box<dyn std::error::Error>> {
        if name == PRESENT {
            // Steps are told by the nodes of the graph that is planned.
            let (attention, head) = (AttentionChoice::Unfused, HeadChoice::Whole);
            let options = EngineOptions { plan, attention, head, ..EngineOptions::from_env()? };
            return Ok(Self::Present(Engine::open(0, &options)?));
        }
        if name == MEASURED {
            let options = EngineOptions { gpu: GpuOptions::from_env()?, ..EngineOptions::default() };
            let gpu = Gpu::open(0, &options.gpu)?;
            let limits = options.tested_on(gpu.adapter()).limits(gpu.adapter()).into();
            let profile = Some(probe::kept(&gpu)?.into());
            return Ok(Self::Limits { limits, options: plan, profile });
        }
        let profile = Preset::find(name.trim()).and_then(|preset| preset.profile.clone()).map(Box::new);
        let clamp = LimitsClamp::parse(name).map_err(|e| {
            format!("--device: {e}, {PRESENT:?} for this machine's, or {MEASURED:?} for it as it was probed")
        })?;
        Ok(Self::Limits { limits: clamp.complete(&Limits::USUAL).into(), options: plan, profile })
    }

    /// Plans graphs as the engine would before it records them, each with what is known from the ones before. Selectors other than the
    /// rule need to know what the machine does.
    pub fn planner(&self, selector: Selector) -> Result<Box<Plans<'_>>, Box<dyn std::error::Error>> {
        self.check(selector)?;
        match self {
            Self::Present(engine) => Ok(Box::new(|graph| Ok(engine.plan(graph)?))),
            Self::Limits { limits, options, profile } => {
                let mut planner = Planner::new(limits, *options, profile.as_deref().map(|profile| (selector, profile)));
                Ok(Box::new(move |graph| {
                    graph.verify()?;
                    Ok(planner.plan(graph, &UpperBound(limits))?)
                }))
            }
        }
    }

    /// Plans one graph.
    pub fn plan(&self, graph: &Graph, selector: Selector) -> Result<Plan, Box<dyn std::error::Error>> {
        self.planner(selector)?(graph)
    }

    /// What other extents do to the selection, where the machine's speed is known.
    pub fn change(&self, graphs: [&Graph; 2], selector: Selector) -> Result<Option<Change>, ChangeError> {
        match self {
            Self::Limits { limits, options, profile: Some(profile) } => {
                Change::of(graphs, limits, *options, profile, selector).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The graph rewritten so that it takes no more than a budget, or, without one, the least that is found.
    pub fn recompute(
        &self,
        graph: &Graph,
        selector: Selector,
        budget: Option<Budget>,
    ) -> Result<Rewritten, Box<dyn std::error::Error>> {
        self.check(selector)?;
        graph.verify()?;
        match self {
            Self::Present(engine) => Ok(engine.recompute(graph, budget)?),
            Self::Limits { limits, options, profile } => {
                let (footprint, selection) =
                    (&UpperBound(limits), profile.as_deref().map(|profile| (selector, profile)));
                let recompute = Recompute { limits, options: *options, footprint, selection };
                Ok(match budget {
                    Some(Budget(bytes)) => recompute.within(graph, bytes)?,
                    None => recompute.smallest(graph)?,
                })
            }
        }
    }

    fn check(&self, selector: Selector) -> Result<(), String> {
        match selector == Selector::Rule || self.profile().is_some() {
            true => Ok(()),
            false => Err("--selector: only rule, where nothing is known of the device's speed; name a preset".into()),
        }
    }

    /// What the selectors make of a graph, where the machine's speed is known.
    pub fn selection(&self, graph: &Graph, selector: Selector) -> Result<Option<Selection>, PlanError> {
        match self {
            Self::Limits { limits, options, profile: Some(profile) } => {
                Selection::of(graph, limits, *options, profile, selector).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The tiles that some tensors could have, and what each would cost, where the machine's speed is known.
    pub fn choices(
        &self,
        graph: &Graph,
        selector: Selector,
        values: &[ValueId],
    ) -> Result<Vec<Option<Choice>>, PlanError> {
        match self {
            Self::Limits { limits, options, profile: Some(profile) } => {
                Choice::of(graph, limits, *options, profile, selector, values)
            }
            _ => Ok(vec![None; values.len()]),
        }
    }

    /// Memory that a storage takes, or the most that it may take.
    pub fn bytes(&self, home: &Home) -> Result<u64, String> {
        let &Home { kind, width, height, .. } = home;
        match self {
            Self::Present(engine) => {
                engine.gpu().storage_footprint(kind, width, height).map(|f| f.bytes).map_err(|e| e.to_string())
            }
            Self::Limits { limits, .. } => UpperBound(limits).size(kind, width, height).map(|size| size.bytes),
        }
    }

    /// Limits that plans are made under.
    pub fn limits(&self) -> &Limits {
        match self {
            Self::Present(engine) => engine.limits(),
            Self::Limits { limits, .. } => limits,
        }
    }

    /// What the machine does, where that is known.
    pub fn profile(&self) -> Option<&Profile> {
        match self {
            Self::Present(_) => None,
            Self::Limits { profile, .. } => profile.as_deref(),
        }
    }

    /// Whether sizes are the device's own, and not an upper bound from its limits.
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Present(_))
    }
}
