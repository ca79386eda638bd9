//! Peak memory: by policy, by training, and over that of inference.

use fblayout::plan::{Recomputed, UpperBound};
use fblayout_models::{Config, Options, Training, loss_graph, train_graph};
use serde::Serialize;

use crate::Failure;
use crate::numbers::{gib, or_dash, short};
use crate::reference::{self, LORA, Machine};
use crate::table::Table;

use super::cell::{Memory, Way};

/// Peaks of one model and training on one machine: upper bounds by its limits.
#[derive(Serialize)]
pub struct Row {
    model: &'static str,
    training: &'static str,
    policies: Vec<(Way, Memory)>,
    /// The forward pass alone, up to the logits of the last token, by the reference.
    inference: Memory,
    /// The reference, computing values again rather than keeping them, with as little memory as it can.
    smallest: Memory,
    /// What that takes; its times are simulated.
    recomputed: Recomputed,
}

/// LoRA and full training of a model by every policy.
pub fn rows(config: &Config, seq: u32, machine: &Machine, ours: Way) -> Result<Vec<Row>, Failure> {
    let row = |(training, name): (Training, &'static str)| -> Result<Row, Failure> {
        let options = Options::new(1, seq, training);
        let graph = train_graph(config, &options)?.model.graph;
        let ways = reference::policies().map(Way::rule).chain([ours]);
        let policies = ways.map(|way| Ok((way, Memory::of(&way.plan(&graph, machine)?))));
        let forward = loss_graph(config, &Options { targets: 1, ..options })?.graph;
        let smallest = ours.recompute(machine, &UpperBound(&machine.limits)).smallest(&graph)?;
        Ok(Row {
            model: config.name,
            training: name,
            policies: policies.collect::<Result<_, Failure>>()?,
            inference: Memory::of(&ours.plan(&forward, machine)?),
            smallest: Memory::of(&smallest.plan),
            recomputed: smallest.recomputed,
        })
    };
    [(LORA, "LoRA"), (Training::Full, "full")].into_iter().map(row).collect()
}

impl Row {
    /// Bytes of the reference over those of the thriftiest other policy.
    fn excess(&self, ours: Way) -> f64 {
        let (own, others): (Vec<_>, Vec<_>) = self.policies.iter().partition(|(way, _)| *way == ours);
        let least = |of: Vec<&(Way, Memory)>| of.iter().map(|(_, m)| m.peak()).min().unwrap_or(0);
        least(own) as f64 / least(others).max(1) as f64
    }

    fn training(&self, ours: Way) -> Option<Memory> {
        self.policies.iter().find(|(way, _)| *way == ours).map(|(_, memory)| *memory)
    }
}

/// Peaks by policy.
pub fn peaks(rows: &[Row]) -> Table {
    let ways = rows.first().map(|row| row.policies.iter().map(|(way, _)| way.to_string()).collect::<Vec<_>>());
    let head = ["model", "training"].map(str::to_owned).into_iter().chain(ways.unwrap_or_default());
    let mut table = Table::new("peaks", head.chain(["reference over the least other".to_owned()]));
    for row in rows {
        let excess = format!("{:.3}", row.excess(Way::selected(reference::POLICY)));
        let peaks = row.policies.iter().map(|(_, memory)| gib(memory.peak()));
        table.row([row.model, row.training].map(str::to_owned).into_iter().chain(peaks).chain([excess]));
    }
    table
}

/// Training over inference, P3 of the article.
pub fn inference(rows: &[Row]) -> Table {
    let mut table = Table::new(
        "inference",
        [
            "model",
            "training",
            "training GiB",
            "of it computed",
            "inference GiB",
            "of it computed",
            "training / inference",
            "of computed alone",
        ],
    );
    for row in rows {
        let Some(training) = row.training(Way::selected(reference::POLICY)) else { continue };
        let Memory { external: _, computed } = row.inference;
        let over = |a: u64, b: u64| format!("{:.2}", a as f64 / b.max(1) as f64);
        table.row([
            row.model.to_owned(),
            row.training.to_owned(),
            gib(training.peak()),
            gib(training.computed),
            gib(row.inference.peak()),
            gib(computed),
            over(training.peak(), row.inference.peak()),
            over(training.computed, computed),
        ]);
    }
    table
}

/// What recomputing saves, and what it costs.
pub fn recompute(rows: &[Row]) -> Table {
    let head = [
        "model",
        "training",
        "kept GiB",
        "recomputed GiB",
        "of computed alone",
        "nodes run again",
        "their GFLOP",
        "simulated ms kept",
        "simulated ms recomputed",
    ];
    let mut table = Table::new("recompute", head);
    for row in rows {
        let Some(kept) = row.training(Way::selected(reference::POLICY)) else { continue };
        let Recomputed { nodes, flops, simulated_ms, .. } = row.recomputed;
        let times = simulated_ms.map_or_else(|| [None; 2], |times| times.map(Some));
        let [before, after] = times.map(|ms| or_dash(ms.map(short)));
        table.row([
            row.model.to_owned(),
            row.training.to_owned(),
            gib(kept.peak()),
            gib(row.smallest.peak()),
            format!("{:.2}", row.smallest.computed as f64 / kept.computed.max(1) as f64),
            nodes.to_string(),
            short(flops as f64 / 1e9),
            before,
            after,
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use fblayout::plan::Policy;

    #[test]
    fn the_reference_is_held_against_the_thriftiest_other() {
        let ours = Way::selected(reference::POLICY);
        let memory = |external, computed| Memory { external, computed };
        let others = [(Way::rule(Policy::RTile), memory(4, 6)), (Way::rule(Policy::ConvertAlways), memory(4, 16))];
        let policies = others.into_iter().chain([(ours, memory(4, 7))]).collect();
        let row = Row {
            model: "a",
            training: "LoRA",
            policies,
            inference: memory(3, 1),
            smallest: memory(4, 2),
            recomputed: Recomputed::default(),
        };
        assert_eq!(row.excess(ours), 1.1);
        let table = inference(&[row]).rows;
        assert_eq!(table[0][6..], ["2.75", "7.00"]);
    }
}
