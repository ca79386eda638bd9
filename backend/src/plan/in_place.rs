//! Results that take over the storage of an operand which nobody reads again.
//!
//! Fewer storages are alive at once, and the texels are still in the cache when they are overwritten. Only the plan's own storages are
//! taken over: what is external or kept holds what the host expects.

use crate::kernels::{self, Access};

use super::{Owner, Slot, Step};

/// Lets outputs live where an operand of the same dispatch ends, wherever the kernel works in place and no other step of its epoch touches
/// that operand. Slots have their lifetimes; those that go are removed. Returns their number.
pub(super) fn take_over(slots: &mut Vec<Slot>, steps: &mut [Step], epochs: &[usize]) -> usize {
    let mut heir: Vec<usize> = (0..slots.len()).collect();
    let mut gone = vec![false; slots.len()];
    for at in 0..steps.len() {
        let (before, rest) = steps.split_at_mut(at);
        let step = &mut rest[0];
        step.args.iter_mut().for_each(|(slot, _)| *slot = heir[*slot]);
        // Whoever reads it in the same epoch would have to be waited for.
        let together = before.iter().zip(epochs).rev().take_while(|&(_, &epoch)| epoch == epochs[at]);
        let is_free = |slot: usize| together.clone().all(|(step, _)| step.args.iter().all(|&(other, _)| other != slot));
        while let Some((operand, output)) = pair(at, step, slots, is_free) {
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
pub(super) fn drop_idle(steps: &mut Vec<Step>, epochs: &mut Vec<usize>) -> bool {
    let before = steps.len();
    let moves: Vec<bool> = steps.iter().map(|step| step.shader != "copy" || step.args[0].0 != step.args[1].0).collect();
    let (mut of_steps, mut of_epochs) = (moves.iter(), moves.iter());
    steps.retain(|_| of_steps.next() == Some(&true));
    epochs.retain(|_| of_epochs.next() == Some(&true));
    steps.len() < before
}

/// An operand that ends at this step and an output that begins here and may take its place.
fn pair(at: usize, step: &Step, slots: &[Slot], is_free: impl Fn(usize) -> bool) -> Option<(usize, usize)> {
    let mut pairs = pairs(step, slots);
    pairs.find(|&(operand, output)| slots[output].live.0 == at && slots[operand].live.1 == at && is_free(operand))
}

/// Operands of a step, each with an output that could be one storage with it, as far as homes and the kernel tell; both are the plan's own.
pub(super) fn pairs(step: &Step, slots: &[Slot]) -> impl Iterator<Item = (usize, usize)> {
    let own = |slot: usize| matches!(slots[slot].owner, Owner::Arena { .. });
    let bound = |slot: usize| step.args.iter().zip(0..).filter(move |((bound, _), _)| *bound == slot);
    // Constants of a piece count from the rows that each operand binds.
    let outputs = step.args.iter().zip(0..).filter(move |&(&(slot, access), _)| {
        step.rows.is_empty() && access == Access::Write && own(slot) && bound(slot).count() == 1
    });
    outputs.flat_map(move |(&(output, _), position)| {
        let fits = move |operand: usize| {
            // An operand may be bound more than once, as in x * x.
            let works = |((_, access), place): (&(usize, Access), u32)| {
                *access == Access::Read && kernels::works_in_place(step.shader, &step.constants, place, position)
            };
            own(operand) && slots[operand].home == slots[output].home && bound(operand).all(works)
        };
        let operands = step.args.iter().map(|&(slot, _)| slot).filter(move |&slot| slot != output && fits(slot));
        operands.map(move |operand| (operand, output))
    })
}
