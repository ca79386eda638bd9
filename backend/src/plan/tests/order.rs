//! The order of dispatches keeps every dependence, and memory.

use crate::device::Limits;
use crate::graph::{Binary, DType, Graph, Op, Unary};
use crate::kernels::{Access, Constants, StorageKind};
use crate::layout::Layout;
use crate::plan::memory::{Size, alive};
use crate::plan::order::{arrange, whole_epochs};
use crate::plan::{Home, Owner, PlanOptions, Slot, Step, plan};

use super::Exact;

/// A deterministic sequence of pseudo-random numbers.
struct Random(u32);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(1664525).wrapping_add(1013904223);
        (self.0 >> 16) as usize % n
    }
}

fn slot(owner: Owner) -> Slot {
    let layout = Layout::rtile(&[4, 1, 1, 1], 4, 1, 1, u32::MAX, u32::MAX).unwrap();
    let home = Home { dtype: DType::F32, layout, kind: StorageKind::Buffer, width: 1, height: 1 };
    Slot { home: home.into(), owner, live: (0, 0) }
}

fn step(number: usize, args: Vec<(usize, Access)>, beside: bool) -> Step {
    Step {
        label: String::new(),
        node: number,
        fused: Vec::new(),
        conversion: false,
        shader: "none",
        constants: Constants::from(Vec::new()),
        groups: [1; 3],
        args,
        rows: Vec::new(),
        beside,
        barrier: false,
        discard: Vec::new(),
    }
}

/// Steps that read earlier results and weights, write results of their own, and update a weight now and then; some have two pieces.
fn random_steps(random: &mut Random, count: usize) -> (Vec<Step>, Vec<Slot>, Vec<Size>) {
    const WEIGHTS: usize = 4;
    let mut slots: Vec<Slot> =
        (0..WEIGHTS).map(|_| slot(Owner::Kept(Graph::new().external("w", DType::F32, [1; 4])))).collect();
    let mut steps: Vec<Step> = Vec::new();
    while steps.len() < count {
        let mut args = Vec::new();
        for _ in 0..1 + random.below(3) {
            let recent = slots.len().min(WEIGHTS + 12);
            args.push((slots.len() - 1 - random.below(recent), Access::Read));
        }
        if random.below(5) == 0 {
            args.push((random.below(WEIGHTS), Access::ReadWrite));
        } else {
            args.push((slots.len(), Access::Write));
            slots.push(slot(Owner::Arena { offset: 0 }));
        }
        steps.push(step(steps.len(), args.clone(), false));
        if random.below(6) == 0 {
            steps.push(step(steps.len(), args, true));
        }
    }
    let sizes = slots.iter().map(|_| Size { bytes: 16 * (1 + random.below(20) as u64), alignment: 16 }).collect();
    (steps, slots, sizes)
}

/// The most bytes alive in an order; steps of one epoch run at once.
fn most(steps: &[Step], epochs: &[usize], slots: &[Slot], sizes: &[Size]) -> u64 {
    let lives = slots.iter().zip(sizes).enumerate().filter_map(|(slot, (Slot { owner, .. }, size))| {
        let touches = |step: &Step| step.args.iter().any(|&(other, _)| other == slot);
        let (first, last) = (steps.iter().position(touches)?, steps.iter().rposition(touches)?);
        matches!(owner, Owner::Arena { .. }).then(|| (whole_epochs((first, last), epochs), size.bytes))
    });
    alive(lives.collect::<Vec<_>>().into_iter()).1
}

#[test]
fn random_steps_keep_what_they_depend_on() {
    let mut random = Random(7);
    let (mut given, mut epochs_in_all) = (0, 0);
    for _ in 0..60 {
        let (before, slots, sizes) = random_steps(&mut random, 60);
        let mut after = before.clone();
        let epochs = arrange(&mut after, &slots, &sizes, true);
        assert!(epochs.is_sorted() && epochs.len() == after.len());
        let mut place = vec![usize::MAX; before.len()];
        after.iter().enumerate().for_each(|(at, step)| place[step.node] = at);
        assert!(place.iter().all(|&at| at < after.len()), "every step once");
        for (i, a) in before.iter().enumerate() {
            for (j, b) in before.iter().enumerate().skip(i + 1) {
                let meets = |&(slot, access): &(usize, Access)| {
                    b.args.iter().any(|&(other, by)| other == slot && (access != Access::Read || by != Access::Read))
                };
                let pieces = before[i + 1..=j].iter().all(|step| step.beside);
                if pieces {
                    assert_eq!(place[j], place[i] + j - i, "pieces stay together");
                } else if a.args.iter().any(meets) {
                    assert!(epochs[place[i]] < epochs[place[j]], "{a:?} before {b:?}");
                }
            }
        }
        let each: Vec<usize> = (0..before.len()).collect();
        assert!(most(&after, &epochs, &slots, &sizes) <= most(&before, &each, &slots, &sizes), "memory");
        given += before.len();
        epochs_in_all += epochs.last().map_or(0, |last| last + 1);
    }
    assert!(2 * epochs_in_all < given, "{epochs_in_all} epochs of {given} steps");
}

/// Three chains that one input feeds, written one after the other, behind something that needs more memory than all of them.
#[test]
fn what_does_not_depend_on_each_other_stands_side_by_side() {
    let mut g = Graph::new();
    let [large, x] = [[8, 64, 1, 1], [8, 4, 1, 1]].map(|shape| g.external("x", DType::F32, shape));
    let chain = |g: &mut Graph, x| {
        let a = g.node("a", Op::soft_max(1.0), vec![g.whole(x)]).unwrap();
        g.node("b", Op::Unary(Unary::Neg), vec![g.whole(a)]).unwrap()
    };
    let first = chain(&mut g, large);
    g.keep(first);
    let [a, b, c] = [(); 3].map(|()| chain(&mut g, x));
    let both = g.node("both", Op::Binary(Binary::Add), vec![g.whole(a), g.whole(b)]).unwrap();
    let all = g.node("all", Op::Binary(Binary::Add), vec![g.whole(both), g.whole(c)]).unwrap();
    g.keep(all);
    let options = PlanOptions { apart: true, ..super::ONE_BY_ONE };
    let plan = plan(&g, &Limits::for_tests(), options, &Exact).unwrap();
    let names: Vec<char> = plan.steps.iter().filter_map(|step| step.label.chars().next_back()).collect();
    assert_eq!(names, ['a', 'b', 'a', 'a', 'a', 'b', 'b', 'b', 'h', 'l']);
    let waits: Vec<usize> = (0..plan.steps.len()).filter(|&at| plan.steps[at].barrier).collect();
    assert!(waits.iter().all(|at| [1, 2, 5, 8, 9].contains(at)), "{waits:?}");
}
