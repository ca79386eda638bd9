//! Values between those of the input: shader `upscale`.

use super::{Arg, Call, Lowered, Refusal};
use crate::graph::Sampling;

const MODE: u32 = 16;
const OFFSET: u32 = 17;
/// Steps of the output to one of the input, axes 0 and 1.
const SCALE: u32 = 18;
/// The same of all axes as ratios: both numbers of axis 0, then of axis 1 and so on.
const RATIOS: u32 = 20;

pub(super) fn upscale(call: Call<'_>, sampling: Sampling, align_corners: bool) -> Result<Lowered, Refusal> {
    let mode = match sampling {
        Sampling::Nearest => 0,
        Sampling::Bilinear => 1,
        Sampling::Bicubic => 2,
        Sampling::Antialiased => 3,
    };
    let mut builder = call.dispatch("upscale")?.set(MODE, mode).set_f32(OFFSET, if align_corners { 0.0 } else { 0.5 });
    let axes = call.output.shape().into_iter().zip(call.inputs[0].shape()).zip(0..);
    for ((output, input), axis) in axes {
        let aligned = align_corners && axis < 2 && output > 1 && input > 1;
        let (over, under) = if aligned { (output - 1, input - 1) } else { (output, input) };
        if u64::from(output) * u64::from(under) > u64::from(u32::MAX) {
            let rule = format!("axis {axis} of {input} elements, sampled at {output}: places are computed in 32 bits");
            return Err(Refusal(format!("{}: {rule}", Arg::Input(0))));
        }
        if axis < 2 {
            builder = builder.set_f32(SCALE + axis, over as f32 / under as f32);
        }
        builder = builder.set(RATIOS + 2 * axis, over).set(RATIOS + 2 * axis + 1, under);
    }
    Ok(builder.texels(call.output)?.into())
}
