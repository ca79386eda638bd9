//! Several devices in the engine's own scheduler: two of the plugin's, and one of the plugin's beside another Vulkan backend's. They need
//! `libggml_fblayout.so` beside the program, a Vulkan device and `FBL_DEVICES=0,0`; `./x test` sees to all three.

use std::path::Path;

use ggml_host::{
    Backend, Context, Device, DeviceKind, Graph, Plan, Tensor, Type, Usage, capture_errors, devices, find_device,
    forward_logs, load_installed_backends, load_plugin,
};

/// Elements of a row.
const WIDTH: usize = 64;

/// The devices FBLayout0 and FBLayout1.
fn ours() -> [Device; 2] {
    forward_logs();
    load_installed_backends().unwrap();
    let program = std::env::current_exe().unwrap();
    let plugin = program.ancestors().nth(2).unwrap().join("libggml_fblayout.so");
    load_plugin(&plugin).unwrap();
    ["FBLayout0", "FBLayout1"].map(|name| find_device(name).expect("FBL_DEVICES=0,0 makes two of any device"))
}

fn cpu() -> Device {
    devices().into_iter().find(|device| device.kind() == DeviceKind::Cpu).expect("the engine brings a CPU backend")
}

fn ramp(n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * step % 101) as f32 - 50.0) / 50.0).collect()
}

/// [`run_layers`], during which no backend logs an error (what the validation layer says is one).
fn layers(rows: usize, on: [Device; 3], order: &[Device]) -> (Vec<f32>, usize) {
    let (result, said) = capture_errors(|| run_layers(rows, on, order));
    assert_eq!(said, "");
    result
}

/// Three layers of some rows, each where its weights are, scheduled over these devices and the CPU; the result, and the splits that it took.
fn run_layers(rows: usize, on: [Device; 3], order: &[Device]) -> (Vec<f32>, usize) {
    let weights = on.map(|_| Context::new(1, 0));
    let (inputs, context) = (Context::new(1, 0), Context::new(16, 16));
    let x = inputs.tensor(Type::F32, &[WIDTH, rows]);
    inputs.allocate(cpu(), Usage::Any, "the input").unwrap();
    x.set_f32(&ramp(WIDTH * rows, 37)).unwrap();
    let mut last = x;
    for (at, own) in weights.iter().enumerate() {
        let weight: Tensor<'_> = own.tensor(Type::F32, &[WIDTH, WIDTH]);
        own.allocate(on[at], Usage::Weights, "weights").unwrap();
        weight.set_f32(&ramp(WIDTH * WIDTH, 29 + at)).unwrap();
        let product = context.mul_mat(weight, context.rms_norm(last, 1e-5));
        last = context.add(product, last);
    }
    let result = last.mark_output();
    let mut graph = Graph::new(&context, 16);
    graph.expand(result);
    let backends: Vec<Backend> = order.iter().map(|&device| Backend::open(device).unwrap()).collect();
    let mut plan = Plan::new(&backends, graph).unwrap();
    plan.compute().unwrap();
    let first = result.get_f32().unwrap();
    plan.compute().unwrap();
    assert_eq!(result.get_f32().unwrap(), first, "a second run is the same");
    (first, plan.splits())
}

/// Sums of 64 products in another order differ by 64 ulps at most in each of three layers, a relative square of 3 (64 eps)^2 < 2e-10.
fn assert_near(got: &[f32], want: &[f32]) {
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(want).map(|(a, b)| square(f64::from(a - b))).sum();
    let scale: f64 = want.iter().map(|&x| square(f64::from(x))).sum();
    assert!(error <= 2e-10 * scale, "NMSE {:.2e}", error / scale);
}

#[test]
#[ignore = "needs the plugin, a Vulkan device and FBL_DEVICES=0,0; ./x test runs it"]
fn a_model_may_lie_on_two_of_our_devices_and_the_cpu() {
    let [first, second] = ours();
    let cpu = cpu();
    let (want, _) = layers(7, [cpu; 3], &[cpu]);
    let (got, splits) = layers(7, [first; 3], &[first, second, cpu]);
    assert_near(&got, &want);
    assert_eq!(splits, 1);
    for on in [[first, second, first], [second, first, cpu], [cpu, second, second]] {
        let (got, splits) = layers(7, on, &[first, second, cpu]);
        assert_near(&got, &want);
        assert!(splits >= 2, "{splits} splits");
    }
}

#[test]
#[ignore = "needs the plugin, FBL_DEVICES=0,0 and another Vulkan backend's library, named by FBL_PEER_PLUGIN"]
fn another_vulkan_backend_may_work_in_the_same_process() {
    let path = std::env::var_os("FBL_PEER_PLUGIN").expect("FBL_PEER_PLUGIN names the other backend's library");
    let [first, second] = ours();
    let peer = *load_plugin(Path::new(&path)).unwrap().devices.first().expect("the peer has a device");
    // One row: for several the peer has larger kernels, which take a driver on the CPU minutes to compile.
    let cpu = cpu();
    let (want, _) = layers(1, [cpu; 3], &[cpu]);
    for on in [[first, peer, second], [peer, first, peer]] {
        let (got, splits) = layers(1, on, &[first, second, peer, cpu]);
        assert_near(&got, &want);
        assert!(splits >= 3, "{splits} splits");
    }
}
