//! The device that a plan is for: one of this machine, or one of which only limits are known.

use std::sync::Arc;

use fblayout::device::{Limits, LimitsClamp, Preset, Profile};
use fblayout::engine::{Engine, EngineOptions};
use fblayout::graph::{Graph, ValueId};
use fblayout::plan::{
    Budget, Choice, Footprint, Home, Plan, PlanError, PlanOptions, Planner, Recompute, Rewritten, Selection, Selector,
    UpperBound,
};

/// Name of the first Vulkan device of this machine.
const PRESENT: &str = "present";

/// What a preset leaves open, for nobody publishes it: values that drivers of recent GPUs report or exceed.
const UNSTATED: Limits = Limits {
    max_image_2d: 16384,
    max_storage_buffer_range: 128 << 20,
    max_bound_bytes: u64::MAX,
    storage_buffer_alignment: 256,
    max_allocation: 4 << 30,
    max_workgroup_invocations: 256,
    max_workgroup_size: [256, 256, 64],
    max_workgroup_count: [65535; 3],
    max_shared_memory: 32 << 10,
    max_storage_bindings: 16,
    subgroup_size: 32,
    shuffle_width: 32,
    heap_bytes: 16 << 30,
};

/// A device to plan for.
pub enum Target {
    /// Opened, but nothing is allocated on it.
    Present(Arc<Engine>),
    /// Known by its limits.
    Limits {
        /// The limits.
        limits: Limits,
        /// Storage and policy.
        options: PlanOptions,
        /// What the machine does, for the presets that are one.
        profile: Option<&'static Profile>,
    },
}

impl Target {
    /// The device of that name: `present`, a preset, or limits as JSON. `FBL_LIMITS` clamps the device present alone.
    pub fn find(name: &str, plan: PlanOptions) -> Result<Self, Box<dyn std::error::Error>> {
        if name == PRESENT {
            let options = EngineOptions { plan, ..EngineOptions::from_env()? };
            return Ok(Self::Present(Engine::open(0, &options)?));
        }
        let profile = Preset::find(name.trim()).and_then(|preset| preset.profile.as_ref());
        let clamp =
            LimitsClamp::parse(name).map_err(|e| format!("--device: {e}, or {PRESENT:?} for this machine's"))?;
        Ok(Self::Limits { limits: clamp.complete(&UNSTATED), options: plan, profile })
    }

    /// Plans a graph as the engine would before it records it. Selectors other than the rule need to know what the machine does.
    pub fn plan(&self, graph: &Graph, selector: Selector) -> Result<Plan, Box<dyn std::error::Error>> {
        self.check(selector)?;
        graph.verify()?;
        match self {
            Self::Present(engine) => Ok(engine.plan(graph)?),
            Self::Limits { limits, options, profile } => {
                let (footprint, selection) = (&UpperBound(limits), profile.map(|profile| (selector, profile)));
                Ok(Planner::new(limits, *options, selection).plan(graph, footprint)?)
            }
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
                let (footprint, selection) = (&UpperBound(limits), profile.map(|profile| (selector, profile)));
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
    pub fn profile(&self) -> Option<&'static Profile> {
        match self {
            Self::Present(_) => None,
            Self::Limits { profile, .. } => *profile,
        }
    }

    /// Whether sizes are the device's own, and not an upper bound from its limits.
    pub fn is_exact(&self) -> bool {
        matches!(self, Self::Present(_))
    }
}
