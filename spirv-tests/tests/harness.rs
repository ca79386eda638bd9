//! The tests of the tests: every op has cases, an oracle passes them, and a spoiled one does not.

use fblayout::device::MatrixType;
use fblayout::graph::{Array, DType, Family, Graph, Op, ROWS, ValueId, encode};
use fblayout_spirv_tests::{Case, Device, Outcome, Reference, Rounded, adjoints, cases, check, check_all};

#[test]
fn every_op_has_cases_in_its_family() {
    for row in ROWS {
        let cases = cases::of(row.family);
        assert!(cases.iter().any(|c| std::ptr::eq(c.node().op.row(), *row)), "{} has no case", row.name);
    }
    let strays =
        cases::families().flat_map(|f| cases::of(f).into_iter().filter(move |c| c.node().op.row().family != f));
    assert_eq!(strays.map(|c| c.name).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_oracle_rounded_to_f32_passes_every_case() {
    for cases in cases::families().map(cases::of).chain([cases::stored()]) {
        let failures = check_all(&Reference::faithful(), &cases);
        assert!(failures.is_empty(), "{failures:#?}");
    }
}

/// A device that rounds factors and does not say so.
struct Silent(Reference);

impl Device for Silent {
    fn run(&self, graph: &Graph, data: &[(ValueId, Vec<u8>)], read: &[ValueId]) -> Result<Outcome, String> {
        Ok(Outcome { rounded: None, ..self.0.run(graph, data, read)? })
    }
}

/// Products of rounded factors are within the bounds that are derived for them, and beyond those of F32 wherever rounding shows.
#[test]
fn factors_rounded_for_matrix_units_pass_as_such_alone() {
    let product = |case: &Case| matches!(case.node().op, Op::MulMat | Op::OutProd) && bytes(case) < 1 << 17;
    let products: Vec<Case> = cases::of(Family::Gemm).into_iter().chain(cases::stored()).filter(product).collect();
    // Attention as well, whose factors are F16.
    let half = Rounded::To(MatrixType::F16);
    let failures = check_all(&Reference::rounding(half), &cases::of(Family::Attention));
    assert!(failures.is_empty(), "{failures:#?}");
    let failures = check_all(&Reference::rounding(Rounded::Parts), &products);
    assert!(failures.is_empty(), "{failures:#?}");
    let failures = check_all(&Reference::rounding(Rounded::Bytes), products.iter().chain(&cases::dots()));
    assert!(failures.is_empty(), "{failures:#?}");
    // What F16 cannot hold is not rounded to it.
    let products: Vec<Case> = products.into_iter().filter(|case| !case.name.contains("range of F32")).collect();
    for factors in [half, Rounded::To(MatrixType::Bf16)] {
        let failures = check_all(&Reference::rounding(factors), &products);
        assert!(failures.is_empty(), "{factors:?}: {failures:#?}");
        let silent = Silent(Reference::rounding(factors));
        let found = check_all(&silent, &products);
        let floats = products.iter().filter(|case| case.name.contains("floats"));
        let missed: Vec<_> =
            floats.map(|case| &case.name).filter(|&name| found.iter().all(|failure| failure.case != *name)).collect();
        assert!(missed.is_empty(), "{factors:?}: {missed:#?}");
        for pair in adjoints() {
            pair.check(&Reference::rounding(factors)).unwrap_or_else(|failure| panic!("{factors:?}: {failure}"));
        }
    }
}

/// Bytes of all operands.
fn bytes(case: &Case) -> usize {
    case.data.iter().map(|(_, bytes)| bytes.len()).sum()
}

type Spoil = fn(&mut Array);

/// Faults a kernel could have, each of which must fail every case that it changes.
#[test]
fn spoiled_results_fail_every_case() {
    // Sums over rows of a vocabulary, or over long heads in an exponent, may be off by some tenths of a percent.
    let spoils: [(&str, Spoil, u32); 5] = [
        ("last element zero", |a| *a.data.last_mut().unwrap() = 0.0, u32::MAX),
        ("last element NaN", |a| *a.data.last_mut().unwrap() = f64::NAN, u32::MAX),
        ("all elements larger by 0.2 %", |a| *a = a.map(|x| x * 1.002), 500),
        ("all elements larger by 5 %", |a| *a = a.map(|x| x * 1.05), u32::MAX),
        ("elements one place on", |a| a.data.rotate_right(1), u32::MAX),
    ];
    for (name, spoil, longest_row) in spoils {
        let short = |case: &Case| case.node().inputs.iter().all(|i| i.shape[0] <= longest_row);
        // The largest operands add nothing here but time.
        let small = |case: &Case| bytes(case) < 1 << 20;
        // Encoding in blocks takes back faults that no single element shows.
        let plain = |case: &Case| !case.desc(case.node().output).dtype.is_quantized();
        let all = cases::families().flat_map(cases::of).chain(cases::stored());
        for case in all.filter(|c| short(c) && small(c) && plain(c)) {
            let dtype = case.desc(case.node().output).dtype;
            let held = |x: f64| encode(dtype, &[x as f32]).expect("outputs are of plain types");
            // What encoding takes back is no fault.
            let moved = |x: f64, y: f64| match dtype {
                DType::F32 | DType::F16 => y.is_nan() || (x - y).abs() > 1e-3 * x.abs(),
                _ => held(x) != held(y),
            };
            let changed = case.expected(&case.inputs()).iter().any(|held| {
                let mut spoiled = held.clone();
                spoil(&mut spoiled);
                // Gradients of norms and softmax of one element are the difference of equal terms: rounding is all there is.
                let cancelled = held.shape[0] == 1 && case.node().op.row().family == Family::Rows;
                !cancelled && held.data.iter().zip(&spoiled.data).any(|(&x, &y)| moved(x, y))
            });
            if changed {
                assert!(check(&Reference::spoiled(spoil), &case).is_err(), "{} passes with {name}", case.name);
            }
        }
    }
}

#[test]
fn adjoint_pairs_of_the_oracle_agree_and_spoiled_ones_do_not() {
    for pair in adjoints() {
        if let Err(failure) = pair.check(&Reference::faithful()) {
            panic!("{failure}");
        }
        let shifted = Reference::spoiled(|a| a.data.rotate_right(1));
        assert!(pair.check(&shifted).is_err(), "{} passes shifted", pair.forward.name);
    }
}
