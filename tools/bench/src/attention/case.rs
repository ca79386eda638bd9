//! One attention: its extents, and the graphs that compute it, with its gradients or without, as products and a softmax or in one sweep.

use fblayout::graph::{DType, Desc, FlashAttn, Graph, GraphError, Op, Operand, ValueId};
use serde::Serialize;

use crate::Failure;

/// What of an attention is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// The result.
    Forward,
    /// The result and the gradients of queries, keys and values.
    Training,
}

/// An attention with a causal mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Case {
    pub what: What,
    /// In one sweep, instead of as products and a softmax.
    pub fused: bool,
    /// Keys.
    pub tokens: u32,
    /// Queries: those of the last tokens.
    pub queries: u32,
    /// Elements of a head.
    pub size: u32,
    pub heads: u32,
    pub kv_heads: u32,
    /// Type of keys and values.
    pub dtype: DType,
}

/// A graph, and what its external values hold.
pub struct Made {
    pub graph: Graph,
    /// Values that hold anything.
    pub given: Vec<ValueId>,
    pub mask: ValueId,
}

impl Case {
    /// Multiplications and additions of pairs that see each other: two products forward, five more backward.
    pub fn flops(&self) -> f64 {
        let [tokens, queries] = [self.tokens, self.queries].map(f64::from);
        let pairs = queries * (tokens - (queries - 1.0) / 2.0) * f64::from(self.heads);
        let products = match self.what {
            What::Forward => 2.0,
            What::Training => 7.0,
        };
        2.0 * products * pairs * f64::from(self.size)
    }

    /// Its graph. Training is written as hosts do, as products and a softmax; engines replace it where they are asked to.
    ///
    /// # Errors
    /// Extents that the ops do not take.
    pub fn graph(&self) -> Result<Made, Failure> {
        let Self { what, fused, tokens, queries, size, heads, kv_heads, dtype } = *self;
        let mut graph = Graph::new();
        let q = graph.external("q", DType::F32, [size, heads, queries, 1]);
        let [k, v] = ["k", "v"].map(|name| graph.external(name, dtype, [size, kv_heads, tokens, 1]));
        let mask = graph.external("mask", DType::F16, [tokens, queries, 1, 1]);
        let by_head = |graph: &Graph, id: ValueId| graph.whole(id).permute([0, 2, 1, 3]);
        let [rows, keys, values] = [by_head(&graph, q)?, by_head(&graph, k)?, by_head(&graph, v)?];
        let scale = 1.0 / (size as f32).sqrt();
        let mut given = vec![q, k, v];
        if fused && what == What::Forward {
            let attention = FlashAttn { scale, max_bias: 0.0, softcap: 0.0, mask: true, sinks: false, logs: false };
            let y = graph.node("y", Op::FlashAttn(attention), vec![rows, keys, values, graph.whole(mask)])?;
            graph.keep(y);
            graph.verify()?;
            return Ok(Made { graph, given, mask });
        }
        let node = |graph: &mut Graph, name: &str, op: Op, inputs: Vec<Operand>| -> Result<Operand, GraphError> {
            let id = graph.node(name, op, inputs)?;
            Ok(graph.whole(id))
        };
        let scores = node(&mut graph, "scores", Op::MulMat, vec![keys, rows])?;
        let seen = graph.whole(mask);
        let weights = node(&mut graph, "weights", Op::soft_max(scale), vec![scores, seen])?;
        let y = node(&mut graph, "y", Op::MulMat, vec![values.transpose(), weights])?;
        let joined = Desc::f32([size * heads, queries, 1, 1]);
        let joined = graph.node_as("joined", Op::Copy, vec![y.permute([0, 2, 1, 3])?], joined)?;
        graph.keep(joined);
        if what == What::Training {
            let gradients = graph.backward(joined, &[q, k, v])?;
            gradients.wrt.iter().for_each(|&id| graph.keep(id));
            given.push(gradients.seed);
        }
        graph.verify()?;
        Ok(Made { graph, given, mask })
    }

    /// Bytes of the mask: no token sees later ones.
    pub fn mask(&self) -> Vec<u8> {
        /// Minus infinity.
        const HIDDEN: [u8; 2] = 0xfc00_u16.to_le_bytes();
        let [tokens, queries] = [self.tokens, self.queries].map(|n| n as usize);
        let mut bytes = HIDDEN.repeat(tokens * queries);
        for (query, row) in (tokens - queries..).zip(bytes.chunks_exact_mut(2 * tokens)) {
            row[..2 * (query + 1)].fill(0);
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fblayout::graph::{Array, Contents, decode, eval};

    const SMALL: Case = Case {
        what: What::Forward,
        fused: true,
        tokens: 5,
        queries: 5,
        size: 8,
        heads: 4,
        kv_heads: 2,
        dtype: DType::F32,
    };

    fn result(case: &Case) -> Array {
        let Made { graph, given, mask } = case.graph().unwrap();
        let mut contents = Contents::new();
        for (i, id) in given.into_iter().enumerate() {
            let number = |[x, y, z, _]: [u32; 4]| f64::from((x * 7 + y * 5 + z * 3 + i as u32) % 11) / 5.0 - 1.0;
            contents.insert(id, Array::from_fn(graph.values[id.index()].shape, number));
        }
        let shape = graph.values[mask.index()].shape;
        let data = decode(DType::F16, &case.mask()).unwrap();
        contents.insert(mask, Array { shape, data });
        eval(&graph, contents).unwrap().remove(&graph.kept[0]).unwrap()
    }

    /// Rounded off are 1e-12 of sums of a few numbers near 1.
    #[test]
    fn both_ways_compute_the_same() {
        for queries in [5, 2] {
            let [fused, unfused] = [true, false].map(|fused| result(&Case { fused, queries, ..SMALL }));
            let far = fused.data.iter().zip(&unfused.data).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            assert!(far < 1e-12 && fused.data.iter().any(|x| x.abs() > 0.1), "{far}");
        }
    }

    #[test]
    fn training_has_three_gradients() {
        let made = Case { what: What::Training, ..SMALL }.graph().unwrap();
        assert_eq!((made.graph.kept.len(), made.given.len()), (4, 4));
    }

    #[test]
    fn pairs_that_do_not_see_each_other_are_no_work() {
        let case = Case { tokens: 2, queries: 2, size: 1, heads: 1, ..SMALL };
        assert_eq!(case.flops(), 12.0);
        assert_eq!(Case { queries: 1, ..case }.flops(), 8.0);
        assert_eq!(Case { what: What::Training, ..case }.flops(), 42.0);
        assert_eq!(decode(DType::F16, &case.mask()).unwrap(), [0.0, f64::NEG_INFINITY, 0.0, 0.0]);
        assert_eq!(decode(DType::F16, &Case { queries: 1, ..case }.mask()).unwrap(), [0.0, 0.0]);
    }
}
