//! Handles that are numbers: tensors and extents, each with the number of its graph, so that those of another are known.

use std::sync::atomic::{AtomicU32, Ordering};

use fblayout::recipe::{Dim, Extent, Extents, TensorId};

use crate::failure::Failure;

/// A tensor of a graph: a value or a view of one. It is a number and owns nothing; it means the same in the graph that made it and in the
/// programs and trainers made of that later, and nothing elsewhere, where it is refused. What only a trainer has (`fbl_program_find`) means
/// nothing outside its program. 0 is no tensor.
pub type fbl_tensor = u64;

/// An extent of a shape: a number of elements from 1 on, or what `fbl_graph_extent` gave (which is negative), or FBL_REST.
pub type fbl_extent = i64;

/// In a reshape, one axis may have what the others leave.
pub const FBL_REST: fbl_extent = 0;

/// Places for extents of one graph.
const DIMS: i64 = 1 << 20;

/// The number of a graph, by which its handles are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Serial(u32);

impl Serial {
    /// One that no other graph has.
    pub fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub fn tensor(self, id: TensorId) -> fbl_tensor {
        u64::from(self.0) << 32 | id.index() as u64
    }

    pub fn id(self, tensor: fbl_tensor) -> Result<TensorId, Failure> {
        match tensor {
            0 => Err(Failure::argument("a tensor is 0, which is none")),
            _ if tensor >> 32 != u64::from(self.0) => {
                Err(Failure::argument(format!("tensor {tensor:#x} is of another graph, or none")))
            }
            _ => Ok(TensorId::at(tensor as u32)),
        }
    }

    pub fn ids(self, tensors: &[fbl_tensor]) -> Result<Vec<TensorId>, Failure> {
        tensors.iter().map(|&tensor| self.id(tensor)).collect()
    }

    pub fn extent(self, dim: Dim) -> Result<fbl_extent, Failure> {
        let index = dim.index() as i64;
        if index + 1 >= DIMS {
            return Err(Failure::argument("a graph has no more than a million extents"));
        }
        Ok(-(i64::from(self.0) * DIMS + index + 1))
    }

    pub fn dim(self, extent: fbl_extent) -> Result<Dim, Failure> {
        let number = extent.checked_neg().filter(|&number| number > 0 && number / DIMS == i64::from(self.0));
        let index = number.map(|number| number % DIMS - 1).and_then(|index| u32::try_from(index).ok());
        index.map(Dim::at).ok_or_else(|| Failure::argument(format!("extent {extent} is not declared in this graph")))
    }

    pub fn size(self, extent: fbl_extent) -> Result<Extent, Failure> {
        match extent {
            FBL_REST => Ok(Extent::Rest),
            1.. => match u32::try_from(extent) {
                Ok(n) => Ok(Extent::Fixed(n)),
                Err(_) => Err(Failure::argument(format!("extent {extent} is more than 32 bits count"))),
            },
            _ => self.dim(extent).map(Extent::Declared),
        }
    }

    pub fn shape(self, extents: &[fbl_extent]) -> Result<Extents, Failure> {
        let mut shape = [Extent::Fixed(1); 4];
        for (n, &extent) in shape.iter_mut().zip(extents) {
            *n = self.size(extent)?;
        }
        Ok(shape)
    }
}

/// The handles of a program. What its graph had when it was made has the graph's number; what a trainer added, which tensors that the graph
/// gets later may not be taken for, has one of its own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handles {
    graph: Serial,
    own: Serial,
    /// Tensors that the graph had.
    first: usize,
}

impl Handles {
    pub fn new(graph: Serial, first: usize) -> Self {
        Self { graph, own: Serial::next(), first }
    }

    pub fn tensor(self, id: TensorId) -> fbl_tensor {
        if id.index() < self.first { self.graph.tensor(id) } else { self.own.tensor(id) }
    }

    pub fn id(self, tensor: fbl_tensor) -> Result<TensorId, Failure> {
        if let Some(id) = self.own.id(tensor).ok().filter(|id| id.index() >= self.first) {
            return Ok(id);
        }
        let id = self.graph.id(tensor)?;
        if id.index() >= self.first {
            let rule = format!("tensor {tensor:#x} was added to its graph after the program was made");
            return Err(Failure::argument(rule));
        }
        Ok(id)
    }

    pub fn dim(self, extent: fbl_extent) -> Result<Dim, Failure> {
        self.graph.dim(extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_of_other_graphs_are_refused() {
        let (own, other) = (Serial::next(), Serial::next());
        let (tensor, extent) = (own.tensor(TensorId::at(7)), own.extent(Dim::at(3)).unwrap());
        assert_eq!(own.id(tensor).unwrap(), TensorId::at(7));
        assert_eq!(own.size(extent).unwrap(), Extent::Declared(Dim::at(3)));
        assert!(other.id(tensor).is_err() && other.size(extent).is_err() && own.id(0).is_err());
        assert_eq!(own.size(5).unwrap(), Extent::Fixed(5));
        assert_eq!(own.size(FBL_REST).unwrap(), Extent::Rest);
        assert!(own.size(1 << 40).is_err() && own.size(i64::MIN).is_err() && own.size(-1).is_err());
    }

    #[test]
    fn a_program_knows_its_own_tensors_from_those_of_its_graph() {
        let graph = Serial::next();
        let (program, other) = (Handles::new(graph, 3), Handles::new(graph, 3));
        let [had, added] = [2, 3].map(TensorId::at);
        assert_eq!(program.tensor(had), graph.tensor(had));
        assert_eq!(program.id(graph.tensor(had)).unwrap(), had);
        assert_eq!(program.id(program.tensor(added)).unwrap(), added);
        assert!(program.id(graph.tensor(added)).unwrap_err().message.contains("after the program was made"));
        assert!(graph.id(program.tensor(added)).is_err() && other.id(program.tensor(added)).is_err());
    }
}
