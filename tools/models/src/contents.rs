//! Contents of a step's external values: random, the same for everyone.

use std::collections::HashMap;

use fblayout::graph::{BytesError, DType, Desc, Graph, Kind, ValueId, elements, encode};

use crate::{Config, Options, TrainGraph, causal_mask};

/// Decay of the first moment.
pub const BETA1: f32 = 0.9;

/// Decay of the second moment.
const BETA2: f32 = 0.999;

/// Host bytes of every external value of a training step, from a seed.
///
/// Moments are zero, so that the first moment after one step is `1 - BETA1` times the gradient. Everything else that is no id or
/// mask is random: kernels may be quicker on zeros.
///
/// # Errors
/// Rows of a quantized matrix that are no whole blocks.
pub fn contents(
    config: &Config,
    options: &Options,
    train: &TrainGraph,
    seed: u64,
) -> Result<Vec<(ValueId, Vec<u8>)>, BytesError> {
    let graph = &train.model.graph;
    let mut noise = Noise(seed);
    let mut known = known(config, options, train, &mut noise);
    let mut all = Vec::new();
    for id in graph.ids().filter(|id| graph.values[id.index()].kind == Kind::External) {
        let desc = graph.values[id.index()].desc();
        let bytes = match known.remove(&id) {
            Some(numbers) => encode(desc.dtype, &numbers)?,
            None => weights(desc, &mut noise)?,
        };
        all.push((id, bytes));
    }
    Ok(all)
}

/// What the graph's own inputs hold.
fn known(config: &Config, options: &Options, train: &TrainGraph, noise: &mut Noise) -> HashMap<ValueId, Vec<f32>> {
    let graph = &train.model.graph;
    let inputs = train.model.inputs;
    let Options { seq, batch, targets, .. } = *options;
    let mut token = || (noise.unit() * f64::from(config.vocab)) as u32;
    let tokens = (0..seq * batch).map(|_| token() as f32).collect();
    let mut labels = vec![0.0; (config.vocab * targets) as usize];
    (0..targets).for_each(|row| labels[(row * config.vocab + token()) as usize] = 1.0);
    let optimizer = vec![1e-4, BETA1, BETA2, 1e-8, 0.01, 1.0 / (1.0 - BETA1), 1.0 / (1.0 - BETA2)];
    let mut known = HashMap::from([
        (inputs.tokens, tokens),
        (inputs.positions, (0..seq).map(|p| p as f32).collect()),
        (inputs.targets, (0..targets).map(|p| p as f32).collect()),
        (inputs.labels, labels),
        (train.seed, vec![1.0]),
        (train.optimizer, optimizer),
    ]);
    let masks = [(inputs.mask, None), (inputs.local_mask, config.sliding.map(|s| s.window))];
    known.extend(masks.into_iter().filter_map(|(id, window)| Some((id?, causal_mask(seq, window)))));
    known.extend(inputs.frequency_divisors.zip(config.frequency_divisors()));
    let zeros = |id: ValueId| (id, vec![0.0; count(graph, id)]);
    known.extend(train.updates.iter().flat_map(|u| [zeros(u.m), zeros(u.v)]));
    known
}

fn count(graph: &Graph, id: ValueId) -> usize {
    elements(&graph.values[id.index()].shape) as usize
}

/// Rows of a matrix that differ; further ones repeat them, since encoding a whole vocabulary takes minutes.
const ROWS: u32 = 4096;

/// Matrices that keep activations near 1, vectors (gains and biases) near 1.
fn weights(Desc { dtype, shape }: Desc, noise: &mut Noise) -> Result<Vec<u8>, BytesError> {
    debug_assert_ne!(dtype, DType::I32, "ids are known");
    let (center, spread) = if shape[1] == 1 { (1.0, 0.1) } else { (0.0, (3.0 / f64::from(shape[0])).sqrt()) };
    let different = elements(&[shape[0], shape[1].min(ROWS), shape[2], shape[3]]) as usize;
    let numbers: Vec<f32> = (0..different).map(|_| (center + spread * (2.0 * noise.unit() - 1.0)) as f32).collect();
    let bytes = encode(dtype, &numbers)?;
    let all = (Desc { dtype, shape }).bytes() as usize;
    Ok(bytes.iter().copied().cycle().take(all).collect())
}

/// Random numbers, the same for everyone who starts from the same seed: SplitMix64 (Steele, Lea, Flood 2014).
pub struct Noise(pub u64);

impl Noise {
    /// The next one, in [0, 1).
    pub fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Training, find, train_graph};

    #[test]
    fn every_external_value_has_its_bytes() {
        let config = find("gemma-3-1b").unwrap().tiny();
        let options = Options::new(1, 6, Training::Lora { rank: 8, alpha: 8.0, base: DType::F16 });
        let train = train_graph(&config, &options).unwrap();
        let made = contents(&config, &options, &train, 1).unwrap();
        for (id, bytes) in &made {
            assert_eq!(bytes.len() as u64, train.model.graph.values[id.index()].desc().bytes());
        }
        let moments: Vec<ValueId> = train.updates.iter().flat_map(|u| [u.m, u.v]).collect();
        let zero = |(id, bytes): &&(ValueId, Vec<u8>)| !moments.contains(id) && bytes.iter().all(|&b| b == 0);
        assert_eq!(made.iter().find(zero).map(|(id, _)| *id), None, "only moments are zero");
        assert_eq!(made, contents(&config, &options, &train, 1).unwrap());
        assert_ne!(made, contents(&config, &options, &train, 2).unwrap());
    }
}
