//! Our devices served by a second process, by ggml's RPC: the same graphs and bytes there as on this process's CPU. They need
//! `libggml_fblayout.so` beside the program and a Vulkan device; `./x test` sees to both.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use ggml_host::rpc::{Server, connect};
use ggml_host::{
    Backend, Context, Device, Graph, Plan, Rope, RopeMode, Tensor, Type, Usage, dequantize, find_device, forward_logs,
    load_installed_backends, quantize,
};

/// One server at a time, see [`Server::start`].
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `body` with two served devices and the CPU. Neither the plugin nor the validation layer may say anything in the server.
fn with_server(body: impl FnOnce([Device; 2], Device)) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    // What the server says must be seen even where this process is ended by ggml, as it is where the server is gone.
    let _ = env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("error")).try_init();
    forward_logs();
    load_installed_backends().unwrap();
    let program = std::env::current_exe().unwrap();
    let plugin = program.ancestors().nth(2).unwrap().join("libggml_fblayout.so");
    let server = Server::start(|address| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout-engines"));
        // Numbers travel, and are compared as closely as F32 lets them be; matrix units would round what products multiply.
        command.env("FBL_DEVICES", "0,0").env("FBL_LIMITS", r#"{"matrix_units": []}"#).arg("--plugin").arg(plugin);
        command.args(["--device", "FBLayout0,FBLayout1", "--serve", address, "--until-eof"]);
        command
    });
    let server = server.unwrap();
    let devices = connect(server.address()).unwrap();
    body(devices.try_into().expect("two devices are served"), find_device("cpu").unwrap());
    assert_eq!(server.stop(), "");
}

fn ramp(n: usize, step: usize) -> Vec<f32> {
    (0..n).map(|i| ((i * step % 101) as f32 - 50.0) / 50.0).collect()
}

fn whole(tensor: Tensor<'_>) -> Vec<u8> {
    let mut bytes = vec![0; tensor.bytes()];
    tensor.get_bytes(0, &mut bytes).unwrap();
    bytes
}

/// Asserts a normalized square error of at most that of `stages` sums of `terms` products one behind the other, each in another order.
fn assert_near(got: &[f32], want: &[f32], stages: usize, terms: usize) {
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(want).map(|(a, b)| square(f64::from(a - b))).sum();
    let scale: f64 = want.iter().map(|&x| square(f64::from(x))).sum();
    let bound = square((stages * terms) as f64 * f64::from(f32::EPSILON));
    assert!(got.len() == want.len() && error <= bound * scale, "NMSE {:.2e}, bound {bound:.2e}", error / scale);
}

/// Every byte of some tensors after writes at odd places, through views, by copies, and after clearing all.
fn write_and_read(device: Device) -> Vec<Vec<u8>> {
    let context = Context::new(8, 0);
    // Whose rows are no multiple of 512: the only ones whose sizes and places the server is asked for.
    let quants = context.tensor(Type::Q8_0, &[96, 3]);
    let floats = context.tensor(Type::F32, &[33, 5]);
    let column = context.view(floats, [7, 5, 1, 1], [132, 660, 660], 40);
    let others = context.tensor(Type::F32, &[33, 5]);
    let other_quants = context.tensor(Type::Q8_0, &[96, 3]);
    context.allocate(device, Usage::Any, "tensors").unwrap();
    context.clear(0xa5);
    quants.set_bytes(0, &quantize(Type::Q8_0, 96, &ramp(288, 7)).unwrap()).unwrap();
    quants.set_bytes(33, &[1, 2, 3, 4, 5]).unwrap();
    floats.set_f32(&ramp(165, 11)).unwrap();
    floats.copy_to(others).unwrap();
    quants.copy_to(other_quants).unwrap();
    floats.set_bytes(659, &[9]).unwrap();
    column.set_bytes(1, &[6, 7, 8]).unwrap();
    column.fill_bytes(0x3c, 130, 300).unwrap();
    other_quants.fill_bytes(0, 101, 7).unwrap();
    let mut part = vec![0; 57];
    column.get_bytes(3, &mut part).unwrap();
    let mut all: Vec<_> = [quants, floats, column, others, other_quants].map(whole).to_vec();
    all.push(part);
    context.clear(0x11);
    others.set_bytes(5, &[1]).unwrap();
    all.extend([floats, others].map(whole));
    all
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn bytes_are_the_same_in_another_process() {
    with_server(|devices, cpu| {
        let want = write_and_read(cpu);
        for device in devices {
            assert_eq!(write_and_read(device), want);
        }
    });
}

/// Extents of the layer: a token's width, a head's, its feed-forward's, and tokens in the cache.
const WIDTH: usize = 64;
const HEAD: usize = 32;
const INNER: usize = 96;
const ROOM: usize = 16;

/// A decoder layer's weights and cache.
struct Layer<'c> {
    gain: Tensor<'c>,
    query: Tensor<'c>,
    key: Tensor<'c>,
    value: Tensor<'c>,
    output: Tensor<'c>,
    gate: Tensor<'c>,
    up: Tensor<'c>,
    down: Tensor<'c>,
    keys: Tensor<'c>,
    values: Tensor<'c>,
}

impl<'c> Layer<'c> {
    /// Weights of blocks on `device`; `exact` are the numbers that those blocks stand for.
    fn new(context: &'c Context, device: Device, exact: bool) -> Self {
        let mut pending = Vec::new();
        let mut weight = |dtype: Type, k: usize, n: usize| {
            let bytes = quantize(dtype, k, &ramp(k * n, 13 + 2 * pending.len())).unwrap();
            let tensor = context.tensor(if exact { Type::F32 } else { dtype }, &[k, n]);
            pending.push((tensor, if exact { Err(dequantize(dtype, &bytes).unwrap()) } else { Ok(bytes) }));
            tensor
        };
        let layer = Self {
            gain: weight(Type::F32, WIDTH, 1),
            query: weight(Type::F32, WIDTH, WIDTH),
            key: weight(Type::Q4_1, WIDTH, HEAD),
            value: weight(Type::F16, WIDTH, HEAD),
            output: weight(Type::Q8_0, WIDTH, WIDTH),
            gate: weight(Type::Q4_0, WIDTH, INNER),
            up: weight(Type::Q8_0, WIDTH, INNER),
            down: weight(Type::Q4_1, INNER, WIDTH),
            keys: context.tensor(Type::F32, &[HEAD, ROOM]),
            values: context.tensor(Type::F32, &[HEAD, ROOM]),
        };
        context.allocate(device, Usage::Weights, "a layer").unwrap();
        context.clear(0);
        for (tensor, content) in pending {
            match content {
                Ok(bytes) => tensor.set_bytes(0, &bytes).unwrap(),
                Err(numbers) => tensor.set_f32(&numbers).unwrap(),
            }
        }
        layer
    }
}

/// A graph of `tokens` tokens with what it is told of them.
struct Step<'c> {
    plan: Plan<'c>,
    x: Tensor<'c>,
    positions: Tensor<'c>,
    places: Tensor<'c>,
    mask: Tensor<'c>,
    result: Tensor<'c>,
}

impl<'c> Step<'c> {
    /// The inputs are on the last backend, from where the scheduler sends them.
    fn new([c, inputs]: [&'c Context; 2], layer: &Layer<'c>, backends: &[Backend], tokens: usize) -> Self {
        let x = inputs.tensor(Type::F32, &[WIDTH, tokens]);
        let positions = inputs.tensor(Type::I32, &[tokens]);
        let places = inputs.tensor(Type::I64, &[tokens]);
        let mask = inputs.tensor(Type::F32, &[ROOM, tokens]);
        inputs.allocate(backends[backends.len() - 1].device(), Usage::Any, "inputs").unwrap();
        let rope = Rope { dims: HEAD, mode: RopeMode::Neox, freq_base: 10000.0, freq_scale: 1.0 };
        let normed = c.mul(c.rms_norm(x, 1e-5), layer.gain);
        let heads = |weight: Tensor<'c>, count| {
            c.rope(c.reshape(c.mul_mat(weight, normed), [HEAD, count, tokens, 1]), positions, None, &rope)
        };
        let query = c.permute(heads(layer.query, 2), [0, 2, 1, 3]);
        let key = c.reshape(heads(layer.key, 1), [HEAD, tokens, 1, 1]);
        let keys = c.set_rows(layer.keys, key, places);
        let values = c.set_rows(layer.values, c.mul_mat(layer.value, normed), places);
        let weights = c.soft_max(c.mul_mat(keys, query), Some(mask), (HEAD as f32).sqrt().recip());
        let seen = c.permute(c.mul_mat(c.cont(c.transpose(values)), weights), [0, 2, 1, 3]);
        let attended = c.mul_mat(layer.output, c.reshape(c.cont(seen), [WIDTH, tokens, 1, 1]));
        let middle = c.add(attended, x);
        let normed = c.rms_norm(middle, 1e-5);
        let inner = c.swiglu(c.mul_mat(layer.gate, normed), c.mul_mat(layer.up, normed));
        let result = c.add(c.mul_mat(layer.down, inner), middle).mark_output();
        let mut graph = Graph::new(c, 64);
        graph.expand(result);
        let plan = Plan::new(backends, graph).unwrap();
        Self { plan, x, positions, places, mask, result }
    }

    /// Runs tokens from a position on.
    fn run(&mut self, from: usize) -> Vec<f32> {
        let tokens = self.x.extents()[1];
        let places: Vec<usize> = (from..from + tokens).collect();
        self.x.set_f32(&ramp(WIDTH * tokens, 17 + from)).unwrap();
        self.positions.set_i32(&places.iter().map(|&at| at as i32).collect::<Vec<_>>()).unwrap();
        let rows: Vec<u8> = places.iter().flat_map(|&at| (at as i64).to_le_bytes()).collect();
        self.places.set_bytes(0, &rows).unwrap();
        let mask = |&at: &usize| (0..ROOM).map(move |key| if key <= at { 0.0 } else { f32::NEG_INFINITY });
        self.mask.set_f32(&places.iter().flat_map(mask).collect::<Vec<_>>()).unwrap();
        self.plan.compute().unwrap();
        self.result.get_f32().unwrap()
    }
}

/// Results of a prompt and of tokens after it, whose graph is the same each time, and the cache that is left.
fn decode(device: Device, cpu: Device, exact: bool) -> Vec<Vec<f32>> {
    let (state, inputs, context) = (Context::new(16, 0), Context::new(8, 0), Context::new(128, 256));
    let layer = Layer::new(&state, device, exact);
    let mut backends = vec![Backend::open(device).unwrap()];
    if device != cpu {
        backends.push(Backend::open(cpu).unwrap());
    }
    let mut prompt = Step::new([&context, &inputs], &layer, &backends, 5);
    let mut next = Step::new([&context, &inputs], &layer, &backends, 1);
    let mut results = vec![prompt.run(0)];
    results.extend((5..8).map(|at| next.run(at)));
    results.push(prompt.run(8));
    results.extend([layer.keys, layer.values].map(|cache| cache.get_f32().unwrap()));
    results
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn a_layer_decodes_in_another_process() {
    with_server(|[device, _], cpu| {
        let results = decode(device, cpu, false).into_iter().zip(decode(cpu, cpu, true));
        // Nine products, norms and sums are one behind the other.
        results.for_each(|(got, want)| assert_near(&got, &want, 9, INNER));
    });
}

/// `weight * x`, then a window of it, twice its size, written over another window in place; three graphs on the same tensors.
fn three_graphs(device: Device, n: usize) -> Vec<f32> {
    let context = Context::new(16, 64);
    let weight = context.tensor(Type::F32, &[n, n]);
    let x = context.tensor(Type::F32, &[n, n]);
    let product = context.mul_mat(weight, x);
    let window = context.view(product, [n - 1, n - 2, 1, 1], [n * 4, n * n * 4, n * n * 4], 4 * (n + 1));
    let twice = context.scale(context.cont(window), 2.0);
    let target = context.view(product, [n - 1, n - 2, 1, 1], [n * 4, n * n * 4, n * n * 4], 0);
    let written = context.cpy(twice, target);
    context.allocate(device, Usage::Any, "a graph").unwrap();
    weight.set_f32(&ramp(n * n, 3 + n)).unwrap();
    x.set_f32(&ramp(n * n, 5 + n)).unwrap();
    let backend = Backend::open(device).unwrap();
    for result in [product, twice, written] {
        let scratch = Context::new(0, 16);
        let mut graph = Graph::new(&scratch, 16);
        graph.expand(result);
        backend.compute(&graph).unwrap();
    }
    product.get_f32().unwrap()
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn buffers_come_and_go_in_another_process() {
    with_server(|[device, second], cpu| {
        // A buffer after another of its size has the same address; the connection ends with the last buffer, unless a stream stays.
        for kept in [None, Some(Backend::open(second).unwrap())] {
            for n in [24, 24, 9, 24] {
                assert_near(&three_graphs(device, n), &three_graphs(cpu, n), 1, n);
            }
            drop(kept);
        }
    });
}

#[test]
#[ignore = "needs the plugin and a Vulkan device; ./x test runs it"]
fn two_devices_of_another_process_share_a_graph() {
    with_server(|devices, cpu| {
        let n = 24;
        let run = |on: [Device; 2]| {
            let (sides, context) = (on.map(|_| Context::new(2, 0)), Context::new(16, 16));
            let [[first, x], [second, copy]] = [0, 1].map(|at| {
                let tensors = [(); 2].map(|()| sides[at].tensor(Type::F32, &[n, n]));
                sides[at].allocate(on[at], Usage::Weights, "a side").unwrap();
                tensors
            });
            for (tensor, step) in [(first, 29), (x, 31), (second, 37)] {
                tensor.set_f32(&ramp(n * n, step)).unwrap();
            }
            x.copy_to(copy).unwrap();
            let result = context.mul_mat(second, context.add(context.mul_mat(first, x), copy)).mark_output();
            let mut graph = Graph::new(&context, 16);
            graph.expand(result);
            let mut order = vec![on[0], on[1], cpu];
            order.dedup();
            let backends: Vec<_> = order.iter().map(|&device| Backend::open(device).unwrap()).collect();
            let mut plan = Plan::new(&backends, graph).unwrap();
            plan.compute().unwrap();
            (result.get_f32().unwrap(), plan.splits())
        };
        let ((got, splits), (want, _)) = (run(devices), run([cpu; 2]));
        assert_near(&got, &want, 3, n);
        assert!(splits >= 2, "{splits} splits");
    });
}
