//! What is told of a plan, as JSON.

use fblayout::kernels::StorageKind;
use fblayout::plan::{Owner, Plan, Report};
use serde::Serialize;

/// A plan: what it takes and does, step by step.
#[derive(Serialize)]
pub struct Told<'a> {
    /// Everything that lives at once: external tensors, results that are kept, the arena.
    total_bytes: u64,
    report: &'a Report,
    steps: Vec<Step<'a>>,
    slots: Vec<Slot>,
}

#[derive(Serialize)]
struct Step<'a> {
    /// Op and node.
    label: &'a str,
    shader: &'static str,
    groups: [u32; 3],
    /// Other nodes that it does with its own.
    fused: usize,
    /// Whether it only moves bytes.
    conversion: bool,
    /// Whether it waits for those before it.
    barrier: bool,
    /// Slots of its operands.
    slots: Vec<usize>,
}

#[derive(Serialize)]
struct Slot {
    owner: &'static str,
    storage: &'static str,
    bytes: u64,
    /// First and last step that touch it.
    live: [usize; 2],
    /// Byte of the arena that it begins at.
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
}

impl<'a> Told<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        let steps = plan.steps.iter().map(|step| Step {
            label: &step.label,
            shader: step.shader,
            groups: step.groups,
            fused: step.fused.len(),
            conversion: step.conversion,
            barrier: step.barrier,
            slots: step.args.iter().map(|&(slot, _)| slot).collect(),
        });
        let slots = plan.slots.iter().map(|slot| {
            let (owner, offset) = match slot.owner {
                Owner::External(_) => ("external", None),
                Owner::Kept(_) => ("kept", None),
                Owner::Arena { offset } => ("arena", Some(offset)),
            };
            let storage = match slot.home.kind {
                StorageKind::Buffer => "buffer",
                StorageKind::Image => "image",
            };
            Slot { owner, storage, bytes: slot.home.bytes(), live: [slot.live.0, slot.live.1], offset }
        });
        Self {
            total_bytes: plan.report.total_bytes(),
            report: &plan.report,
            steps: steps.collect(),
            slots: slots.collect(),
        }
    }
}
