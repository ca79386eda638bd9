//! Which operands a dispatch may find where it writes its output.

use super::addressing::constant;
use super::dispatch::without_blocks;
use super::{Addressing, copy, epilogue};

/// Shaders, and those of their operands that may share the output's storage where both have the same addresses: every texel of them
/// is loaded by the one invocation that later stores it, and stored once, with a value that needs the load. So it is for shaders that
/// work element by element, and for those that work on rows, whose invocations keep to columns of their own in every pass. It is not for
/// a rotation, where another invocation loads the other half of a pair, nor for the scalar of `cross_entropy_back`, which all load.
const SHARING: [(&str, &[u32]); 15] = [
    ("unary", &[0]),
    ("binary", &[0, 1]),
    ("function", &[0]),
    ("gated", &[0, 1]),
    ("rms_norm", &[0]),
    ("rms_norm_back", &[0, 1]),
    ("softmax", &[0]),
    ("softmax_masked", &[0, 1]),
    ("softmax_masked_sinks", &[0, 1]),
    ("softmax_sinks", &[0]),
    ("layer_norm", &[0]),
    ("l2_norm", &[0]),
    ("softmax_back", &[0, 1]),
    ("cross_entropy_back", &[1, 2]),
    ("copy", &[0]),
];

/// Whether operand `operand` of a dispatch may live in the storage of `output`, an operand that it writes: the shader allows it, and
/// each element of one is where the same element of the other is. The storages must have one extent.
///
/// An epilogue loads a quad of all its extra operands before it stores that quad anywhere, so they may share in every shader.
pub fn works_in_place(shader: &str, constants: &[(u32, u32)], operand: u32, output: u32) -> bool {
    let shader = without_blocks(shader);
    let addresses = |slot| Addressing::of(constants, slot);
    let (plain, extra) = match epilogue::first_extra(shader) {
        Some(first) => (shader.strip_suffix("_fused"), operand >= first),
        None => (Some(shader), false),
    };
    let moves = |id| constant(constants, id).is_some_and(|value| value != 0);
    if shader == "copy" && (moves(copy::WRAP) || moves(copy::RENUMBER)) {
        return false;
    }
    let shares = || SHARING.iter().any(|&(name, operands)| plain == Some(name) && operands.contains(&operand));
    (extra || shares()) && addresses(operand).is_some_and(|own| Some(own) == addresses(output))
}

#[cfg(test)]
mod tests {
    #[test]
    fn shaders_that_share_exist() {
        assert!(super::SHARING.iter().all(|(name, _)| fblayout_shaders::get(name).is_some()));
    }
}
