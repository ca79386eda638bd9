//! Every rule, windows, and sums of parts against the oracles: adjoint identities where a graph is linear, central differences
//! elsewhere.

use crate::graph::{
    Array, Binary, Contents, DType, Desc, FlashAttn, Gate, Graph, Inset, Op, Operand, Pool, PoolKind, ROWS, Rope,
    RopeMode, Row, Shape, Triangle, Unary, ValueId, Window, elements, eval,
};

const ADD: Op = Op::Binary(Binary::Add);
const MUL: Op = Op::Binary(Binary::Mul);
const ATTENTION: FlashAttn =
    FlashAttn { scale: 0.5, max_bias: 0.0, softcap: 0.0, mask: false, sinks: false, logs: false };

/// A linear congruence: the tests run the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 40
    }

    fn below(&mut self, n: u32) -> u32 {
        (self.next() % u64::from(n)) as u32
    }

    /// Values in [-2, 2).
    fn array(&mut self, shape: Shape) -> Array {
        Array::from_fn(shape, |_| self.next() as f64 / f64::from(1 << 22) - 2.0)
    }

    /// Values in [0.5, 1.5), for roots and divisors.
    fn positive(&mut self, shape: Shape) -> Array {
        self.array(shape).map(|x| 1.0 + x / 4.0)
    }
}

/// A graph with contents of its external values.
struct Scene {
    graph: Graph,
    contents: Contents,
    random: Random,
}

impl Scene {
    fn new(seed: u64) -> Self {
        Self { graph: Graph::new(), contents: Contents::new(), random: Random(seed) }
    }

    fn given(&mut self, dtype: DType, array: Array) -> Operand {
        let id = self.graph.external(format!("x{}", self.contents.len()), dtype, array.shape);
        self.contents.insert(id, array);
        self.graph.whole(id)
    }

    fn float(&mut self, shape: Shape) -> Operand {
        let array = self.random.array(shape);
        self.given(DType::F32, array)
    }

    fn positive(&mut self, shape: Shape) -> Operand {
        let array = self.random.positive(shape);
        self.given(DType::F32, array)
    }

    fn ids(&mut self, count: u32, below: u32) -> Operand {
        let array = Array::from_fn([count, 1, 1, 1], |_| f64::from(self.random.below(below)));
        self.given(DType::I32, array)
    }

    fn node(&mut self, op: Op, inputs: &[Operand]) -> Operand {
        let id = self.graph.node(op.row().name, op, inputs.to_vec()).unwrap();
        self.graph.whole(id)
    }

    fn node_as(&mut self, op: Op, inputs: &[Operand], shape: Shape) -> Operand {
        let id = self.graph.node_as(op.row().name, op, inputs.to_vec(), Desc::f32(shape)).unwrap();
        self.graph.whole(id)
    }

    /// `sum(seed * loss)` for these contents.
    fn weighted(&self, loss: ValueId, seed: &Array, contents: Contents) -> f64 {
        eval(&self.graph, contents).unwrap()[&loss].dot(seed)
    }

    /// A seed, and the gradients of `sum(seed * loss)` by [`Graph::backward`].
    fn gradients(&mut self, loss: ValueId, wanted: &[ValueId]) -> (Array, Vec<Array>) {
        let mut graph = self.graph.clone();
        let added = graph.backward(loss, wanted).unwrap();
        let seed = self.random.array(graph.values[loss.index()].shape);
        let mut contents = self.contents.clone();
        contents.insert(added.seed, seed.clone());
        let after = eval(&graph, contents).unwrap();
        (seed, added.wrt.iter().map(|id| after[id].clone()).collect())
    }

    /// Gradients with respect to external values by central differences. With values and third derivatives below about 100 the
    /// step leaves an error of its square times these, and rounding one of 1e-16 * 100 / step: 1e-8 and less.
    fn assert_gradients(&mut self, name: &str, loss: Operand, wanted: &[Operand]) {
        let step = 1e-5;
        let wanted: Vec<ValueId> = wanted.iter().map(|o| o.value).collect();
        let (seed, gradients) = self.gradients(loss.value, &wanted);
        for (id, gradient) in wanted.iter().zip(gradients) {
            assert_eq!(gradient.shape, self.graph.values[id.index()].shape, "{name}");
            for i in 0..gradient.data.len() {
                let at = |moved: f64| {
                    let mut contents = self.contents.clone();
                    contents.get_mut(id).unwrap().data[i] += moved;
                    self.weighted(loss.value, &seed, contents)
                };
                let difference = (at(step) - at(-step)) / (2.0 * step);
                let got = gradient.data[i];
                assert!(
                    (difference - got).abs() <= 2e-8 * (1.0 + got.abs()),
                    "{name}: element {i} of the gradient of {id:?} is {got}, the difference {difference}\n{:#?}",
                    self.graph.nodes
                );
            }
        }
    }
}

const ROPE: Rope = Rope {
    mode: RopeMode::Neox,
    n_dims: 4,
    offset: 0,
    sections: [0; 4],
    n_ctx_orig: 64,
    freq_base: 100.0,
    freq_scale: 0.5,
    ext_factor: 0.5,
    attn_factor: 1.25,
    beta_fast: 32.0,
    beta_slow: 1.0,
    back: false,
};

/// One node of every op that has a gradient, with the operands to differentiate by.
fn examples() -> Vec<(Scene, Operand, Vec<Operand>)> {
    let mut examples = Vec::new();
    let mut example = |build: &dyn Fn(&mut Scene) -> (Operand, Vec<Operand>)| {
        let mut scene = Scene::new(examples.len() as u64);
        let (loss, wanted) = build(&mut scene);
        examples.push((scene, loss, wanted));
    };
    let shape = [3, 4, 2, 1];
    // Plain, heads that share on axis 2, on axis 3, on both.
    for (heads, shared) in [([1, 1], [1, 1]), ([4, 1], [2, 1]), ([2, 4], [1, 2]), ([4, 2], [2, 1]), ([4, 2], [1, 1])] {
        let with = |m, n, h: [u32; 2]| [m, n, h[0], h[1]];
        example(&|s| {
            let operands = [s.float(with(3, 5, shared)), s.float(with(3, 2, heads))];
            (s.node(Op::MulMat, &operands), operands.to_vec())
        });
        example(&|s| {
            let operands = [s.float(with(5, 3, shared)), s.float(with(2, 3, heads))];
            (s.node(Op::OutProd, &operands), operands.to_vec())
        });
        // By head, so that heads and the summed axis are no one axis.
        example(&|s| {
            let b = s.float([3, heads[0], 2, heads[1]]);
            let operands = [s.float(with(3, 5, shared)), b.permute([0, 2, 1, 3]).unwrap()];
            (s.node(Op::MulMat, &operands), operands.to_vec())
        });
    }
    // Heads that share, masks with slopes, a cap; what is hidden has no gradient. Keys and values by head, and not.
    let capped = FlashAttn { softcap: 1.5, ..ATTENTION };
    let masked = FlashAttn { mask: true, max_bias: 4.0, ..ATTENTION };
    let all = FlashAttn { mask: true, sinks: true, ..capped };
    for (attention, heads, shared, batches) in
        [(ATTENTION, 1, 1, 2), (capped, 4, 2, 1), (masked, 3, 1, 1), (all, 2, 2, 1)]
    {
        example(&|s| {
            let q = s.float([4, heads, 3, batches]);
            let [k, v] = [(); 2].map(|()| s.float([4, 5, shared, batches]));
            let mut operands = vec![q.permute([0, 2, 1, 3]).unwrap(), k, v];
            if attention.mask {
                let mask = Array::from_fn([6, 3, 1, 1], |[key, query, ..]| match key > query + 2 {
                    true => f64::NEG_INFINITY,
                    false => -0.5 * f64::from(query),
                });
                operands.push(s.given(DType::F32, mask));
            }
            if attention.sinks {
                operands.push(s.float([heads, 1, 1, 1]));
            }
            (s.node(Op::FlashAttn(attention), &operands), vec![q, k, v])
        });
    }
    for kind in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
        for b in [shape, [3, 1, 1, 1], [1, 2, 2, 1]] {
            example(&|s| {
                let operands = [s.float(shape), s.positive(b)];
                (s.node(Op::Binary(kind), &operands), operands.to_vec())
            });
        }
    }
    let unary = [Unary::Silu, Unary::Neg, Unary::Sqr, Unary::Tanh, Unary::Gelu].map(Op::Unary);
    let rows = [Op::Scale { scale: -1.5, bias: 0.5 }, Op::RmsNorm { eps: 0.1 }, Op::soft_max(0.75)];
    let reduced = [Op::Norm { eps: 0.1 }, Op::Sum, Op::SumRows, Op::Mean];
    for op in unary.into_iter().chain(rows).chain(reduced) {
        example(&|s| {
            let x = s.float(shape);
            (s.node(op, &[x]), vec![x])
        });
    }
    example(&|s| {
        let x = s.positive(shape);
        (s.node(Op::Unary(Unary::Sqrt), &[x]), vec![x])
    });
    let slope = Unary::LeakyRelu { slope: 0.25 };
    let clamp = Unary::Clamp { min: -1.0, max: 0.5 };
    let functions = [Unary::Abs, Unary::Sgn, Unary::Step, Unary::Relu, Unary::Sigmoid, Unary::Exp, Unary::Expm1];
    let more = [Unary::Softplus, Unary::Sin, Unary::Cos, clamp, slope];
    for op in functions.into_iter().chain(more).map(Op::Unary) {
        example(&|s| {
            let x = s.float(shape);
            (s.node(op, &[x]), vec![x])
        });
    }
    example(&|s| {
        let x = s.positive(shape);
        (s.node(Op::Unary(Unary::Log), &[x]), vec![x])
    });
    for op in [Op::SwiGlu, Op::GeGlu, Op::Gated(Gate::ReGlu)] {
        example(&|s| {
            let operands = [s.float(shape), s.float(shape)];
            (s.node(op, &operands), operands.to_vec())
        });
    }
    example(&|s| {
        let operands = [s.float([3, 4, 4, 1]), s.float([3, 5, 2, 1])];
        (s.node(Op::soft_max(1.25), &operands), vec![operands[0]])
    });
    example(&|s| {
        let operands = [s.float([3, 4, 4, 1]), s.float([3, 5, 2, 1]), s.float([4, 1, 1, 1])];
        (s.node(Op::SoftMax { scale: 1.25, max_bias: 4.0, sinks: true }, &operands), vec![operands[0]])
    });
    example(&|s| {
        let (x, positions) = (s.float([7, 2, 3, 1]), s.ids(12, 20));
        let multi = Rope { mode: RopeMode::Multi, offset: 2, sections: [1, 0, 1, 0], ..ROPE };
        (s.node(Op::Rope(multi), &[x, positions]), vec![x])
    });
    for (mode, back, factors) in [(RopeMode::Neox, false, false), (RopeMode::Normal, true, true)] {
        example(&|s| {
            let (x, positions) = (s.float([5, 2, 3, 1]), s.ids(3, 20));
            let mut operands = vec![x, positions];
            if factors {
                operands.push(s.positive([2, 1, 1, 1]));
            }
            (s.node(Op::Rope(Rope { mode, back, ..ROPE }), &operands), vec![x])
        });
    }
    example(&|s| {
        let x = s.float([3, 1, 2, 1]);
        (s.node_as(Op::Repeat, &[x], [6, 4, 2, 2]), vec![x])
    });
    example(&|s| {
        let x = s.float([6, 4, 2, 2]);
        (s.node_as(Op::RepeatBack, &[x], [3, 1, 2, 1]), vec![x])
    });
    example(&|s| {
        let x = s.float(shape);
        (s.node_as(Op::Copy, &[x], [12, 2, 1, 1]), vec![x])
    });
    example(&|s| {
        let x = s.float(shape);
        (s.node_as(Op::Pad { before: [1, 0, 3, 0] }, &[x], [5, 4, 5, 1]), vec![x])
    });
    let inset = Inset { shape: [2, 3, 1, 1], strides: [2, 4, 24, 24], offset: 1 };
    for op in [Op::Set(inset), Op::Acc(inset)] {
        example(&|s| {
            let (base, part) = (s.float(shape), s.float(inset.shape));
            (s.node(op, &[base, part]), vec![base, part])
        });
    }
    for axis in [0, 2] {
        example(&|s| {
            let mut b = shape;
            b[axis as usize] = 3;
            let operands = [s.float(shape), s.float(b)];
            (s.node(Op::Concat { axis }, &operands), operands.to_vec())
        });
    }
    let triangle = Op::Tri(Triangle::Lower);
    for op in [Op::Roll { shift: [1, -3, 0, 0] }, Op::DiagMaskZero { past: 1 }, triangle] {
        example(&|s| {
            let x = s.float([4, 4, 2, 1]);
            (s.node(op, &[x]), vec![x])
        });
    }
    // What is infinite has no difference: it is taken through a softmax, as masks are.
    example(&|s| {
        let x = s.float([4, 3, 1, 1]);
        let masked = s.node(Op::DiagMaskInf { past: 1 }, &[x]);
        (s.node(Op::soft_max(1.0), &[masked]), vec![x])
    });
    example(&|s| {
        let (table, ids) = (s.float([3, 6, 1, 1]), s.ids(5, 6));
        (s.node(Op::GetRows, &[table, ids]), vec![table])
    });
    example(&|s| {
        let (dy, ids) = (s.float([3, 5, 1, 1]), s.ids(5, 6));
        (s.node_as(Op::GetRowsBack, &[dy, ids], [3, 6, 1, 1]), vec![dy])
    });
    example(&|s| {
        let x = s.float([4, 3, 1, 1]);
        // Each row sums to 1.
        let label = |[i, row, ..]: [u32; 4]| {
            if i == row {
                0.75
            } else if i == 3 {
                0.25
            } else {
                0.0
            }
        };
        let labels = s.given(DType::F32, Array::from_fn(x.shape, label));
        (s.node(Op::CrossEntropyLoss, &[x, labels]), vec![x])
    });
    let window = Window { stride: [2, 1, 1], pad: [1, 0, 0], dilation: [1, 2, 1] };
    for (plane, kernel, image) in [(true, [3, 2, 2, 4], [5, 4, 2, 2]), (false, [3, 4, 5, 1], [6, 4, 2, 1])] {
        example(&|s| {
            let (kernel, image) = (s.float(kernel), s.float(image));
            (s.node(Op::Im2Col { window, plane }, &[kernel, image]), vec![image])
        });
    }
    for kind in [PoolKind::Max, PoolKind::Average] {
        example(&|s| {
            let x = s.float([5, 4, 2, 1]);
            let pool = Pool { kind, extent: [3, 2], stride: [2, 1], pad: [1, 1] };
            (s.node_as(Op::Pool2d(pool), &[x], [3, 5, 2, 1]), vec![x])
        });
    }
    examples
}

#[test]
fn every_rule_gives_the_gradient_of_its_oracle() {
    let mut seen: Vec<&Row> = Vec::new();
    for (mut scene, loss, wanted) in examples() {
        let row = scene.graph.nodes.last().unwrap().op.row();
        seen.extend(scene.graph.nodes.iter().map(|node| node.op.row()));
        scene.assert_gradients(row.name, loss, &wanted);
    }
    let missing = ROWS.iter().filter(|row| row.gradient.is_ok() && !seen.iter().any(|s| std::ptr::eq(*s, **row)));
    assert_eq!(missing.map(|row| row.name).collect::<Vec<_>>(), [""; 0]);
}

/// Windows over a value of [6, 4, 3, 2], each with what it shows.
fn windows(x: Operand) -> Vec<Operand> {
    let by_head = x.permute([0, 2, 1, 3]).unwrap();
    let columns = x.slice(0, 2, 3).unwrap();
    let one = x.slice(1, 3, 1).unwrap();
    let row = x.slice(0, 0, 6).unwrap().slice(2, 1, 1).unwrap();
    vec![
        x.transpose(),
        by_head,
        x.permute([3, 1, 0, 2]).unwrap(),
        x.reshape([3, 8, 6, 1]).unwrap(),
        x.reshape([24, 6, 1, 1]).unwrap().transpose(),
        x.reshape([6, 2, 2, 6]).unwrap().permute([0, 2, 3, 1]).unwrap(),
        columns,
        columns.transpose(),
        x.slice(3, 1, 1).unwrap(),
        one,
        one.permute([1, 2, 0, 3]).unwrap(),
        one.expand(1, 5).unwrap(),
        row.expand(2, 2).unwrap().transpose(),
        x.reshape([12, 12, 1, 1]).unwrap().slice(0, 7, 4).unwrap(),
        x.reshape([2, 72, 1, 1]).unwrap().slice(0, 1, 1).unwrap().reshape([6, 12, 1, 1]).unwrap(),
        x.reshape([144, 1, 1, 1]).unwrap().slice(0, 5, 20).unwrap(),
        x.slice(1, 1, 2).unwrap().slice(2, 1, 2).unwrap().slice(3, 1, 1).unwrap().slice(0, 1, 4).unwrap(),
        one.slice(0, 4, 1).unwrap(),
        // Eight of all elements, as rows that begin within a row of four.
        x.reshape([144, 1, 1, 1]).unwrap().slice(0, 2, 8).unwrap().reshape([4, 2, 1, 1]).unwrap().transpose(),
    ]
}

/// A copy of a window is linear, so that `<A x, s> = <x, A^T s>` up to rounding, for every s.
#[test]
fn windows_are_undone() {
    let count = windows(Scene::new(0).float([6, 4, 3, 2])).len();
    for i in 0..count {
        let mut s = Scene::new(i as u64);
        let x = s.float([6, 4, 3, 2]);
        let window = windows(x)[i];
        let y = s.node_as(Op::Copy, &[window], window.shape);
        let z = s.node(Op::Unary(Unary::Neg), &[window]);
        let sum = s.node(ADD, &[y, z]);
        let (seed, dx) = s.gradients(y.value, &[x.value]);
        let forward = s.weighted(y.value, &seed, s.contents.clone());
        let adjoint = s.contents[&x.value].dot(&dx[0]);
        assert!((forward - adjoint).abs() <= 1e-12, "{window:?}: {forward} against {adjoint}");
        s.assert_gradients(&format!("{window:?}"), y, &[x]);
        let (_, zero) = s.gradients(sum.value, &[x.value]);
        assert!(zero[0].data.iter().all(|&d| d == 0.0), "{window:?}");
    }
}

#[test]
fn a_window_that_shows_elements_twice_is_refused() {
    let mut s = Scene::new(0);
    let x = s.float([8, 1, 1, 1]);
    let overlapping = Operand { shape: [3, 6, 1, 1], strides: [1, 1, 0, 0], ..x };
    let y = s.node(Op::Unary(Unary::Sqr), &[overlapping]);
    let error = s.graph.backward(y.value, &[x.value]).unwrap_err().to_string();
    assert!(error.starts_with("node SQR: operand 0 has no gradient: its window of [3, 6, 1, 1]"), "{error}");
    assert!(error.ends_with("over [8, 1, 1, 1] is no box of its elements"), "{error}");
    assert_eq!((s.graph.nodes.len(), s.graph.values.len()), (1, 2));
}

#[test]
fn graphs_that_break_a_rule_are_refused() {
    let mut s = Scene::new(0);
    let x = s.float([8, 1, 1, 1]);
    let y = s.node(Op::Unary(Unary::Sqr), &[x]);
    s.graph.values[x.value.index()].shape[1] = 0;
    let error = s.graph.backward(y.value, &[x.value]).unwrap_err().to_string();
    assert!(error.contains("no elements"), "{error}");
}

#[test]
fn what_has_no_gradient_is_refused_by_name() {
    let mut s = Scene::new(0);
    let (x, ids) = (s.float([4, 3, 1, 1]), s.ids(3, 3));
    let refusal = |s: &mut Scene, loss: Operand, wanted: Operand| {
        s.graph.backward(loss.value, &[wanted.value]).unwrap_err().to_string()
    };
    let best = s.node(Op::ArgMax, &[x]);
    let rows = s.node(Op::GetRows, &[x, best]);
    // The path through the table has a gradient, the one through the ids has none.
    assert_eq!(refusal(&mut s, rows, x), "node GET_ROWS: operand 1 of GET_ROWS has no gradient: it is data");
    assert_eq!(refusal(&mut s, rows, best), "node GET_ROWS: operand 1 of GET_ROWS has no gradient: it is data");
    let mask = s.float([4, 3, 1, 1]);
    let p = s.node(Op::soft_max(1.0), &[x, mask]);
    assert_eq!(refusal(&mut s, p, mask), "node SOFT_MAX: operand 1 of SOFT_MAX has no gradient: it is data");
    assert_eq!(refusal(&mut s, p, ids), r#"value 1 "x1": the loss does not depend on it"#);
    let foreign = ValueId::for_tests(99);
    assert_eq!(s.graph.backward(foreign, &[]).unwrap_err().to_string(), "value 99: is no value of the graph");
}

/// An op of the table without a rule says why it has none.
#[test]
fn ops_without_a_gradient_say_why() {
    let second = "it is part of one, and second derivatives are not built";
    let (eps, scale) = (1e-5, 1.0);
    let cases = [
        (Op::SiluBack, 2, second),
        (Op::TanhBack, 2, second),
        (Op::GeluBack, 2, second),
        (Op::RmsNormBack { eps }, 2, second),
        (Op::SoftMaxBack { scale }, 2, second),
        (Op::CrossEntropyLossBack, 3, second),
        (Op::ArgMax, 1, "its result is an index"),
        (
            Op::FlashAttn(FlashAttn { logs: true, ..ATTENTION }),
            3,
            "its logs are made for the gradient of attention without",
        ),
        (Op::MulMatId, 3, "ids pick its matrices, and gradients of picked matrices are not built"),
        (Op::ArgSort { descending: true }, 1, "its result is an index"),
        (Op::TopK, 1, "its result is an index"),
        (Op::CountEqual, 2, "its result is a count"),
        (Op::CumSum, 1, "ggml trains without it"),
        (Op::GroupNorm { groups: 1, eps }, 1, "ggml trains without it"),
        (Op::L2Norm { eps }, 1, "ggml trains without it"),
        (Op::AddId, 3, "ggml trains without it"),
        (Op::Sgd, 3, "it updates its operands in place"),
        (Op::AdamW, 5, "it updates its operands in place"),
    ];
    let steps = [Unary::Floor, Unary::Ceil, Unary::Round, Unary::Trunc];
    let xielu = Unary::XIelu { alpha_n: 1.0, alpha_p: 1.0, beta: 0.5, eps: 0.0 };
    let functions = [Unary::Elu, Unary::GeluQuick, Unary::HardSwish, Unary::HardSigmoid, Unary::GeluErf, xielu];
    let (alpha, limit) = (1.5, 7.0);
    let oai = Gate::SwiGluOai { alpha, limit };
    let gates = [Gate::GeGluErf, Gate::GeGluQuick, oai, Gate::SwiGluClamp { limit }];
    let cases: Vec<(Op, usize, &str)> = cases
        .into_iter()
        .chain(steps.map(|kind| (Op::Unary(kind), 1, "it is flat wherever it has a derivative")))
        .chain(functions.map(|kind| (Op::Unary(kind), 1, "ggml has no rule for it either")))
        .chain(gates.map(|gate| (Op::Gated(gate), 2, "ggml has no rule for it either")))
        .collect();
    for &(op, operands, why) in &cases {
        let mut s = Scene::new(0);
        let mut inputs: Vec<Operand> = (0..operands).map(|_| s.float([4, 3, 1, 1])).collect();
        let name = op.row().name;
        let loss = match op {
            Op::AdamW => {
                inputs[4] = s.float([7, 1, 1, 1]);
                let windows = inputs.clone();
                s.graph.node_into(name, op, windows, inputs[0].value);
                inputs[0].value
            }
            Op::Sgd => {
                inputs[2] = s.float([2, 1, 1, 1]);
                let windows = inputs.clone();
                s.graph.node_into(name, op, windows, inputs[0].value);
                inputs[0].value
            }
            Op::CountEqual => {
                inputs = vec![s.ids(3, 3), s.ids(3, 3)];
                s.node(op, &inputs).value
            }
            Op::AddId => {
                inputs[2] = s.ids(3, 3);
                s.node(op, &inputs).value
            }
            Op::TopK => {
                let picked = Desc { dtype: DType::I32, shape: [2, 3, 1, 1] };
                s.graph.node_as(name, op, inputs.clone(), picked).unwrap()
            }
            Op::CrossEntropyLossBack => {
                inputs[0] = s.float([1; 4]);
                s.node(op, &inputs).value
            }
            Op::MulMatId => {
                inputs[2] = s.ids(3, 1);
                inputs[1] = s.float([4, 1, 3, 1]);
                inputs[2] = inputs[2].reshape([1, 3, 1, 1]).unwrap();
                s.node(op, &inputs).value
            }
            _ => s.node(op, &inputs).value,
        };
        for wanted in &inputs {
            let error = s.graph.backward(loss, &[wanted.value]).unwrap_err().to_string();
            assert_eq!(error, format!("node {name}: {name} has no gradient: {why}"));
        }
    }
}

#[test]
fn values_updated_in_place_have_no_gradient_afterwards() {
    let mut s = Scene::new(0);
    let (w, x) = (s.float([4, 3, 1, 1]), s.float([4, 3, 1, 1]));
    let y = s.node(MUL, &[w, x]);
    s.graph.node_into("step", ADD, vec![w, x], w.value);
    let error = s.graph.backward(y.value, &[x.value]).unwrap_err().to_string();
    assert_eq!(error, r#"node MUL: has no gradient after node step, which updates "x0" in place"#);
}

#[test]
fn only_paths_from_the_values_wanted_are_walked() {
    let mut s = Scene::new(0);
    let (w, a, x) = (s.float([4, 3, 1, 1]), s.float([4, 3, 1, 1]), s.float([4, 2, 1, 1]));
    let scaled = s.node(MUL, &[w, a]);
    let y = s.node(Op::MulMat, &[scaled, x]);
    let forward = s.graph.nodes.len();
    let added = s.graph.backward(y.value, &[a.value]).unwrap();
    let names: Vec<&str> = s.graph.nodes[forward..].iter().map(|n| n.op.row().name).collect();
    assert_eq!(names, ["OUT_PROD", "MUL"]);
    assert_eq!(s.graph.values[added.wrt[0].index()].shape, [4, 3, 1, 1]);
    assert_eq!(s.graph.verify(), Ok(()));
    // The loss itself has the seed as gradient.
    let added = s.graph.backward(y.value, &[y.value]).unwrap();
    assert_eq!(added.wrt, [added.seed]);
}

/// Attention with two heads to each key, a soft-capped score, a causal mask, norms with weights and a gated MLP: what the decoder
/// models are made of.
#[test]
fn a_decoder_layer_has_the_gradients_of_its_differences() {
    let (hd, heads, kv, t, n) = (4, 4, 2, 3, 6);
    let mut s = Scene::new(7);
    let x = s.float([n, t, 1, 1]);
    let [g_1, g_2, g_q] = [n, n, hd].map(|n| s.positive([n, 1, 1, 1]));
    let [w_q, w_k, w_v] = [heads, kv, kv].map(|h| s.float([n, hd * h, 1, 1]));
    let (w_o, b_q) = (s.float([hd * heads, n, 1, 1]), s.float([hd * heads, 1, 1, 1]));
    let [w_gate, w_up] = [(); 2].map(|()| s.float([n, 5, 1, 1]));
    let w_down = s.float([5, n, 1, 1]);
    let positions = s.given(DType::I32, Array::from_fn([t, 1, 1, 1], |i| f64::from(i[0])));
    let mask = Array::from_fn([t, t, 1, 1], |[k, q, ..]| if k > q { f64::NEG_INFINITY } else { 0.0 });
    let mask = s.given(DType::F32, mask);

    let norm = |s: &mut Scene, x, weight| {
        let y = s.node(Op::RmsNorm { eps: 0.5 }, &[x]);
        s.node(MUL, &[y, weight])
    };
    let h = norm(&mut s, x, g_1);
    let q = s.node(Op::MulMat, &[w_q, h]);
    let q = s.node(ADD, &[q, b_q]).reshape([hd, heads, t, 1]).unwrap();
    let q = norm(&mut s, q, g_q);
    let q = s.node(Op::Rope(ROPE), &[q, positions]).permute([0, 2, 1, 3]).unwrap();
    let k = s.node(Op::MulMat, &[w_k, h]).reshape([hd, kv, t, 1]).unwrap();
    let k = s.node(Op::Rope(ROPE), &[k, positions]).permute([0, 2, 1, 3]).unwrap();
    let v = s.node(Op::MulMat, &[w_v, h]).reshape([hd, kv, t, 1]).unwrap();
    let v = v.permute([0, 2, 1, 3]).unwrap().transpose();
    let score = s.node(Op::MulMat, &[k, q]);
    let score = s.node(Op::Scale { scale: 0.25, bias: 0.0 }, &[score]);
    let score = s.node(Op::Unary(Unary::Tanh), &[score]);
    let score = s.node(Op::Scale { scale: 4.0, bias: 0.0 }, &[score]);
    let p = s.node(Op::soft_max(0.5), &[score, mask]);
    let o = s.node(Op::MulMat, &[v, p]).permute([0, 2, 1, 3]).unwrap();
    let o = s.node_as(Op::Copy, &[o], [hd * heads, t, 1, 1]);
    let o = s.node(Op::MulMat, &[w_o, o]);
    let x_1 = s.node(ADD, &[o, x]);
    let h = norm(&mut s, x_1, g_2);
    let [gate, up] = [w_gate, w_up].map(|w| s.node(Op::MulMat, &[w, h]));
    let h = s.node(Op::GeGlu, &[gate, up]);
    let h = s.node(Op::MulMat, &[w_down, h]);
    let y = s.node(ADD, &[h, x_1]);
    let wanted = [x, g_1, g_2, g_q, w_q, w_k, w_v, w_o, b_q, w_gate, w_up, w_down];
    s.assert_gradients("decoder layer", y, &wanted);
}

/// A window over `x` with as many elements as it likes.
fn random_window(random: &mut Random, x: Operand) -> Operand {
    let axis = random.below(4) as usize;
    match random.below(6) {
        0 => x.permute([[0, 2, 1, 3], [1, 0, 2, 3], [2, 0, 1, 3], [0, 1, 3, 2]][axis]).unwrap(),
        1 => {
            let start = random.below(x.shape[axis]);
            x.slice(axis, start, 1 + random.below(x.shape[axis] - start)).unwrap()
        }
        2 if x.shape[axis] == 1 && elements(&x.shape) < 30 => x.expand(axis, 2).unwrap(),
        3 => x.reshape([x.shape[0] * x.shape[1], x.shape[2], x.shape[3], 1]).unwrap_or(x),
        _ => x,
    }
}

/// Graphs of a few nodes over a few values, read through windows and more than once.
#[test]
fn random_graphs_have_the_gradients_of_their_differences() {
    for seed in 0..60 {
        let mut s = Scene::new(1000 + seed);
        let mut wanted = Vec::new();
        let mut values = Vec::new();
        for _ in 0..3 {
            let shape = [1, 1, 1, 1].map(|n: u32| n + s.random.below(3));
            values.push(s.float(shape));
            wanted.push(values[values.len() - 1]);
        }
        let mut used = vec![false; values.len()];
        for _ in 0..6 {
            let at = s.random.below(values.len() as u32) as usize;
            let value = values[at];
            let x = random_window(&mut s.random, value);
            // Bounded functions keep what follows from growing.
            let y = match s.random.below(8) {
                0 => s.node(Op::Unary(Unary::Tanh), &[x]),
                1 => s.node(Op::RmsNorm { eps: 0.5 }, &[x]),
                2 => s.node(Op::soft_max(1.5), &[x]),
                3 => {
                    let b = s.float([x.shape[0], 3, x.shape[2], x.shape[3]]);
                    wanted.push(b);
                    let product = s.node(Op::MulMat, &[x, b]);
                    s.node(Op::RmsNorm { eps: 0.5 }, &[product])
                }
                4 => s.node_as(Op::Copy, &[x], [elements(&x.shape) as u32, 1, 1, 1]),
                5 => s.node(Op::SwiGlu, &[x, x]),
                kind => {
                    let other = (0..values.len()).rev().find(|&i| values[i].shape == x.shape && i != at);
                    if let Some(i) = other {
                        used[i] = true;
                    }
                    let sum = s.node(if kind == 6 { ADD } else { MUL }, &[x, other.map_or(x, |i| values[i])]);
                    s.node(Op::Unary(Unary::Tanh), &[sum])
                }
            };
            used[at] = true;
            values.push(y);
            used.push(false);
        }
        // All that is left over meets in one loss.
        let mut loss: Option<Operand> = None;
        for at in (0..values.len()).filter(|&at| !used[at]) {
            let all = s.node_as(Op::RepeatBack, &[values[at]], [1; 4]);
            loss = Some(loss.map_or(all, |sum| s.node(ADD, &[sum, all])));
        }
        s.assert_gradients(&format!("seed {seed}"), loss.unwrap(), &wanted);
    }
}

#[test]
fn heads_beyond_32_bits_are_refused() {
    let mut graph = Graph::new();
    let a = graph.external("a", DType::F32, [1, 1 << 20, 1 << 16, 1]);
    let b = graph.external("b", DType::F32, [1, 1, 1 << 16, 1]);
    let y = graph.node("y", Op::MulMat, vec![graph.whole(a), graph.whole(b)]).unwrap();
    let refused = graph.backward(y, &[a]).unwrap_err().to_string();
    assert!(refused.contains("32 bits"), "{refused}");
}

/// Axes that follow each other are one axis only where 32 bits count it.
#[test]
fn windows_of_more_elements_than_an_axis_has_are_refused() {
    let mut graph = Graph::new();
    let x = graph.external("x", DType::F32, [u32::MAX, 3, 1, 1]);
    let window = Operand { shape: [1 << 16, 1 << 16, 1, 1], strides: [1, 1 << 16, 0, 0], ..graph.whole(x) };
    let y = graph.node("y", Op::Unary(Unary::Neg), vec![window]).unwrap();
    let refusal = graph.backward(y, &[x]).unwrap_err().to_string();
    assert!(refusal.contains("is no box of its elements"), "{refusal}");
}
