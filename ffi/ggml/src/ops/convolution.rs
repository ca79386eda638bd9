//! Parameter words of convolutions and pools.

use fblayout::graph::{Op, Pool, PoolKind, Window};

use super::numbers::*;
use crate::abi::MAX_OP_PARAMS;

/// `ggml_op_pool` values.
const POOL_MAX: i32 = 0;
const POOL_AVERAGE: i32 = 1;

/// Our op for a convolution, for what it is made of, or for a pool.
pub(super) fn map(op: i32, params: &[i32; MAX_OP_PARAMS]) -> Result<Op, String> {
    let words = Words(params);
    Ok(match op {
        IM2COL => Op::Im2Col { window: words.window(2)?, plane: params[6] == 1 },
        IM2COL_BACK => Op::Im2ColBack { window: words.window(2)?, plane: params[6] == 1 },
        IM2COL_3D => Op::Im2Col3d { window: words.window(3)?, channels: words.count(9)? },
        COL2IM_1D => Op::Col2Im1d { stride: words.count(0)?, channels: words.count(1)?, pad: words.count(2)? },
        CONV_2D => Op::Conv2d(words.window(2)?),
        CONV_2D_DW => Op::Conv2dDw(words.window(2)?),
        // The numbers of images and of outputs follow from the shapes.
        CONV_3D => Op::Conv3d { window: words.window(3)?, channels: words.count(9)? },
        CONV_TRANSPOSE_1D => {
            let (pad, dilation) = (params[1], params[2]);
            if (pad, dilation) != (0, 1) {
                return Err(format!("a transposed convolution with padding {pad} and dilation {dilation}"));
            }
            Op::ConvTranspose1d { stride: words.count(0)? }
        }
        CONV_TRANSPOSE_2D => Op::ConvTranspose2d { stride: words.count(0)? },
        POOL_1D => {
            let (extent, stride, pad) = (words.count(1)?, words.count(2)?, words.count(3)?);
            let kind = words.pool(PoolKind::AverageInside)?;
            Op::Pool1d(Pool { kind, extent: [extent, 1], stride: [stride, 1], pad: [pad, 0] })
        }
        POOL_2D => Op::Pool2d(words.pool_2d()?),
        POOL_2D_BACK => Op::Pool2dBack(words.pool_2d()?),
        _ => return Err("the op is not supported".into()),
    })
}

struct Words<'a>(&'a [i32; MAX_OP_PARAMS]);

impl Words<'_> {
    fn count(&self, word: usize) -> Result<u32, String> {
        u32::try_from(self.0[word]).map_err(|_| format!("parameter {word} is {}, must not be negative", self.0[word]))
    }

    fn pair(&self, first: usize) -> Result<[u32; 2], String> {
        Ok([self.count(first)?, self.count(first + 1)?])
    }

    /// Strides, paddings and dilations of the first `axes` axes, in this order.
    fn window(&self, axes: usize) -> Result<Window, String> {
        let mut window = Window::PLAIN;
        for axis in 0..axes {
            window.stride[axis] = self.count(axis)?;
            window.pad[axis] = self.count(axes + axis)?;
            window.dilation[axis] = self.count(2 * axes + axis)?;
        }
        Ok(window)
    }

    /// The kind of a pool, `average` being what its op takes for a mean.
    fn pool(&self, average: PoolKind) -> Result<PoolKind, String> {
        match self.0[0] {
            POOL_MAX => Ok(PoolKind::Max),
            POOL_AVERAGE => Ok(average),
            kind => Err(format!("pool {kind} is not supported")),
        }
    }

    fn pool_2d(&self) -> Result<Pool, String> {
        let kind = self.pool(PoolKind::Average)?;
        Ok(Pool { kind, extent: self.pair(1)?, stride: self.pair(3)?, pad: self.pair(5)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: &[i32]) -> [i32; MAX_OP_PARAMS] {
        let mut params = [0; MAX_OP_PARAMS];
        params[..values.len()].copy_from_slice(values);
        params
    }

    #[test]
    fn windows_are_read_axis_by_axis() {
        let window = Window { stride: [1, 2, 1], pad: [3, 4, 0], dilation: [5, 6, 1] };
        assert_eq!(map(CONV_2D, &words(&[1, 2, 3, 4, 5, 6])), Ok(Op::Conv2d(window)));
        assert_eq!(map(IM2COL, &words(&[1, 2, 3, 4, 5, 6, 1])), Ok(Op::Im2Col { window, plane: true }));
        let window = Window { stride: [1, 2, 3], pad: [4, 5, 6], dilation: [7, 8, 9] };
        assert_eq!(map(CONV_3D, &words(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10])), Ok(Op::Conv3d { window, channels: 10 }));
        assert_eq!(map(CONV_2D, &words(&[1, 2, -3])).unwrap_err(), "parameter 2 is -3, must not be negative");
        assert!(map(CONV_TRANSPOSE_1D, &words(&[2, 1, 1])).unwrap_err().contains("padding 1"));
    }

    #[test]
    fn pools_differ_in_what_they_divide_by() {
        let pool = |kind, extent, stride, pad| Pool { kind, extent, stride, pad };
        let line = pool(PoolKind::AverageInside, [3, 1], [2, 1], [1, 0]);
        assert_eq!(map(POOL_1D, &words(&[1, 3, 2, 1])), Ok(Op::Pool1d(line)));
        let plane = pool(PoolKind::Average, [3, 4], [2, 1], [1, 0]);
        assert_eq!(map(POOL_2D_BACK, &words(&[1, 3, 4, 2, 1, 1, 0])), Ok(Op::Pool2dBack(plane)));
        assert!(map(POOL_2D, &words(&[2, 1, 1, 1, 1])).unwrap_err().contains("pool 2"));
    }
}
