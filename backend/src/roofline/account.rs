//! The kinds of a plan's steps, with their work as the cost model counts it.

use std::collections::HashMap;

use crate::graph::{self, Graph};
use crate::kernels::{Access, Addressing, StorageKind, schedule_in_words, traffic};
use crate::plan::{Plan, Step, step_flops};

use super::{Bound, Kind};

/// The kind of every step of a plan. `subgroup` is the number of lanes that load together.
pub(crate) fn kinds(plan: &Plan, graph: &Graph, subgroup: u32) -> Vec<Kind> {
    let mut known = HashMap::new();
    let steps = plan.steps.iter().zip(step_flops(graph, &plan.steps));
    let numbered = steps.map(|(step, flops)| {
        let alike = (op(step), step.conversion, step.shader, &step.constants, step.groups, flops);
        known.entry(alike).or_insert_with(|| kind(step, flops, subgroup)).clone()
    });
    numbered.collect()
}

/// The ops of a step's label.
fn op(step: &Step) -> &str {
    step.label.split(' ').next().unwrap_or_default()
}

fn kind(step: &Step, flops: u64, subgroup: u32) -> Kind {
    let accesses: Vec<Access> = step.args.iter().map(|&(_, access)| access).collect();
    let traffic = traffic(step.shader, &step.constants, step.groups, &accesses, subgroup);
    let ways = |access| if access == Access::ReadWrite { 2 } else { 1 };
    Kind {
        op: op(step).to_owned(),
        conversion: step.conversion,
        shader: step.shader.to_owned(),
        schedule: schedule_in_words(step.shader, &step.constants, step.groups),
        operands: traffic.iter().map(|t| bound(t.access, &t.addressing)).collect(),
        flops,
        bytes: graph::sum(traffic.iter().map(|t| t.bytes.saturating_mul(ways(t.access)))),
        requests: graph::sum(traffic.iter().map(|t| t.requests)),
    }
}

fn bound(access: Access, at: &Addressing) -> Bound {
    let access = match access {
        Access::Read => "reads",
        Access::Write => "writes",
        Access::ReadWrite => "updates",
    };
    let storage = match at.storage {
        StorageKind::Buffer => "buffer",
        StorageKind::Image => "image",
    };
    Bound {
        access: access.to_owned(),
        dtype: format!("{:?}", at.dtype),
        shape: at.extents,
        storage: storage.to_owned(),
        along: at.lane_axis,
    }
}
