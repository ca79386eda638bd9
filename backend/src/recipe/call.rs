//! The calls of a recipe, and what each adds to the graph.

use super::adapter::{Adapter, Pair};
use super::{Declared, Dim, Extent, Extents, External, RecipeError, Role, TensorId};
use crate::graph::{DType, Desc, Graph, Node, Op, Operand, Shape, ValueId};

/// How a window over a tensor is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// The same elements in the same order under another shape.
    Reshape(Extents),
    /// Axis `i` of the result is this axis of the tensor.
    Permute([usize; 4]),
    /// Some neighbours along an axis.
    Slice {
        /// The axis.
        axis: usize,
        /// Elements before the first.
        start: u32,
        /// How many.
        count: Extent,
    },
    /// An axis of one element repeated.
    Expand {
        /// The axis.
        axis: usize,
        /// How often.
        count: Extent,
    },
}

#[derive(Clone, Debug)]
pub(super) enum Call {
    External { name: String, dtype: DType, shape: Extents, role: Role },
    Node { op: Op, inputs: Vec<TensorId>, output: Option<(DType, Extents)> },
    Copy { of: TensorId, dtype: DType },
    Into { op: Op, inputs: Vec<TensorId>, target: TensorId },
    View { of: TensorId, view: View },
    Name { of: TensorId, name: String },
    Gradients { loss: TensorId, wanted: Vec<TensorId> },
    Keep { of: TensorId },
    Pair { index: usize },
}

/// What calls have built.
#[derive(Clone, Debug, Default)]
pub(super) struct Built {
    pub graph: Graph,
    pub tensors: Vec<Operand>,
    pub externals: Vec<External>,
    pub pairs: Vec<Pair>,
}

/// The value of a declared extent.
pub(super) fn declared(dims: &[Declared], dim: Dim) -> Result<u32, RecipeError> {
    let missing = || RecipeError::rule(format!("extent {}", dim.index()), "is not declared in this graph");
    dims.get(dim.index()).map(|declared| declared.value).ok_or_else(missing)
}

/// The number that an extent is; there is no rest of nothing.
fn number(extent: Extent, dims: &[Declared]) -> Result<u32, RecipeError> {
    match extent {
        Extent::Fixed(n) => Ok(n),
        Extent::Declared(dim) => declared(dims, dim),
        Extent::Rest => Err(RecipeError::rule("an extent", "is left open, which only a reshape can")),
    }
}

fn shape(extents: Extents, dims: &[Declared]) -> Result<Shape, RecipeError> {
    let mut shape = [0; 4];
    for (n, extent) in shape.iter_mut().zip(extents) {
        *n = number(extent, dims)?;
    }
    Ok(shape)
}

/// A shape of so many elements, one axis of which may be left open.
fn reshaped(extents: Extents, elements: u64, dims: &[Declared]) -> Result<Shape, RecipeError> {
    let open: Vec<usize> = (0..4).filter(|&axis| extents[axis] == Extent::Rest).collect();
    let [axis] = open[..] else {
        return match open.len() {
            0 => shape(extents, dims),
            _ => Err(RecipeError::rule("a reshape", "leaves more than one axis open")),
        };
    };
    let mut closed = extents;
    closed[axis] = Extent::Fixed(1);
    let mut shape = shape(closed, dims)?;
    let others = shape.iter().try_fold(1_u64, |product, &n| product.checked_mul(n.into())).filter(|&n| n > 0);
    let rest = others.filter(|others| elements.is_multiple_of(*others)).map(|others| elements / others);
    match rest.and_then(|rest| u32::try_from(rest).ok()) {
        Some(rest) => {
            shape[axis] = rest;
            Ok(shape)
        }
        None => Err(RecipeError::rule("a reshape", format!("{elements} elements cannot be shared out over {shape:?}"))),
    }
}

impl Built {
    /// The tensor that was made last.
    pub fn newest(&self) -> TensorId {
        TensorId(u32::try_from(self.tensors.len() - 1).expect("fewer than 2^32 tensors"))
    }

    pub fn operand(&self, tensor: TensorId) -> Result<Operand, RecipeError> {
        let missing = || RecipeError::rule(format!("tensor {}", tensor.0), "is none of this graph");
        self.tensors.get(tensor.index()).copied().ok_or_else(missing)
    }

    /// The value that a tensor is all of.
    pub fn whole(&self, tensor: TensorId) -> Result<ValueId, RecipeError> {
        let operand = self.operand(tensor)?;
        let value = &self.graph.values[operand.value.index()];
        if operand.is_whole(&value.shape) {
            return Ok(operand.value);
        }
        let rule = format!("is a view of {:?}, must be all of a tensor; a copy (CPY) makes one of it", value.name);
        Err(RecipeError::rule(format!("tensor {}", tensor.0), rule))
    }

    /// Does what a call says, or nothing.
    pub fn apply(&mut self, call: &Call, dims: &[Declared], adapters: &[Adapter]) -> Result<(), RecipeError> {
        match call {
            Call::External { name, dtype, shape: extents, role } => {
                let shape = shape(*extents, dims)?;
                let desc = Desc { dtype: *dtype, shape };
                desc.exists().map_err(|rule| RecipeError::rule(format!("tensor {name:?}"), rule))?;
                let value = self.add_external(name, desc, *role);
                self.tensors.push(self.graph.whole(value));
            }
            Call::Node { op, inputs, output } => {
                let inputs = self.operands(inputs)?;
                let name = format!("{}_{}", op.row().name.to_lowercase(), self.graph.nodes.len());
                if !op.row().updates.is_empty() {
                    let rule = "updates its operands in place, and has them as its output";
                    return Err(RecipeError::rule(op.row().name, rule));
                }
                let value = match output {
                    None => self.graph.node(name, *op, inputs.clone())?,
                    Some((dtype, extents)) => {
                        let desc = Desc { dtype: *dtype, shape: shape(*extents, dims)? };
                        self.graph.node_as(name, *op, inputs.clone(), desc)?
                    }
                };
                let value = self.adapt(op, &inputs, value, adapters)?;
                self.tensors.push(self.graph.whole(value));
            }
            Call::Copy { of, dtype } => {
                let operand = self.operand(*of)?;
                let name = format!("cpy_{}", self.graph.nodes.len());
                let desc = Desc { dtype: *dtype, shape: operand.shape };
                let value = self.graph.node_as(name, Op::Copy, vec![operand], desc)?;
                self.tensors.push(self.graph.whole(value));
            }
            Call::Into { op, inputs, target } => {
                let (inputs, target) = (self.operands(inputs)?, self.whole(*target)?);
                if !self.externals.iter().any(|external| external.value == target) {
                    let name = &self.graph.values[target.index()].name;
                    return Err(RecipeError::rule(
                        format!("tensor {name:?}"),
                        "is computed; only external ones are written",
                    ));
                }
                if op.row().updates.is_empty() {
                    let name = format!("{}_{}", op.row().name.to_lowercase(), self.graph.nodes.len());
                    self.graph.node_into(name, *op, inputs, target);
                } else {
                    let name = format!("{}.step", self.graph.values[target.index()].name);
                    self.graph.node_into(name, *op, inputs, target);
                    self.move_up();
                }
            }
            Call::View { of, view } => {
                let window = self.window(*of, *view, dims)?;
                self.tensors.push(window);
            }
            Call::Name { of, name } => {
                let value = self.whole(*of)?;
                self.graph.values[value.index()].name.clone_from(name);
                if let Some(node) = self.graph.nodes.iter_mut().rev().find(|node| node.output == value) {
                    node.name.clone_from(name);
                }
            }
            Call::Gradients { loss, wanted } => {
                let wanted = wanted.iter().map(|&tensor| self.whole(tensor)).collect::<Result<Vec<_>, _>>()?;
                let loss = self.whole(*loss)?;
                let gradients = self.graph.backward(loss, &wanted)?;
                self.externals.push(External { value: gradients.seed, role: Role::Seed });
                self.tensors.extend(gradients.wrt.iter().map(|&value| self.graph.whole(value)));
            }
            Call::Keep { of } => {
                let value = self.whole(*of)?;
                if !self.externals.iter().any(|external| external.value == value) {
                    self.graph.keep(value);
                }
            }
            Call::Pair { index } => {
                let &Pair { a, b, .. } = self.pairs.get(*index).ok_or_else(|| {
                    RecipeError::rule(format!("pair {index}"), format!("is none of the {}", self.pairs.len()))
                })?;
                self.tensors.extend([a, b].map(|value| self.graph.whole(value)));
            }
        }
        Ok(())
    }

    pub fn add_external(&mut self, name: &str, desc: Desc, role: Role) -> ValueId {
        let value = self.graph.external(name, desc.dtype, desc.shape);
        self.externals.push(External { value, role });
        value
    }

    /// Moves the last node right behind the last one that touches what it touches: no gradient lives longer than it must.
    fn move_up(&mut self) {
        let Some(node) = self.graph.nodes.pop() else { return };
        let touched = |id: ValueId| node.inputs.iter().any(|input| input.value == id);
        let touches = |other: &Node| touched(other.output) || other.inputs.iter().any(|input| touched(input.value));
        let at = self.graph.nodes.iter().rposition(touches).map_or(0, |last| last + 1);
        self.graph.nodes.insert(at, node);
    }

    fn operands(&self, tensors: &[TensorId]) -> Result<Vec<Operand>, RecipeError> {
        tensors.iter().map(|&tensor| self.operand(tensor)).collect()
    }

    fn window(&self, of: TensorId, view: View, dims: &[Declared]) -> Result<Operand, RecipeError> {
        let operand = self.operand(of)?;
        let dtype = self.graph.values[operand.value.index()].dtype;
        let refuse = |rule: String| RecipeError::rule(format!("a view of tensor {}", of.0), rule);
        if let View::Slice { axis, .. } | View::Expand { axis, .. } = view
            && axis > 3
        {
            return Err(refuse(format!("there is no axis {axis}")));
        }
        let check = |shape: Shape| Desc { dtype, shape }.exists().map_err(refuse);
        let window = match view {
            View::Reshape(extents) => {
                let shape = reshaped(extents, crate::graph::elements(&operand.shape), dims)?;
                check(shape)?;
                operand.reshape(shape)?
            }
            View::Permute(axes) => operand.permute(axes)?,
            View::Slice { axis, start, count } => operand.slice(axis, start, number(count, dims)?)?,
            View::Expand { axis, count } => operand.expand(axis, number(count, dims)?)?,
        };
        // A transposed view of blocks has none on axis 0; what reads it is told so.
        Desc { dtype: DType::F32, shape: window.shape }.exists().map_err(refuse)?;
        Ok(window)
    }
}
