//! A compiled graph: the plan made real on a device.

use std::collections::HashMap;
use std::sync::Arc;

use fblayout_shaders::Shader;

use crate::graph::{Graph, Kind, ValueId};
use crate::kernels::StorageKind;
use crate::plan::{self, Owner, Plan};
use crate::roofline::{Phase, Recorder};
use crate::vulkan::{Arena, Gpu, Operand, Step, Storage, Tape, TapeOptions, Work};

use super::{Error, Tensor};

/// A graph with its memory placed and its commands recorded; running it replays them.
pub struct Program {
    plan: Plan,
    kept: HashMap<ValueId, Tensor>,
    externals: HashMap<ValueId, Tensor>,
    /// Storages of kept values and of the arena.
    written: Vec<Storage>,
    tape: Tape,
    watched: Option<Watched>,
}

/// Where the times of steps go.
struct Watched {
    recorder: Arc<Recorder>,
    /// The recorder's number of each step.
    steps: Vec<usize>,
    ran: bool,
}

impl Program {
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        tape: &TapeOptions,
        graph: &Graph,
        plan: Plan,
        externals: &[(ValueId, Tensor)],
    ) -> Result<Self, Error> {
        let externals = checked(graph, externals)?;
        let arena = Arena::new(gpu, &plan.arena)?;

        let mut kept = HashMap::new();
        let mut storages: Vec<Storage> = Vec::with_capacity(plan.slots.len());
        for slot in &plan.slots {
            let home = &slot.home;
            storages.push(match slot.owner {
                Owner::External(id) => externals[&id].storage().clone(),
                Owner::Kept(id) => {
                    let tensor = Tensor::create(gpu, plan::Home::clone(home), graph.values[id.index()].desc())?;
                    let storage = tensor.storage().clone();
                    kept.insert(id, tensor);
                    storage
                }
                Owner::Arena { offset } => match home.kind {
                    StorageKind::Buffer => arena.place_buffer(offset, home.width, home.height)?,
                    StorageKind::Image => arena.place_image(offset, home.width, home.height)?,
                },
            });
        }

        let wanted: Vec<_> = plan.steps.iter().map(|step| (shader(step), &*step.constants)).collect();
        let pipelines = gpu.pipelines(&wanted)?;
        let operands: Vec<Vec<Operand<'_>>> = plan
            .steps
            .iter()
            .map(|s| (0..).zip(&s.args).map(|(slot, &(i, _))| operand(s, slot, &storages[i])).collect())
            .collect();
        let discards: Vec<Vec<&Storage>> =
            plan.steps.iter().map(|s| s.discard.iter().map(|&i| &storages[s.args[i].0]).collect()).collect();
        let steps: Vec<Step<'_>> = (0..plan.steps.len())
            .map(|i| Step {
                work: Work::Dispatch { pipeline: &pipelines[i], operands: &operands[i], groups: plan.steps[i].groups },
                barrier_before: plan.steps[i].barrier || (tape.pieces_in_order && plan.steps[i].beside),
                discard: &discards[i],
            })
            .collect();
        let tape = Tape::record(gpu, &steps, tape)?;
        let own = |(slot, storage): (&plan::Slot, Storage)| match slot.owner {
            Owner::External(_) => None,
            Owner::Kept(_) | Owner::Arena { .. } => Some(storage),
        };
        let written = plan.slots.iter().zip(storages).filter_map(own).collect();
        Ok(Self { plan, kept, externals, written, tape, watched: None })
    }

    /// The same, telling a recorder what its steps take. The tape takes timestamps; `steps` are the recorder's numbers of them.
    pub(super) fn watched(self, recorder: Arc<Recorder>, steps: Vec<usize>) -> Self {
        Self { watched: Some(Watched { recorder, steps, ran: false }), ..self }
    }

    /// Runs everything once and waits.
    pub fn run(&mut self) -> Result<(), Error> {
        let Some(Watched { recorder, steps, ran }) = &mut self.watched else {
            self.tape.submit()?;
            return Ok(self.tape.wait()?);
        };
        recorder.timed(Phase::Submit, || self.tape.submit())?;
        recorder.timed(Phase::Wait, || self.tape.wait())?;
        if let Some(nanoseconds) = self.tape.step_nanoseconds()? {
            recorder.ran(!*ran, steps, &nanoseconds);
            *ran = true;
        }
        Ok(())
    }

    /// Nanoseconds of each step of the last run, if the tape takes timestamps.
    pub fn step_nanoseconds(&mut self) -> Result<Option<Vec<f64>>, Error> {
        Ok(self.tape.step_nanoseconds()?)
    }

    /// The tensor of a value that the graph keeps.
    pub fn kept(&self, value: ValueId) -> Option<&Tensor> {
        self.kept.get(&value)
    }

    /// Whether the program was compiled with this tensor for the external value.
    pub fn is_bound(&self, value: ValueId, tensor: &Tensor) -> bool {
        self.externals.get(&value).is_some_and(|bound| bound.same(tensor))
    }

    /// The storages that a run writes before it reads them.
    pub(super) fn written(&self) -> &[Storage] {
        &self.written
    }

    /// What was decided.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

fn operand<'a>(step: &plan::Step, slot: u32, storage: &'a Storage) -> Operand<'a> {
    let rows = step.rows.iter().find(|(named, _)| *named == slot as usize);
    Operand { rows: rows.map(|(_, rows)| rows.clone()), ..Operand::new(slot, storage) }
}

fn shader(step: &plan::Step) -> &'static Shader {
    fblayout_shaders::get(step.shader).expect("kernels name shaders that exist")
}

/// Every external value of the graph with a tensor of its dtype and shape.
fn checked(graph: &Graph, given: &[(ValueId, Tensor)]) -> Result<HashMap<ValueId, Tensor>, Error> {
    let given: HashMap<ValueId, Tensor> = given.iter().cloned().collect();
    for id in graph.ids().filter(|id| graph.values[id.index()].kind == Kind::External) {
        let value = &graph.values[id.index()];
        let fail = |why: String| Err(Error::External { value: value.name.clone(), why });
        match given.get(&id) {
            None => return fail("no tensor was given".into()),
            Some(t) if t.desc() != value.desc() => {
                return fail(format!("is {:?}, but its tensor is {:?}", value.desc(), t.desc()));
            }
            Some(_) => {}
        }
    }
    Ok(given)
}
