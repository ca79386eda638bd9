//! Adapters: low-rank pairs beside frozen weights, `y = W x + alpha / rank * B (A x)`.

use super::call::Built;
use super::{RecipeError, Role};
use crate::graph::{Binary, Desc, Op, Operand, ValueId};

/// Which weights get pairs, and of what rank.
#[derive(Clone, Debug, PartialEq)]
pub struct Adapter {
    /// Name of the weights; `*` stands for any letters: `blk.*.attn_q.weight`.
    pub weights: String,
    /// Columns of A, rows of B.
    pub rank: u32,
    /// The pair's product is scaled by `alpha / rank`.
    pub alpha: f32,
}

/// A pair: A `[k, rank]` and B `[rank, m]` beside a weight `[k, m]`, named `WEIGHT.lora_a` and `WEIGHT.lora_b`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The frozen weight.
    pub weight: ValueId,
    /// Down to the rank.
    pub a: ValueId,
    /// Up to the output.
    pub b: ValueId,
}

impl Adapter {
    /// Whether it is for the weight of that name.
    pub fn means(&self, name: &str) -> bool {
        matches(&self.weights, name)
    }

    pub(super) fn check(&self) -> Result<(), RecipeError> {
        let refuse = |rule: String| Err(RecipeError::rule(format!("adapter {:?}", self.weights), rule));
        match self {
            Self { rank: 0, .. } => refuse("its rank is 0, must be at least 1".into()),
            Self { alpha, .. } if !alpha.is_finite() => refuse(format!("its alpha is {alpha}, must be a number")),
            _ => Ok(()),
        }
    }
}

/// Whether a name is what a pattern says, whose stars stand for any letters.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut name) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match name.find(part) {
            Some(at) => name = &name[at + part.len()..],
            None => return false,
        }
    }
    name.ends_with(last)
}

impl Built {
    /// The sum of a product and its weight's pair, where an adapter means the weight; else the product.
    pub fn adapt(
        &mut self,
        op: &Op,
        inputs: &[Operand],
        product: ValueId,
        adapters: &[Adapter],
    ) -> Result<ValueId, RecipeError> {
        let (Op::MulMat, &[weight, x]) = (op, inputs) else { return Ok(product) };
        let value = &self.graph.values[weight.value.index()];
        let external = self.externals.iter().any(|external| external.value == weight.value);
        let matrix = value.shape[2..] == [1, 1] && weight.is_whole(&value.shape);
        let Some(adapter) = adapters.iter().find(|adapter| external && matrix && adapter.means(&value.name)) else {
            return Ok(product);
        };
        let (name, [inputs, outputs, ..]) = (value.name.clone(), value.shape);
        let pair = match self.pairs.iter().find(|pair| pair.weight == weight.value) {
            Some(&pair) => pair,
            None => {
                let halves = [("lora_a", [inputs, adapter.rank, 1, 1]), ("lora_b", [adapter.rank, outputs, 1, 1])];
                let [a, b] = halves.map(|(suffix, shape)| (format!("{name}.{suffix}"), Desc::f32(shape)));
                let a = self.add_external(&a.0, a.1, Role::Parameter);
                let b = self.add_external(&b.0, b.1, Role::Parameter);
                let pair = Pair { weight: weight.value, a, b };
                self.pairs.push(pair);
                pair
            }
        };
        let g = &mut self.graph;
        let down = g.node(format!("{name}.lora_a"), Op::MulMat, vec![g.whole(pair.a), x])?;
        let up = g.node(format!("{name}.lora_b"), Op::MulMat, vec![g.whole(pair.b), g.whole(down)])?;
        let scale = Op::Scale { scale: adapter.alpha / adapter.rank as f32, bias: 0.0 };
        let scaled = g.node(format!("{name}.lora"), scale, vec![g.whole(up)])?;
        let sum = vec![g.whole(product), g.whole(scaled)];
        Ok(g.node(format!("{name}.adapted"), Op::Binary(Binary::Add), sum)?)
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn stars_stand_for_any_letters() {
        for (pattern, name, expected) in [
            ("w", "w", true),
            ("w", "ww", false),
            ("*", "", true),
            ("blk.*.attn_q.weight", "blk.11.attn_q.weight", true),
            ("blk.*.attn_*.weight", "blk.0.attn_k.weight", true),
            ("blk.*.attn_*.weight", "blk.0.ffn_up.weight", false),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("*b*", "abc", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
