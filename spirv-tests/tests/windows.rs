//! Windows that no case lists: whatever the planner accepts is right, and what it refuses it explains.

use fblayout::graph::{Desc, Op, Operand};
use fblayout_spirv_tests::{Case, Fill, STORAGES, Setup, VulkanDevice, check};

/// Numbers that decide the windows (a linear congruence; the tests run the same everywhere).
struct Choices(u32);

impl Choices {
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self.0.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.0 >> 16) % n
    }
}

/// A copy of a window: one slice, on a multiple of 4 or not, then a permutation, then at times an axis cut in two.
fn random_case(number: u32) -> Case {
    let mut c = Choices(number);
    let mut s = Setup::new();
    let shape = [1 + c.below(24), 1 + c.below(9), 1 + c.below(5), 1 + c.below(3)];
    let mut window = s.f32(shape, Fill::Floats(3.0));
    let axis = c.below(4) as usize;
    let grain = if c.below(2) == 0 { 4 } else { 1 };
    let start = c.below(window.shape[axis]) / grain * grain;
    let count = 1 + c.below(window.shape[axis] - start);
    window = window.slice(axis, start, count).expect("the slice lies within its axis");
    let orders = [[0, 1, 2, 3], [1, 0, 2, 3], [0, 2, 1, 3], [2, 0, 1, 3], [1, 2, 0, 3], [0, 1, 3, 2], [3, 1, 2, 0]];
    window = window.permute(orders[c.below(7) as usize]).expect("these are permutations");
    window = halved(window).filter(|_| c.below(2) == 0).unwrap_or(window);
    let output = Desc::f32(window.shape);
    s.case_as(
        format!("window {number}: {:?} strides {:?} of {shape:?}", window.shape, window.strides),
        Op::Copy,
        vec![window],
        output,
    )
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
fn accepted_windows_are_right_and_refused_ones_explained() {
    for storage in STORAGES {
        let device = VulkanDevice::open(storage).expect("a Vulkan device");
        let mut accepted = 0;
        for case in (0..48).map(random_case) {
            match device.engine().plan(&case.graph) {
                Ok(_) => {
                    accepted += 1;
                    check(&device, &case).unwrap_or_else(|failure| panic!("{storage:?} {failure}"));
                }
                Err(why) => assert!(why.to_string().contains("CPY"), "{}: {why}", case.name),
            }
        }
        assert!(accepted >= 24, "only {accepted} of 48 windows are accepted in {storage:?}");
        device.assert_valid();
    }
}
