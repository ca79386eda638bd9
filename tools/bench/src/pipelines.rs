//! `fblayout-bench pipelines`: what it takes on the device present until a model's step could be recorded: the plan at true size and
//! every pipeline that it names, each used once on nothing. Nothing of the model's size is allocated.

use std::collections::HashSet;
use std::sync::Arc;

use clap::Args;
use fblayout::engine::{Engine, EngineOptions};
use fblayout::plan::{Plan, StorageChoice};
use fblayout::vulkan::{Pipeline, Step, Tape, TapeOptions, Work};
use fblayout_models::{Options, train_graph};
use serde::Serialize;

use crate::numbers::short;
use crate::plans::Way;
use crate::reference::{self, LORA, Machine};
use crate::steps::{Stand, timed};
use crate::table::Table;
use crate::{Failure, Measured};

#[derive(Args)]
pub struct Arguments {
    /// Models; all five if none is named
    #[arg(long = "model")]
    models: Vec<String>,
    /// Tokens of the sequence
    #[arg(long, default_value_t = 512)]
    seq: u32,
    /// Preset that is the device present, so that layouts can be selected for it
    #[arg(long)]
    profile: Option<String>,
    #[command(flatten)]
    measured: Measured,
}

#[derive(Serialize)]
struct Told {
    /// How the numbers came about; always `measured`.
    stand: &'static str,
    device: String,
    driver: String,
    seq: u32,
    #[serde(flatten)]
    way: Way,
    rows: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    model: &'static str,
    dispatches: usize,
    /// Different ones.
    pipelines: usize,
    plan_ms: f64,
    /// Making them one after the other.
    pipelines_ms: f64,
    /// A dispatch without workgroups of each: some drivers compile when a pipeline is first used.
    first_use_ms: f64,
}

/// Plans, makes pipelines and prints.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let profile = arguments.profile.as_deref().map(Machine::find).transpose()?.map(|machine| machine.profile);
    let way = if profile.is_some() { Way::selected } else { Way::rule }(reference::POLICY);
    let stand = Stand { adapter: arguments.measured.adapter, options: EngineOptions::from_env()?, profile };
    let mut rows = Vec::new();
    let mut present = None;
    for config in reference::models(&arguments.models)? {
        let graph = train_graph(&config, &Options::new(1, arguments.seq, LORA))?.model.graph;
        // An engine of its own, whose cache of pipelines is empty.
        let engine = stand.open(way, StorageChoice::Auto)?;
        let (plan, plan_ms) = timed(|| Ok(engine.plan(&graph)?))?;
        let (pipelines, pipelines_ms) = timed(|| pipelines(&engine, &plan))?;
        let ((), first_use_ms) = timed(|| use_once(&engine, &pipelines))?;
        let (dispatches, pipelines) = (plan.steps.len(), pipelines.len());
        rows.push(Row { model: config.name, dispatches, pipelines, plan_ms, pipelines_ms, first_use_ms });
        present = Some(engine.gpu().adapter().clone());
    }
    let present = present.ok_or("no model was named")?;
    let told = Told { stand: "measured", device: present.name, driver: present.driver, seq: arguments.seq, way, rows };
    eprintln!("measured on {} ({})", told.device, told.driver);
    arguments.measured.output.print(&told, &[told.table()])
}

/// Every pipeline of a plan, once.
fn pipelines(engine: &Engine, plan: &Plan) -> Result<Vec<Arc<Pipeline>>, Failure> {
    let mut met = HashSet::new();
    let new = plan.steps.iter().filter(|step| met.insert((step.shader, &step.constants[..])));
    new.map(|step| {
        let shader =
            fblayout_shaders::get(step.shader).ok_or_else(|| format!("no shader is called {}", step.shader))?;
        Ok(engine.gpu().pipeline(shader, &step.constants)?)
    })
    .collect()
}

fn use_once(engine: &Engine, pipelines: &[Arc<Pipeline>]) -> Result<(), Failure> {
    let step = |pipeline| Step {
        work: Work::Dispatch { pipeline, operands: &[], groups: [0; 3] },
        barrier_before: false,
        discard: &[],
    };
    let steps: Vec<Step<'_>> = pipelines.iter().map(step).collect();
    let mut tape = Tape::record(engine.gpu(), &steps, &TapeOptions::default())?;
    tape.submit()?;
    Ok(tape.wait()?)
}

impl Told {
    fn table(&self) -> Table {
        let head = [
            "model",
            "dispatches",
            "different pipelines",
            "plan ms",
            "pipelines ms",
            "first use ms",
            "measured total s",
        ];
        let mut table = Table::new("pipelines", head);
        for row in &self.rows {
            table.row([
                row.model.to_owned(),
                row.dispatches.to_string(),
                row.pipelines.to_string(),
                short(row.plan_ms),
                short(row.pipelines_ms),
                short(row.first_use_ms),
                short((row.plan_ms + row.pipelines_ms + row.first_use_ms) / 1e3),
            ]);
        }
        table
    }
}
