//! Linear ops against their adjoints, both from the device: `<A x, dy> == <x, A^T dy>`.
//!
//! This needs no oracle (but for the tolerance), so that an error shared by an op and its oracle shows too.

use fblayout::graph::{Array, DType, Desc, Op, Rope, Shape, decode};

use crate::cases::PLAIN_ROPE;
use crate::{Case, Device, Failure, Fill, Outcome, Setup, tolerance};

/// A case that is linear in one operand, and the case of its adjoint on the same other operands. The two operands and the two
/// outputs are whole values, so that x pairs with the adjoint's output and dy with the op's.
#[derive(Clone, Debug)]
pub struct Adjoint {
    /// Gives `A x`.
    pub forward: Case,
    /// Operand of `forward` that holds x.
    pub x: usize,
    /// Gives `A^T dy`.
    pub backward: Case,
    /// Operand of `backward` that holds dy.
    pub dy: usize,
}

/// What one case gave, and what it was given.
struct Run {
    output: Array,
    tolerance: Array,
    argument: Array,
}

impl Adjoint {
    /// Runs both and compares the two products.
    pub fn check(&self, device: &dyn Device) -> Result<(), Failure> {
        let (y, dx) = (run(device, &self.forward, self.x)?, run(device, &self.backward, self.dy)?);
        let (forward, backward) = (pair(&y.output, &dx.argument), pair(&dx.output, &y.argument));
        let slack = |a: &Array, b: &Array| pair(a, &b.map(f64::abs));
        // The products themselves are summed in f64.
        let rounding = 1e-12 * slack(&y.output.map(f64::abs), &dx.argument);
        let bound = slack(&y.tolerance, &dx.argument) + slack(&dx.tolerance, &y.argument) + rounding;
        if (forward - backward).abs() <= bound {
            return Ok(());
        }
        let case = format!("{} against {}", self.forward.name, self.backward.name);
        Err(Failure { case, what: format!("<A x, dy> = {forward:e}, <x, A^T dy> = {backward:e} +- {bound:e}") })
    }
}

/// Sum of products of elements in linear order; the shapes may differ by a reshape.
fn pair(a: &Array, b: &Array) -> f64 {
    assert_eq!(a.data.len(), b.data.len(), "an output and what it pairs with have one number of elements");
    a.data.iter().zip(&b.data).map(|(x, y)| x * y).sum()
}

fn run(device: &dyn Device, case: &Case, argument: usize) -> Result<Run, Failure> {
    let fail = |what: String| Failure { case: case.name.clone(), what };
    let id = case.node().output;
    let desc = case.desc(id);
    let Outcome { bytes, rounded } = device.run(&case.graph, &case.data, &[id]).map_err(fail)?;
    let output = Array { shape: desc.shape, data: decode(desc.dtype, &bytes[0]).map_err(|e| fail(e.to_string()))? };
    let inputs = case.inputs();
    let tolerance = tolerance(&case.node().op, &inputs, &case.dtypes(), &case.expected(&inputs), rounded).remove(0);
    let value = case.node().inputs[argument].value;
    let (_, bytes) = case.data.iter().find(|(id, _)| *id == value).expect("operands have data");
    let Desc { dtype, shape } = case.desc(value);
    let argument = Array { shape, data: decode(dtype, bytes).expect("cases use whole blocks") };
    Ok(Run { output, tolerance, argument })
}

/// All pairs.
pub fn adjoints() -> Vec<Adjoint> {
    let mut pairs = Vec::new();
    for (dtype, fill) in [
        (DType::F32, Fill::Floats(1.0)),
        (DType::F16, Fill::Floats(1.0)),
        (DType::Q8_0, Fill::Integers),
        (DType::Q4_1, Fill::Integers),
        (DType::Q4_1, Fill::Floats(1.0)),
    ] {
        pairs.push(products(dtype, [96, 33, 1, 1], [96, 17, 1, 1], &fill));
        pairs.push(products(dtype, [64, 9, 3, 1], [64, 5, 9, 1], &fill));
    }
    for mode in [fblayout::graph::RopeMode::Normal, fblayout::graph::RopeMode::Neox] {
        pairs.push(rotations(Rope { mode, ..PLAIN_ROPE }, [64, 3, 17, 1]));
    }
    let sections = Rope { mode: fblayout::graph::RopeMode::Multi, n_dims: 24, offset: 2, ..PLAIN_ROPE };
    pairs.push(rotations(Rope { sections: [5, 4, 3, 0], ..sections }, [28, 3, 5, 1]));
    pairs.push(gathering());
    pairs.push(repeats([5, 3, 1, 1], [5, 9, 2, 1]));
    pairs.push(repeats([12, 1, 2, 1], [12, 33, 4, 1]));
    pairs.push(padding([7, 5, 2, 1], [8, 1, 0, 0], [40, 9, 2, 1]));
    let soft_max = Op::SoftMaxBack { scale: 0.7 };
    pairs.push(symmetric(soft_max, Fill::Probabilities));
    pairs.push(symmetric(Op::RmsNormBack { eps: 1e-5 }, Fill::Floats(2.0)));
    pairs
}

/// `y = w x` and `dx = w^T dy`, the heads of w shared by those of x.
fn products(dtype: DType, w: Shape, x: Shape, fill: &Fill) -> Adjoint {
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, w, fill.clone()), s.f32(x, fill.clone())];
    let forward = s.case(format!("{dtype:?} {w:?} {x:?}"), Op::MulMat, inputs);
    let mut s = Setup::new();
    let inputs = vec![s.input(dtype, w, fill.clone()), s.f32([w[1], x[1], x[2], x[3]], fill.clone()).transpose()];
    let backward = s.case(format!("{dtype:?} {w:?} {x:?}"), Op::OutProd, inputs);
    Adjoint { forward, x: 1, backward, dy: 1 }
}

fn rotations(rope: Rope, shape: Shape) -> Adjoint {
    let case = |back: bool, magnitude: f32| {
        let mut s = Setup::new();
        let positions = Fill::Ids(500);
        let count = if rope.mode.has_sections() { 4 * shape[2] } else { shape[2] };
        let inputs = vec![s.f32(shape, Fill::Floats(magnitude)), s.input(DType::I32, [count, 1, 1, 1], positions)];
        s.case(format!("{:?} {shape:?}", rope.mode), Op::Rope(Rope { back, ..rope }), inputs)
    };
    // With dy proportional to x the products would not see the sign of the sine.
    let forward = case(false, 2.0);
    let mut backward = case(true, 1.0);
    backward.data[0].1.rotate_left(4);
    Adjoint { forward, x: 0, backward, dy: 0 }
}

fn gathering() -> Adjoint {
    let (table, ids) = ([33, 9, 1, 1], 17);
    let mut s = Setup::new();
    let inputs = vec![s.f32(table, Fill::Floats(2.0)), s.input(DType::I32, [ids, 1, 1, 1], Fill::Ids(9))];
    let forward = s.case("", Op::GetRows, inputs);
    let mut s = Setup::new();
    let inputs = vec![s.f32([33, ids, 1, 1], Fill::Floats(1.0)), s.input(DType::I32, [ids, 1, 1, 1], Fill::Ids(9))];
    let backward = s.case_as("", Op::GetRowsBack, inputs, Desc::f32(table));
    Adjoint { forward, x: 0, backward, dy: 0 }
}

fn repeats(from: Shape, to: Shape) -> Adjoint {
    let mut s = Setup::new();
    let inputs = vec![s.f32(from, Fill::Floats(2.0))];
    let forward = s.case_as(format!("{from:?} to {to:?}"), Op::Repeat, inputs, Desc::f32(to));
    let mut s = Setup::new();
    let inputs = vec![s.f32(to, Fill::Floats(1.0))];
    let backward = s.case_as(format!("{to:?} to {from:?}"), Op::RepeatBack, inputs, Desc::f32(from));
    Adjoint { forward, x: 0, backward, dy: 0 }
}

/// A box set among zeros, and a copy of that box.
fn padding(x: Shape, before: Shape, y: Shape) -> Adjoint {
    let mut s = Setup::new();
    let inputs = vec![s.f32(x, Fill::Floats(2.0))];
    let forward = s.case_as(format!("{x:?} in {y:?}"), Op::Pad { before }, inputs, Desc::f32(y));
    let mut s = Setup::new();
    let all = s.f32(y, Fill::Floats(1.0));
    let cut = (0..4).try_fold(all, |window, axis| window.slice(axis, before[axis], x[axis]));
    let inputs = vec![cut.expect("the box lies within y")];
    let backward = s.case_as(format!("{x:?} of {y:?}"), Op::Copy, inputs, Desc::f32(x));
    Adjoint { forward, x: 0, backward, dy: 0 }
}

/// Jacobians of softmax and of the RMS norm are symmetric: the op is its own adjoint.
fn symmetric(op: Op, point: Fill) -> Adjoint {
    let case = |fill: Fill| {
        let mut s = Setup::new();
        let inputs = vec![s.f32([65, 5, 1, 1], fill), s.f32([65, 5, 1, 1], point.clone())];
        s.case("is symmetric", op, inputs)
    };
    Adjoint { forward: case(Fill::Floats(1.0)), x: 0, backward: case(Fill::Peaks), dy: 0 }
}
