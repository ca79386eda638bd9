//! A recipe on an engine: its tensors, its program, and both again when an extent changes.

use std::sync::Arc;

use crate::engine::{self, Engine, Program, Tensor};
use crate::graph::{Desc, ValueId};
use crate::plan::Plan;
use crate::recipe::{Dim, Recipe, RecipeError, Role, TensorId};

/// Why a session could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// The recipe.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A tensor that has no content outside a run, or bytes that it does not have.
    #[error("tensor {name:?}: {rule}")]
    Tensor {
        /// Its name.
        name: String,
        /// The rule.
        rule: String,
    },
}

/// A compiled recipe with memory for its external tensors, zero at first; seeds are ones.
pub struct Session {
    engine: Arc<Engine>,
    recipe: Recipe,
    /// In the order of the recipe's externals.
    tensors: Vec<Tensor>,
    program: Program,
}

impl Session {
    /// Compiles a recipe. External tensors that are `bound` are shared with whoever has the tensor.
    ///
    /// # Errors
    /// The graph cannot be planned, memory runs out, or what is bound has another dtype, shape or home than the tensor.
    pub fn new(engine: &Arc<Engine>, recipe: Recipe, bound: &[(TensorId, Tensor)]) -> Result<Self, Error> {
        let bound = bound.iter().map(|(id, tensor)| Ok((recipe.value(*id)?, tensor)));
        let bound = bound.collect::<Result<Vec<_>, RecipeError>>()?;
        if let Some((id, _)) = bound.iter().find(|(id, _)| recipe.externals().iter().all(|e| e.value != *id)) {
            return Err(refusal(&recipe, *id, "is computed; only external tensors can be bound"));
        }
        let given = |id: ValueId, _: usize| bound.iter().find(|(of, _)| *of == id).map(|(_, tensor)| (*tensor).clone());
        let (tensors, program) = compiled(engine, &recipe, given)?;
        Ok(Self { engine: Arc::clone(engine), recipe, tensors, program })
    }

    /// What was compiled.
    pub fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    /// What was decided.
    pub fn plan(&self) -> &Plan {
        self.program.plan()
    }

    /// The engine it was compiled by.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Runs everything once and waits.
    ///
    /// # Errors
    /// The device is lost.
    pub fn run(&mut self) -> Result<(), Error> {
        Ok(self.program.run()?)
    }

    /// Compiles again with other values for declared extents. External tensors whose shape stays keep their content, the others are zero;
    /// kept results are zero until the next run. Nothing changes after an error.
    ///
    /// # Errors
    /// As [`Recipe::resized`] and [`Session::new`].
    pub fn resize(&mut self, changes: &[(Dim, u32)]) -> Result<(), Error> {
        let recipe = self.recipe.resized(changes)?;
        let kept = |id: ValueId, at: usize| {
            let same = self.tensors[at].desc() == recipe.graph().values[id.index()].desc();
            same.then(|| self.tensors[at].clone())
        };
        let (tensors, program) = compiled(&self.engine, &recipe, kept)?;
        (self.recipe, self.tensors, self.program) = (recipe, tensors, program);
        Ok(())
    }

    /// The memory of a tensor that is external or kept.
    ///
    /// # Errors
    /// It is neither.
    pub fn tensor(&self, id: TensorId) -> Result<&Tensor, Error> {
        let value = self.recipe.value(id)?;
        if let Some(at) = self.recipe.externals().iter().position(|external| external.value == value) {
            return Ok(&self.tensors[at]);
        }
        let missing = || refusal(&self.recipe, value, "is computed, and not among the outputs that are kept");
        self.program.kept(value).ok_or_else(missing)
    }

    /// Writes bytes of a tensor in the host's linear form, from byte `offset` on. A part is read with the rest and written with it.
    ///
    /// # Errors
    /// The tensor has no memory of its own, or fewer bytes.
    pub fn upload(&self, id: TensorId, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let tensor = self.tensor(id)?;
        let range = self.range(id, tensor.desc(), offset, bytes.len())?;
        if bytes.len() as u64 == tensor.desc().bytes() {
            return Ok(self.engine.write(tensor, bytes)?);
        }
        let mut whole = self.engine.read(tensor)?;
        whole[range].copy_from_slice(bytes);
        Ok(self.engine.write(tensor, &whole)?)
    }

    /// Reads bytes of a tensor in the host's linear form, from byte `offset` on.
    ///
    /// # Errors
    /// As [`Session::upload`].
    pub fn download(&self, id: TensorId, offset: u64, bytes: &mut [u8]) -> Result<(), Error> {
        let tensor = self.tensor(id)?;
        let range = self.range(id, tensor.desc(), offset, bytes.len())?;
        bytes.copy_from_slice(&self.engine.read(tensor)?[range]);
        Ok(())
    }

    fn range(&self, id: TensorId, desc: Desc, offset: u64, length: usize) -> Result<std::ops::Range<usize>, Error> {
        let end = offset.checked_add(length as u64).filter(|&end| end <= desc.bytes());
        match end {
            Some(end) => Ok(offset as usize..end as usize),
            None => {
                let rule = format!("has {} bytes, not {length} from byte {offset} on", desc.bytes());
                Err(refusal(&self.recipe, self.recipe.value(id)?, &rule))
            }
        }
    }
}

fn refusal(recipe: &Recipe, value: ValueId, rule: &str) -> Error {
    Error::Tensor { name: recipe.graph().values[value.index()].name.clone(), rule: rule.to_owned() }
}

/// Memory for external tensors, as far as none is given, and the program.
fn compiled(
    engine: &Arc<Engine>,
    recipe: &Recipe,
    given: impl Fn(ValueId, usize) -> Option<Tensor>,
) -> Result<(Vec<Tensor>, Program), Error> {
    let graph = recipe.graph();
    let mut tensors = Vec::with_capacity(recipe.externals().len());
    for (at, external) in recipe.externals().iter().enumerate() {
        let Desc { dtype, shape } = graph.values[external.value.index()].desc();
        if let Some(tensor) = given(external.value, at) {
            if tensor.desc() != (Desc { dtype, shape }) {
                let rule = format!("is {dtype:?} {shape:?}, what is bound is {:?}", tensor.desc());
                return Err(refusal(recipe, external.value, &rule));
            }
            if *tensor.home() != engine.home(dtype, shape)? {
                return Err(refusal(recipe, external.value, "lies otherwise under another policy or storage"));
            }
            tensors.push(tensor);
            continue;
        }
        let tensor = engine.create(dtype, shape)?;
        if external.role == Role::Seed {
            let ones = vec![1_f32; crate::graph::elements(&shape) as usize];
            engine.write(&tensor, bytemuck::cast_slice(&ones))?;
        }
        tensors.push(tensor);
    }
    let values = recipe.externals().iter().map(|external| external.value);
    let externals: Vec<(ValueId, Tensor)> = values.zip(tensors.iter().cloned()).collect();
    let program = engine.compile(graph, &externals)?;
    Ok((tensors, program))
}
