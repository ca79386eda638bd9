//! Parameter words of ggml's ops that move values, sample them, or keep a part.

use fblayout::graph::{Op, Sampling, Triangle};

use crate::abi::MAX_OP_PARAMS;

/// The mode of UPSCALE is in the low byte of its word.
const MODE: i32 = 0xFF;
const ALIGN_CORNERS: i32 = 1 << 8;
const ANTIALIAS: i32 = 1 << 9;

/// A word that counts elements.
pub(super) fn count(word: i32, name: &str) -> Result<u32, String> {
    u32::try_from(word).map_err(|_| format!("{name} {word} is negative"))
}

/// Words: elements before and after the source on each axis (those after follow from the shapes), whether it repeats instead.
pub(super) fn pad(params: &[i32; MAX_OP_PARAMS]) -> Result<Op, String> {
    let mut before = [0; 4];
    for (axis, elements) in before.iter_mut().enumerate() {
        let word = params[2 * axis];
        *elements = u32::try_from(word).map_err(|_| format!("padding of {word} elements on axis {axis}"))?;
    }
    Ok(if params[8] == 0 { Op::Pad { before } } else { Op::PadCircular { before } })
}

/// Words: steps along each axis.
pub(super) fn roll(params: &[i32; MAX_OP_PARAMS]) -> Op {
    Op::Roll { shift: [params[0], params[1], params[2], params[3]] }
}

pub(super) fn upscale(word: i32) -> Result<Op, String> {
    let sampling = match (word & MODE, word & ANTIALIAS != 0) {
        (0, false) => Sampling::Nearest,
        (1, false) => Sampling::Bilinear,
        (1, true) => Sampling::Antialiased,
        (2, false) => Sampling::Bicubic,
        (mode, antialias) => return Err(format!("upscale mode {mode} (antialias: {antialias}) is not supported")),
    };
    Ok(Op::Upscale { sampling, align_corners: word & ALIGN_CORNERS != 0 })
}

/// The list is in the order of `ggml_tri_type`.
pub(super) fn triangle(kind: i32) -> Result<Op, String> {
    let kinds = [Triangle::UpperDiagonal, Triangle::Upper, Triangle::LowerDiagonal, Triangle::Lower];
    let found = usize::try_from(kind).ok().and_then(|kind| kinds.get(kind));
    found.map(|&triangle| Op::Tri(triangle)).ok_or_else(|| format!("triangle {kind} is not supported"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::words;
    use super::*;

    #[test]
    fn padding_is_read_before_the_source() {
        let before = [1, 0, 3, 0];
        assert_eq!(pad(&words(&[(0, 1), (1, 9), (4, 3), (7, 2)])), Ok(Op::Pad { before }));
        assert_eq!(pad(&words(&[(0, 1), (4, 3), (8, 1)])), Ok(Op::PadCircular { before }));
        assert_eq!(pad(&words(&[(2, -3)])), Err("padding of -3 elements on axis 1".into()));
        assert_eq!(roll(&words(&[(0, 3), (1, -2)])), Op::Roll { shift: [3, -2, 0, 0] });
    }

    #[test]
    fn modes_and_kinds_have_ggmls_numbers() {
        let of = |sampling, align_corners| Ok(Op::Upscale { sampling, align_corners });
        assert_eq!(upscale(0), of(Sampling::Nearest, false));
        assert_eq!(upscale(2 | ALIGN_CORNERS), of(Sampling::Bicubic, true));
        assert_eq!(upscale(1 | ANTIALIAS), of(Sampling::Antialiased, false));
        assert!(upscale(2 | ANTIALIAS).is_err() && upscale(3).is_err());
        assert_eq!((triangle(0), triangle(3)), (Ok(Op::Tri(Triangle::UpperDiagonal)), Ok(Op::Tri(Triangle::Lower))));
        assert!(triangle(4).is_err() && triangle(-1).is_err());
    }
}
