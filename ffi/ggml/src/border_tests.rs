//! The vtables, called as ggml calls them, on an engine made of oracles.

use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering;

use proptest::prelude::*;

use crate::abi::*;
use crate::testing::{OracleEngine, plugin};

const F32: i32 = 0;
const ADD: i32 = 2;
const MUL_MAT: i32 = 29;
const SCALE: i32 = 32;
const ADAMW: i32 = 98;

type Plugin = plugin::Plugin<OracleEngine>;

#[test]
fn the_registry_lists_its_devices() {
    let plugin = Plugin::new("");
    let reg = plugin.registry.raw();
    // SAFETY: registry and devices are immortal, the out pointers are valid.
    unsafe {
        let iface = &(*reg).iface;
        assert_eq!((*reg).api_version, 3);
        assert_eq!(CStr::from_ptr((iface.get_name.expect("set"))(reg)), c"FBLayout");
        assert_eq!((iface.get_device_count.expect("set"))(reg), 2);
        assert!((iface.get_device.expect("set"))(reg, 2).is_null());
        let second = (iface.get_device.expect("set"))(reg, 1);
        let device = &(*second).iface;
        assert_eq!(CStr::from_ptr((device.get_name.expect("set"))(second)), c"FBLayout1");
        let mut props = MaybeUninit::<ggml_backend_dev_props>::zeroed();
        (device.get_props.expect("set"))(second, props.as_mut_ptr());
        let props = props.assume_init();
        assert_eq!(CStr::from_ptr(props.description), c"Second oracle");
        assert_eq!((props.memory_free, props.memory_total, props.type_), (1 << 30, 1 << 30, DEVICE_TYPE_GPU));
        assert!(props.device_id.is_null() && props.caps.mmap_support && !props.caps.async_);
        let buft = (device.get_buffer_type.expect("set"))(second);
        assert!((device.supports_buft.expect("set"))(second, buft));
        assert!(!(device.supports_buft.expect("set"))(second, plugin.device.buffer_type()));
    }
}

#[test]
fn bytes_go_through_views_exactly() {
    let plugin = Plugin::new("");
    let buffer = plugin.buffer(8192, 0);
    for type_id in [0, 1, 3, 8, 12, 16, 26, 27, 28, 30] {
        let root = buffer.place(plugin.world.tensor(type_id, [256, 3, 1, 1]), 256);
        // SAFETY: the tensor is alive.
        let (nb, n) = unsafe { ((*root).nb, (*root).nb[2]) };
        buffer.memset(root, 0, 0, n);
        let rows = plugin.world.view(root, [256, 2, 1, 1], nb, nb[1]);
        let turned = plugin.world.view(rows, [2, 256, 1, 1], [nb[1], nb[0], nb[2], nb[3]], 0);
        buffer.set(rows, 3, &[1, 2, 3, 4, 5]);
        assert_eq!(buffer.get(turned, 2, 7), [0, 1, 2, 3, 4, 5, 0]);
        assert_eq!(buffer.get(root, nb[1] + 4, 2), [2, 3]);
        buffer.memset(rows, 9, nb[1] - 1, 1);
        assert_eq!(buffer.get(root, 2 * nb[1] - 2, 3), [0, 9, 0]);
    }
    buffer.free();
}

#[test]
fn bad_calls_are_refused_without_harm() {
    let plugin = Plugin::new("");
    let buffer = plugin.buffer(64, 0);
    let tensor = buffer.place(plugin.world.tensor(F32, [16, 1, 1, 1]), 0);
    buffer.set_floats(tensor, &[1.0; 16]);
    buffer.set(tensor, 60, &[7; 8]);
    assert_eq!(buffer.get(tensor, 60, 8), [0; 8], "a failed read leaves zeros");
    assert_eq!(buffer.floats(tensor, 16), [1.0; 16]);
    let iface = buffer.iface();
    // SAFETY: null is what is tested.
    unsafe {
        (iface.set_tensor.expect("set"))(buffer.0, tensor, std::ptr::null(), 0, 4);
        (iface.get_tensor.expect("set"))(buffer.0, std::ptr::null(), [0_u8; 4].as_mut_ptr().cast(), 0, 4);
        (iface.set_tensor.expect("set"))(std::ptr::null_mut(), tensor, [0_u8; 4].as_ptr().cast(), 0, 4);
        assert!((iface.get_base.expect("set"))(std::ptr::null_mut()).is_null());
        let compute = (*plugin.backend).iface.graph_compute.expect("set");
        assert_eq!(compute(plugin.backend, std::ptr::null_mut()), STATUS_FAILED);
    }
    assert_eq!(buffer.floats(tensor, 16), [1.0; 16]);
    let unplaced = plugin.world.tensor(F32, [16, 1, 1, 1]);
    let sum = buffer.place(plugin.world.node(ADD, &[], F32, [16, 1, 1, 1], &[tensor, unplaced]), 0);
    assert_eq!(plugin.compute(&[sum], 0), STATUS_FAILED);
    assert_eq!(plugin.compute(&[], 0), STATUS_SUCCESS);
    buffer.free();
}

#[test]
fn recycled_addresses_and_aliases_without_a_link_hold_several_values() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let weights = plugin.buffer(1024, 1);
    let a = weights.place(w.tensor(F32, [2, 2, 1, 1]), 0);
    weights.set_floats(a, &[1.0, 2.0, 3.0, 4.0]);
    let compute = plugin.buffer(1024, USAGE_COMPUTE);
    for run in 1..3 {
        compute.reset();
        let x = compute.place(w.tensor(F32, [2, 1, 1, 1]), 0);
        compute.set_floats(x, &[1.0, run as f32]);
        let product = compute.place(w.node(MUL_MAT, &[], F32, [2, 1, 1, 1], &[a, x]), 256);
        // x is dead: its address is used again, then again in place.
        let doubled = compute.place(w.node(ADD, &[], F32, [2, 1, 1, 1], &[product, product]), 0);
        let sum = compute.place(w.node(ADD, &[], F32, [2, 1, 1, 1], &[doubled, product]), 0);
        assert_eq!(plugin.compute(&[product, doubled, sum], 40 + run), STATUS_SUCCESS);
        let r = run as f32;
        assert_eq!(compute.floats(sum, 2), [3.0 * (1.0 + 2.0 * r), 3.0 * (3.0 + 4.0 * r)]);
    }
    assert_eq!(plugin.engine().compiled.load(Ordering::Relaxed), 1, "the second run has the structure of the first");
    compute.free();
    weights.free();
}

#[test]
fn accumulators_grow_in_place_and_weights_are_uploaded_once() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let acc = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    let grad = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 256);
    buffer.set_floats(grad, &[1.0, 2.0, 3.0, 4.0]);
    let step = w.in_place(ADD, &[], acc, &[acc, grad]);
    let uploads = || plugin.engine().written.load(Ordering::Relaxed);
    for run in 1..4 {
        assert_eq!(plugin.compute(&[step], 7), STATUS_SUCCESS);
        assert_eq!(buffer.floats(acc, 4), [1.0, 2.0, 3.0, 4.0].map(|x| x * run as f32));
    }
    assert_eq!((uploads(), plugin.engine().compiled.load(Ordering::Relaxed)), (2, 1));
    buffer.memset(acc, 0, 0, 16);
    assert_eq!(plugin.compute(&[step], 7), STATUS_SUCCESS);
    assert_eq!(buffer.floats(acc, 4), [1.0, 2.0, 3.0, 4.0]);
    buffer.free();
}

#[test]
fn adamw_updates_weight_and_moments() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(4096, 0);
    let [weight, grad, m, v] = [0, 256, 512, 768].map(|offset| buffer.place(w.tensor(F32, [2, 1, 1, 1]), offset));
    let params = buffer.place(w.tensor(F32, [7, 1, 1, 1]), 1024);
    buffer.set_floats(weight, &[1.0, -1.0]);
    buffer.set_floats(grad, &[0.5, 2.0]);
    buffer.set_floats(params, &[0.1, 0.9, 0.99, 0.0, 0.0, 10.0, 100.0]);
    let step = w.in_place(ADAMW, &[], weight, &[weight, grad, m, v, params]);
    assert!(plugin.supports(step));
    assert_eq!(plugin.compute(&[step], 0), STATUS_SUCCESS);
    // The first step moves each weight by alpha against its gradient's sign.
    let near = |found: Vec<f32>, wanted: [f32; 2]| {
        // Each result is rounded to f32 once from f64; parameters carry half an ulp each, seven at most meet.
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 8.0 * f32::EPSILON * b.abs()), "{found:?}");
    };
    near(buffer.floats(weight, 2), [0.9, -1.1]);
    near(buffer.floats(m, 2), [0.05, 0.2]);
    near(buffer.floats(v, 2), [0.0025, 0.04]);
    buffer.free();
}

#[test]
fn views_read_what_was_written_through_other_views() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let cache = buffer.place(w.tensor(F32, [2, 2, 1, 1]), 0);
    buffer.set_floats(cache, &[1.0, 2.0, 3.0, 4.0]);
    let doubled = w.in_place(SCALE, &[2.0_f32.to_bits() as i32, 0], cache, &[cache]);
    let turned = w.view(cache, [2, 2, 1, 1], [8, 4, 16, 16], 0);
    // No source edge leads from `doubled` to this node; only the order of the graph does.
    let out = buffer.place(w.node(SCALE, &[1.0_f32.to_bits() as i32, 0], F32, [2, 2, 1, 1], &[turned]), 256);
    assert_eq!(plugin.compute(&[doubled, turned, out], 0), STATUS_SUCCESS);
    assert_eq!(buffer.floats(out, 4), [2.0, 6.0, 4.0, 8.0]);
    assert_eq!(buffer.floats(cache, 4), [2.0, 4.0, 6.0, 8.0]);
    buffer.free();
}

#[test]
fn nodes_without_the_compute_flag_are_left_alone() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let x = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    buffer.set_floats(x, &[1.0; 4]);
    let skipped = buffer.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[x, x]), 256);
    // SAFETY: the tensor is ours and alive.
    unsafe { (*skipped).flags = 0 };
    let done = buffer.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[x, x]), 512);
    assert_eq!(plugin.compute(&[skipped, done], 0), STATUS_SUCCESS);
    assert_eq!((buffer.floats(skipped, 1), buffer.floats(done, 1)), (vec![0.0], vec![2.0]));
    buffer.free();
}

/// SET, ACC and SET_ROWS into new tensors and into a cache, which is read through another view afterwards.
#[test]
fn parts_are_written() {
    const ACC: i32 = 5;
    const SET: i32 = 33;
    const SET_ROWS: i32 = 42;
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let (weights, compute) = (plugin.buffer(1024, 0), plugin.buffer(1024, 2));
    let cache = weights.place(w.tensor(F32, [4, 3, 1, 1]), 0);
    weights.set_floats(cache, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0]);
    let part = weights.place(w.tensor(F32, [2, 2, 1, 1]), 256);
    weights.set_floats(part, &[20.0, 30.0, 40.0, 50.0]);
    let window = [16, 48, 48, 20];
    let set = compute.place(w.node(SET, &window, F32, [4, 3, 1, 1], &[cache, part]), 0);
    let acc = compute.place(w.node(ACC, &window, F32, [4, 3, 1, 1], &[cache, part]), 64);
    assert_eq!(plugin.compute(&[set, acc], 0), STATUS_SUCCESS);
    assert_eq!(compute.floats(set, 12), [0.0, 1.0, 2.0, 3.0, 4.0, 20.0, 30.0, 7.0, 8.0, 40.0, 50.0, 11.0]);
    assert_eq!(compute.floats(acc, 12), [0.0, 1.0, 2.0, 3.0, 4.0, 25.0, 36.0, 7.0, 8.0, 49.0, 60.0, 11.0]);

    let rows = weights.place(w.tensor(F32, [4, 2, 1, 1]), 512);
    weights.set_floats(rows, &[1.5; 8]);
    let ids = weights.place(w.tensor(26, [2, 1, 1, 1]), 768);
    weights.set_floats(ids, &[f32::from_bits(2), f32::from_bits(0)]);
    let written = w.in_place(SET_ROWS, &[], cache, &[rows, ids, cache]);
    let turned = w.view(cache, [3, 2, 1, 1], [16, 4, 48, 48], 8);
    let sum = compute.place(w.node(ADD, &[], F32, [3, 2, 1, 1], &[turned, turned]), 128);
    assert_eq!(plugin.compute(&[written, sum], 0), STATUS_SUCCESS);
    assert_eq!(weights.floats(cache, 12), [1.5, 1.5, 1.5, 1.5, 4.0, 5.0, 6.0, 7.0, 1.5, 1.5, 1.5, 1.5]);
    assert_eq!(compute.floats(sum, 6), [3.0, 12.0, 3.0, 3.0, 14.0, 3.0]);

    let none = w.in_place(SET_ROWS, &[], cache, &[w.view(rows, [4, 0, 1, 1], [4, 16, 32, 32], 0), ids, cache]);
    assert!(plugin.supports(none));
    assert_eq!(plugin.compute(&[none, sum], 0), STATUS_SUCCESS);
    assert_eq!(compute.floats(sum, 6), [3.0, 12.0, 3.0, 3.0, 14.0, 3.0]);
}

#[test]
fn a_plan_does_not_outlive_its_buffers() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    for _ in 0..3 {
        let buffer = plugin.buffer(1024, 0);
        let x = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
        buffer.set_floats(x, &[3.0; 4]);
        let sum = buffer.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[x, x]), 256);
        assert_eq!(plugin.compute(&[sum], 9), STATUS_SUCCESS);
        assert_eq!(buffer.floats(sum, 4), [6.0; 4]);
        buffer.free();
    }
}

#[test]
fn support_is_what_the_lowering_says() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    for type_id in [0, 1, 3, 8, 12, 16, 26, 27, 28, 30] {
        let leaf = w.tensor(type_id, [256, 2, 1, 1]);
        // SAFETY: the tensor is alive.
        let nb = unsafe { (*leaf).nb };
        let turned = w.view(leaf, [2, 256, 1, 1], [nb[1], nb[0], nb[2], nb[3]], 0);
        assert!(plugin.supports(leaf) && plugin.supports(turned), "type {type_id}");
    }
    let (q4_1, x) = (w.tensor(3, [64, 8, 1, 1]), w.tensor(F32, [64, 5, 1, 1]));
    assert!(plugin.supports(w.node(MUL_MAT, &[], F32, [8, 5, 1, 1], &[q4_1, x])));
    let bf16 = w.tensor(30, [64, 8, 1, 1]);
    assert!(plugin.supports(w.node(MUL_MAT, &[], F32, [8, 5, 1, 1], &[bf16, x])));
    let (iq2_xxs, long) = (w.tensor(16, [256, 8, 1, 1]), w.tensor(F32, [256, 5, 1, 1]));
    assert!(!plugin.supports(w.node(MUL_MAT, &[], F32, [8, 5, 1, 1], &[iq2_xxs, long])));
    assert!(!plugin.supports(w.node(74, &[], F32, [8, 5, 1, 1], &[x, x])));
    let empty = w.tensor(F32, [0, 5, 1, 1]);
    assert!(plugin.supports(w.node(ADD, &[], F32, [0, 5, 1, 1], &[empty, empty])));
    let part = w.view(x, [64, 2, 1, 1], [4, 256, 512, 512], 256);
    let partial = w.in_place(SCALE, &[1.0_f32.to_bits() as i32, 0], part, &[part]);
    assert!(plugin.supports(partial));
}

/// `dst = a + b` or `a - b` over square roots, each source perhaps transposed; `cut` ends a graph after it.
#[derive(Clone, Debug)]
struct Step {
    dst: usize,
    a: (usize, bool),
    b: (usize, bool),
    minus: bool,
    cut: bool,
}

fn step() -> impl Strategy<Value = Step> {
    let source = || (0..3_usize, any::<bool>());
    (0..3_usize, source(), source(), any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(dst, a, b, minus, cut)| Step { dst, a, b, minus, cut })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// However a host cuts its nodes into graphs, and whichever tensors are written in place, results are those of the nodes
    /// one after the other. Integers below 2^24 make f32 exact: 16 sums at most double 9 sixteen times.
    #[test]
    fn cuts_and_aliases_do_not_change_results(
        steps in prop::collection::vec(step(), 1..16),
        usage in prop_oneof![Just(0), Just(USAGE_COMPUTE)],
    ) {
        const SUB: i32 = 6;
        let plugin = Plugin::new("");
        let w = &plugin.world;
        let buffer = plugin.buffer(1024, usage);
        let roots = [0, 256, 512].map(|offset| buffer.place(w.tensor(F32, [3, 3, 1, 1]), offset));
        let mut model: Vec<[f32; 9]> = (0..3).map(|r| std::array::from_fn(|i| ((r * 4 + i) % 10) as f32)).collect();
        for (root, values) in roots.iter().zip(&model) {
            buffer.set_floats(*root, values);
        }
        let mut nodes = Vec::new();
        for Step { dst, a, b, minus, cut } in steps {
            let source = |(root, turned): (usize, bool)| match turned {
                false => roots[root],
                true => w.view(roots[root], [3, 3, 1, 1], [12, 4, 36, 36], 0),
            };
            nodes.push(w.in_place(if minus { SUB } else { ADD }, &[], roots[dst], &[source(a), source(b)]));
            let value = |(root, turned): (usize, bool), i: usize| model[root][if turned { i % 3 * 3 + i / 3 } else { i }];
            model[dst] = std::array::from_fn(|i| value(a, i) + if minus { -value(b, i) } else { value(b, i) });
            if cut {
                prop_assert_eq!(plugin.compute(&std::mem::take(&mut nodes), 0), STATUS_SUCCESS);
            }
        }
        prop_assert_eq!(plugin.compute(&nodes, 0), STATUS_SUCCESS);
        for (root, values) in roots.iter().zip(&model) {
            prop_assert_eq!(&buffer.floats(*root, 9), values);
        }
        buffer.free();
    }
}
