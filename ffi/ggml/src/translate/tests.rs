use fblayout::graph::{Binary, Kind, Unary};

use super::*;
use crate::abi::FLAG_OUTPUT;
use crate::testing::{Handle, World};

const F32: i32 = 0;
const NODE_ADD: i32 = 2;
const NODE_SQR: i32 = 9;
const NODE_RMS_NORM: i32 = 25;
const NODE_MUL_MAT: i32 = 29;
const NODE_CPY: i32 = 34;
const NODE_GLU: i32 = 100;
/// Numbers of a persistent and of a compute buffer.
const WEIGHTS: usize = 1;
const COMPUTE: usize = 8;
const NE: [i64; 4] = [4, 3, 1, 1];

fn leaf(w: &World, ne: [i64; 4], buffer: usize, offset: usize) -> Handle {
    w.place(w.tensor(F32, ne), buffer, offset)
}

fn node(w: &World, op: i32, sources: &[Handle], buffer: usize, offset: usize) -> Handle {
    w.place(w.node(op, &[], F32, NE, sources), buffer, offset)
}

/// The binding of what is at a place: (reads, writes).
fn binding(translation: &Translation, buffer: usize, offset: usize) -> Option<(bool, bool)> {
    let mut found = translation.bindings.iter().filter(|b| b.buffer == buffer && b.root.offset == offset);
    let first = found.next().map(|b| (b.reads, b.writes));
    assert!(found.next().is_none(), "one record, one value");
    first
}

fn translated(w: &World, nodes: &[Handle], uid: u64) -> Translation {
    let translation = translate(&w.snapshot(nodes, uid)).expect("translates");
    translation.graph.verify().expect("well formed");
    translation
}

#[test]
fn only_what_others_may_read_is_published() {
    let w = World;
    let x = leaf(&w, NE, COMPUTE, 0);
    let inner = node(&w, NODE_SQR, &[x], COMPUTE, 100);
    let output = node(&w, NODE_SQR, &[inner], COMPUTE, 200);
    let last = node(&w, NODE_ADD, &[inner, output], COMPUTE, 300);
    // SAFETY: the tensor is alive.
    unsafe { (*output).flags |= FLAG_OUTPUT };
    let with_uid = translated(&w, &[inner, output, last], 1);
    let place = |t: &Translation, offset| binding(t, COMPUTE, offset);
    assert_eq!(
        [0, 100, 200, 300].map(|o| place(&with_uid, o)),
        [Some((true, false)), None, Some((false, true)), Some((false, true))]
    );
    let without = translated(&w, &[inner, output, last], 0);
    assert_eq!(place(&without, 100), Some((false, true)), "a graph without uid may go on in another call");
}

#[test]
fn uses_outside_of_this_part_of_a_graph_publish() {
    let w = World;
    let x = leaf(&w, NE, COMPUTE, 0);
    let shared = node(&w, NODE_SQR, &[x], COMPUTE, 100);
    let viewed = node(&w, NODE_SQR, &[x], COMPUTE, 200);
    let view = w.view(viewed, NE, [4, 16, 48, 48], 0);
    let mine = node(&w, NODE_ADD, &[shared, viewed], COMPUTE, 300);
    let theirs = node(&w, NODE_ADD, &[shared, view], COMPUTE, 400);
    let nodes = [shared, viewed, view, mine, theirs];
    let whole = w.graph(&nodes, 5);
    whole.n_nodes = 4;
    let mut placer = |root: &crate::abi::ggml_tensor| {
        Ok(Some(Place { buffer: COMPUTE, offset: root.data as usize & 0xFFFF, lifetime: Lifetime::Epoch }))
    };
    // SAFETY: everything in the graph is alive; all tensors are 48 bytes long.
    let part = unsafe { Snapshot::of_graph(whole, fixed_size, &mut placer) }.expect("placed");
    let translation = translate(&part).expect("translates");
    assert_eq!(binding(&translation, COMPUTE, 100), Some((false, true)));
    assert_eq!(binding(&translation, COMPUTE, 200), Some((false, true)), "through its view");
}

unsafe extern "C" fn fixed_size(_: *const crate::abi::ggml_tensor) -> usize {
    48
}

#[test]
fn a_value_overwritten_in_place_is_published_once() {
    let w = World;
    let x = leaf(&w, NE, COMPUTE, 0);
    let first = node(&w, NODE_SQR, &[x], COMPUTE, 0);
    let second = node(&w, NODE_RMS_NORM, &[first], COMPUTE, 0);
    let translation = translated(&w, &[first, second], 0);
    // The record's old content is read, its last content written: one external value, and the first result only exists between.
    assert_eq!(binding(&translation, COMPUTE, 0), Some((true, true)));
    let graph = &translation.graph;
    assert_eq!(graph.nodes.iter().map(|n| n.op).collect::<Vec<_>>(), [Op::Unary(Unary::Sqr), Op::RmsNorm { eps: 0.0 }]);
    assert_eq!(graph.values.iter().filter(|v| v.kind == Kind::External).count(), 1);
}

#[test]
fn records_written_twice_are_updated_once() {
    let w = World;
    let (a, b) = (leaf(&w, NE, WEIGHTS, 0), leaf(&w, NE, WEIGHTS, 256));
    let first = w.in_place(NODE_ADD, &[], a, &[a, b]);
    let second = w.in_place(NODE_ADD, &[], a, &[first, b]);
    let translation = translated(&w, &[first, second], 1);
    assert_eq!(binding(&translation, WEIGHTS, 0), Some((true, true)));
    assert_eq!(binding(&translation, WEIGHTS, 256), Some((true, false)));
    let graph = &translation.graph;
    assert_eq!(graph.nodes.len(), 2);
    assert_eq!(graph.nodes[1].inputs[0].value, graph.nodes[0].output);
    assert_eq!(graph.nodes[1].output, translation.bindings[0].value);
}

#[test]
fn tensors_of_one_record_are_one_value() {
    let w = World;
    let (a, clone) = (leaf(&w, NE, WEIGHTS, 0), leaf(&w, NE, WEIGHTS, 0));
    let squared = w.in_place(NODE_SQR, &[], a, &[a]);
    let read = node(&w, NODE_SQR, &[clone], COMPUTE, 0);
    let translation = translated(&w, &[squared, read], 1);
    let record = translation.bindings[0].value;
    assert_eq!(translation.graph.nodes[0].updates, [record]);
    assert_eq!(translation.graph.nodes[1].inputs[0].value, record);
}

#[test]
fn ops_that_cannot_work_in_place_go_through_a_copy() {
    let w = World;
    let a = leaf(&w, NE, WEIGHTS, 0);
    let normed = w.in_place(NODE_RMS_NORM, &[], a, &[a]);
    let graph = translated(&w, &[normed], 1).graph;
    assert_eq!(graph.nodes.iter().map(|n| n.op).collect::<Vec<_>>(), [Op::RmsNorm { eps: 0.0 }, Op::Copy]);
}

#[test]
fn views_become_windows() {
    let w = World;
    let qkv = leaf(&w, [12, 5, 1, 1], WEIGHTS, 0);
    // Heads of 2 elements from element 4 of each row, tokens and heads swapped.
    let k = w.view(qkv, [2, 5, 4, 1], [4, 48, 8, 240], 16);
    let b = leaf(&w, [2, 7, 4, 1], WEIGHTS, 1024);
    let scores = w.place(w.node(NODE_MUL_MAT, &[], F32, [5, 7, 4, 1], &[k, b]), COMPUTE, 0);
    let translation = translated(&w, &[k, scores], 1);
    let operand = translation.graph.nodes[0].inputs[0];
    assert_eq!((operand.shape, operand.strides, operand.offset), ([2, 5, 4, 1], [1, 12, 2, 0], 4));
    assert_eq!(translation.graph.nodes[0].inputs[1], translation.graph.whole(translation.bindings[1].value));
}

#[test]
fn windows_of_quantized_values_count_elements() {
    let w = World;
    let root = w.place(w.tensor(3, [64, 6, 1, 1]), WEIGHTS, 0);
    let rows = w.view(root, [64, 2, 3, 1], [20, 40, 80, 240], 0);
    let middle = w.view(root, [32, 2, 1, 1], [20, 80, 160, 160], 60);
    let x = leaf(&w, [64, 5, 3, 1], WEIGHTS, 4096);
    let y = leaf(&w, [32, 5, 1, 1], WEIGHTS, 8192);
    let a = w.place(w.node(NODE_MUL_MAT, &[], F32, [2, 5, 3, 1], &[rows, x]), COMPUTE, 0);
    let b = w.place(w.node(NODE_MUL_MAT, &[], F32, [2, 5, 1, 1], &[middle, y]), COMPUTE, 256);
    let graph = translated(&w, &[a, b], 1).graph;
    assert_eq!(graph.nodes[0].inputs[0].strides, [1, 64, 128, 384]);
    let operand = graph.nodes[1].inputs[0];
    assert_eq!((operand.strides, operand.offset), ([1, 128, 0, 0], 96));
}

#[test]
fn halves_of_a_gated_unit_are_windows_of_one_value() {
    let w = World;
    let x = leaf(&w, [8, 3, 1, 1], WEIGHTS, 0);
    let gated = w.place(w.node(NODE_GLU, &[2, 1], F32, NE, &[x]), COMPUTE, 0);
    let graph = translated(&w, &[gated], 1).graph;
    let [gate, up] = [0, 1].map(|i| graph.nodes[0].inputs[i]);
    assert_eq!((gate.offset, up.offset), (4, 0));
    assert_eq!((gate.shape, gate.strides), ([4, 3, 1, 1], [1, 8, 24, 24]));
}

#[test]
fn a_cast_names_itself_as_source_and_a_copy_its_target() {
    let w = World;
    let x = leaf(&w, NE, WEIGHTS, 0);
    let cast = w.place(w.node(NODE_CPY, &[], 1, NE, &[x]), COMPUTE, 0);
    // SAFETY: the tensor is alive.
    unsafe { (*cast).src[1] = cast };
    let target = leaf(&w, [12, 1, 1, 1], WEIGHTS, 256);
    let copied = w.in_place(NODE_CPY, &[], target, &[cast, target]);
    let translation = translated(&w, &[cast, copied], 1);
    assert_eq!(translation.graph.nodes.iter().map(|n| n.op).collect::<Vec<_>>(), [Op::Copy, Op::Copy]);
    assert_eq!(binding(&translation, WEIGHTS, 256), Some((false, true)));
}

#[test]
fn the_same_node_again_computes_again() {
    let w = World;
    let a = leaf(&w, NE, WEIGHTS, 0);
    let squared = w.in_place(NODE_SQR, &[], a, &[a]);
    let graph = translated(&w, &[squared, squared, squared], 0).graph;
    assert_eq!(graph.nodes.len(), 3);
    assert!(graph.nodes.iter().all(|n| n.op == Op::Unary(Unary::Sqr)));
}

fn nodes(translation: &Translation) -> Vec<(&'static str, bool)> {
    translation.graph.nodes.iter().map(|node| (node.op.row().name, !node.updates.is_empty())).collect()
}

#[test]
fn parts_of_lasting_roots_are_written_where_they_are() {
    let w = World;
    let a = leaf(&w, NE, WEIGHTS, 0);
    let part = w.view(a, [4, 1, 1, 1], [4, 16, 16, 16], 16);
    let squared = w.in_place(NODE_SQR, &[], part, &[part]);
    let read = node(&w, NODE_SQR, &[a], COMPUTE, 0);
    let again = w.in_place(NODE_CPY, &[], w.view(a, [3, 1, 1, 1], [16; 4], 4), &[w.view(a, [3, 1, 1, 1], [4; 4], 0)]);
    let translation = translated(&w, &[squared, read, again], 1);
    assert_eq!(nodes(&translation), [("SQR", false), ("SET", true), ("SQR", false), ("CPY", false), ("SET", true)]);
    assert_eq!(binding(&translation, WEIGHTS, 0), Some((true, true)));
    let set = &translation.graph.nodes[1];
    assert_eq!(set.op, Op::Set(Inset { shape: [4, 1, 1, 1], strides: [1, 4, 4, 4], offset: 4 }));
    assert!(translation.graph.nodes[2].inputs[0].value == set.output, "the read follows the write");
}

#[test]
fn parts_of_passing_roots_make_new_values() {
    let w = World;
    let x = leaf(&w, NE, COMPUTE, 0);
    let squared = node(&w, NODE_SQR, &[x], COMPUTE, 64);
    let part = w.view(squared, [4, 1, 1, 1], [4, 16, 16, 16], 32);
    let copied = w.in_place(NODE_CPY, &[], part, &[w.view(x, [4, 1, 1, 1], [4, 16, 16, 16], 0)]);
    let sum = node(&w, NODE_ADD, &[squared, x], COMPUTE, 128);
    let translation = translated(&w, &[squared, copied, sum], 1);
    // The copy is a result, which somebody may read.
    assert_eq!(nodes(&translation), [("SQR", false), ("SET", false), ("CPY", false), ("ADD", false)]);
    let graph = &translation.graph;
    assert_eq!(graph.nodes[3].inputs[0].value, graph.nodes[2].output);
}

#[test]
fn halves_are_widened_and_rounded_back() {
    const F16: i32 = 1;
    let w = World;
    let a = w.place(w.tensor(F16, NE), WEIGHTS, 0);
    let squared = w.place(w.node(NODE_SQR, &[], F16, NE, &[a]), COMPUTE, 0);
    let translation = translated(&w, &[squared], 1);
    assert_eq!(nodes(&translation), [("CPY", false), ("SQR", false), ("CPY", false)]);
    let dtypes: Vec<DType> = translation.graph.values.iter().map(|value| value.dtype).collect();
    assert_eq!(dtypes.iter().filter(|&&dtype| dtype == DType::F32).count(), 2);
}

#[test]
fn a_right_factor_of_halves_is_widened() {
    const F16: i32 = 1;
    let w = World;
    let [a, x] = [0, 256].map(|at| w.place(w.tensor(F16, NE), WEIGHTS, at));
    let product = w.place(w.node(NODE_MUL_MAT, &[], F32, [NE[1], NE[1], 1, 1], &[a, x]), COMPUTE, 0);
    let graph = translated(&w, &[product], 1).graph;
    assert_eq!(graph.nodes.iter().map(|n| n.op).collect::<Vec<_>>(), [Op::Copy, Op::MulMat]);
    let factors: Vec<_> = graph.nodes[1].inputs.iter().map(|input| graph.values[input.value.index()].dtype).collect();
    assert_eq!(factors, [DType::F16, DType::F32]);
}

#[test]
fn addresses_come_again_where_no_usage_is_told() {
    let w = World;
    let x = leaf(&w, NE, WEIGHTS, 0);
    let first = node(&w, NODE_SQR, &[x], WEIGHTS, 256);
    // Over `x`, which nobody reads again; then over `first`, in another shape.
    let second = node(&w, NODE_SQR, &[first], WEIGHTS, 16);
    let third =
        w.place(w.node(NODE_ADD, &[], F32, [12, 1, 1, 1], &[w.view(second, [12, 1, 1, 1], [4; 4], 0)]), WEIGHTS, 256);
    // SAFETY: the tensor is alive.
    unsafe { (*third).src[1] = (*third).src[0] };
    let translation = translated(&w, &[first, second, third], 0);
    assert_eq!(nodes(&translation), [("SQR", false), ("SQR", false), ("ADD", false)]);
    let bound = [0, 256, 16].map(|offset| binding(&translation, WEIGHTS, offset));
    assert_eq!(bound, [Some((true, false)), Some((false, true)), Some((false, true))]);
    let written = translation.bindings.iter().find(|b| b.root.offset == 256).map(|b| b.root.geometry.ne);
    assert_eq!(written, Some([12, 1, 1, 1]), "of two roots the last is left");
    let late = node(&w, NODE_ADD, &[second, x], WEIGHTS, 512);
    let refused = translate(&w.snapshot(&[first, second, late], 0)).expect_err("x is no longer what it was");
    assert!(refused.contains("share bytes of a buffer, at 16..64 and 0..48"), "{refused}");
}

#[test]
fn refusals_name_the_node_and_the_rule() {
    let w = World;
    let refusal = |nodes: &[Handle]| translate(&w.snapshot(nodes, 1)).expect_err("refused");
    let a = leaf(&w, NE, WEIGHTS, 0);
    let part = w.view(a, [4, 1, 1, 1], [4, 16, 16, 16], 16);
    let written = w.in_place(NODE_GLU, &[6], part, &[part]);
    // SAFETY: the tensor is alive.
    unsafe { (&mut (*written).name)[..2].copy_from_slice(&[b'k' as _, b'v' as _]) };
    assert!(refusal(&[written]).starts_with("kv: "));
    let shifted = leaf(&w, NE, WEIGHTS, 16);
    let sum = w.in_place(NODE_ADD, &[], a, &[a, shifted]);
    assert!(refusal(&[sum]).contains("share bytes of a buffer, at 0..48 and 16..64"));
    let cut = w.view(a, [2, 1, 1, 1], [4, 16, 16, 16], 2);
    assert!(refusal(&[node(&w, NODE_ADD, &[a, cut], COMPUTE, 0)]).contains("cut elements of 4 bytes"));
    let long = w.place(w.tensor(28, NE), WEIGHTS, 512);
    assert!(refusal(&[node(&w, NODE_ADD, &[a, long], COMPUTE, 0)]).contains("ggml type 28"));
    assert!(refusal(&[node(&w, NODE_ADD, &[a], COMPUTE, 0)]).contains("source 1 is missing"));
}

#[test]
fn unplaced_nodes_in_place_keep_their_meaning() {
    let w = World;
    let a = w.tensor(F32, NE);
    let sum = w.in_place(NODE_ADD, &[], a, &[a, a]);
    // SAFETY: everything is alive; all tensors are 48 bytes long.
    let asked = translate(&unsafe { Snapshot::of_node(&*sum, fixed_size) }.expect("plain")).expect("translates");
    assert!(asked.bindings.is_empty());
    let [add] = &asked.graph.nodes[..] else { panic!("one node") };
    assert_eq!((add.op, &add.updates[..]), (Op::Binary(Binary::Add), &[add.output][..]));
}
