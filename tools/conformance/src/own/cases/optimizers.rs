//! Optimizer steps, which update their weights and moments in place.

use ggml_host::Type;

use super::{Cases, dims};
use crate::own::bound::Bound;
use crate::own::kit::View;

pub fn add(cases: &mut Cases) {
    for shape in [&[1][..], &[3, 1], &[33, 5], &[129, 2, 3], &[64, 64]] {
        cases.add(2, format!("OPT_STEP_SGD {}", dims(shape)), move |k| {
            let (weights, gradient) = (k.f32(shape, View::Dense).mark_param(), k.f32(shape, View::Dense));
            let rates = k.input(Type::F32, &[2], View::Dense, vec![0.01, 0.1]);
            let step = k.ops().opt_step_sgd(weights, gradient, rates);
            k.result(step, Bound::Near { relative: 0.0, absolute: 4e-7 });
        });
        cases.add(2, format!("OPT_STEP_ADAMW {}", dims(shape)), move |k| {
            let count = shape.iter().product();
            let (weights, gradient) = (k.f32(shape, View::Dense).mark_param(), k.f32(shape, View::Dense));
            let m = k.f32(shape, View::Dense);
            let v = k.input(Type::F32, shape, View::Dense, k.values(count, 0.01, 1.0));
            // alpha, beta1, beta2, eps, decay, and the corrections after ten steps.
            let rates =
                vec![0.01, 0.9, 0.999, 1e-8, 0.1, 1.0 / (1.0 - 0.9f32.powi(10)), 1.0 / (1.0 - 0.999f32.powi(10))];
            let rates = k.input(Type::F32, &[7], View::Dense, rates);
            let step = k.ops().opt_step_adamw(weights, gradient, m, v, rates);
            // The step is below 0.01 / sqrt(0.01), and good to the square root's and the quotient's five units.
            k.result(step, Bound::Near { relative: 0.0, absolute: 1e-6 });
            k.updates(m, Bound::Near { relative: 0.0, absolute: 4e-7 });
            k.updates(v, Bound::roundings(3));
        });
    }
}
