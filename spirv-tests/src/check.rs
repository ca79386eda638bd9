//! Runs cases on a device and compares with the oracle.

use std::fmt;

use fblayout::device::MatrixType;
use fblayout::graph::{Array, DType, Graph, ValueId, decode, encode};

use crate::{Case, tolerance};

/// Something that runs a graph of one node.
pub trait Device {
    /// Runs the graph once on the data and returns the host bytes of `read`, in order.
    ///
    /// A device that owns memory poisons what it can before the run, and reports writes outside the outputs and padding that
    /// is not zero as errors.
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String>;
}

/// What products take of their factors, the finest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rounded {
    /// Factors of F32 in two parts of F16.
    Parts,
    /// Factors rounded to that type.
    To(MatrixType),
    /// The right factor of quantized weights rounded to signed bytes, with a scale for 32 of k.
    Bytes,
}

/// What a run left.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Host bytes of the values asked for.
    pub bytes: Vec<Vec<u8>>,
    /// What products rounded their factors to for matrix units or as bytes, if any of them did; of several the coarsest.
    pub rounded: Option<Rounded>,
}

/// A case that does not agree with its oracle.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Name of the case.
    pub case: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.case, self.what)
    }
}

/// Runs one case. The error names the worst element, its tolerance, and how many are out of it.
pub fn check(device: &dyn Device, case: &Case) -> Result<(), Failure> {
    let fail = |what: String| Failure { case: case.name.clone(), what };
    let outputs = case.outputs();
    let inputs = case.inputs();
    let expected = case.expected(&inputs);
    let outcome = device.run(&case.graph, &case.data, &outputs).map_err(fail)?;
    let bounds = tolerance(&case.node().op, &inputs, &case.dtypes(), &expected, outcome.rounded);
    assert_eq!(bounds.len(), outputs.len(), "{}: one tolerance per output", case.name);
    for (i, id) in outputs.iter().enumerate() {
        let dtype = case.desc(*id).dtype;
        let got = decode(dtype, &outcome.bytes[i]).map_err(|e| fail(e.to_string()))?;
        let expected = rounded(dtype, &expected[i]);
        let output = if outputs.len() > 1 { format!("output {i}: ") } else { String::new() };
        compare(&got, &expected, &bounds[i]).map_err(|what| fail(output + &what))?;
    }
    Ok(())
}

/// Runs all cases and returns every failure.
pub fn check_all<'a>(device: &dyn Device, cases: impl IntoIterator<Item = &'a Case>) -> Vec<Failure> {
    cases.into_iter().filter_map(|case| check(device, case).err()).collect()
}

/// The oracle's result as the output's dtype can hold it; F32 outputs are compared unrounded, and
/// those in blocks hold what they can hold.
fn rounded(dtype: DType, expected: &Array) -> Array {
    if dtype == DType::F32 || dtype.is_quantized() {
        return expected.clone();
    }
    let numbers: Vec<f32> = expected.data.iter().map(|&x| x as f32).collect();
    let bytes = encode(dtype, &numbers).expect("plain types have blocks of one");
    Array { shape: expected.shape, data: decode(dtype, &bytes).expect("as many bytes as encoded") }
}

pub(crate) fn compare(got: &[f64], expected: &Array, bound: &Array) -> Result<(), String> {
    if got.len() != expected.data.len() {
        return Err(format!("has {} elements instead of {}", got.len(), expected.data.len()));
    }
    // How far out of tolerance: at most 1 is within; a NaN or an infinity where none belongs is infinitely far.
    let excess = |i: usize| {
        let (got, want, bound) = (got[i], expected.data[i], bound.data[i]);
        if got == want || (got.is_nan() && want.is_nan()) {
            0.0
        } else if got.is_finite() && want.is_finite() {
            (got - want).abs() / bound
        } else {
            f64::INFINITY
        }
    };
    let outside: Vec<usize> = (0..got.len()).filter(|&i| excess(i) > 1.0).collect();
    match outside.iter().copied().max_by(|&a, &b| excess(a).total_cmp(&excess(b))) {
        None => Ok(()),
        Some(worst) => {
            let [n0, n1, n2, _] = expected.shape.map(|n| n as usize);
            let index = [worst % n0, worst / n0 % n1, worst / (n0 * n1) % n2, worst / (n0 * n1 * n2)];
            Err(format!(
                "{} of {} elements of {:?} out of tolerance, first at {}; at {index:?} {:e} instead of {:e} +- {:e}",
                outside.len(),
                got.len(),
                expected.shape,
                outside[0],
                got[worst],
                expected.data[worst],
                bound.data[worst],
            ))
        }
    }
}
