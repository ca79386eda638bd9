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
        let Some((operand, output)) = pair(at, step, slots) else { continue };
        slots[operand].live.1 = slots[output].live.1;
        step.args.iter_mut().filter(|(slot, _)| *slot == output).for_each(|(slot, _)| *slot = operand);
        heir[output] = operand;
        gone[output] = true;
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

/// An operand that ends at this step and the output that begins here and may take its place.
fn pair(at: usize, step: &Step, slots: &[Slot]) -> Option<(usize, usize)> {
    let own = |slot: usize| matches!(slots[slot].owner, Owner::Arena { .. });
    let begins = |&&(slot, access): &&(usize, Access)| access == Access::Write && own(slot) && slots[slot].live.0 == at;
    let (output, _) = *step.args.last().filter(begins)?;
    let position = step.args.len() as u32 - 1;
    let fits = |operand: usize| {
        // An operand may be bound more than once, as in x * x.
        let bound = || step.args.iter().zip(0..).filter(move |((slot, _), _)| *slot == operand);
        own(operand)
            && slots[operand].live.1 == at
            && slots[operand].home == slots[output].home
            && bound().all(|((_, access), place)| {
                *access == Access::Read && kernels::works_in_place(step.shader, &step.constants, place, position)
            })
    };
    step.args.iter().map(|&(slot, _)| slot).find(|&slot| slot != output && fits(slot)).map(|operand| (operand, output))
}
