//! Training: a recipe with adapters, gradients and an optimizer, compiled to one program per step.

mod checkpoint;
mod init;
mod optimizer;

pub use checkpoint::CheckpointError;
pub use optimizer::{Optimizer, Pace};

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::engine::{Engine, Tensor};
use crate::graph::{DType, Desc, Op};
use crate::recipe::{Adapter, Dim, External, Recipe, RecipeError, Role, TensorId, fixed};
use crate::session::{Error, Session};
use init::Random;

/// What is trained, and how.
#[derive(Clone, Debug)]
pub struct Training {
    /// What is minimised: one F32 element.
    pub loss: TensorId,
    /// Logits `[classes, rows]` and labels of the same shape, by which accuracy is counted: a row is right where both are greatest at
    /// one place.
    pub predictions: Option<[TensorId; 2]>,
    /// Pairs beside weights, which are trained instead of the recipe's parameters; those are trained where there are no adapters.
    pub adapters: Vec<Adapter>,
    /// How weights follow gradients.
    pub optimizer: Optimizer,
    /// Start of the random numbers that the pairs' first halves begin with.
    pub seed: u64,
}

/// What a step found before it changed anything.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Steps taken until now, this one included.
    pub step: u64,
    /// The loss.
    pub loss: f32,
    /// Rows predicted right.
    pub right: u64,
    /// Rows of labels.
    pub rows: u64,
}

/// A weight with what the optimizer keeps of it.
#[derive(Clone, Debug)]
struct Trained {
    name: String,
    weight: TensorId,
    /// Moments with the endings of their names.
    moments: Vec<(&'static str, TensorId)>,
}

/// Where predictions are kept: places of the greatest logits, and of the greatest labels.
#[derive(Clone, Copy, Debug)]
struct Predictions([TensorId; 2]);

/// A training run.
pub struct Trainer {
    session: Session,
    /// The forward part, for evaluations.
    forward: Recipe,
    /// Compiled for these extents, where one was asked for.
    evaluation: Option<Session>,
    loss: TensorId,
    predictions: Option<Predictions>,
    trained: Vec<Trained>,
    optimizer: Optimizer,
    pace: Pace,
    settings: TensorId,
    steps: u64,
    stop: Arc<AtomicBool>,
}

impl Trainer {
    /// Compiles a training step. External tensors that are `bound` are shared, as by [`Session::new`]. Pairs begin with uniform numbers
    /// up to `1 / sqrt(k)` in A and zeros in B; parameters are the caller's to fill.
    ///
    /// # Errors
    /// Nothing is trained, two of the tensors to save have one name, the loss is not one F32 element, an adapter has no weight, gradients
    /// do not reach a weight, or as [`Session::new`].
    pub fn new(
        engine: &Arc<Engine>,
        recipe: &Recipe,
        training: &Training,
        bound: &[(TensorId, Tensor)],
    ) -> Result<Self, Error> {
        let mut forward = recipe.adapted(&training.adapters)?;
        let mut weights = Vec::new();
        let pairs = forward.pairs().len();
        for index in 0..pairs {
            weights.extend(forward.pair(index)?);
        }
        if pairs == 0 {
            weights = forward.parameters();
        }
        if weights.is_empty() {
            let rule = "has neither parameters nor adapters; there is nothing to train".to_owned();
            return Err(RecipeError::Rule { what: "the graph".into(), rule }.into());
        }
        check_loss(&forward, training.loss)?;
        forward.keep(training.loss)?;
        let predictions = training.predictions.map(|of| predictions(&mut forward, of)).transpose()?;

        let mut whole = forward.clone();
        let gradients = whole.gradients(training.loss, &weights)?;
        let optimizer = training.optimizer;
        let settings = [optimizer.settings() as u32, 1, 1, 1];
        let settings = whole.external("optimizer", DType::F32, fixed(settings), Role::Input)?;
        let mut trained = Vec::with_capacity(weights.len());
        for (weight, gradient) in weights.into_iter().zip(gradients) {
            let shape = fixed(whole.desc(weight)?.shape);
            let name = whole.graph().values[whole.value(weight)?.index()].name.clone();
            let moments = optimizer.moments().iter().map(|&ending| {
                Ok((ending, whole.external(format!("{name}.{ending}"), DType::F32, shape, Role::Input)?))
            });
            let moments = moments.collect::<Result<Vec<_>, RecipeError>>()?;
            let mut operands = vec![weight, gradient];
            operands.extend(moments.iter().map(|&(_, id)| id));
            operands.push(settings);
            whole.node_into_unchecked(optimizer.op(), &operands, weight)?;
            trained.push(Trained { name, weight, moments });
        }
        let session = Session::new(engine, whole, bound)?;
        let trainer = Self {
            session,
            forward,
            evaluation: None,
            loss: training.loss,
            predictions,
            trained,
            optimizer,
            pace: Pace::default(),
            settings,
            steps: 0,
            stop: Arc::default(),
        };
        trainer.check_names()?;
        trainer.fill_pairs(pairs, training.seed)?;
        Ok(trainer)
    }

    /// That a checkpoint can tell by their names what is trained.
    fn check_names(&self) -> Result<(), RecipeError> {
        let mut names: Vec<String> = self.kept().into_iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        let twice = names.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| &pair[0]);
        let Some(name) = twice.or_else(|| names.iter().find(|name| *name == checkpoint::RESERVED)) else {
            return Ok(());
        };
        let rule = "names two trained tensors, or none that a file can have".to_owned();
        Err(RecipeError::Rule { what: format!("{name:?}"), rule })
    }

    fn fill_pairs(&self, pairs: usize, seed: u64) -> Result<(), Error> {
        let mut random = Random::new(seed);
        for a in self.trained.iter().take(2 * pairs).step_by(2) {
            let desc = self.session.recipe().desc(a.weight)?;
            let bound = 1.0 / (desc.shape[0] as f32).sqrt();
            let numbers: Vec<f32> = (0..desc.bytes() / 4).map(|_| bound * random.within_one()).collect();
            self.session.upload(a.weight, 0, bytemuck::cast_slice(&numbers))?;
        }
        Ok(())
    }

    /// Its tensors and program. Running it by itself would be a step with old settings: use [`Trainer::step`].
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The speed of learning, from the next step on.
    pub fn pace(&mut self) -> &mut Pace {
        &mut self.pace
    }

    /// What [`Trainer::step`] looks at before it begins: set by any thread, it makes the next step none, and is cleared by it.
    pub fn stop(&self) -> &Arc<AtomicBool> {
        &self.stop
    }

    /// Steps taken.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// One step on what the input tensors hold; `None` where it was stopped.
    ///
    /// # Errors
    /// The device is lost.
    pub fn step(&mut self) -> Result<Option<Outcome>, Error> {
        if self.stop.swap(false, Ordering::AcqRel) {
            return Ok(None);
        }
        let settings = self.optimizer.values(self.pace, self.steps + 1);
        self.session.upload(self.settings, 0, bytemuck::cast_slice(&settings))?;
        self.session.run()?;
        self.steps += 1;
        self.outcome(&self.session).map(Some)
    }

    /// Loss and accuracy of what the input tensors hold, without a step; nodes that write in place do so.
    ///
    /// # Errors
    /// As [`Session::new`].
    pub fn evaluate(&mut self) -> Result<Outcome, Error> {
        if self.evaluation.is_none() {
            // Ids of the forward part are the same in the step that it begins.
            let forward = &self.forward;
            // Views may be all of an external too: each is bound once.
            let whole = |external: &External| {
                forward.tensors().find(|&id| forward.value(id).is_ok_and(|value| value == external.value))
            };
            let bound = forward.externals().iter().filter_map(whole);
            let bound = bound.map(|id| Ok((id, self.session.tensor(id)?.clone())));
            let bound = bound.collect::<Result<Vec<_>, Error>>()?;
            self.evaluation = Some(Session::new(self.session.engine(), forward.clone(), &bound)?);
        }
        if let Some(evaluation) = &mut self.evaluation {
            evaluation.run()?;
        }
        self.evaluation.as_ref().map_or(Ok(Outcome::default()), |session| self.outcome(session))
    }

    /// [`Session::resize`]; what is trained keeps its values.
    ///
    /// # Errors
    /// As [`Session::resize`]; the shape of what is trained would change, or the loss be more than one element.
    pub fn resize(&mut self, changes: &[(Dim, u32)]) -> Result<(), Error> {
        let forward = self.forward.resized(changes)?;
        check_loss(&forward, self.loss)?;
        for Trained { name, weight, .. } in &self.trained {
            if forward.desc(*weight)?.shape != self.session.recipe().desc(*weight)?.shape {
                let rule = "is trained, so that its shape cannot change".to_owned();
                return Err(RecipeError::Rule { what: format!("{name:?}"), rule }.into());
            }
        }
        self.session.resize(changes)?;
        (self.forward, self.evaluation) = (forward, None);
        Ok(())
    }

    /// What a run left in the tensors that are kept.
    fn outcome(&self, session: &Session) -> Result<Outcome, Error> {
        let mut loss = [0_f32];
        session.download(self.loss, 0, bytemuck::cast_slice_mut(&mut loss))?;
        let mut outcome = Outcome { step: self.steps, loss: loss[0], ..Outcome::default() };
        if let Some(Predictions([found, wanted])) = self.predictions {
            let places = |id: TensorId| -> Result<Vec<u32>, Error> {
                let mut places = vec![0_u32; session.recipe().desc(id)?.bytes() as usize / 4];
                session.download(id, 0, bytemuck::cast_slice_mut(&mut places))?;
                Ok(places)
            };
            let (found, wanted) = (places(found)?, places(wanted)?);
            outcome.rows = wanted.len() as u64;
            outcome.right = found.iter().zip(&wanted).filter(|(found, wanted)| found == wanted).count() as u64;
        }
        Ok(outcome)
    }
}

/// That a loss is one F32 element.
fn check_loss(recipe: &Recipe, loss: TensorId) -> Result<(), RecipeError> {
    let Desc { dtype, shape } = recipe.desc(loss)?;
    if (dtype, shape) == (DType::F32, [1; 4]) {
        return Ok(());
    }
    let rule = format!("is {dtype:?} {shape:?}, must be one F32 element");
    Err(RecipeError::Rule { what: "the loss".into(), rule })
}

/// Keeps what accuracy is counted from.
fn predictions(recipe: &mut Recipe, [logits, labels]: [TensorId; 2]) -> Result<Predictions, RecipeError> {
    let shapes = [recipe.desc(logits)?.shape, recipe.desc(labels)?.shape];
    if shapes[0] != shapes[1] || shapes[0][2..] != [1, 1] {
        let rule = format!("are {:?} and {:?}, must be of one shape [classes, rows]", shapes[0], shapes[1]);
        return Err(RecipeError::Rule { what: "logits and labels".into(), rule });
    }
    let mut ids = [logits, labels];
    for id in &mut ids {
        *id = recipe.node(Op::ArgMax, &[*id], None)?;
        recipe.keep(*id)?;
    }
    Ok(Predictions(ids))
}
