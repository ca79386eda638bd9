//! One product: which way its factors lie, how large it is, and the graph that computes it over and over.

use fblayout::graph::{DType, Desc, Graph, GraphError, Op, Shape, ValueId};
use fblayout::plan::{Policy, StorageChoice};
use serde::Serialize;

/// Whether a factor is summed along its lanes (N, its innermost axis is k) or across them (T): first A, then B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Direction {
    a_across: bool,
    b_across: bool,
}

/// Both factors along their lanes: the forward of a layer.
pub const NN: Direction = Direction { a_across: false, b_across: false };
/// A along, B across its lanes.
pub const NT: Direction = Direction { a_across: false, b_across: true };
/// A across, B along its lanes: the gradient of a layer's input.
pub const TN: Direction = Direction { a_across: true, b_across: false };
/// Both across their lanes: the gradient of a layer's weights.
pub const TT: Direction = Direction { a_across: true, b_across: true };

impl Direction {
    /// All four, with their names.
    pub const ALL: [(&'static str, Self); 4] = [("NN", NN), ("NT", NT), ("TN", TN), ("TT", TT)];

    /// Its name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, direction)| *direction == self).map_or("", |(name, _)| name)
    }

    /// The op of the graph. Quantized weights are not seen transposed, so that A decides; B is seen transposed where it differs.
    pub fn op(self) -> Op {
        if self.a_across { Op::OutProd } else { Op::MulMat }
    }

    /// The op in words.
    pub fn words(self) -> String {
        let view = if self.a_across == self.b_across { "" } else { ", B transposed" };
        format!("{}{view}", self.op().row().name)
    }
}

impl std::str::FromStr for Direction {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|(name, _)| *name == s);
        found.map(|(_, direction)| direction).ok_or_else(|| format!("direction {s:?} is not one of NN, NT, TN, TT"))
    }
}

/// Columns (tokens), rows and terms of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Columns of the result: axis 1.
    pub n: u32,
    /// Rows of the result: axis 0.
    pub m: u32,
    /// Terms of a sum.
    pub k: u32,
}

impl Size {
    /// Multiplications and additions.
    pub fn flops(self) -> f64 {
        2.0 * f64::from(self.n) * f64::from(self.m) * f64::from(self.k)
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} x {} x {}", self.n, self.m, self.k)
    }
}

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> = s.split('x').map(|n| n.parse().ok().filter(|n| *n > 0)).collect();
        match numbers.as_deref() {
            Some(&[n, m, k]) => Ok(Self { n, m, k }),
            _ => Err(format!("shape {s:?} is not NxMxK, three numbers above zero")),
        }
    }
}

/// A product that is timed.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// The set that it belongs to.
    pub set: &'static str,
    /// What it is in its set.
    pub what: String,
    /// Cases of a set with this number the same are compared with the first of them.
    #[serde(skip)]
    pub group: usize,
    #[serde(serialize_with = "name")]
    pub direction: Direction,
    #[serde(flatten)]
    pub size: Size,
    /// Type of A; the result is F32.
    pub dtype: DType,
    /// Type of B.
    pub right: DType,
    pub storage: &'static str,
    #[serde(skip)]
    pub choice: StorageChoice,
    pub policy: Policy,
}

fn name<S: serde::Serializer>(direction: &Direction, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(direction.name())
}

/// The graph of a case.
pub struct Repeated {
    pub graph: Graph,
    /// A and B of each product, in order.
    pub factors: Vec<[ValueId; 2]>,
    /// The result of all of them.
    pub result: ValueId,
}

impl Case {
    /// A and B as they are stored.
    pub fn factors(&self) -> [Desc; 2] {
        let Size { n, m, k } = self.size;
        let stored = |across, rows| if across { [rows, k, 1, 1] } else { [k, rows, 1, 1] };
        let Direction { a_across, b_across } = self.direction;
        [Desc { dtype: self.dtype, shape: stored(a_across, m) }, Desc { dtype: self.right, shape: stored(b_across, n) }]
    }

    fn result(&self) -> Shape {
        [self.size.m, self.size.n, 1, 1]
    }

    /// Host bytes that a product reads and writes, each once.
    pub fn bytes(&self) -> u64 {
        let [a, b] = self.factors();
        a.bytes() + b.bytes() + Desc::f32(self.result()).bytes()
    }

    /// So many products, each of factors of its own, into one result: each waits for the one before it, as in a step.
    ///
    /// # Errors
    /// Shapes that the op does not take.
    pub fn graph(&self, products: u32) -> Result<Repeated, GraphError> {
        let mut graph = Graph::new();
        let result = graph.external("result", DType::F32, self.result());
        let Direction { a_across, b_across } = self.direction;
        let mut factors = Vec::new();
        for i in 0..products {
            let [a, b] = self.factors();
            let a = graph.external(format!("A {i}"), a.dtype, a.shape);
            let b = graph.external(format!("B {i}"), b.dtype, b.shape);
            let seen = graph.whole(b);
            let seen = if a_across == b_across { seen } else { seen.transpose() };
            graph.node_into(format!("product {i}"), self.direction.op(), vec![graph.whole(a), seen], result);
            factors.push([a, b]);
        }
        graph.verify()?;
        Ok(Repeated { graph, factors, result })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fblayout::graph::{Array, Contents, eval};

    fn case(direction: Direction, dtype: DType) -> Case {
        Case {
            set: "gemm",
            what: String::new(),
            group: 0,
            direction,
            size: Size { n: 3, m: 32, k: 64 },
            dtype,
            right: DType::F32,
            storage: "buffer",
            choice: StorageChoice::Buffer,
            policy: Policy::Full,
        }
    }

    /// The four directions are one product of differently stored factors.
    #[test]
    fn directions_compute_the_same() {
        let number = |row: u32, term: u32| f64::from((row * 7 + term * 3) % 5) - 2.0;
        let mut results = Vec::new();
        for (_, direction) in Direction::ALL {
            let repeated = case(direction, DType::F32).graph(2).unwrap();
            let Direction { a_across, b_across } = direction;
            let stored = |id: ValueId, across: bool| {
                let shape = repeated.graph.values[id.index()].shape;
                Array::from_fn(shape, |[x, y, ..]| if across { number(x, y) } else { number(y, x) })
            };
            let mut contents = Contents::new();
            for &[a, b] in &repeated.factors {
                contents.insert(a, stored(a, a_across));
                contents.insert(b, stored(b, b_across));
            }
            results.push(eval(&repeated.graph, contents).unwrap().remove(&repeated.result).unwrap());
        }
        assert!(results.iter().all(|result| *result == results[0]));
        assert!(results[0].data.iter().any(|x| *x != 0.0));
    }

    #[test]
    fn quantized_weights_go_every_direction() {
        for (name, direction) in Direction::ALL {
            assert!(case(direction, DType::Q8_0).graph(2).is_ok(), "{name}");
            assert_eq!(name.parse(), Ok(direction));
        }
        assert!(case(NN, DType::Q4_K).graph(1).is_err(), "64 terms are no block of 256");
        assert!("nn".parse::<Direction>().is_err());
    }

    #[test]
    fn sizes_are_columns_rows_and_terms() {
        let size: Size = "512x8192x2048".parse().unwrap();
        assert_eq!(size, Size { n: 512, m: 8192, k: 2048 });
        assert_eq!(size.flops(), 2.0 * 512.0 * 8192.0 * 2048.0);
        for bad in ["512x2", "0x1x1", "1x2x3x4", "axbxc"] {
            assert!(bad.parse::<Size>().unwrap_err().contains("NxMxK"), "{bad}");
        }
        let bytes = case(NN, DType::F16).bytes();
        assert_eq!(bytes, 2 * 32 * 64 + 4 * 3 * 64 + 4 * 3 * 32);
    }
}
