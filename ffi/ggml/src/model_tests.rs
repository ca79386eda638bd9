//! Random hosts: whatever one does with buffers, tensors, copies and graphs, its bytes are those of arrays on which the same is done.
//! On an engine made of oracles, and on the Vulkan device present.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};

use crate::abi::*;
use crate::engine::Engine;
use crate::engine_link::Link;
use crate::registry::Registry;
use crate::testing::plugin::{HostBuffer, Plugin};
use crate::testing::{Handle, OracleEngine, block, host, nbytes};

const F32: i32 = 0;
const ADD: i32 = 2;
const MUL: i32 = 7;
const MUL_MAT: i32 = 29;
const SCALE: i32 = 32;
const CPY: i32 = 34;
const CONT: i32 = 35;
const VIEW: i32 = 37;

/// Bytes of a buffer.
const SIZE: usize = 2048;
/// Where roots start.
const ALIGNMENT: usize = 32;

/// Types and extents of the roots that a buffer is carved into: results that share addresses with inputs of other shapes, types that
/// are computed with, and types that only keep their bytes.
const CARVINGS: [&[(i32, [i64; 4])]; 3] = [
    &[(F32, [3, 3, 1, 1]); 6],
    &[
        (F32, [4, 2, 1, 1]),
        (26, [6, 1, 1, 1]),
        (1, [8, 3, 1, 1]),
        (8, [64, 2, 1, 1]),
        (F32, [3, 3, 1, 1]),
        (14, [256, 1, 1, 1]),
        (F32, [4, 2, 1, 1]),
    ],
    &[
        (30, [7, 3, 1, 1]),
        (F32, [3, 1, 1, 1]),
        (3, [32, 5, 1, 1]),
        (27, [5, 1, 1, 1]),
        (F32, [3, 3, 1, 1]),
        (23, [256, 1, 1, 1]),
        (39, [32, 2, 1, 1]),
    ],
];

/// What a host sees of a root.
#[derive(Clone, Copy, Debug)]
enum Seen {
    Whole,
    Turned,
    LastRows,
}

/// A root by its place in the list of all, and how it is seen.
type Pick = (usize, Seen);

#[derive(Clone, Debug)]
enum Action {
    Set {
        pick: Pick,
        at: usize,
        len: usize,
        seed: u8,
    },
    SetAll {
        pick: usize,
        seed: u8,
    },
    Get {
        pick: Pick,
        at: usize,
        len: usize,
    },
    Memset {
        pick: Pick,
        at: usize,
        len: usize,
        value: u8,
    },
    Clear {
        buffer: usize,
        value: u8,
    },
    Copy {
        from: Pick,
        to: Pick,
    },
    /// Other roots over the same bytes, after a reset where the buffer is a compute buffer.
    Carve {
        buffer: usize,
        carving: usize,
    },
    /// The structure of a persistent tensor once more, as when a graph is duplicated.
    Clone {
        pick: usize,
    },
    Free {
        buffer: usize,
        carving: usize,
    },
    Compute {
        steps: Vec<Step>,
        end: End,
    },
}

/// How the nodes of a graph are computed.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    /// Together, in a graph that is not named.
    Whole,
    /// Together, in a graph with a uid, which leaves results behind only where somebody may look.
    Named,
    /// The same, twice if the host may: nothing that it reads was overwritten.
    Twice,
    /// One by one, each result read by the host at once.
    Singly,
}

#[derive(Clone, Debug)]
struct Step {
    op: u8,
    a: Pick,
    b: Pick,
    into: Pick,
    /// The result is a view of the root it is written to, perhaps of a part of it, and not another root at the same place.
    linked: bool,
}

fn seen() -> impl Strategy<Value = Seen> {
    prop_oneof![3 => Just(Seen::Whole), 1 => Just(Seen::Turned), 1 => Just(Seen::LastRows)]
}

fn action() -> impl Strategy<Value = Action> {
    let pick = || (0..64_usize, seen());
    let part = || (pick(), 0..512_usize, 0..256_usize, any::<u8>());
    let step = (0..5_u8, pick(), pick(), pick(), any::<bool>()).prop_map(|(op, a, b, into, linked)| Step {
        op,
        a,
        b,
        into,
        linked,
    });
    let end = prop_oneof![Just(End::Whole), Just(End::Named), Just(End::Twice), Just(End::Singly)];
    prop_oneof![
        3 => part().prop_map(|(pick, at, len, seed)| Action::Set { pick, at, len, seed }),
        4 => (0..64_usize, any::<u8>()).prop_map(|(pick, seed)| Action::SetAll { pick, seed }),
        3 => part().prop_map(|(pick, at, len, _)| Action::Get { pick, at, len }),
        1 => part().prop_map(|(pick, at, len, value)| Action::Memset { pick, at, len, value: value % 2 }),
        1 => (0..3_usize, 0..2_u8).prop_map(|(buffer, value)| Action::Clear { buffer, value }),
        2 => (pick(), pick()).prop_map(|(from, to)| Action::Copy { from, to }),
        1 => (0..3_usize, 0..CARVINGS.len()).prop_map(|(buffer, carving)| Action::Carve { buffer, carving }),
        1 => (0..64_usize).prop_map(|pick| Action::Clone { pick }),
        1 => (0..3_usize, 0..CARVINGS.len()).prop_map(|(buffer, carving)| Action::Free { buffer, carving }),
        6 => (prop::collection::vec(step, 1..6), end).prop_map(|(steps, end)| Action::Compute { steps, end }),
    ]
}

/// A range of bytes with the roots that are there: one, or clones of it. None where the last graph left nothing behind.
struct Slot {
    bytes: Range<usize>,
    roots: Vec<Handle>,
}

/// A buffer with the bytes that it should have.
struct Held {
    raw: HostBuffer,
    device: usize,
    usage: i32,
    bytes: Vec<u8>,
    /// Of the last clear: what bytes are that nobody wrote.
    background: u8,
    slots: Vec<Slot>,
}

/// A host, on devices of one registry.
struct Machine<E: Engine> {
    devices: Vec<Plugin<E>>,
    buffers: Vec<Held>,
    uid: u64,
    /// Nodes computed, by op and by whether they were linked.
    nodes: [[u32; 2]; 5],
    /// Named graphs computed twice.
    twice: u32,
}

/// What a node computes and from what, so that it can be computed again.
#[derive(Clone, Copy)]
struct Node {
    op: u8,
    a: Handle,
    b: Handle,
    out: Handle,
}

fn tensor(handle: Handle) -> &'static ggml_tensor {
    // SAFETY: tensors of these tests are never freed, and nothing writes this one during the borrow.
    unsafe { &*handle }
}

fn size(handle: Handle) -> usize {
    // SAFETY: tensors of these tests are never freed.
    unsafe { nbytes(handle) }
}

fn root(handle: Handle) -> Handle {
    let link = tensor(handle).view_src;
    if link.is_null() { handle } else { link }
}

impl<E: Engine> Machine<E> {
    /// Two buffers on the first device, the second of them a compute buffer, and one on the last.
    fn new(registry: &'static Registry<E>) -> Self {
        let devices: Vec<_> = (0..registry.devices().len()).map(|index| Plugin::on(registry, index)).collect();
        let mut machine = Self { buffers: Vec::new(), uid: 0, nodes: Default::default(), twice: 0, devices };
        for (device, usage) in [(0, 0), (0, USAGE_COMPUTE), (machine.devices.len() - 1, 0)] {
            let held = machine.allocate(device, usage);
            machine.buffers.push(held);
            machine.carve(machine.buffers.len() - 1, 0);
        }
        machine
    }

    fn allocate(&self, device: usize, usage: i32) -> Held {
        let raw = self.devices[device].buffer(SIZE, usage);
        Held { raw, device, usage, bytes: vec![0; SIZE], background: 0, slots: Vec::new() }
    }

    fn carve(&mut self, buffer: usize, carving: usize) {
        let world = &self.devices[0].world;
        let held = &mut self.buffers[buffer];
        if held.usage == USAGE_COMPUTE {
            held.raw.reset();
            held.bytes.fill(held.background);
        }
        let mut start = 0;
        held.slots.clear();
        for &(type_id, ne) in CARVINGS[carving] {
            let root = held.raw.place(world.tensor(type_id, ne), start);
            let end = (start + size(root)).next_multiple_of(ALIGNMENT);
            assert!(end <= SIZE);
            held.slots.push(Slot { bytes: start..end, roots: vec![root] });
            start = end;
        }
    }

    /// A root of any buffer, unless none is left.
    fn root(&self, pick: usize) -> Option<(usize, usize, Handle)> {
        let all = self.buffers.iter().enumerate().flat_map(|(buffer, held)| {
            let slots = held.slots.iter().enumerate();
            slots.flat_map(move |(slot, held)| held.roots.iter().map(move |&root| (buffer, slot, root)))
        });
        let all: Vec<_> = all.collect();
        (!all.is_empty()).then(|| all[pick % all.len()])
    }

    /// A view of a root, or the root itself where it has no such view.
    fn view(&self, of: Handle, seen: Seen) -> Handle {
        let (world, t) = (&self.devices[0].world, tensor(of));
        let [ne, nb] = [[t.ne[0] as usize, t.ne[1] as usize], [t.nb[0], t.nb[1]]];
        match seen {
            Seen::Turned if block(t.type_).0 == 1 && ne[1] > 1 => {
                world.view(of, [t.ne[1], t.ne[0], 1, 1], [nb[1], nb[0], t.nb[2], t.nb[3]], 0)
            }
            Seen::LastRows if ne[1] > 1 => {
                let rest = nb[1] * (ne[1] - 1);
                world.view(of, [t.ne[0], t.ne[1] - 1, 1, 1], [nb[0], nb[1], rest, rest], nb[1])
            }
            _ => of,
        }
    }

    /// The buffer that a tensor is in, and its first byte there.
    fn place(&self, handle: Handle) -> (usize, usize) {
        let raw = tensor(root(handle)).buffer;
        let buffer = self.buffers.iter().position(|held| held.raw.0 == raw).expect("a live buffer");
        let iface = self.buffers[buffer].raw.iface();
        // SAFETY: the buffer is alive.
        let base = unsafe { (iface.get_base.expect("set"))(raw) };
        (buffer, tensor(handle).data as usize - base as usize)
    }

    /// A part of a tensor that stays within its root: buffer, view, offset in the view, the bytes' place in the buffer.
    fn part(&self, (pick, seen): Pick, at: usize, len: usize) -> Option<(usize, Handle, usize, Range<usize>)> {
        let (buffer, _, of) = self.root(pick)?;
        let view = self.view(of, seen);
        let ((_, first), (_, start)) = (self.place(of), self.place(view));
        let end = first + size(of);
        let at = at % (end - start);
        let len = len.min(end - start - at);
        Some((buffer, view, at, start + at..start + at + len))
    }

    fn apply(&mut self, action: &Action) -> Result<(), TestCaseError> {
        match *action {
            Action::Set { pick, at, len, seed } => {
                if let Some((buffer, view, at, range)) = self.part(pick, at, len) {
                    let bytes = pattern(tensor(view).type_, seed, range.len());
                    let held = &mut self.buffers[buffer];
                    held.raw.set(view, at, &bytes);
                    held.bytes[range].copy_from_slice(&bytes);
                }
            }
            Action::SetAll { pick, seed } => {
                if let Some((buffer, view, at, range)) = self.part((pick, Seen::Whole), 0, usize::MAX) {
                    let bytes = pattern(tensor(view).type_, seed, range.len());
                    let held = &mut self.buffers[buffer];
                    held.raw.set(view, at, &bytes);
                    held.bytes[range].copy_from_slice(&bytes);
                }
            }
            Action::Get { pick, at, len } => {
                if let Some((buffer, view, at, range)) = self.part(pick, at, len) {
                    let held = &self.buffers[buffer];
                    prop_assert_eq!(held.raw.get(view, at, range.len()), &held.bytes[range]);
                }
            }
            Action::Memset { pick, at, len, value } => {
                if let Some((buffer, view, at, range)) = self.part(pick, at, len) {
                    let held = &mut self.buffers[buffer];
                    held.raw.memset(view, value, at, range.len());
                    held.bytes[range].fill(value);
                }
            }
            Action::Clear { buffer, value } => {
                let held = &mut self.buffers[buffer];
                held.raw.clear(value);
                held.bytes.fill(value);
                held.background = value;
            }
            Action::Copy { from, to } => self.copy(from, to)?,
            Action::Carve { buffer, carving } => self.carve(buffer, carving),
            Action::Clone { pick } => {
                if let Some((buffer, slot, of)) = self.root(pick)
                    && self.buffers[buffer].usage != USAGE_COMPUTE
                {
                    // SAFETY: the tensor is alive, and its fields are plain data.
                    let clone = Box::leak(Box::new(unsafe { std::ptr::read(of) }));
                    self.buffers[buffer].slots[slot].roots.push(clone);
                }
            }
            Action::Free { buffer, carving } => {
                let Held { raw, device, usage, .. } = self.buffers[buffer];
                raw.free();
                self.buffers[buffer] = self.allocate(device, usage);
                self.carve(buffer, carving);
            }
            Action::Compute { ref steps, end } => self.compute(steps, end)?,
        }
        Ok(())
    }

    fn copy(&mut self, from: Pick, to: Pick) -> Result<(), TestCaseError> {
        let picked = |(pick, seen): Pick| self.root(pick).map(|(.., of)| self.view(of, seen));
        let (Some(from), Some(to)) = (picked(from), picked(to)) else { return Ok(()) };
        let layout = |t: &ggml_tensor| (t.type_, t.ne, t.nb);
        if layout(tensor(from)) != layout(tensor(to)) {
            return Ok(());
        }
        let ((source, start), (target, into)) = (self.place(from), self.place(to));
        let bytes = self.buffers[source].bytes[start..start + size(from)].to_vec();
        let held = &mut self.buffers[target];
        prop_assert!(held.raw.copy(from, to), "both buffers are ours");
        held.bytes[into..into + bytes.len()].copy_from_slice(&bytes);
        Ok(())
    }

    /// The elements of an F32 tensor, if all are whole numbers so small that sums of a few products are exact.
    fn numbers(&self, handle: Handle) -> Option<Vec<f32>> {
        let (t, (buffer, start)) = (tensor(handle), self.place(handle));
        let bytes = &self.buffers[buffer].bytes;
        let mut numbers = Vec::new();
        for j in 0..t.ne[1] as usize {
            for i in 0..t.ne[0] as usize {
                let at = start + i * t.nb[0] + j * t.nb[1];
                let x = f32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
                let small = (0.0..=4096.0).contains(&x) && x.fract() == 0.0 && x.is_sign_positive();
                numbers.push(Some(x).filter(|_| small)?);
            }
        }
        Some(numbers)
    }

    /// What a node computes, row by row; `None` where its numbers would not be exact.
    fn result(&self, op: u8, a: Handle, b: Handle) -> Option<([i64; 4], Vec<f32>)> {
        let (x, y, ta, tb) = (self.numbers(a)?, self.numbers(b)?, tensor(a), tensor(b));
        let repeats = || (0..2).all(|axis| ta.ne[axis] % tb.ne[axis] == 0);
        let other = |n: usize| {
            let (i, j) = (n as i64 % ta.ne[0], n as i64 / ta.ne[0]);
            y[((j % tb.ne[1]) * tb.ne[0] + i % tb.ne[0]) as usize]
        };
        let (shape, numbers): ([i64; 4], Vec<f32>) = match op {
            0 | 1 if repeats() => {
                let both = |(n, &x): (usize, &f32)| if op == 0 { x + other(n) } else { x * other(n) };
                (ta.ne, x.iter().enumerate().map(both).collect())
            }
            2 => (ta.ne, x.iter().map(|x| 2.0 * x + 1.0).collect()),
            3 => (ta.ne, x),
            4 if ta.ne[0] == tb.ne[0] && ta.nb[0] == 4 => {
                let k = ta.ne[0] as usize;
                let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum();
                let row = |y: &[f32]| x.chunks(k).map(|x| dot(x, y)).collect::<Vec<f32>>();
                ([ta.ne[1], tb.ne[1], 1, 1], y.chunks(k).flat_map(row).collect())
            }
            _ => return None,
        };
        numbers.iter().all(|&x| x <= 4096.0).then_some((shape, numbers))
    }

    /// Puts numbers, row by row, where the elements of a tensor are.
    fn store(&mut self, handle: Handle, numbers: &[f32]) {
        let (t, (buffer, start)) = (tensor(handle), self.place(handle));
        let bytes = &mut self.buffers[buffer].bytes;
        for (n, x) in numbers.iter().enumerate() {
            let (i, j) = (n % t.ne[0] as usize, n / t.ne[0] as usize);
            let at = start + i * t.nb[0] + j * t.nb[1];
            bytes[at..at + 4].copy_from_slice(&x.to_le_bytes());
        }
    }

    /// The node of a step, with the views it reads, if the host can build it and the device computes it.
    fn node(&mut self, step: &Step, nodes: &mut Vec<Handle>) -> Option<Node> {
        let floats = |&(buffer, _, of): &(usize, usize, Handle)| buffer < 2 && tensor(of).type_ == F32;
        let (_, _, a) = self.root(step.a.0).filter(floats)?;
        let (_, _, b) = self.root(step.b.0).filter(floats)?;
        let (buffer, slot, of) = self.root(step.into.0).filter(floats)?;
        let target = if step.linked { self.view(of, step.into.1) } else { of };
        // What a node of this graph changed is read through the node, if it changed all of it.
        let changed = |of: Handle| {
            let last = nodes.iter().rfind(|&&node| root(node) == of && tensor(node).op != VIEW).copied();
            last.filter(|&node| tensor(node).ne == tensor(of).ne && tensor(node).nb == tensor(of).nb)
        };
        let (a, b) = (changed(a).unwrap_or(a), changed(b).unwrap_or(b));
        let (va, vb) = (self.view(a, step.a.1), self.view(b, step.b.1));
        let (shape, numbers) = self.result(step.op, va, vb)?;
        let one = 1.0_f32.to_bits() as i32;
        let (op, params, sources): (i32, &[i32], Vec<Handle>) = match step.op {
            0 => (ADD, &[], vec![va, vb]),
            1 => (MUL, &[], vec![va, vb]),
            2 => (SCALE, &[2.0_f32.to_bits() as i32, one], vec![va]),
            3 if step.linked => (CPY, &[], vec![va, target]),
            3 => (CONT, &[], vec![va]),
            _ => (MUL_MAT, &[], vec![va, vb]),
        };
        let (device, held) = (&self.devices[0], &mut self.buffers[buffer]);
        let (same, compute) = (tensor(target).ne == shape, held.usage == USAGE_COMPUTE);
        let node = if step.linked {
            same.then(|| device.world.in_place(op, params, target, &sources))?
        } else {
            let node = device.world.node(op, params, F32, shape, &sources);
            let fits = if compute { size(node) <= held.slots[slot].bytes.len() } else { same };
            fits.then(|| held.raw.place(node, held.slots[slot].bytes.start))?
        };
        if !device.supports(node) {
            return None;
        }
        let slot = &mut held.slots[slot];
        match (compute, step.linked) {
            // The graph allocator gave the place away: nobody reads what was there.
            (true, false) => slot.roots = vec![node],
            (true, true) => slot.roots = vec![of],
            (false, false) => slot.roots.push(node),
            (false, true) => {}
        }
        let views = sources.iter().filter(|&&source| tensor(source).op == VIEW && !nodes.contains(&source));
        nodes.extend(views.copied().collect::<Vec<_>>());
        nodes.push(node);
        self.store(node, &numbers);
        self.nodes[usize::from(step.op)][usize::from(step.linked)] += 1;
        Some(Node { op: step.op, a: va, b: vb, out: node })
    }

    fn compute(&mut self, steps: &[Step], end: End) -> Result<(), TestCaseError> {
        let (mut handles, mut nodes) = (Vec::new(), Vec::new());
        for step in steps {
            let before = handles.len();
            let Some(node) = self.node(step, &mut handles) else { continue };
            nodes.push(node);
            if end == End::Singly {
                for &handle in &handles[before..] {
                    prop_assert_eq!(self.devices[0].compute(&[handle], 0), STATUS_SUCCESS);
                }
                self.check(node.out)?;
            }
        }
        if nodes.is_empty() || end == End::Singly {
            return Ok(());
        }
        self.uid += 1;
        let uid = if end == End::Whole { 0 } else { self.uid };
        let graph = self.devices[0].world.graph(&handles, uid);
        prop_assert_eq!(self.devices[0].run(graph), STATUS_SUCCESS);
        if end == End::Twice && nodes.iter().all(|node| self.survives(node)) && self.simulate(&nodes) {
            self.twice += 1;
            prop_assert_eq!(self.devices[0].run(graph), STATUS_SUCCESS);
        }
        if uid != 0 {
            self.forget(&handles);
        }
        match nodes.last() {
            Some(last) if !self.buffers[self.place(last.out).0].slots.is_empty() => self.check(last.out),
            _ => Ok(()),
        }
    }

    /// Whether a node writes nothing but what was there before its graph.
    fn survives(&self, node: &Node) -> bool {
        root(node.out) != node.out || self.buffers[self.place(node.out).0].usage != USAGE_COMPUTE
    }

    /// Computes the nodes once more on the bytes; nothing happens where that would not be exact.
    fn simulate(&mut self, nodes: &[Node]) -> bool {
        let before: Vec<Vec<u8>> = self.buffers.iter().map(|held| held.bytes.clone()).collect();
        for node in nodes {
            let Some((_, numbers)) = self.result(node.op, node.a, node.b) else {
                for (held, bytes) in self.buffers.iter_mut().zip(before) {
                    held.bytes = bytes;
                }
                return false;
            };
            self.store(node.out, &numbers);
        }
        true
    }

    /// Drops the roots of the compute buffer that a named graph makes for itself alone: all their uses are its own.
    fn forget(&mut self, handles: &[Handle]) {
        let mut uses: HashMap<Handle, usize> = HashMap::new();
        for source in handles.iter().flat_map(|&handle| tensor(handle).src).filter(|source| !source.is_null()) {
            *uses.entry(source).or_default() += 1;
        }
        let last = *handles.last().expect("a node");
        let kept = |&&handle: &&Handle| handle == last || !uses.contains_key(&handle);
        let kept: Vec<Handle> = handles.iter().filter(kept).map(|&handle| root(handle)).collect();
        for slot in self.buffers.iter_mut().filter(|held| held.usage == USAGE_COMPUTE).flat_map(|held| &mut held.slots)
        {
            slot.roots.retain(|root| !handles.contains(root) || kept.contains(root));
        }
    }

    /// A tensor has the bytes that it should have.
    fn check(&self, handle: Handle) -> Result<(), TestCaseError> {
        let (buffer, start) = self.place(handle);
        let held = &self.buffers[buffer];
        prop_assert_eq!(held.raw.get(handle, 0, size(handle)), &held.bytes[start..start + size(handle)]);
        Ok(())
    }

    /// Everything is as it should be: of compute buffers what is alive, of others every byte.
    fn check_all(&self) -> Result<(), TestCaseError> {
        for held in &self.buffers {
            for &root in held.slots.iter().flat_map(|slot| &slot.roots) {
                self.check(root)?;
            }
            if held.usage != USAGE_COMPUTE {
                let window = held.raw.place(self.devices[0].world.tensor(24, [SIZE as i64, 1, 1, 1]), 0);
                prop_assert_eq!(&held.raw.get(window, 0, SIZE), &held.bytes);
            }
        }
        Ok(())
    }
}

impl<E: Engine> Drop for Machine<E> {
    fn drop(&mut self) {
        for held in &self.buffers {
            held.raw.free();
        }
    }
}

/// Bytes to write: small whole numbers where a type is computed with, anything elsewhere.
fn pattern(type_id: i32, seed: u8, len: usize) -> Vec<u8> {
    let float = |i: usize| f32::from((usize::from(seed) + i / 4) as u8 % 6).to_le_bytes()[i % 4];
    let any = |i: usize| seed.wrapping_mul(31).wrapping_add((i * 7) as u8);
    (0..len).map(|i| if type_id == F32 { float(i) } else { any(i) }).collect()
}

/// Runs so many random hosts on a registry; each op must have been computed `least` times in each way.
fn behaves<E: Engine>(registry: &'static Registry<E>, cases: u32, least: u32) {
    let seen = RefCell::new(([[0; 2]; 5], 0));
    let hosts = prop::collection::vec(action(), 1..40);
    // The same hosts every time: how many nodes of each kind they compute is part of what is checked.
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let outcome = TestRunner::new_with_rng(ProptestConfig::with_cases(cases), rng).run(&hosts, |actions| {
        let mut machine = Machine::new(registry);
        for action in &actions {
            machine.apply(action)?;
        }
        machine.check_all()?;
        let (nodes, twice) = &mut *seen.borrow_mut();
        for (sum, n) in nodes.iter_mut().flatten().zip(machine.nodes.iter().flatten()) {
            *sum += n;
        }
        *twice += machine.twice;
        Ok(())
    });
    if let Err(why) = outcome {
        panic!("{why}");
    }
    let (nodes, twice) = seen.into_inner();
    assert!(nodes.iter().flatten().all(|&n| n >= least) && twice >= least, "{nodes:?} nodes, {twice} graphs again");
}

#[test]
fn buffers_are_arrays_of_bytes_on_oracles() {
    behaves(Registry::<OracleEngine>::new(host(), ""), 512, 64);
}

#[test]
fn buffers_are_arrays_of_bytes_on_the_device() {
    let registry = Registry::<Link>::new(host(), "0,0");
    behaves(registry, 64, 4);
    for device in registry.devices() {
        assert_eq!(device.engine().expect("open").validation_messages(), [""; 0]);
    }
}
