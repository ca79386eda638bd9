//! `fblayout-bench plans`: training steps at true size, planned by every policy for every machine that is known.

mod cell;
mod memory;
mod ratios;
mod search;
mod tables;

use clap::Args;
use fblayout_models::{Options, train_graph};
use serde::Serialize;

use crate::reference::{self, LORA, Machine};
use crate::table::Table;
use crate::{Failure, Output};

use cell::Cell;
pub use cell::Way;

#[derive(Args)]
pub struct Arguments {
    /// Models; all five if none is named
    #[arg(long = "model")]
    models: Vec<String>,
    /// Presets that are machines; all if none is named. The first one gives the tables of a single machine
    #[arg(long = "device")]
    devices: Vec<String>,
    /// Tokens of the sequence
    #[arg(long, default_value_t = 512)]
    seq: u32,
    /// Plans that a plan time is the median of
    #[arg(long, default_value_t = 5)]
    runs: usize,
    #[command(flatten)]
    output: Output,
}

/// Everything that the tables are made of.
#[derive(Serialize)]
struct Told {
    seq: u32,
    rank: u32,
    /// The policy that the others are measured by.
    reference: String,
    cells: Vec<Cell>,
    selections: Vec<search::Row>,
    plan_times: Vec<search::Times>,
    memory: Vec<memory::Row>,
}

/// Plans, compares and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let models = reference::models(&arguments.models)?;
    let machines = Machine::named(&arguments.devices)?;
    let first = &machines[0];
    let ours = Way::selected(reference::POLICY);
    let mut told = Told {
        seq: arguments.seq,
        rank: reference::RANK,
        reference: ours.to_string(),
        cells: Vec::new(),
        selections: Vec::new(),
        plan_times: Vec::new(),
        memory: Vec::new(),
    };
    for config in &models {
        let options = Options::new(1, arguments.seq, LORA);
        // Before anything else: the first plan is as cold as it can be.
        told.plan_times.push(search::Times::measure(config, options, first, ours, arguments.runs)?);
        let graph = train_graph(config, &options)?.model.graph;
        for machine in &machines {
            for way in ways() {
                told.cells.push(Cell::new(config.name, &graph, machine, way)?);
            }
            told.selections.push(search::Row::new(config.name, &graph, machine, ours.policy)?);
            eprintln!("{} on {}", config.name, machine.name);
        }
        told.memory.extend(memory::rows(config, arguments.seq, first, ours)?);
    }
    arguments.output.print(&told, &told.tables(first.name))
}

/// Every policy by the rule, and the selections that the ablation and the comparisons ask for.
fn ways() -> Vec<Way> {
    let mut ways: Vec<Way> = reference::policies().map(Way::rule).collect();
    for policy in [ratios::SELECTED_BY_ARTICLE, reference::POLICY] {
        let way = Way::selected(policy);
        if !ways.contains(&way) {
            ways.push(way);
        }
    }
    ways
}

impl Told {
    fn tables(&self, first: &str) -> Vec<Table> {
        let own: Vec<&Cell> = self.cells.iter().filter(|cell| cell.preset == first).collect();
        vec![
            ratios::neighbours(&self.cells),
            ratios::ablation(&self.cells),
            tables::work(&own),
            tables::eliminated(&self.cells, first),
            tables::transforms(&own),
            search::selections(&self.selections, &self.cells),
            search::plan_times(&self.plan_times),
            memory::peaks(&self.memory),
            memory::inference(&self.memory),
            memory::recompute(&self.memory),
            tables::times(&self.cells),
            tables::moved(&self.cells),
        ]
    }
}
