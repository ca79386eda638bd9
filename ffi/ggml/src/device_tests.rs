//! The plugin on the Vulkan device present.

use crate::abi::*;
use crate::engine_link::Link;
use crate::registry::Registry;
use crate::testing::plugin::{HostBuffer, Plugin};
use crate::testing::{Handle, TYPES, host};

const F32: i32 = 0;
const ADD: i32 = 2;
const MUL_MAT: i32 = 29;
const SCALE: i32 = 32;
const CPY: i32 = 34;
const CONT: i32 = 35;
const VIEW: i32 = 37;
const SET_ROWS: i32 = 42;
const ROPE: i32 = 48;
const ADD1: i32 = 4;
const ACC: i32 = 5;
const SUB: i32 = 6;
const SQR: i32 = 9;
const ARGMAX: i32 = 18;
const CROSS_ENTROPY_LOSS: i32 = 96;
const ADAMW: i32 = 98;

fn assert_valid(registry: &Registry<Link>) {
    for device in registry.devices() {
        assert_eq!(device.engine().expect("open").validation_messages(), [""; 0]);
    }
}

/// Bytes that differ from their neighbours.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed * 31 + i * 7 + i / 256) as u8).collect()
}

#[test]
fn every_type_comes_back_from_its_home_bit_for_bit() {
    let registry = Registry::<Link>::new(host(), "0");
    let plugin = Plugin::on(registry, 0);
    for (type_id, elements, bytes) in TYPES {
        // Rows that fill no whole tile, and more bytes than stay on the host.
        let (blocks, rows) = (usize::max(3, 40 / bytes), 7);
        let n = blocks * rows * bytes;
        let buffer = plugin.buffer(n + 256, 0);
        let root = plugin.world.tensor(type_id, [(blocks * elements) as i64, rows as i64, 1, 1]);
        let root = buffer.place(root, 256);
        let mut model = pattern(type_id as usize, n);
        buffer.set(root, 0, &model);
        assert_eq!(buffer.get(root, n / 3 + 1, n / 3), model[n / 3 + 1..][..n / 3], "type {type_id}");
        buffer.set(root, n / 2 + 1, &[1, 2, 3]);
        buffer.memset(root, 0x5A, n - 2, 2);
        model[n / 2 + 1..n / 2 + 4].copy_from_slice(&[1, 2, 3]);
        model[n - 2..].fill(0x5A);
        assert_eq!(buffer.get(root, 0, n), model, "type {type_id}");
        buffer.set(root, 0, &model);
        assert_eq!(buffer.get(root, 0, n), model, "type {type_id}");
        buffer.free();
    }
    assert_valid(registry);
}

#[test]
fn two_devices_share_the_layers_of_a_model() {
    let registry = Registry::<Link>::new(host(), "0,0");
    let [first, second] = [0, 1].map(|index| Plugin::on(registry, index));
    assert_eq!([first.device.name(), second.device.name()], [c"FBLayout0", c"FBLayout1"]);
    assert_ne!(first.device.buffer_type(), second.device.buffer_type());
    let w = &first.world;
    let mut results = Vec::new();
    // Two layers: both on the first device, then one on each with a copy of the activations between.
    for devices in [[&first, &first], [&first, &second], [&second, &first]] {
        let weights = devices.map(|device| {
            let buffer = device.buffer(1024, 1);
            let weight = buffer.place(w.tensor(F32, [8, 8, 1, 1]), 0);
            buffer.set_floats(weight, &(0..64).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>());
            (buffer, weight)
        });
        let compute = devices.map(|device| device.buffer(1024, USAGE_COMPUTE));
        let x = compute[0].place(w.tensor(F32, [8, 5, 1, 1]), 0);
        compute[0].set_floats(x, &(0..40).map(|i| (i % 5) as f32).collect::<Vec<_>>());
        let layer = |at: usize, x: Handle| {
            let product = w.node(MUL_MAT, &[], F32, [8, 5, 1, 1], &[weights[at].1, x]);
            let product = compute[at].place(product, 256);
            let out = compute[at].place(w.node(ADD, &[], F32, [8, 5, 1, 1], &[product, x]), 512);
            assert!(devices[at].supports(product) && devices[at].supports(out));
            assert_eq!(devices[at].compute(&[product, out], 1 + at as u64), STATUS_SUCCESS);
            out
        };
        let middle = layer(0, x);
        let copied = compute[1].place(w.tensor(F32, [8, 5, 1, 1]), 0);
        assert!(compute[1].copy(middle, copied));
        let out = layer(1, copied);
        results.push(compute[1].floats(out, 40));
        for buffer in weights.map(|(buffer, _)| buffer).into_iter().chain(compute) {
            buffer.free();
        }
    }
    assert!(results[0].iter().any(|&x| x != 0.0));
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]), "{results:?}");
    // A buffer of the other device is no buffer of this one.
    let foreign = second.buffer(256, 0);
    let x = foreign.place(w.tensor(F32, [8, 1, 1, 1]), 0);
    let sum = foreign.place(w.node(ADD, &[], F32, [8, 1, 1, 1], &[x, x]), 128);
    assert_eq!(first.compute(&[sum], 0), STATUS_FAILED);
    foreign.free();
    assert_valid(registry);
}

#[test]
fn free_memory_is_what_can_be_had() {
    let registry = Registry::<Link>::new(host(), "0");
    let device = registry.devices()[0];
    let (mut free, mut total) = (0, 0);
    // SAFETY: the device is immortal, and the out pointers are valid.
    unsafe { ((*device.raw()).iface.get_memory.expect("set"))(device.raw(), &mut free, &mut total) };
    assert!(0 < free && free <= total, "{free} of {total}, before it is opened");
    let plugin = Plugin::on(registry, 0);
    let engine = plugin.engine();
    let in_use = || engine.engine().gpu().memory().in_use;
    let (before, room) = (in_use(), total as u64);
    let buffer = plugin.buffer(8 << 20, 1);
    assert_eq!(in_use(), before, "a buffer is only addresses");
    let weights = buffer.place(plugin.world.tensor(F32, [1024, 1024, 1, 1]), 0);
    buffer.set(weights, 0, &vec![1; 4 << 20]);
    assert!(in_use() >= before + (4 << 20));
    let (free, total) = plugin.memory();
    assert!(free as u64 <= room - in_use() && total as u64 == room, "{free} of {total}");
    buffer.free();
    assert_eq!(in_use(), before);
    assert_valid(registry);
}

#[test]
fn buffers_go_while_other_streams_compute() {
    let registry = Registry::<Link>::new(host(), "0");
    std::thread::scope(|scope| {
        for thread in 0..3 {
            scope.spawn(move || {
                let plugin = Plugin::on(registry, 0);
                let w = &plugin.world;
                for run in 0..12 {
                    let weights = plugin.buffer(4096, 0);
                    let compute = plugin.buffer(4096, USAGE_COMPUTE);
                    let x = weights.place(w.tensor(F32, [16, 8, 1, 1]), 0);
                    weights.set_floats(x, &[(thread + run) as f32; 128]);
                    let double = compute.place(w.node(ADD, &[], F32, [16, 8, 1, 1], &[x, x]), 0);
                    let sum = compute.place(w.node(ADD, &[], F32, [16, 8, 1, 1], &[double, x]), 1024);
                    assert_eq!(plugin.compute(&[double, sum], 1 + run as u64), STATUS_SUCCESS);
                    // The weights go at once, before anything waits for the results.
                    weights.free();
                    assert_eq!(compute.floats(sum, 128), [3.0 * (thread + run) as f32; 128]);
                    compute.reset();
                    compute.free();
                }
            });
        }
    });
    assert_valid(registry);
}

/// The ops whose results lie in buffers that exist before the graph (caches, gradients, weights, results of a static training graph): an
/// engine has nowhere else to compute them, and ends the process where a device refuses one.
#[test]
fn ops_with_a_place_of_their_own_are_supported() {
    let registry = Registry::<Link>::new(host(), "0");
    let plugin = Plugin::on(registry, 0);
    let w = &plugin.world;
    let (f16, i32, i64) = (1, 26, 27);
    let float = |x: f32| x.to_bits() as i32;
    let bytes = |view: Handle| {
        // SAFETY: the tensor is alive.
        unsafe { (*view).nb }
    };
    let mut refused = Vec::new();
    let mut ask = |name: &'static str, node: Handle| {
        if !plugin.supports(node) {
            refused.push(name);
        }
    };
    let matrix = |type_id| w.tensor(type_id, [64, 32, 1, 1]);
    let rope = [0, 32, 2, 0, 4096, float(1e4), float(1.0), 0, float(1.0), float(32.0), float(1.0)];
    for (type_id, name) in [(F32, "f32"), (f16, "f16")] {
        let cache = matrix(type_id);
        let nb = bytes(cache);
        let (rows, ids) = (w.tensor(F32, [64, 4, 1, 1]), w.tensor(i64, [4, 1, 1, 1]));
        ask(name, w.in_place(SET_ROWS, &[], cache, &[rows, ids, cache]));
        let elements = w.view(cache, [1, 2048, 1, 1], [nb[0], nb[0], nb[2], nb[3]], 0);
        let (values, ids) = (w.tensor(F32, [1, 256, 1, 1]), w.tensor(i64, [256, 1, 1, 1]));
        ask(name, w.in_place(SET_ROWS, &[], elements, &[values, ids, elements]));
        let part = w.view(cache, [64, 4, 1, 1], [nb[0], nb[1], 4 * nb[1], 4 * nb[1]], 8 * nb[1]);
        ask(name, w.in_place(CPY, &[], part, &[rows, part]));
        let heads = w.view(cache, [32, 2, 16, 1], [nb[0], 32 * nb[0], nb[1], 16 * nb[1]], 4 * nb[1]);
        ask(name, w.in_place(ROPE, &rope, heads, &[heads, w.tensor(i32, [16, 1, 1, 1])]));
    }
    for (type_id, name) in [(2, "q4_0"), (3, "q4_1"), (6, "q5_0"), (7, "q5_1"), (8, "q8_0"), (20, "iq4_nl")] {
        let cache = matrix(type_id);
        let nb = bytes(cache);
        let (rows, ids) = (w.tensor(F32, [64, 4, 1, 1]), w.tensor(i64, [4, 1, 1, 1]));
        ask(name, w.in_place(SET_ROWS, &[], cache, &[rows, ids, cache]));
        let part = w.view(cache, [64, 4, 1, 1], [nb[0], nb[1], 4 * nb[1], 4 * nb[1]], 8 * nb[1]);
        ask(name, w.in_place(CPY, &[], part, &[rows, part]));
        let part = w.view(cache, [64, 4, 1, 1], [nb[0], nb[1], 4 * nb[1], 4 * nb[1]], 8 * nb[1]);
        ask(name, w.in_place(CPY, &[], part, &[w.tensor(f16, [32, 8, 1, 1]), part]));
    }
    let [weight, gradient, m, v] = [F32; 4].map(matrix);
    let (one, row) = (w.tensor(F32, [1, 1, 1, 1]), w.tensor(F32, [64, 1, 1, 1]));
    ask("opt_step_adamw", w.in_place(ADAMW, &[], weight, &[weight, gradient, m, v, w.tensor(F32, [7, 1, 1, 1])]));
    ask("add", w.in_place(ADD, &[], gradient, &[gradient, m]));
    ask("add a row", w.in_place(ADD, &[], gradient, &[gradient, row]));
    ask("sub", w.in_place(SUB, &[], gradient, &[gradient, m]));
    ask("add1", w.in_place(ADD1, &[], gradient, &[gradient, one]));
    ask("scale", w.in_place(SCALE, &[float(0.5), 0], gradient, &[gradient]));
    let nb = bytes(gradient);
    let turned = w.view(w.tensor(F32, [4, 64, 1, 1]), [64, 4, 1, 1], [16, 4, 1024, 1024], 0);
    let place = [nb[1] as i32, nb[2] as i32, nb[3] as i32, 2 * nb[1] as i32, 1];
    ask("acc", w.in_place(ACC, &place, gradient, &[gradient, turned]));
    ask("sqr", w.node(SQR, &[], F32, [64, 32, 1, 1], &[m]));
    ask("cross_entropy_loss", w.node(CROSS_ENTROPY_LOSS, &[], F32, [1; 4], &[weight, gradient]));
    ask("argmax", w.node(ARGMAX, &[], i32, [32, 1, 1, 1], &[weight]));
    assert_eq!(refused, [""; 0]);
    assert_valid(registry);
}

/// Keys written to a cache in blocks and read by head in the same graph, then by another: odd numbers of rows, and numbers that each
/// type holds but for the rounding of its scale.
#[test]
fn caches_in_blocks_hold_what_is_written() {
    const HEAD: usize = 32;
    let registry = Registry::<Link>::new(host(), "0");
    let plugin = Plugin::on(registry, 0);
    let w = &plugin.world;
    for type_id in [2, 6, 8] {
        let (buffer, compute) = (plugin.buffer(1 << 14, 0), plugin.buffer(1 << 12, USAGE_COMPUTE));
        let cache = buffer.place(w.tensor(type_id, [2 * HEAD as i64, 7, 1, 1]), 0);
        buffer.clear(0);
        let rows = buffer.place(w.tensor(F32, [2 * HEAD as i64, 3, 1, 1]), 1 << 12);
        // One extreme to a block; all else is zero.
        let at = |row: usize, i: usize| if i % HEAD == row { if type_id == 8 { 127.0 } else { -127.0 } } else { 0.0 };
        buffer.set_floats(rows, &(0..6 * HEAD).map(|i| at(i / (2 * HEAD), i % (2 * HEAD))).collect::<Vec<f32>>());
        let ids = buffer.place(w.tensor(26, [3, 1, 1, 1]), 1 << 13);
        buffer.set(ids, 0, &[5_i32, 0, 6].map(i32::to_le_bytes).concat());
        let query = buffer.place(w.tensor(F32, [HEAD as i64, 1, 2, 1]), 3 << 12);
        buffer.set_floats(query, &(0..2 * HEAD).map(|i| (1 + i) as f32).collect::<Vec<_>>());

        let written = w.in_place(SET_ROWS, &[], cache, &[rows, ids, cache]);
        // SAFETY: the tensor is alive.
        let nb = unsafe { (*cache).nb };
        let keys = w.view(cache, [HEAD as i64, 7, 2, 1], [nb[0], nb[1], nb[0], nb[3]], 0);
        let scores = compute.place(w.node(MUL_MAT, &[], F32, [7, 1, 2, 1], &[keys, query]), 0);
        let sign = if type_id == 8 { 127.0 } else { -127.0 };
        let expected: Vec<f32> = (0..14)
            .map(|i| match [5, 0, 6].iter().position(|&id| id == i % 7) {
                Some(row) => sign * (1 + row + i / 7 * HEAD) as f32,
                None => 0.0,
            })
            .collect();
        assert_eq!(plugin.compute(&[written, scores], 0), STATUS_SUCCESS);
        let near = |got: &[f32]| got.iter().zip(&expected).all(|(got, x)| (got - x).abs() <= x.abs() / 1000.0);
        let got = compute.floats(scores, 14);
        assert!(near(&got), "type {type_id}: {got:?} instead of {expected:?}");
        // What the host reads and writes back is the same cache.
        let bytes = buffer.get(cache, 0, 7 * nb[1]);
        buffer.set(cache, 0, &bytes);
        assert_eq!(plugin.compute(&[scores], 0), STATUS_SUCCESS);
        assert_eq!(compute.floats(scores, 14), got, "type {type_id}");
        compute.reset();
        compute.free();
        buffer.free();
    }
    assert_valid(registry);
}

/// A host whose graphs have other lengths and other ops each time. Its tensors are the same structures over and over, as in a context
/// that is cleared and filled again.
struct Decoder {
    plugin: Plugin<Link>,
    weights: HostBuffer,
    compute: HostBuffer,
    weight: Handle,
    x: Handle,
    nodes: Vec<Handle>,
    graph: &'static mut ggml_cgraph,
    seed: u64,
}

/// Elements of a row.
const WIDTH: usize = 8;
/// Ops of a graph at most.
const DEPTH: usize = 4;

impl Decoder {
    fn new(plugin: Plugin<Link>) -> Self {
        let w = &plugin.world;
        let (weights, compute) = (plugin.buffer(4096, 1), plugin.buffer(1 << 20, USAGE_COMPUTE));
        let weight = weights.place(w.tensor(F32, [WIDTH as i64, WIDTH as i64, 1, 1]), 0);
        // A permutation, so that products stay small.
        let unit = |i: usize| if i % WIDTH == (i / WIDTH + 3) % WIDTH { 1.0 } else { 0.0 };
        weights.set_floats(weight, &(0..WIDTH * WIDTH).map(unit).collect::<Vec<_>>());
        let x = compute.place(w.tensor(F32, [WIDTH as i64, 1, 1, 1]), 0);
        // A transposition needs a view before it.
        let nodes: Vec<Handle> = (0..2 * DEPTH).map(|_| w.node(ADD, &[], F32, [1; 4], &[x])).collect();
        let graph = w.graph(&nodes, 0);
        Self { weights, compute, weight, x, nodes, graph, seed: 1, plugin }
    }

    fn random(&mut self, below: usize) -> usize {
        // Knuth's multiplier; the upper bits are the random ones.
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % below
    }

    /// Makes structure number `at` a node with the strides of `nb`, or a contiguous one, `slot` results into the buffer.
    fn node(
        &self,
        at: usize,
        op: i32,
        ne: [i64; 4],
        src: &[Handle],
        place: (Handle, Option<[usize; 4]>, usize),
    ) -> Handle {
        let (root, nb, offset) = place;
        let handle = self.nodes[at];
        let row = 4 * ne[0] as usize;
        let all = row * ne[1] as usize;
        // SAFETY: the structure is ours, and no call that reads it is under way.
        let t = unsafe { &mut *handle };
        (t.op, t.ne, t.nb) = (op, ne, nb.unwrap_or([4, row, all, all]));
        t.op_params = [0; MAX_OP_PARAMS];
        t.op_params[0] = 2.0_f32.to_bits() as i32;
        t.src = [std::ptr::null_mut(); MAX_SRC];
        t.src[..src.len()].copy_from_slice(src);
        t.view_src = root;
        t.view_offs = 0;
        self.compute.place(handle, offset)
    }

    /// A graph of a random length and up to [`DEPTH`] random ops; the result is checked.
    fn step(&mut self, lengths: usize) {
        let rows = 1 + self.random(lengths);
        let none = std::ptr::null_mut();
        self.compute.reset();
        // SAFETY: the tensor is ours, and no call that reads it is under way.
        unsafe {
            (*self.x).ne[1] = rows as i64;
            (*self.x).nb = [4, 4 * WIDTH, 4 * WIDTH * rows, 4 * WIDTH * rows];
        }
        let mut values: Vec<f32> = (0..WIDTH * rows).map(|i| (i % 11) as f32).collect();
        self.compute.set_floats(self.x, &values);
        let slot = (4 * WIDTH * rows).next_multiple_of(256);
        let (mut last, mut ne, mut count, mut root) = (self.x, [WIDTH, rows], 0, 0);
        for depth in 0..1 + self.random(DEPTH) {
            let shape = |ne: [usize; 2]| [ne[0] as i64, ne[1] as i64, 1, 1];
            let place = slot * (1 + depth);
            let made = match self.random(4) {
                0 => {
                    values.iter_mut().for_each(|x| *x *= 2.0);
                    self.node(count, SCALE, shape(ne), &[last], (none, None, place))
                }
                1 => {
                    values.iter_mut().for_each(|x| *x += *x);
                    self.node(count, ADD, shape(ne), &[last, last], (none, None, place))
                }
                2 if ne[0] == WIDTH => {
                    let from = values.clone();
                    let moved = |i: usize| from[i / WIDTH * WIDTH + (i % WIDTH + 3) % WIDTH];
                    values = (0..values.len()).map(moved).collect();
                    self.node(count, MUL_MAT, shape(ne), &[self.weight, last], (none, None, place))
                }
                _ => {
                    let from = values.clone();
                    values = (0..values.len()).map(|i| from[i % ne[1] * ne[0] + i / ne[1]]).collect();
                    let (row, all) = (4 * ne[0], 4 * values.len());
                    ne.swap(0, 1);
                    let turned = self.node(count, VIEW, shape(ne), &[last], (last, Some([row, 4, all, all]), root));
                    count += 1;
                    self.node(count, CONT, shape(ne), &[turned], (none, None, place))
                }
            };
            count += 1;
            (last, root) = (made, place);
        }
        self.graph.n_nodes = count as i32;
        self.graph.visited_hash_set.size = 0;
        assert_eq!(self.plugin.run(self.graph), STATUS_SUCCESS);
        assert_eq!(self.compute.floats(last, values.len()), values);
    }

    fn census(&self) -> fblayout::vulkan::Census {
        self.plugin.engine().engine().gpu().census()
    }
}

/// The most of everything that was alive after each of so many graphs.
fn peak(decoder: &mut Decoder, graphs: usize, lengths: usize) -> [u64; 6] {
    let mut most = [0; 6];
    for _ in 0..graphs {
        decoder.step(lengths);
        let c = decoder.census();
        let now = [c.buffers, c.images, c.pipelines, c.tapes, c.descriptor_sets].map(|n| n as u64);
        let in_use = decoder.plugin.engine().engine().gpu().memory().in_use;
        most.iter_mut().zip(now.into_iter().chain([in_use])).for_each(|(most, now)| *most = (*most).max(now));
    }
    most
}

#[test]
fn nothing_grows_while_shapes_change() {
    let registry = Registry::<Link>::new(host(), "0");
    let idle = registry.devices()[0].engine().expect("open").engine().gpu().census();
    let mut decoder = Decoder::new(Plugin::on(registry, 0));
    // More graphs than plans are kept, and few enough pipelines that all are built in the first half.
    let (first, second) = (peak(&mut decoder, 200, 6), peak(&mut decoder, 100, 6));
    // Which of the graphs are kept differs, and so do the sizes of what they hold.
    for (first, second) in first.into_iter().zip(second) {
        assert!(second <= first + first / 8, "{first:?}, then {second:?}");
    }
    assert!(second[3] <= 32, "{} tapes", second[3]);
    let Decoder { plugin, weights, compute, .. } = decoder;
    weights.free();
    compute.free();
    drop(plugin);
    let left = registry.devices()[0].engine().expect("open").engine().gpu().census();
    // Pipelines wait for the next graph.
    assert_eq!((left.buffers, left.images, left.tapes, left.descriptor_sets), (idle.buffers, idle.images, 0, 0));
    assert_valid(registry);
}

#[test]
#[ignore = "takes many minutes: ten thousand graphs, most of them new"]
fn nothing_grows_in_ten_thousand_graphs() {
    let registry = Registry::<Link>::new(host(), "0");
    let mut decoder = Decoder::new(Plugin::on(registry, 0));
    println!(
        "graphs: buffers images pipelines tapes descriptor-sets bytes-in-use (peaks), bytes allocated, resident KiB"
    );
    let mut done = 0;
    for graphs in [100, 900, 2000, 2000, 2500, 2500] {
        let most = peak(&mut decoder, graphs, 48);
        done += graphs;
        println!("{done}: {most:?}, {}, {}", decoder.census().allocated, resident_kib());
    }
    assert_valid(registry);
}

/// Memory of this process that is in RAM, where the system says so.
fn resident_kib() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.map_or("unknown".into(), |line| line.trim().trim_end_matches(" kB").to_owned())
}
