//! What a device rounds the factors of products to.
//!
//! Matrix units multiply 16 bits. A device that has any may round what it multiplies weights with, and weights that are not F32; ggml's CPU
//! does so too. Others round what they multiply quantized weights with to bytes, where columns are few. Nothing in ggml's interface tells, so
//! that the device is asked by products.

use anyhow::{Result, bail};
use ggml_host::{Backend, Context, Graph, Tensor, Type, Usage, quantize};

/// Extents along every axis of the product that asks: large enough for whatever a device has its units for.
const ASKED: usize = 128;

/// Columns that are few.
const FEW: usize = 8;

/// Greatest error of a term by bytes: half a step of a 127th of the greatest magnitude, 1 at most, times a weight of as much; in both, some
/// roundings of scales.
const BYTES: f64 = (1.0 + 1.0 / 1024.0) / 254.0;

/// What some products of a device round their factors to, by op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rounding {
    mul_mat: Option<Factors>,
    out_prod: Option<Factors>,
    /// Whether MUL_MAT rounds up to [`FEW`] columns to bytes where the weights are quantized.
    bytes: bool,
}

/// What a factor is rounded to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Factors {
    dtype: Type,
    /// Greatest relative error of a normal number.
    relative: f64,
    /// Greatest error of others.
    absolute: f64,
}

/// What rounding adds to the error of a product: parts of each term, and of each number that it is multiplied with.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Added {
    /// Part of the magnitude of every term.
    pub relative: f64,
    /// Error of every term whose factors are of magnitude 1 at most.
    pub absolute: f64,
}

impl Rounding {
    /// Asks a device.
    pub fn of(device: &Backend) -> Result<Rounding> {
        let [mul_mat, out_prod] = [ask(device, Context::mul_mat)?, ask(device, Context::out_prod)?];
        Ok(Rounding { mul_mat, out_prod, bytes: ask_for_bytes(device)? })
    }

    /// What it adds to the error of a node: nothing but to products, and not to those of two F32, and to attention of any types.
    ///
    /// With an error e of both factors a term is off by `(1 + e)^2 - 1`, or by e where the weights are of that type already.
    pub fn of_node(&self, node: Tensor<'_>) -> Added {
        let factors = match node.op() {
            "MUL_MAT" | "FLASH_ATTN_EXT" => self.mul_mat,
            "OUT_PROD" => self.out_prod,
            _ => None,
        };
        let sources = node.sources();
        let few = sources.get(1).is_some_and(|columns| columns.extents()[1] <= FEW);
        match (factors, sources.first().map(Tensor::dtype)) {
            (_, Some(weights)) if self.bytes && node.op() == "MUL_MAT" && weights.is_quantized() && few => {
                Added { relative: 0.0, absolute: BYTES }
            }
            (Some(Factors { dtype, relative, absolute }), Some(weights))
                if weights != Type::F32 || node.op() == "FLASH_ATTN_EXT" =>
            {
                let relative = if weights == dtype { relative } else { relative * (2.0 + relative) };
                Added { relative, absolute: 2.0 * absolute }
            }
            _ => Added::default(),
        }
    }

    /// What it adds to the results of all nodes of a graph, whose errors are independent: the root of the sum of squares.
    pub fn of_graph<'c>(&self, nodes: impl IntoIterator<Item = Tensor<'c>>) -> Added {
        let squares = nodes
            .into_iter()
            .map(|node| self.of_node(node))
            .fold([0.0; 2], |[r, a], added| [r + added.relative * added.relative, a + added.absolute * added.absolute]);
        Added { relative: squares[0].sqrt(), absolute: squares[1].sqrt() }
    }
}

impl std::fmt::Display for Rounding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = |factors: Option<Factors>| factors.map_or("none".to_owned(), |f| f.dtype.to_string());
        write!(
            f,
            "factors of weights are rounded to: {} (MUL_MAT), {} (OUT_PROD){}",
            name(self.mul_mat),
            name(self.out_prod),
            if self.bytes { ", of quantized ones and few columns to bytes" } else { "" }
        )
    }
}

/// Number by which the type shows: three quarters of a step above 1 of numbers with so many bits behind the point.
fn above_one(bits: i32) -> f32 {
    1.0 + 0.75 * 0.5f32.powi(bits)
}

/// Multiplies ones with numbers that F16 and BF16 do not hold. A sum of equal terms, a power of two of them, is exact in F32.
fn ask(device: &Backend, op: for<'c> fn(&'c Context, Tensor<'c>, Tensor<'c>) -> Tensor<'c>) -> Result<Option<Factors>> {
    let sum = |x: f32| -> Result<Option<f32>> {
        let (data, work) = (Context::new(8, 0), Context::new(8, 8));
        let ones = data.tensor(Type::F16, &[ASKED, ASKED]);
        let numbers = data.tensor(Type::F32, &[ASKED, ASKED]);
        let product = op(&work, ones, numbers);
        if !device.device().supports(product) {
            return Ok(None);
        }
        let mut graph = Graph::new(&work, 8);
        graph.expand(product.mark_output());
        data.allocate(device.device(), Usage::Any, "inputs")?;
        work.allocate(device.device(), Usage::Compute, "results")?;
        const ONE: [u8; 2] = [0, 0x3c];
        ones.set_bytes(0, &ONE.repeat(ASKED * ASKED))?;
        numbers.set_f32(&[x; ASKED * ASKED])?;
        device.compute(&graph)?;
        let sums = product.get_f32()?;
        if sums.iter().any(|&sum| sum != sums[0]) {
            bail!("sums of {ASKED} times {x} differ: {} and others", sums[0]);
        }
        Ok(Some(sums[0] / ASKED as f32))
    };
    let (half, brain) = (above_one(10), above_one(7));
    let (Some(found_half), Some(found_brain)) = (sum(half)?, sum(brain)?) else { return Ok(None) };
    match [found_half, found_brain] {
        found if found == [half, brain] => Ok(None),
        // Subnormal numbers of F16 are multiples of 2^-24.
        [found, exact] if exact == brain => {
            Ok(Some(Factors { dtype: Type::F16, relative: relative(found, 10)?, absolute: 0.5f64.powi(24) }))
        }
        [_, found] => Ok(Some(Factors { dtype: Type::BF16, relative: relative(found, 7)?, absolute: 0.0 })),
    }
}

/// Multiplies quantized ones with a column of which every 32 numbers are a 1 and others that are less than half a 127th of it.
fn ask_for_bytes(device: &Backend) -> Result<bool> {
    let (data, work) = (Context::new(8, 0), Context::new(8, 8));
    let ones = data.tensor(Type::Q8_0, &[ASKED, ASKED]);
    let column = data.tensor(Type::F32, &[ASKED, 1]);
    let product = work.mul_mat(ones, column);
    if !device.device().supports(product) {
        return Ok(false);
    }
    let mut graph = Graph::new(&work, 8);
    graph.expand(product.mark_output());
    data.allocate(device.device(), Usage::Any, "inputs")?;
    work.allocate(device.device(), Usage::Compute, "results")?;
    const LESS: f32 = 1.0 / 512.0;
    ones.set_bytes(0, &quantize(Type::Q8_0, ASKED, &[1.0; ASKED * ASKED])?)?;
    let numbers: Vec<f32> = (0..ASKED).map(|k| if k % 32 == 0 { 1.0 } else { LESS }).collect();
    column.set_f32(&numbers)?;
    device.compute(&graph)?;
    let blocks = (ASKED / 32) as f32;
    // Half of what the others add.
    let between = blocks * (1.0 + 31.0 / 2.0 * LESS);
    Ok(product.get_f32()?.iter().all(|&sum| sum < between))
}

/// Greatest relative error of numbers with so many bits behind the point, given what became of [`above_one`]: half a step where it
/// went to the nearest, a step where it was cut.
fn relative(found: f32, bits: i32) -> Result<f64> {
    let step = 0.5f32.powi(bits);
    match found {
        _ if found == 1.0 + step => Ok(f64::from(step) / 2.0),
        1.0 => Ok(f64::from(step)),
        _ => bail!("{} became {found} in a product", above_one(bits)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_told_from_what_becomes_of_a_number() {
        assert_eq!(relative(1.0, 10).unwrap(), 0.5f64.powi(10));
        assert_eq!(relative(1.0 + 0.5f32.powi(7), 7).unwrap(), 0.5f64.powi(8));
        assert!(relative(1.5, 7).is_err());
    }

    #[test]
    fn products_of_weights_alone_are_rounded() {
        let brain = Factors { dtype: Type::BF16, relative: 0.5f64.powi(8), absolute: 0.0 };
        let rounding = Rounding { mul_mat: None, out_prod: Some(brain), bytes: false };
        let context = Context::new(16, 0);
        let of = |weights| {
            let [a, b] = [weights, Type::F32].map(|dtype| context.tensor(dtype, &[32, 4]));
            (context.mul_mat(a, b), context.out_prod(a, b))
        };
        let (product, outer) = of(Type::Q8_0);
        assert_eq!(rounding.of_node(product), Added::default());
        assert_eq!(rounding.of_node(outer).relative, 257.0f64.powi(2) / 65536.0 - 1.0);
        assert_eq!(rounding.of_node(of(Type::BF16).1).relative, 0.5f64.powi(8));
        assert_eq!(rounding.of_node(of(Type::F32).1), Added::default());
        let bytes = Rounding { bytes: true, ..rounding };
        assert_eq!(bytes.of_node(product).absolute, BYTES);
        assert_eq!(bytes.of_node(outer), rounding.of_node(outer));
        assert_eq!(bytes.of_node(of(Type::F16).0), Added::default());
    }
}
