//! The gradient oracles against their forward oracles: adjoint pairs for linear ops, central differences for the others.

use crate::graph::{Array, Desc, Op, Rope, RopeMode, Shape, Unary, infer, oracle};

/// Values in about [-2, 2] that repeat nowhere.
fn array(shape: Shape, seed: u32) -> Array {
    let mut state = u64::from(seed);
    Array::from_fn(shape, |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 22) - 2.0
    })
}

fn run(op: Op, inputs: &[&Array], output: Shape) -> Array {
    let inputs: Vec<Array> = inputs.iter().map(|&a| a.clone()).collect();
    oracle(&op, &inputs, output).remove(0)
}

#[track_caller]
fn assert_close(a: f64, b: f64, scale: f64) {
    assert!((a - b).abs() <= 1e-12 * scale.max(1.0), "{a} against {b}");
}

/// Gradient of `sum(dy * f(x))` by central differences; the step leaves an error of about its square.
#[track_caller]
fn assert_gradient(f: impl Fn(&Array) -> Array, x: &Array, dy: &Array, dx: &Array) {
    let step = 1e-5;
    for i in 0..x.data.len() {
        let at = |x_i: f64| {
            let mut x = x.clone();
            x.data[i] = x_i;
            f(&x).dot(dy)
        };
        let difference = (at(x.data[i] + step) - at(x.data[i] - step)) / (2.0 * step);
        assert!((difference - dx.data[i]).abs() <= 1e-8, "element {i}: {difference} against {}", dx.data[i]);
    }
}

#[test]
fn out_prod_is_the_adjoint_of_mul_mat() {
    // Four heads of b share each of the two of a.
    let (w, x, dy) = (array([7, 5, 2, 1], 1), array([7, 3, 8, 2], 2), array([5, 3, 8, 2], 3));
    let y = run(Op::MulMat, &[&w, &x], dy.shape);
    // dx[k, n] = sum_m w[k, m] dy[m, n], so operand 1 is dy transposed.
    let dy_t = Array::from_fn([3, 5, 8, 2], |[n, m, h, b]| dy.at([m, n, h, b]));
    let dx = run(Op::OutProd, &[&w, &dy_t], x.shape);
    assert_close(y.dot(&dy), x.dot(&dx), x.dot(&x));
    // dw[k, m] = sum_n x[k, n] dy[m, n] over the heads that share it.
    let per_head = run(Op::OutProd, &[&x, &dy], [7, 5, 8, 2]);
    let blocks = Array::from_fn([7, 5, 2, 1], |[k, m, h, _]| {
        (0..2).flat_map(|b| (0..4).map(move |r| (h * 4 + r, b))).map(|(h, b)| per_head.at([k, m, h, b])).sum()
    });
    assert_close(y.dot(&dy), w.dot(&blocks), x.dot(&x));
}

#[test]
fn rope_back_is_the_adjoint_of_rope() {
    for (mode, n_dims, ext_factor) in [(RopeMode::Normal, 8, 0.0), (RopeMode::Neox, 8, 1.0), (RopeMode::Neox, 6, 0.5)] {
        let rope = Rope {
            mode,
            n_dims,
            offset: 0,
            sections: [0; 4],
            n_ctx_orig: 64,
            freq_base: 100.0,
            freq_scale: 0.5,
            ext_factor,
            attn_factor: 1.25,
            beta_fast: 8.0,
            beta_slow: 1.0,
            back: false,
        };
        let (x, dy) = (array([8, 2, 5, 2], 1), array([8, 2, 5, 2], 2));
        let positions = Array::from_fn([5, 1, 1, 1], |i| f64::from(i[0]) * 7.0);
        let factors = Array::from_fn([4, 1, 1, 1], |i| 1.0 + f64::from(i[0]));
        let y = run(Op::Rope(rope), &[&x, &positions, &factors], x.shape);
        let dx = run(Op::Rope(Rope { back: true, ..rope }), &[&dy, &positions, &factors], x.shape);
        assert_close(y.dot(&dy), x.dot(&dx), x.dot(&x));
    }
}

#[test]
fn rope_rotates_by_the_position() {
    let rope = Rope::plain(RopeMode::Normal, 4, 64, 16.0);
    let x = Array { shape: [6, 1, 1, 1], data: vec![1.0, 0.0, 0.0, 1.0, 5.0, 6.0] };
    let position = Array { shape: [1; 4], data: vec![3.0] };
    let y = run(Op::Rope(rope), &[&x, &position], x.shape);
    // Pair 0 turns by 3, pair 1 by 3 / sqrt(16); elements from n_dims on are copied.
    let want = [3.0_f64.cos(), 3.0_f64.sin(), -0.75_f64.sin(), 0.75_f64.cos(), 5.0, 6.0];
    y.data.iter().zip(want).for_each(|(&y, want)| assert_close(y, want, 1.0));
}

#[test]
fn scattering_is_the_adjoint_of_gathering() {
    let (table, dy) = (array([5, 6, 1, 1], 1), array([5, 4, 1, 1], 2));
    let ids = Array { shape: [4, 1, 1, 1], data: vec![2.0, 5.0, 2.0, 0.0] };
    let y = run(Op::GetRows, &[&table, &ids], dy.shape);
    let d_table = run(Op::GetRowsBack, &[&dy, &ids], table.shape);
    assert_close(y.dot(&dy), table.dot(&d_table), 1.0);
    assert_eq!(y.at([3, 2, 0, 0]), table.at([3, 2, 0, 0]));
}

#[test]
fn repeat_back_is_the_adjoint_of_repeat() {
    let (x, dy) = (array([3, 1, 2, 1], 1), array([6, 5, 2, 2], 2));
    let y = run(Op::Repeat, &[&x], dy.shape);
    let dx = run(Op::RepeatBack, &[&dy], x.shape);
    assert_close(y.dot(&dy), x.dot(&dx), 1.0);
}

#[test]
fn silu_back_is_the_gradient_of_silu() {
    let (x, dy) = (array([9, 2, 1, 1], 1), array([9, 2, 1, 1], 2));
    let dx = run(Op::SiluBack, &[&dy, &x], x.shape);
    assert_gradient(|x| run(Op::Unary(Unary::Silu), &[x], x.shape), &x, &dy, &dx);
    assert_eq!(
        run(Op::SwiGlu, &[&x, &dy], x.shape),
        run(Op::Unary(Unary::Silu), &[&x], x.shape).zip(&dy, |a, b| a * b)
    );
}

#[test]
fn gelu_is_its_tanh_approximation() {
    let (x, dy) = (array([9, 2, 1, 1], 1), array([9, 2, 1, 1], 2));
    let y = run(Op::Unary(Unary::Gelu), &[&x], x.shape);
    let u = |x: f64| (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
    x.data.iter().zip(&y.data).for_each(|(&x, &y)| assert_close(y, 0.5 * x * (1.0 + u(x).tanh()), 1.0));
    assert_gradient(|x| run(Op::Unary(Unary::Gelu), &[x], x.shape), &x, &dy, &run(Op::GeluBack, &[&dy, &x], x.shape));
    assert_eq!(run(Op::GeGlu, &[&x, &dy], x.shape), y.zip(&dy, |a, b| a * b));
}

#[test]
fn padding_sets_a_box_that_must_fit() {
    let x = Array { shape: [2, 1, 1, 1], data: vec![1.0, 2.0] };
    let op = Op::Pad { before: [1, 1, 0, 0] };
    let desc = infer(&op, &[Desc::f32(x.shape)], Some(Desc::f32([4, 2, 1, 1]))).unwrap();
    assert_eq!(run(op, &[&x], desc.shape).data, [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 2.0, 0.0]);
    let error = infer(&op, &[Desc::f32(x.shape)], Some(Desc::f32([4, 1, 1, 1]))).unwrap_err().to_string();
    assert_eq!(error, "PAD: output: axis 1 of [4, 1, 1, 1] must hold [2, 1, 1, 1] after [1, 1, 0, 0] elements");
}

#[test]
fn rms_norm_back_is_the_gradient_of_rms_norm() {
    let (x, dy, eps) = (array([9, 2, 1, 1], 1), array([9, 2, 1, 1], 2), 0.1);
    let dx = run(Op::RmsNormBack { eps }, &[&dy, &x], x.shape);
    assert_gradient(|x| run(Op::RmsNorm { eps }, &[x], x.shape), &x, &dy, &dx);
}

#[test]
fn soft_max_back_is_the_gradient_of_soft_max() {
    let (x, dy, scale) = (array([5, 3, 4, 1], 1), array([5, 3, 4, 1], 2), 0.7);
    let mask = Array::from_fn([5, 4, 2, 1], |[k, q, ..]| if k > q + 1 { f64::NEG_INFINITY } else { 0.25 });
    let forward = |x: &Array| run(Op::soft_max(scale), &[x, &mask], x.shape);
    let y = forward(&x);
    assert!(y.rows().all(|row| (row.iter().sum::<f64>() - 1.0).abs() < 1e-14));
    assert_gradient(forward, &x, &dy, &run(Op::SoftMaxBack { scale }, &[&dy, &y], x.shape));
}

#[test]
fn a_masked_row_is_zero() {
    let x = Array { shape: [2, 2, 1, 1], data: vec![1.0, 1.0, f64::NEG_INFINITY, f64::NEG_INFINITY] };
    assert_eq!(run(Op::soft_max(1.0), &[&x], x.shape).data, [0.5, 0.5, 0.0, 0.0]);
}

#[test]
fn cross_entropy_back_is_the_gradient_of_cross_entropy() {
    let (x, g) = (array([7, 3, 1, 1], 1), Array { shape: [1; 4], data: vec![1.5] });
    // Rows of labels sum to 1, which the gradient assumes.
    let labels = Array::from_fn(x.shape, |[i, row, ..]| {
        if i == row * 2 {
            0.75
        } else if i == 6 {
            0.25
        } else {
            0.0
        }
    });
    let dx = run(Op::CrossEntropyLossBack, &[&g, &x, &labels], x.shape);
    assert_gradient(|x| run(Op::CrossEntropyLoss, &[x, &labels], [1; 4]), &x, &g, &dx);
}

#[test]
fn adamw_first_step_moves_by_the_learning_rate() {
    let (w, g) = (array([4, 1, 1, 1], 1), array([4, 1, 1, 1], 2));
    let zero = Array::zeros(w.shape);
    let (alpha, beta1, beta2, wd) = (0.01, 0.9, 0.999, 0.1);
    let p = Array {
        shape: [7, 1, 1, 1],
        data: vec![alpha, beta1, beta2, 0.0, wd, 1.0 / (1.0 - beta1), 1.0 / (1.0 - beta2)],
    };
    let new = oracle(&Op::AdamW, &[w.clone(), g.clone(), zero.clone(), zero, p], w.shape);
    let want = w.zip(&g, |w, g| w * (1.0 - alpha * wd) - alpha * g.signum());
    new[0].data.iter().zip(want.data).for_each(|(&w, want)| assert_close(w, want, 1.0));
    assert_eq!(new[1], g.map(|g| g * (1.0 - beta1)));
    assert_eq!(new[2], g.map(|g| g * g * (1.0 - beta2)));
}

#[test]
fn oracles_give_the_shape_that_the_rule_says() {
    let x = array([6, 4, 1, 1], 1);
    let ids = Array { shape: [1; 4], data: vec![3.0] };
    let i32 = crate::graph::DType::I32;
    let desc = infer(&Op::GetRows, &[Desc::f32(x.shape), Desc { dtype: i32, shape: ids.shape }], None).unwrap();
    assert_eq!(run(Op::GetRows, &[&x, &ids], desc.shape).data.len(), 6);
    let desc = infer(&Op::ArgMax, &[Desc::f32(x.shape)], None).unwrap();
    assert_eq!(desc, Desc { dtype: i32, shape: [4, 1, 1, 1] });
    assert_eq!(run(Op::ArgMax, &[&Array { shape: [3, 1, 1, 1], data: vec![1.0, 2.0, 2.0] }], [1; 4]).data, [2.0]);
}
