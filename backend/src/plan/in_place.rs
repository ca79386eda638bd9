//! Results that take over the storage of an operand which nobody reads again.
//!
//! Fewer storages are alive at once, and the texels are still in the cache when they are overwritten. Only the plan's own storages are
//! taken over: what is external or kept holds what the host expects.

use crate::kernels::{self, Access};

use super::{Owner, Slot, Step};

/// Lets outputs live where an operand of the same dispatch ends, wherever the kernel works in place. Slots have their lifetimes; those
/// that go are removed. Returns their number.
pub(super) fn take_over(slots: &mut Vec<Slot>, steps: &mut [Step]) -> usize {
    let mut heir: Vec<usize> = (0..slots.len()).collect();
    let mut gone = vec![false; slots.len()];
    for (at, step) in steps.iter_mut().enumerate() {
        step.args.iter_mut().for_each(|(slot, _)| *slot = heir[*slot]);
        while let Some((operand, output)) = pair(at, step, slots) {
            slots[operand].live.1 = slots[output].live.1;
            step.args.iter_mut().filter(|(slot, _)| *slot == output).for_each(|(slot, _)| *slot = operand);
            heir[output] = operand;
            gone[output] = true;
        }
    }

    let count = |before: &mut usize, gone: &bool| {
        let number = *before;
        *before += usize::from(!gone);
        Some(number)
    };
    let number: Vec<usize> = gone.iter().scan(0, count).collect();
    steps.iter_mut().flat_map(|step| &mut step.args).for_each(|(slot, _)| *slot = number[*slot]);
    let mut gone = gone.into_iter();
    let before = slots.len();
    slots.retain(|_| gone.next() == Some(false));
    before - slots.len()
}

/// Removes copies whose result took over the storage of their operand: nothing moves. Returns whether there were any.
pub(super) fn drop_idle(steps: &mut Vec<Step>) -> bool {
    let before = steps.len();
    steps.retain(|step| step.shader != "copy" || step.args[0].0 != step.args[1].0);
    steps.len() < before
}

/// An operand that ends at this step and an output that begins here and may take its place.
fn pair(at: usize, step: &Step, slots: &[Slot]) -> Option<(usize, usize)> {
    // Constants of a piece count from the rows that each operand binds.
    if !step.rows.is_empty() {
        return None;
    }
    let own = |slot: usize| matches!(slots[slot].owner, Owner::Arena { .. });
    let bound = |slot: usize| step.args.iter().zip(0..).filter(move |((bound, _), _)| *bound == slot);
    let begins = |slot: usize| own(slot) && slots[slot].live.0 == at && bound(slot).count() == 1;
    let outputs = step.args.iter().zip(0..).filter(|&(&(slot, access), _)| access == Access::Write && begins(slot));
    outputs.into_iter().find_map(|(&(output, _), position)| {
        let fits = |operand: usize| {
            // An operand may be bound more than once, as in x * x.
            let works = |((_, access), place): (&(usize, Access), u32)| {
                *access == Access::Read && kernels::works_in_place(step.shader, &step.constants, place, position)
            };
            own(operand)
                && slots[operand].live.1 == at
                && slots[operand].home == slots[output].home
                && bound(operand).all(works)
        };
        let ends = step.args.iter().map(|&(slot, _)| slot).find(|&slot| slot != output && fits(slot));
        ends.map(|operand| (operand, output))
    })
}
