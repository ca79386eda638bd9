//! Windows that no case lists: whatever the planner accepts is right, and what it refuses it explains.

use fblayout::graph::{Binary, DType, Desc, Graph, Op, Operand, Shape, ValueId, decode, elements, encode};
use fblayout::kernels::Addressing;
use fblayout::plan::StorageChoice;
use fblayout_spirv_tests::{Case, Device, Fill, Reference, STORAGES, Setup, VulkanDevice, check};

/// Numbers that decide the windows (a linear congruence; the tests run the same everywhere).
struct Choices(u32);

impl Choices {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % n
    }
}

/// A copy of a window.
fn random_case(number: u32) -> Case {
    let mut c = Choices(number);
    let mut s = Setup::new();
    let shape = [1 + c.below(24), 1 + c.below(9), 1 + c.below(5), 1 + c.below(3)];
    let whole = s.f32(shape, Fill::Floats(3.0));
    let window = random_window(&mut c, whole);
    let output = Desc::f32(window.shape);
    s.case_as(
        format!("window {number}: {:?} strides {:?} of {shape:?}", window.shape, window.strides),
        Op::Copy,
        vec![window],
        output,
    )
}

/// The storages, each with its half of the numbers below n.
fn halves(n: u32) -> impl Iterator<Item = (StorageChoice, impl Iterator<Item = u32>)> {
    // Seven kinds of cases follow each other.
    (0..).zip(STORAGES).map(move |(half, storage)| (storage, (0..n).filter(move |number| number / 7 % 2 == half)))
}

/// One slice, on a multiple of 4 or not, then a permutation, then at times an axis cut in two.
fn random_window(c: &mut Choices, mut window: Operand) -> Operand {
    let axis = c.below(4) as usize;
    let grain = if c.below(2) == 0 { 4 } else { 1 };
    let start = c.below(window.shape[axis]) / grain * grain;
    let count = 1 + c.below(window.shape[axis] - start);
    window = window.slice(axis, start, count).expect("the slice lies within its axis");
    let orders = [[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3], [1, 2, 0, 3], [0, 1, 3, 2], [3, 1, 2, 0]];
    window = window.permute(orders[c.below(7) as usize]).expect("these are permutations");
    halved(window).filter(|_| c.below(2) == 0).unwrap_or(window)
}

/// The first even axis cut in two, where axis 3 is free for the rest.
fn halved(window: Operand) -> Option<Operand> {
    let [n0, n1, n2, n3] = window.shape;
    let to = match (n0 % 2, n3) {
        (0, 1) => [2, n0 / 2, n1, n2],
        (1, 1) if n1 % 2 == 0 => [n0, 2, n1 / 2, n2],
        _ => return None,
    };
    window.reshape(to).ok()
}

#[test]
fn every_window_is_taken_and_right() {
    for (storage, numbers) in halves(48) {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        for case in numbers.map(random_case) {
            check(&device, &case).unwrap_or_else(|failure| panic!("{storage:?} {failure}"));
        }
        device.assert_valid();
    }
}

/// A copy of a window of any strides.
fn strided_case(number: u32) -> Case {
    let mut c = Choices(number);
    let mut s = Setup::new();
    let root = [1 + c.below(24), 1 + c.below(9), 1 + c.below(5), 1];
    let dtype = [DType::F32, DType::F16, DType::I32][c.below(3) as usize];
    let fill = if dtype == DType::I32 { Fill::Ids(1 << 20) } else { Fill::Floats(3.0) };
    let mut window = s.input(dtype, root, fill);
    let count = elements(&root);
    window.offset = c.below(count as u32).into();
    let mut left = count - 1 - window.offset;
    for axis in 0..4 {
        let most = [1, 2, 5, 30][c.below(4) as usize];
        let stride = u64::from(c.below(most));
        let room = left.checked_div(stride).map_or(5, |steps| (steps + 1).min(9));
        window.shape[axis] = 1 + c.below(room as u32);
        window.strides[axis] = stride;
        left -= u64::from(window.shape[axis] - 1) * stride;
    }
    let output = Desc { dtype, shape: window.shape };
    s.case_as(
        format!("window {number}: {:?} strides {:?} from {} of {root:?}", window.shape, window.strides, window.offset),
        Op::Copy,
        vec![window],
        output,
    )
}

/// What no home shows as digits is found by number.
#[test]
fn windows_of_any_strides_are_right() {
    for (storage, numbers) in halves(42) {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        let mut by_number = 0;
        for case in numbers.map(strided_case) {
            let plan = device.engine().plan(&case.graph).unwrap_or_else(|e| panic!("{storage:?} {}: {e}", case.name));
            let read = Addressing::of(&plan.steps.last().expect("a copy").constants, 0).expect("it reads");
            by_number += u32::from(read.flat);
            check(&device, &case).unwrap_or_else(|failure| panic!("{storage:?} {failure}"));
        }
        assert!(by_number >= 5, "only {by_number} of 21 windows are found by number");
        device.assert_valid();
    }
}

/// A value that some op computes, read through a window, copied to another shape and read again: small whole numbers, so that
/// every result is exact.
struct Read {
    graph: Graph,
    data: Vec<(ValueId, Vec<u8>)>,
    result: ValueId,
}

impl Read {
    fn new(number: u32) -> Self {
        let mut read =
            Self { graph: Graph::new(), data: Vec::new(), result: Graph::new().external("", DType::F32, [1; 4]) };
        let mut c = Choices(number);
        let [m, n, k] = [1 + c.below(14), 1 + c.below(9), 1 + c.below(7)];
        let [b, d] = [1 + c.below(3), 1 + c.below(2)];
        let value = match number % 7 {
            0 => {
                let operands = vec![read.input([k, m, b, d]), read.input([k, n, b, d])];
                read.graph.node("product", Op::MulMat, operands)
            }
            1 => {
                let operands = vec![read.input([m, k, 1, 1]), read.input([n, k, b, d])];
                read.graph.node("outer", Op::OutProd, operands)
            }
            2 => {
                let operands = vec![read.input([m, n, b * 2, d])];
                read.graph.node_as("sum", Op::RepeatBack, operands, Desc::f32([m, n, b, d]))
            }
            3 => {
                let operands = vec![read.input([m, n, b, d]), read.input([m, 1, b, 1])];
                read.graph.node("biased", Op::Binary(Binary::Sub), operands)
            }
            4 => {
                let operands = vec![read.input([m, 1, b, 1])];
                read.graph.node_as("repeated", Op::Repeat, operands, Desc::f32([m, n, b, d]))
            }
            5 => {
                let operands = vec![read.input([m, n, b, d])];
                let output = Desc::f32([m + 3, n + 1, b, d]);
                read.graph.node_as("padded", Op::Pad { before: [1, 1, 0, 0] }, operands, output)
            }
            _ => {
                let operands = vec![read.input([m, n, b, d])];
                read.graph.node("scaled", Op::Scale { scale: 2.0, bias: 1.0 }, operands)
            }
        };
        let value = value.expect("the operands fit");
        let window = random_window(&mut c, read.graph.whole(value));
        let [n0, n1, n2, n3] = window.shape;
        let shape = [[n0 * n1, n2 * n3, 1, 1], [n0, n1 * n2, n3, 1], window.shape][c.below(3) as usize];
        let copy = read.graph.node_as("copy", Op::Copy, vec![window], Desc::f32(shape)).expect("as many elements");
        let operands = vec![read.graph.whole(copy)];
        let scaled = read.graph.node("again", Op::Scale { scale: -1.0, bias: 0.0 }, operands).expect("one operand");
        read.graph.keep(scaled);
        read.result = scaled;
        read
    }

    fn input(&mut self, shape: Shape) -> Operand {
        let index = self.data.len();
        let value = self.graph.external(format!("x{index}"), DType::F32, shape);
        let numbers = Fill::Integers.make(DType::F32, &shape, index as u32);
        self.data.push((value, encode(DType::F32, &numbers).expect("floats")));
        self.graph.whole(value)
    }
}

/// Computed values are placed where their readers' windows are coordinates, also with lanes along another axis than 0.
#[test]
fn values_placed_for_their_windows_are_right() {
    for (storage, numbers) in halves(98) {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        let mut turned = 0;
        for number in numbers {
            let Read { graph, data, result } = Read::new(number);
            graph.verify().expect("the generator obeys the rules");
            let plan = device.engine().plan(&graph).unwrap_or_else(|e| panic!("{storage:?} {number}: {e}"));
            turned += plan.slots.iter().filter(|slot| slot.home.layout.lane.iter().any(|d| d.axis > 0)).count();
            let run = |device: &dyn Device| -> Vec<f64> {
                let outcome =
                    device.run(&graph, &data, &[result]).unwrap_or_else(|e| panic!("{storage:?} {number}: {e}"));
                decode(DType::F32, &outcome.bytes[0]).expect("floats")
            };
            let (got, expected) = (run(&device), run(&Reference::faithful()));
            assert_eq!(got, expected, "{storage:?} {number}: {:#?}", graph.nodes);
        }
        assert!(turned >= 5, "only {turned} of 49 values have lanes along another axis");
        device.assert_valid();
    }
}
