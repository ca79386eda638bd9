//! The oracle as a device, to test the tests.

use fblayout::device::MatrixType;
use fblayout::graph::{Array, Contents, DType, Family, Graph, Kind, Node, Op, ValueId, decode, encode, oracle};

use crate::{Device, Outcome, Rounded};

/// Answers with the oracle's result rounded to the output's dtype, after an optional spoiling.
pub struct Reference {
    spoil: fn(&mut Array),
    rounded: Option<Rounded>,
}

impl Reference {
    /// A device without fault.
    pub fn faithful() -> Self {
        Self { spoil: |_| (), rounded: None }
    }

    /// A device whose results all pass through `spoil`.
    pub fn spoiled(spoil: fn(&mut Array)) -> Self {
        Self { spoil, rounded: None }
    }

    /// A device whose products are all by matrix units, which get their factors as far off as they may: F16 cut, BF16 rounded to nearest,
    /// parts cut.
    pub fn rounding(rounded: Rounded) -> Self {
        Self { rounded: Some(rounded), ..Self::faithful() }
    }

    /// Runs a node; what it rounded factors to.
    fn step(&self, node: &Node, graph: &Graph, contents: &mut Contents) -> Option<Rounded> {
        let count = node.inputs.len();
        // Masks, sinks and what an attention leaves for its gradients are no factors; `dy y` is summed as it is.
        let is_factor: fn(usize, usize) -> bool = match node.op {
            Op::FlashAttn(_) | Op::FlashAttnBackQ(_) => |i, _| i < 3,
            Op::FlashAttnBackKv(_) => |i, count| i < 3 || i + 1 == count,
            _ => |_, _| true,
        };
        let by_units = [Op::MulMat, Op::OutProd].contains(&node.op) || node.op.row().family == Family::Attention;
        let factors = self.rounded.filter(|_| by_units);
        match factors {
            Some(factors) => {
                let mut inputs = node.shown(contents);
                let of_products = inputs.iter_mut().enumerate().filter(|(i, _)| is_factor(*i, count));
                match factors {
                    Rounded::Bytes => {
                        let weights = graph.values[node.inputs[0].value.index()].dtype;
                        if weights.is_quantized() && node.op == Op::MulMat {
                            to_bytes(&mut inputs[1]);
                        }
                    }
                    _ => of_products.for_each(|(_, a)| *a = a.map(|x| rounded(factors, x))),
                }
                let held = oracle(&node.op, &inputs, graph.values[node.output.index()].shape);
                contents.extend(node.written().iter().copied().zip(held));
            }
            None => node.step(graph, contents),
        }
        factors
    }
}

/// A right factor as signed bytes, 32 elements of a column in multiples of a 127th of their greatest magnitude.
fn to_bytes(b: &mut Array) {
    for block in b.rows_mut().flat_map(|column| column.chunks_mut(32)) {
        let scale = block.iter().fold(0.0, |most: f64, x| most.max(x.abs())) / 127.0;
        // Beside an infinity nothing else counts.
        if scale.is_infinite() {
            continue;
        }
        block.iter_mut().for_each(|x| *x = if scale > 0.0 { (*x / scale).round() * scale } else { 0.0 });
    }
}

/// A factor as a matrix unit gets it.
fn rounded(factors: Rounded, x: f64) -> f64 {
    let (factors, dtype) = match factors {
        // 22 of 24 bits.
        Rounded::Parts => return f64::from(f32::from_bits((x as f32).to_bits() & !3)),
        Rounded::Bytes => return x,
        Rounded::To(MatrixType::F16) => (MatrixType::F16, DType::F16),
        Rounded::To(MatrixType::Bf16) => (MatrixType::Bf16, DType::BF16),
    };
    let held = |bytes: &[u8]| decode(dtype, bytes).expect("two bytes")[0];
    let mut bytes = encode(dtype, &[x as f32]).expect("plain types have blocks of one");
    if factors == MatrixType::F16 && held(&bytes).abs() > x.abs() {
        // The number below in magnitude has the bits before.
        bytes = (u16::from_le_bytes([bytes[0], bytes[1]]) - 1).to_le_bytes().to_vec();
    }
    held(&bytes)
}

/// What external values hold, given their bytes.
pub fn contents(graph: &Graph, data: &[(ValueId, Vec<u8>)]) -> Contents {
    let array = |(id, bytes): &(ValueId, Vec<u8>)| {
        let value = &graph.values[id.index()];
        debug_assert_eq!(value.kind, Kind::External);
        let data = decode(value.dtype, bytes).expect("cases use whole blocks");
        (*id, Array { shape: value.shape, data })
    };
    data.iter().map(array).collect()
}

impl Device for Reference {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        let mut contents = contents(graph, data);
        let mut rounded = None;
        for node in &graph.nodes {
            rounded = rounded.max(self.step(node, graph, &mut contents));
            for &id in node.written() {
                contents.entry(id).and_modify(self.spoil);
            }
        }
        let bytes = |id: &ValueId| {
            let numbers: Vec<f32> = contents[id].data.iter().map(|&x| x as f32).collect();
            encode(graph.values[id.index()].dtype, &numbers).map_err(|e| e.to_string())
        };
        Ok(Outcome { bytes: read.iter().map(bytes).collect::<Result<_, _>>()?, rounded })
    }
}
