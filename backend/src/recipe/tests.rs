//! Recipes against graphs that are written by hand, and what is refused.

use super::*;
use crate::graph::{Array, Binary, Contents, Unary, eval};

fn id(recipe: &Recipe, tensor: TensorId) -> ValueId {
    recipe.value(tensor).expect("all of a value")
}

/// `loss = sum(silu(w x))` for x of as many columns as an extent says.
fn sample() -> (Recipe, Dim, [TensorId; 4]) {
    let mut r = Recipe::new();
    let columns = r.declare("columns", 3).unwrap();
    let w = r.external("layer.w", DType::F32, fixed([4, 2, 1, 1]), Role::Parameter).unwrap();
    let shape = [Extent::Fixed(4), Extent::Declared(columns), Extent::Fixed(1), Extent::Fixed(1)];
    let x = r.external("x", DType::F32, shape, Role::Input).unwrap();
    let y = r.node(Op::MulMat, &[w, x], None).unwrap();
    let flat = [Extent::Rest, Extent::Fixed(1), Extent::Fixed(1), Extent::Fixed(1)];
    let flat = r.view(y, View::Reshape(flat)).unwrap();
    let act = r.node(Op::Unary(Unary::Silu), &[flat], None).unwrap();
    let loss = r.node(Op::Sum, &[act], None).unwrap();
    (r, columns, [w, x, y, loss])
}

#[test]
fn a_recipe_is_built_again_at_other_extents() {
    let (mut r, columns, [w, x, _, loss]) = sample();
    let gradient = r.gradients(loss, &[w]).unwrap()[0];
    r.keep(gradient).unwrap();
    r.name(gradient, "dw").unwrap();
    let wider = r.resized(&[(columns, 5)]).unwrap();
    assert_eq!((r.extent(columns), wider.extent(columns)), (Ok(3), Ok(5)));
    assert_eq!(wider.desc(x).unwrap().shape, [4, 5, 1, 1]);
    assert_eq!(wider.desc(gradient), r.desc(gradient));
    assert_eq!(wider.find("dw"), Some(gradient));
    assert_eq!(wider.resized(&[(columns, 3)]).unwrap().graph(), r.graph());
    let roles: Vec<Role> = wider.externals().iter().map(|external| external.role).collect();
    assert_eq!(roles, [Role::Parameter, Role::Input, Role::Seed]);
    assert!(wider.graph().verify().is_ok());
}

/// With B zero an adapter changes nothing; with it, the sum is that of the weight plus the pair's product.
#[test]
fn an_adapted_product_is_that_of_the_sum() {
    let (r, _, [w, x, y, loss]) = sample();
    let adapter = Adapter { weights: "layer.*".into(), rank: 1, alpha: 2.0 };
    let mut adapted = r.adapted(&[adapter]).unwrap();
    let [a, b] = adapted.pair(0).unwrap();
    let gradients = adapted.gradients(loss, &[a, b]).unwrap();
    let array = |shape: Shape, data: &[f64]| Array { shape, data: data.to_vec() };
    let x_data: Vec<f64> = (0..12).map(|i| f64::from(i) / 4.0 - 1.0).collect();
    let w_data = [1.0, -1.0, 0.5, 2.0, 0.0, 1.0, -2.0, 1.5];
    let (a_data, b_data) = ([0.5, 1.0, -1.0, 0.25], [2.0, -0.5]);
    let seed = adapted.externals().iter().find(|external| external.role == Role::Seed).unwrap().value;
    let mut contents = Contents::new();
    contents.insert(id(&adapted, w), array([4, 2, 1, 1], &w_data));
    contents.insert(id(&adapted, x), array([4, 3, 1, 1], &x_data));
    contents.insert(id(&adapted, a), array([4, 1, 1, 1], &a_data));
    contents.insert(id(&adapted, b), array([1, 2, 1, 1], &b_data));
    contents.insert(seed, array([1; 4], &[1.0]));
    let results = eval(adapted.graph(), contents).unwrap();
    let sum = |row: usize, column: usize| -> f64 {
        (0..4).map(|k| (w_data[4 * row + k] + 2.0 * b_data[row] * a_data[k]) * x_data[4 * column + k]).sum()
    };
    let expected: Vec<f64> = (0..6).map(|i| sum(i % 2, i / 2)).collect();
    let found = &results[&id(&adapted, y)].data;
    assert!(found.iter().zip(&expected).all(|(f, e)| (f - e).abs() < 1e-12), "{found:?} {expected:?}");
    // dL/da by differences of the closed form.
    let silu = |v: f64| v / (1.0 + (-v).exp());
    let total = |a: [f64; 4]| -> f64 {
        let y = |row: usize, column: usize| -> f64 {
            (0..4).map(|k| (w_data[4 * row + k] + 2.0 * b_data[row] * a[k]) * x_data[4 * column + k]).sum()
        };
        (0..6).map(|i| silu(y(i % 2, i / 2))).sum()
    };
    for k in 0..4 {
        let [mut up, mut down] = [a_data; 2];
        (up[k], down[k]) = (up[k] + 1e-5, down[k] - 1e-5);
        let slope = (total(up) - total(down)) / 2e-5;
        let gradient = results[&id(&adapted, gradients[0])].data[k];
        assert!((slope - gradient).abs() < 1e-6, "{slope} {gradient}");
    }
}

#[test]
fn what_cannot_be_changes_nothing() {
    let (mut r, columns, [w, x, y, loss]) = sample();
    let before = r.graph().clone();
    let other = TensorId::at(99);
    let view = r.view(x, View::Permute([1, 0, 2, 3])).unwrap();
    let cases: [(Result<(), RecipeError>, &str); 12] = [
        (r.node(Op::Sum, &[other], None).map(drop), "tensor 99: is none of this graph"),
        (r.node(Op::Binary(Binary::Add), &[w, x], None).map(drop), "must divide"),
        (r.node(Op::AdamW, &[w, w, w, w, w], None).map(drop), "updates its operands in place"),
        (r.view(x, View::Slice { axis: 4, start: 0, count: Extent::Fixed(1) }).map(drop), "there is no axis 4"),
        (r.view(x, View::Slice { axis: 1, start: 3, count: Extent::Fixed(1) }).map(drop), "leaves axis 1"),
        (r.view(x, View::Slice { axis: 1, start: 0, count: Extent::Fixed(0) }).map(drop), "no elements"),
        (r.view(x, View::Reshape([Extent::Fixed(u32::MAX); 4])).map(drop), "63 bits"),
        (r.view(x, View::Reshape([Extent::Rest; 4])).map(drop), "more than one axis open"),
        (r.view(w, View::Expand { axis: 2, count: Extent::Declared(Dim::at(7)) }).map(drop), "extent 7"),
        (r.keep(view), "is a view of \"x\""),
        (r.node_into(Op::Unary(Unary::Silu), &[w], loss), "only external ones are written"),
        (r.resized(&[(columns, 0)]).map(drop), "is 0"),
    ];
    for (result, rule) in cases {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(rule), "{error}");
    }
    assert_eq!(r.graph(), &before);
    let adapter = |weights: &str, rank| Adapter { weights: weights.into(), rank, alpha: 1.0 };
    assert!(r.adapted(&[adapter("layer.v", 1)]).unwrap_err().to_string().contains("no product"));
    assert!(r.adapted(&[adapter("layer.w", 0)]).unwrap_err().to_string().contains("rank is 0"));
    assert!(r.gradients(y, &[other]).is_err());
    assert_eq!(r.graph(), &before);
}
