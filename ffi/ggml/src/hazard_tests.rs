//! What hosts do that is easily got wrong, one by one, on an engine made of oracles.

use std::sync::atomic::Ordering;

use crate::abi::*;
use crate::testing::{Handle, OracleEngine, TYPES, block, plugin};

const F32: i32 = 0;
const ADD: i32 = 2;
const MUL_MAT: i32 = 29;
const SCALE: i32 = 32;

type Plugin = plugin::Plugin<OracleEngine>;

fn scale(factor: f32) -> [i32; 2] {
    [factor.to_bits() as i32, 0]
}

/// Bytes that differ from their neighbours.
fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed * 31 + i * 7 + i / 256) as u8).collect()
}

#[test]
fn vtables_leave_out_what_the_contract_forbids() {
    let plugin = Plugin::new("");
    let buffer = plugin.buffer(64, 0);
    // SAFETY: device, buffer type and backend are alive.
    let (device, buft, backend) =
        unsafe { ((*plugin.device.raw()).iface, (*plugin.device.buffer_type()).iface, (*plugin.backend).iface) };
    assert!(buft.get_alloc_size.is_none(), "sizes may not exceed ggml's own");
    assert!(buft.is_host.is_none() && buft.get_max_size.is_none());
    assert!(buffer.iface().init_tensor.is_none(), "called for every view of every graph, without an end");
    assert!(device.offload_op.is_none(), "weights would be tiled again for every graph");
    assert!(device.buffer_from_host_ptr.is_none() && device.event_new.is_none());
    assert!(backend.set_tensor_async.is_none() && backend.cpy_tensor_async.is_none() && backend.event_record.is_none());
    buffer.free();
}

#[test]
fn every_type_keeps_every_byte_through_every_view() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    for (type_id, elements, bytes) in TYPES {
        let buffer = plugin.buffer(4096, 0);
        let root = buffer.place(w.tensor(type_id, [2 * elements as i64, 3, 1, 1]), 256);
        let (row, n) = (2 * bytes, 6 * bytes);
        let mut model = pattern(type_id as usize, n);
        buffer.set(root, 0, &model);
        // A row, the transposed, and all of it as one row: what is saved of a state.
        let rows = w.view(root, [2 * elements as i64, 2, 1, 1], [bytes, row, 2 * row, 2 * row], row);
        let turned = w.view(root, [3, 2, 1, 1], [row, bytes, n, n], 0);
        let flat = w.view(root, [6 * elements as i64, 1, 1, 1], [bytes, n, n, n], 0);
        for (view, first) in [(rows, row), (turned, 0), (flat, 0), (root, 0)] {
            for (at, len) in [(0, 1), (bytes - 1, 2), (1, row - 1), (row + 1, bytes)] {
                let (from, to) = (first + at, (first + at + len).min(n));
                let patch = pattern(at + 3, to - from);
                buffer.set(view, at, &patch);
                model[from..to].copy_from_slice(&patch);
                assert_eq!(buffer.get(view, at, to - from), model[from..to], "type {type_id}");
            }
        }
        buffer.memset(flat, 0xAA, n - 1, 1);
        model[n - 1] = 0xAA;
        assert_eq!(buffer.get(root, 0, n), model, "type {type_id}");
        buffer.free();
    }
}

#[test]
fn a_loaders_chunks_may_overlap_the_next_expert() {
    let plugin = Plugin::new("");
    let (_, bytes) = block(8);
    let experts = plugin.buffer(1 << 16, 1);
    let weights = experts.place(plugin.world.tensor(8, [64, 16, 4, 1]), 0);
    let (slice, n) = (2 * 16 * bytes, 4 * 2 * 16 * bytes);
    let file = pattern(1, n + 512);
    for expert in 0..4 {
        let end = n.min((expert + 1) * slice + 512);
        experts.set(weights, expert * slice, &file[expert * slice..end]);
    }
    assert_eq!(experts.get(weights, 0, n), file[..n]);
    for start in (0..n).step_by(777) {
        experts.set(weights, start, &file[start..n.min(start + 777)]);
    }
    assert_eq!(experts.get(weights, 5, n - 9), file[5..n - 4]);
    experts.free();
}

#[test]
fn roots_with_the_strides_of_a_copied_view_are_read_as_they_lie() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let compute = plugin.buffer(4096, USAGE_COMPUTE);
    let strided = |ne: [i64; 4], nb: [usize; 4], offset: usize| {
        let root = w.tensor(F32, ne);
        // SAFETY: the tensor is ours and alive.
        unsafe { (*root).nb = nb };
        compute.place(root, offset)
    };
    // A permuted tensor, and one with a gap after each row.
    let permuted = strided([2, 3, 1, 1], [12, 4, 24, 24], 0);
    let gaps = strided([2, 3, 1, 1], [4, 16, 48, 48], 256);
    compute.set_floats(permuted, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    compute.set_floats(gaps, &[10.0, 20.0, -1.0, -1.0, 30.0, 40.0, -1.0, -1.0, 50.0, 60.0]);
    let sum = compute.place(w.node(ADD, &[], F32, [2, 3, 1, 1], &[permuted, gaps]), 512);
    assert_eq!(plugin.compute(&[sum], 0), STATUS_SUCCESS);
    assert_eq!(compute.floats(sum, 6), [11.0, 24.0, 32.0, 45.0, 53.0, 66.0]);
    assert_eq!(compute.floats(gaps, 10)[2..4], [-1.0, -1.0]);
    compute.free();
}

#[test]
fn weights_outlive_the_stream_that_another_graph_was_computed_on() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let weights = plugin.buffer(1024, 0);
    let x = weights.place(w.tensor(F32, [32, 1, 1, 1]), 0);
    let results = weights.place(w.tensor(F32, [32, 1, 1, 1]), 256);
    {
        let loader = Plugin::on(plugin.registry, 0);
        weights.set_floats(x, &[3.0; 32]);
        let doubled = w.in_place(SCALE, &scale(2.0), results, &[x]);
        assert_eq!(loader.compute(&[doubled], 0), STATUS_SUCCESS);
    }
    let again = w.in_place(ADD, &[], results, &[results, x]);
    assert_eq!(plugin.compute(&[again], 0), STATUS_SUCCESS);
    assert_eq!(weights.floats(results, 32), [9.0; 32]);
    weights.free();
}

#[test]
fn a_duplicated_graph_works_on_the_originals_bytes() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let original = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    // SAFETY: the tensor is alive, and its fields are plain data.
    let clone = Box::leak(Box::new(unsafe { std::ptr::read(original) }));
    clone.extra = 0x10 as *mut _;
    let step = w.in_place(SCALE, &scale(2.0), clone, &[clone]);
    for run in 1..4 {
        buffer.set_floats(original, &[run as f32; 4]);
        assert_eq!(plugin.compute(&[step], 5), STATUS_SUCCESS);
        assert_eq!(buffer.floats(original, 4), [2.0 * run as f32; 4]);
    }
    buffer.free();
}

#[test]
fn a_change_of_what_was_there_before_is_seen_by_later_graphs() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let compute = plugin.buffer(1024, USAGE_COMPUTE);
    let input = compute.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    compute.set_floats(input, &[1.0; 4]);
    // Every use of `changed` is in this part of the graph, and still a later part reads the input through a view of its own.
    let changed = w.in_place(SCALE, &scale(2.0), input, &[input]);
    let used = compute.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[changed, changed]), 256);
    assert_eq!(plugin.compute(&[changed, used], 11), STATUS_SUCCESS);
    let turned = w.view(input, [1, 4, 1, 1], [16, 4, 16, 16], 0);
    let later = compute.place(w.node(SCALE, &scale(1.0), F32, [1, 4, 1, 1], &[turned]), 512);
    assert_eq!(plugin.compute(&[turned, later], 12), STATUS_SUCCESS);
    assert_eq!((compute.floats(later, 4), compute.floats(used, 4)), (vec![2.0; 4], vec![4.0; 4]));
    compute.free();
}

#[test]
fn a_table_of_uses_without_room_says_nothing() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let compute = plugin.buffer(1024, USAGE_COMPUTE);
    let x = compute.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    compute.set_floats(x, &[1.0; 4]);
    let doubled = compute.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[x, x]), 256);
    let last = compute.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[doubled, x]), 512);
    let graph = w.graph(&[doubled, last], 21);
    let stranger = w.tensor(F32, [1, 1, 1, 1]);
    let set = &mut graph.visited_hash_set;
    for slot in 0..set.size {
        // SAFETY: the table of this graph has that many slots.
        unsafe {
            *set.used.add(slot / 32) |= 1 << (slot % 32);
            *set.keys.add(slot) = stranger;
        }
    }
    assert_eq!(plugin.run(graph), STATUS_SUCCESS);
    assert_eq!(compute.floats(doubled, 4), [2.0; 4], "who may look is not known, so the result is there");
    graph.visited_hash_set.size = 0;
    assert_eq!(plugin.run(graph), STATUS_SUCCESS);
    assert_eq!(compute.floats(last, 4), [3.0; 4]);
    compute.free();
}

#[test]
fn leaves_among_the_nodes_and_empty_tensors_are_passed_over() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let parameter = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    buffer.set_floats(parameter, &[2.0; 4]);
    let empty = buffer.place(w.tensor(F32, [0, 3, 1, 1]), 256);
    let nothing = buffer.place(w.node(ADD, &[], F32, [0, 3, 1, 1], &[empty, empty]), 256);
    let sum = buffer.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[parameter, parameter]), 512);
    assert_eq!(plugin.compute(&[parameter, nothing, sum], 0), STATUS_SUCCESS);
    assert_eq!(buffer.floats(sum, 4), [4.0; 4]);
    buffer.set(empty, 0, &[]);
    assert!(buffer.get(empty, 0, 0).is_empty());
    buffer.free();
}

#[test]
fn the_same_node_many_times_is_computed_as_often() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let (total, one) = (buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0), buffer.place(w.tensor(F32, [4, 1, 1, 1]), 256));
    buffer.set_floats(one, &[1.0; 4]);
    let step = w.in_place(ADD, &[], total, &[total, one]);
    assert_eq!(plugin.compute(&[step; 100], 0), STATUS_SUCCESS);
    assert_eq!(buffer.floats(total, 4), [100.0; 4]);
    buffer.free();
}

#[test]
fn a_graph_may_use_addresses_again_in_a_buffer_of_unknown_usage() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    // As ggml's RPC server runs the graphs of another process: no buffer has a usage, and no graph a uid.
    let buffer = plugin.buffer(1024, 0);
    let x = buffer.place(w.tensor(F32, [2, 3, 1, 1]), 0);
    let kept = buffer.place(w.tensor(F32, [2, 1, 1, 1]), 40);
    let twice = buffer.place(w.node(SCALE, &scale(2.0), F32, [2, 3, 1, 1], &[x]), 256);
    // Behind the first element of `x`.
    let part = w.view(twice, [2, 2, 1, 1], [4, 8, 16, 16], 8);
    let four = buffer.place(w.node(SCALE, &scale(2.0), F32, [2, 2, 1, 1], &[part]), 4);
    let sum =
        buffer.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[w.view(four, [4, 1, 1, 1], [4, 16, 16, 16], 0); 2]), 264);
    for round in 0..3 {
        buffer.set_floats(kept, &[7.0, 8.0]);
        let values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0].map(|v| v + round as f32);
        buffer.set_floats(x, &values);
        assert_eq!(plugin.compute(&[twice, four, sum], 0), STATUS_SUCCESS);
        assert_eq!(buffer.floats(four, 4), [2, 3, 4, 5].map(|at| 4.0 * values[at]));
        assert_eq!(buffer.floats(sum, 4), [2, 3, 4, 5].map(|at| 8.0 * values[at]));
        // What no node wrote is left: the ends of `x`, and what lies behind it.
        assert_eq!((buffer.floats(x, 6)[0], buffer.floats(x, 6)[5]), (values[0], values[5]));
        assert_eq!(buffer.floats(kept, 2), [7.0, 8.0]);
    }
    buffer.free();
}

#[test]
fn sources_may_overlap() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let x = buffer.place(w.tensor(F32, [2, 3, 1, 1]), 0);
    buffer.set_floats(x, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let [first, last] = [0, 8].map(|offset| w.view(x, [2, 2, 1, 1], [4, 8, 16, 16], offset));
    let sum = buffer.place(w.node(ADD, &[], F32, [2, 2, 1, 1], &[first, last]), 256);
    assert_eq!(plugin.compute(&[first, last, sum], 0), STATUS_SUCCESS);
    assert_eq!(buffer.floats(sum, 4), [4.0, 6.0, 8.0, 10.0]);
    buffer.free();
}

#[test]
fn support_is_asked_of_tensors_in_no_buffer_or_a_dummy() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let (weight, x) = (w.tensor(8, [64, 8, 1, 1]), w.tensor(F32, [64, 5, 1, 1]));
    let product = w.node(MUL_MAT, &[], F32, [8, 5, 1, 1], &[weight, x]);
    assert!(plugin.supports(product));
    let dummy = Box::leak(Box::new(ggml_backend_buffer {
        iface: ggml_backend_buffer_i::default(),
        buft: plugin.device.buffer_type(),
        context: std::ptr::null_mut(),
        size: 0,
        usage: 1,
    }));
    // SAFETY: the tensor is ours and alive.
    unsafe { (*weight).buffer = dummy };
    assert!(plugin.supports(product));
}

#[test]
fn usage_is_told_after_the_fact() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let x = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    buffer.set_floats(x, &[1.0; 4]);
    // SAFETY: the buffer is alive; its host may write it between calls.
    unsafe { (*buffer.0).usage = USAGE_COMPUTE };
    let sum = buffer.place(w.node(ADD, &[], F32, [4, 1, 1, 1], &[x, x]), 0);
    assert_eq!(plugin.compute(&[sum], 0), STATUS_SUCCESS);
    assert_eq!(buffer.floats(sum, 4), [2.0; 4]);
    buffer.free();
}

#[test]
fn a_cache_stays_where_it_is_while_the_view_of_it_grows() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let (cache, compute) = (plugin.buffer(1024, 0), plugin.buffer(1024, USAGE_COMPUTE));
    let keys = cache.place(w.tensor(F32, [8, 4, 1, 1]), 0);
    cache.clear(0);
    cache.set_floats(keys, &(0..32).map(|i| i as f32).collect::<Vec<_>>());
    let written = || plugin.engine().written.load(Ordering::Relaxed);
    let before = written();
    for n in 1..=4 {
        compute.reset();
        let seen = w.view(keys, [8, n, 1, 1], [4, 32, 128, 128], 0);
        let out = compute.place(w.node(SCALE, &scale(2.0), F32, [8, n, 1, 1], &[seen]), 0);
        assert_eq!(plugin.compute(&[seen, out], 100 + n as u64), STATUS_SUCCESS);
        let want: Vec<f32> = (0..8 * n).map(|i| 2.0 * i as f32).collect();
        assert_eq!(compute.floats(out, 8 * n as usize), want);
    }
    assert!(written() - before <= 1, "it was uploaded once");
    cache.free();
    compute.free();
}

#[test]
fn what_nobody_wrote_is_zero() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    for usage in [0, USAGE_COMPUTE] {
        let buffer = plugin.buffer(1024, usage);
        let x = buffer.place(w.tensor(F32, [64, 1, 1, 1]), 0);
        let sum = buffer.place(w.node(ADD, &[], F32, [64, 1, 1, 1], &[x, x]), 256);
        assert_eq!(plugin.compute(&[sum], 0), STATUS_SUCCESS);
        assert_eq!(buffer.floats(sum, 64), [0.0; 64]);
        buffer.free();
    }
}

#[test]
fn copies_between_buffers_of_ours_and_of_others() {
    let [plugin, stranger] = [Plugin::new(""), Plugin::new("")];
    let second = Plugin::on(plugin.registry, 1);
    let (from, to, other) = (plugin.buffer(1024, 0), second.buffer(1024, 0), stranger.buffer(1024, 0));
    let w = &plugin.world;
    let x = from.place(w.tensor(8, [64, 4, 1, 1]), 256);
    let n = 2 * 4 * 34;
    from.set(x, 0, &pattern(4, n));
    let y = to.place(w.tensor(8, [64, 4, 1, 1]), 512);
    assert!(to.copy(x, y));
    assert_eq!(to.get(y, 0, n), pattern(4, n));
    // Between rows of one tensor that overlap.
    let [first, last] = [0, 68].map(|offset| w.view(x, [64, 3, 1, 1], [34, 68, 204, 204], offset));
    assert!(from.copy(first, last));
    assert_eq!(from.get(x, 68, 204), pattern(4, n)[..204]);
    // A buffer of another registry is as good as another backend's: ggml copies through the host itself.
    let z = other.place(w.tensor(8, [64, 4, 1, 1]), 0);
    other.set(z, 0, &pattern(9, n));
    assert!(!to.copy(z, y));
    assert!(!to.copy(w.tensor(8, [64, 4, 1, 1]), y), "in no buffer");
    let short = from.place(w.tensor(8, [64, 1, 1, 1]), 768);
    assert!(!to.copy(short, y));
    assert_eq!(to.get(y, 0, n), pattern(4, n));
    for buffer in [from, to, other] {
        buffer.free();
    }
}

#[test]
fn a_run_that_fails_is_tried_once_more_without_what_is_kept_of_other_graphs() {
    let plugin = Plugin::new("");
    let w = &plugin.world;
    let buffer = plugin.buffer(1024, 0);
    let x = buffer.place(w.tensor(F32, [4, 1, 1, 1]), 0);
    let step = |n: f32| -> Handle { w.in_place(SCALE, &scale(n), x, &[x]) };
    let (doubled, tripled) = (step(2.0), step(3.0));
    buffer.set_floats(x, &[1.0; 4]);
    assert_eq!(plugin.compute(&[doubled], 0), STATUS_SUCCESS);
    let engine = plugin.engine();
    engine.failures.store(1, Ordering::Relaxed);
    assert_eq!(plugin.compute(&[tripled], 0), STATUS_SUCCESS);
    assert_eq!(buffer.floats(x, 4), [6.0; 4]);
    assert_eq!(plugin.compute(&[doubled], 0), STATUS_SUCCESS);
    assert_eq!(engine.compiled.load(Ordering::Relaxed), 3, "the first graph was forgotten");
    engine.failures.store(2, Ordering::Relaxed);
    assert_eq!(plugin.compute(&[tripled], 0), STATUS_FAILED);
    buffer.free();
}
