//! A graph together with the calls that build it, so that it can be built again at other extents, and with adapters beside its weights.
//!
//! Tensors of a recipe are values of the graph or windows over them; their ids stay the same however often the graph is built.

mod adapter;
mod call;
#[cfg(test)]
mod tests;

pub use adapter::{Adapter, Pair};
pub use call::View;

use call::{Built, Call};

use crate::graph::{DType, Desc, Graph, GraphError, Op, Operand, Shape, ValueId, ViewError};

/// Names a tensor of a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TensorId(u32);

impl TensorId {
    /// Its position among the tensors.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The tensor of that position; a recipe refuses what it does not have.
    pub const fn at(index: u32) -> Self {
        Self(index)
    }
}

/// Names an extent that a recipe declares, such as the number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Dim(u32);

impl Dim {
    /// Its position among those declared.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The declared extent of that position; a recipe refuses what it does not have.
    pub const fn at(index: u32) -> Self {
        Self(index)
    }
}

/// The number of elements of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// This many.
    Fixed(u32),
    /// As many as a declared extent has.
    Declared(Dim),
    /// What the other axes leave; for one axis of a reshape.
    Rest,
}

/// Extents of the four axes.
pub type Extents = [Extent; 4];

/// What an external tensor is to whoever fills it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Data, frozen weights, state.
    Input,
    /// A weight that training changes.
    Parameter,
    /// The gradient of what is differentiated: ones, unless something else is written.
    Seed,
}

/// A tensor that exists outside the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct External {
    /// Its value in the graph.
    pub value: ValueId,
    /// What it is.
    pub role: Role,
}

/// Why a call of a recipe is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// A node breaks a rule of the graph.
    #[error(transparent)]
    Graph(#[from] GraphError),
    /// A window cannot be formed.
    #[error(transparent)]
    View(#[from] ViewError),
    /// Something that the recipe does not have, or that cannot be.
    #[error("{what}: {rule}")]
    Rule {
        /// The tensor, extent or adapter.
        what: String,
        /// The rule.
        rule: String,
    },
}

impl RecipeError {
    fn rule(what: impl Into<String>, rule: impl Into<String>) -> Self {
        Self::Rule { what: what.into(), rule: rule.into() }
    }
}

#[derive(Clone, Debug)]
struct Declared {
    name: String,
    value: u32,
}

/// A graph and how it is built. A call that fails changes nothing.
#[derive(Clone, Debug, Default)]
pub struct Recipe {
    dims: Vec<Declared>,
    calls: Vec<Call>,
    adapters: Vec<Adapter>,
    built: Built,
}

impl Recipe {
    /// Nothing is built yet.
    pub fn new() -> Self {
        Self::default()
    }

    fn apply(&mut self, call: Call) -> Result<(), RecipeError> {
        self.built.apply(&call, &self.dims, &self.adapters)?;
        self.calls.push(call);
        Ok(())
    }

    /// Applies a call that makes one tensor.
    fn make(&mut self, call: Call) -> Result<TensorId, RecipeError> {
        self.apply(call)?;
        Ok(self.built.newest())
    }

    /// Declares an extent that may change, with the value it has now.
    ///
    /// # Errors
    /// It is 0.
    pub fn declare(&mut self, name: impl Into<String>, value: u32) -> Result<Dim, RecipeError> {
        let name = name.into();
        if value == 0 {
            return Err(RecipeError::rule(format!("extent {name:?}"), "is 0, must be at least 1"));
        }
        self.dims.push(Declared { name, value });
        Ok(Dim(u32::try_from(self.dims.len() - 1).expect("fewer than 2^32 extents")))
    }

    /// Adds a tensor that exists outside the graph.
    ///
    /// # Errors
    /// No such tensor can be.
    pub fn external(
        &mut self,
        name: impl Into<String>,
        dtype: DType,
        shape: Extents,
        role: Role,
    ) -> Result<TensorId, RecipeError> {
        self.make(Call::External { name: name.into(), dtype, shape, role })
    }

    /// Adds a node. `output` is for ops that take their output from the node, and must agree with the op's rule for all others.
    ///
    /// # Errors
    /// As [`Graph::node_as`].
    pub fn node(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        output: Option<(DType, Extents)>,
    ) -> Result<TensorId, RecipeError> {
        self.make(Call::Node { op, inputs: inputs.to_vec(), output })
    }

    /// Copies a tensor, which may be a window, to one of its own.
    ///
    /// # Errors
    /// The types do not convert.
    pub fn copy(&mut self, of: TensorId, dtype: DType) -> Result<TensorId, RecipeError> {
        self.make(Call::Copy { of, dtype })
    }

    /// Adds a node that writes an external tensor, see [`Graph::node_into`].
    ///
    /// # Errors
    /// As [`Graph::verify`].
    pub fn node_into(&mut self, op: Op, inputs: &[TensorId], target: TensorId) -> Result<(), RecipeError> {
        let nodes = self.built.graph.nodes.clone();
        self.node_into_unchecked(op, inputs, target)?;
        if let Err(error) = self.built.graph.verify() {
            self.built.graph.nodes = nodes;
            self.calls.pop();
            return Err(error.into());
        }
        Ok(())
    }

    /// [`Recipe::node_into`] that leaves the checks to whoever compiles the graph.
    pub(crate) fn node_into_unchecked(
        &mut self,
        op: Op,
        inputs: &[TensorId],
        target: TensorId,
    ) -> Result<(), RecipeError> {
        self.apply(Call::Into { op, inputs: inputs.to_vec(), target })
    }

    /// A window over a tensor.
    ///
    /// # Errors
    /// There is no such window.
    pub fn view(&mut self, of: TensorId, view: View) -> Result<TensorId, RecipeError> {
        self.make(Call::View { of, view })
    }

    /// Names a tensor that is all of a value; for people, and for [`Recipe::find`].
    ///
    /// # Errors
    /// It is a window.
    pub fn name(&mut self, of: TensorId, name: impl Into<String>) -> Result<(), RecipeError> {
        self.apply(Call::Name { of, name: name.into() })
    }

    /// Appends nodes that compute the gradients of a loss with respect to some tensors, times a seed of ones.
    ///
    /// # Errors
    /// As [`Graph::backward`], and where a tensor is a window.
    pub fn gradients(&mut self, loss: TensorId, wanted: &[TensorId]) -> Result<Vec<TensorId>, RecipeError> {
        let first = self.built.tensors.len();
        self.apply(Call::Gradients { loss, wanted: wanted.to_vec() })?;
        Ok((first..self.built.tensors.len()).map(|index| TensorId(index as u32)).collect())
    }

    /// Asks for a computed tensor's content after a run. External tensors are there anyway.
    ///
    /// # Errors
    /// It is a window.
    pub fn keep(&mut self, of: TensorId) -> Result<(), RecipeError> {
        self.apply(Call::Keep { of })
    }

    /// The tensors of a pair that an adapter has put beside a weight: A, then B.
    pub(crate) fn pair(&mut self, index: usize) -> Result<[TensorId; 2], RecipeError> {
        let first = self.built.tensors.len() as u32;
        self.apply(Call::Pair { index })?;
        Ok([TensorId(first), TensorId(first + 1)])
    }

    /// The graph at the extents of now.
    pub fn graph(&self) -> &Graph {
        &self.built.graph
    }

    /// Every tensor.
    pub fn tensors(&self) -> impl Iterator<Item = TensorId> + use<> {
        (0..self.built.tensors.len() as u32).map(TensorId)
    }

    /// Tensors that exist outside, in the order in which they were added; the same order at all extents.
    pub fn externals(&self) -> &[External] {
        &self.built.externals
    }

    /// Pairs that adapters have put beside weights.
    pub fn pairs(&self) -> &[Pair] {
        &self.built.pairs
    }

    /// The window that a tensor is.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn operand(&self, tensor: TensorId) -> Result<Operand, RecipeError> {
        self.built.operand(tensor)
    }

    /// Dtype and shape of a tensor.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn desc(&self, tensor: TensorId) -> Result<Desc, RecipeError> {
        let operand = self.operand(tensor)?;
        Ok(Desc { dtype: self.built.graph.values[operand.value.index()].dtype, shape: operand.shape })
    }

    /// The value that a tensor is all of.
    ///
    /// # Errors
    /// There is no such tensor, or it is a window.
    pub fn value(&self, tensor: TensorId) -> Result<ValueId, RecipeError> {
        self.built.whole(tensor)
    }

    /// The first tensor that is all of a value of this name.
    pub fn find(&self, name: &str) -> Option<TensorId> {
        let graph = &self.built.graph;
        let named = |operand: &Operand| {
            let value = &graph.values[operand.value.index()];
            value.name == name && operand.is_whole(&value.shape)
        };
        self.built.tensors.iter().position(named).map(|index| TensorId(index as u32))
    }

    /// Tensors that training changes, in the order in which they were added; not those of pairs.
    pub fn parameters(&self) -> Vec<TensorId> {
        let is = |operand: &Operand| {
            let of = |external: &External| external.role == Role::Parameter && external.value == operand.value;
            let value = &self.built.graph.values[operand.value.index()];
            operand.is_whole(&value.shape) && self.built.externals.iter().any(of)
        };
        let mut found: Vec<(ValueId, TensorId)> = Vec::new();
        for (id, operand) in (0..).map(TensorId).zip(&self.built.tensors) {
            if is(operand) && found.iter().all(|(value, _)| *value != operand.value) {
                found.push((operand.value, id));
            }
        }
        found.into_iter().map(|(_, id)| id).collect()
    }

    /// What a declared extent is now.
    ///
    /// # Errors
    /// There is none such.
    pub fn extent(&self, dim: Dim) -> Result<u32, RecipeError> {
        call::declared(&self.dims, dim)
    }

    /// The same graph with other values for declared extents.
    ///
    /// # Errors
    /// An extent is not declared or 0, or the graph breaks a rule with these.
    pub fn resized(&self, changes: &[(Dim, u32)]) -> Result<Self, RecipeError> {
        let mut dims = self.dims.clone();
        for &(dim, value) in changes {
            call::declared(&dims, dim)?;
            if value == 0 {
                return Err(RecipeError::rule(
                    format!("extent {:?}", dims[dim.index()].name),
                    "is 0, must be at least 1",
                ));
            }
            dims[dim.index()].value = value;
        }
        self.rebuilt(dims, self.adapters.clone())
    }

    /// The same graph with low-rank pairs beside the weights that adapters name. Tensors keep their ids; what read a product reads its sum
    /// with the pair.
    ///
    /// # Errors
    /// An adapter cannot be, or no product has a weight that it names.
    pub fn adapted(&self, adapters: &[Adapter]) -> Result<Self, RecipeError> {
        adapters.iter().try_for_each(Adapter::check)?;
        let adapted = self.rebuilt(self.dims.clone(), adapters.to_vec())?;
        let graph = &adapted.built.graph;
        let serves = |adapter: &Adapter| {
            adapted.built.pairs.iter().any(|pair| adapter.means(&graph.values[pair.weight.index()].name))
        };
        match adapters.iter().find(|adapter| !serves(adapter)) {
            Some(adapter) => {
                let rule = "no product MUL_MAT has a weight of such a name as operand 0, all of it and a matrix";
                Err(RecipeError::rule(format!("adapter {:?}", adapter.weights), rule))
            }
            None => Ok(adapted),
        }
    }

    fn rebuilt(&self, dims: Vec<Declared>, adapters: Vec<Adapter>) -> Result<Self, RecipeError> {
        let mut built = Built::default();
        self.calls.iter().try_for_each(|call| built.apply(call, &dims, &adapters))?;
        Ok(Self { dims, calls: self.calls.clone(), adapters, built })
    }
}

/// A shape that does not change.
pub fn fixed(shape: Shape) -> Extents {
    shape.map(Extent::Fixed)
}
