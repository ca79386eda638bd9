//! The ladder against brute force: random chains of windows and copies over a computed value, every element followed one by one.
//!
//! Sound: what is told to be eliminated is read at the right positions, as the device's own constants say. Complete, as far as
//! measured: where enumeration finds a home over which the whole chain is coordinates that kernels take, the planner should too.

use super::{Exact, ONE_BY_ONE, explicit};
use crate::device::Limits;
use crate::graph::{Binary, DType, Desc, Graph, Op, Operand, Shape, Unary, ValueId, elements};
use crate::kernels::{Addressing, lane_axes};
use crate::layout::{Layout, Position};
use crate::plan::{Home, Plan, Step, plan};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(n)) as u32
    }

    fn of<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u32) as usize]
    }
}

/// A computed value, and what the last node reads of it.
struct Chain {
    graph: Graph,
    value: ValueId,
    /// Elements of the value in the order of the reader's operand.
    shown: Vec<u32>,
    shape: Shape,
}

impl Chain {
    fn random(random: &mut Random) -> Self {
        let mut graph = Graph::new();
        let shape = [
            random.of(&[3, 4, 6, 8, 12]),
            random.of(&[1, 2, 3, 5, 6, 8]),
            random.of(&[1, 2, 3, 4]),
            random.of(&[1, 2]),
        ];
        let value = computed(&mut graph, shape, random);
        let mut shown: Vec<u32> = (0..elements(&shape) as u32).collect();
        let mut at = value;
        for _ in 0..1 + random.below(2) {
            let window = window(graph.whole(at), random);
            shown = window.indices().map(|i| shown[i as usize]).collect();
            let output = Desc::f32(regrouped(window.shape, random));
            at = graph.node_as("copy", Op::Copy, vec![window], output).unwrap();
        }
        let last = window(graph.whole(at), random);
        shown = last.indices().map(|i| shown[i as usize]).collect();
        let result = graph.node("read", Op::Unary(Unary::Neg), vec![last]).unwrap();
        graph.keep(result);
        Self { graph, value, shown, shape: last.shape }
    }

    fn root(&self) -> Shape {
        self.graph.values[self.value.index()].shape
    }

    fn plan(&self) -> Plan {
        self.graph.verify().unwrap();
        let plan = plan(&self.graph, &Limits::for_tests(), ONE_BY_ONE, &Exact);
        plan.unwrap_or_else(|e| panic!("{e}: {:#?}", self.graph))
    }

    /// Positions of the elements shown in a home.
    fn positions(&self, home: &Layout) -> Vec<Position> {
        let index = |mut id: u32| {
            self.root().map(|extent| {
                let i = id % extent;
                id /= extent;
                i
            })
        };
        self.shown.iter().map(|&id| home.address(&index(id))).collect()
    }

    /// Whether a home that the value's op can write, and that is at most a tenth larger than the rule's, shows the whole chain as
    /// coordinates that a kernel takes.
    fn has_home(&self) -> bool {
        let rule = Home::of(DType::F32, &self.root(), &Limits::for_tests(), ONE_BY_ONE).unwrap();
        let is_small = |home: &Layout| home.slots() * 10 <= rule.layout.slots() * 11;
        let node = &self.graph.nodes[0];
        let inputs: Vec<Desc> = node.inputs.iter().map(|input| Desc::f32(input.shape)).collect();
        let homes = lane_axes(&node.op, &inputs, &Desc::f32(self.root())).iter().flat_map(|&lanes| {
            let mut order = [0, 1, 2, 3];
            order[..=lanes].rotate_right(1);
            let mut back = [0, 1, 2, 3];
            back[..=lanes].rotate_left(1);
            let extents = order.map(|axis| self.root()[axis]);
            let tiles = (1..4).flat_map(|row_axis| (1..=8).map(move |strip| (row_axis, strip)));
            tiles.map(move |(row_axis, strip)| {
                Layout::rtile(&extents, 4, row_axis, strip, 1 << 14, 1 << 20).unwrap().permute(&back).unwrap()
            })
        });
        homes.into_iter().filter(is_small).any(|home| is_readable(self.shape, &self.positions(&home)))
    }

    /// Asserts that the last step reads the elements where the value's home has them.
    fn assert_read(&self, plan: &Plan) {
        let read = plan.steps.last().unwrap();
        let home = &plan.slots[read.args[0].0].home.layout;
        let addressing = Addressing::of(&read.constants, 0).unwrap();
        for (index, at) in indices(self.shape).zip(self.positions(home)) {
            assert_eq!(addressing.texel(index), [at.x, at.y], "{index:?} of {:#?}", self.graph);
            if let Some(axis) = addressing.lane_axis {
                assert_eq!(index[axis] % 4, at.lane, "{index:?} of {:#?}", self.graph);
            }
        }
    }
}

/// A value of some op: one that writes along any axis, along two, or along axis 0 alone.
fn computed(graph: &mut Graph, shape: Shape, random: &mut Random) -> ValueId {
    let [m, n, b, c] = shape;
    match random.below(3) {
        0 => {
            let x = graph.external("x", DType::F32, shape);
            graph.node("v", Op::Binary(Binary::Add), vec![graph.whole(x), graph.whole(x)])
        }
        1 => {
            let (x, y) = (graph.external("x", DType::F32, [5, m, b, c]), graph.external("y", DType::F32, [5, n, b, c]));
            graph.node("v", Op::MulMat, vec![graph.whole(x), graph.whole(y)])
        }
        _ => {
            let x = graph.external("x", DType::F32, shape);
            graph.node("v", Op::SoftMax { scale: 1.0 }, vec![graph.whole(x)])
        }
    }
    .unwrap()
}

/// A window after up to three of reshape, permutation, slice and expansion.
fn window(mut x: Operand, random: &mut Random) -> Operand {
    for _ in 0..random.below(4) {
        let axis = random.below(4) as usize;
        x = match random.below(6) {
            0 | 1 => x.reshape(regrouped(x.shape, random)).unwrap_or(x),
            2 | 3 => x.permute(random.of(&[[0, 2, 1, 3], [1, 0, 2, 3], [2, 0, 1, 3], [0, 1, 3, 2]])).unwrap(),
            4 => {
                let start = random.below(x.shape[axis]);
                x.slice(axis, start, 1 + random.below(x.shape[axis] - start)).unwrap()
            }
            _ if elements(&x.shape) < 150 => x.expand(axis, 2).unwrap_or(x),
            _ => x,
        };
    }
    x
}

/// Other extents for as many elements.
fn regrouped(shape: Shape, random: &mut Random) -> Shape {
    let mut rest = elements(&shape) as u32;
    let mut divisor = || {
        let all: Vec<u32> = (1..=rest).filter(|&d| rest.is_multiple_of(d)).collect();
        let d = random.of(&all);
        rest /= d;
        d
    };
    let inner = [divisor(), divisor(), divisor()];
    [inner[0], inner[1], inner[2], rest]
}

fn indices([n0, n1, n2, n3]: Shape) -> impl Iterator<Item = [u32; 4]> {
    (0..n0 * n1 * n2 * n3).map(move |i| [i % n0, i / n0 % n1, i / (n0 * n1) % n2, i / (n0 * n1 * n2)])
}

/// Whether positions over a box are coordinates that a kernel takes, from their values alone: axes move them independently, one axis
/// steps through the lanes of whole texels, and each moves the texel by at most three digits.
fn is_readable(shape: Shape, at: &[Position]) -> bool {
    let origin = at[0];
    let moved = |at: Position| {
        let by = |a: u32, b: u32| i64::from(a) - i64::from(b);
        [by(at.x, origin.x), by(at.y, origin.y), by(at.lane, origin.lane)]
    };
    let mut step = 1;
    let along = shape.map(|n| {
        let axis: Vec<[i64; 3]> = (0..n as usize).map(|i| moved(at[i * step])).collect();
        step *= n as usize;
        axis
    });
    let is_sum = indices(shape).zip(at).all(|(index, &at)| {
        let parts: Vec<[i64; 3]> = along.iter().zip(index).map(|(axis, i)| axis[i as usize]).collect();
        (0..3).all(|place| parts.iter().map(|part| part[place]).sum::<i64>() == moved(at)[place])
    });
    let laned: Vec<usize> = (0..4).filter(|&axis| along[axis].iter().any(|by| by[2] != 0)).collect();
    let lanes_are_whole = match laned[..] {
        [] => true,
        [axis] => origin.lane == 0 && along[axis].iter().enumerate().all(|(i, by)| by[2] == i as i64 % 4),
        _ => false,
    };
    let digits = |axis: usize| {
        let slot = |by: &[i64; 3]| [by[0], by[1]];
        if laned != [axis] {
            return fewest_digits(&along[axis].iter().map(slot).collect::<Vec<_>>());
        }
        let within = along[axis].chunks(4).all(|texel| texel.iter().all(|by| slot(by) == slot(&texel[0])));
        if within { fewest_digits(&along[axis].iter().step_by(4).map(slot).collect::<Vec<_>>()) } else { None }
    };
    is_sum && lanes_are_whole && (0..4).all(|axis| digits(axis).is_some_and(|count| count <= 3))
}

/// The fewest digits that a function of an index is a sum of multiples of; nothing where it is none, or runs backward.
fn fewest_digits(f: &[[i64; 2]]) -> Option<usize> {
    let n = f.len();
    if n == 1 {
        return Some(0);
    }
    let linear = |upto: usize| (0..upto).all(|i| (0..2).all(|place| f[i][place] == i as i64 * f[1][place]));
    if f[1].iter().any(|&by| by < 0) {
        return None;
    }
    if linear(n) {
        return Some(1);
    }
    let cut = |radix: usize| {
        let outer: Vec<[i64; 2]> = f.iter().step_by(radix).copied().collect();
        let fits = (0..n).all(|i| (0..2).all(|p| f[i][p] == f[i % radix][p] + outer[i / radix][p]));
        if fits { fewest_digits(&outer).map(|digits| digits + 1) } else { None }
    };
    (2..n).filter(|&radix| linear(radix)).filter_map(cut).min()
}

#[test]
fn the_ladder_is_sound_and_nearly_complete() {
    let mut random = Random(7);
    let (mut possible, mut found, mut eliminated) = (0, 0, 0);
    let chains = 1500;
    for _ in 0..chains {
        let chain = Chain::random(&mut random);
        let plan = chain.plan();
        let nothing_moves = explicit(&plan).is_empty();
        let has_home = chain.has_home();
        if nothing_moves {
            chain.assert_read(&plan);
            eliminated += 1;
            let by_number = |step: &Step| Addressing::of(&step.constants, 0).unwrap().flat;
            assert!(
                has_home || plan.steps.iter().any(by_number),
                "the planner found what enumeration did not: {:#?}",
                chain.graph
            );
        }
        possible += usize::from(has_home);
        found += usize::from(has_home && nothing_moves);
    }
    println!(
        "of {chains} chains {possible} have a home without copies; the planner finds {found}, {eliminated} in all"
    );
    assert!(possible * 4 > chains, "{possible} of {chains} are possible");
    assert!(found * 100 >= possible * 90, "{found} of {possible}");
}
