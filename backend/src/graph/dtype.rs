//! Element types the kernels compute with.

/// Element type of a tensor, named as in ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[allow(non_camel_case_types, reason = "ggml's own names")]
pub enum DType {
    /// 32-bit float.
    F32,
    /// 16-bit float.
    F16,
    /// 32-bit signed integer.
    I32,
    /// 8-bit quants with one f16 scale per block of 32.
    Q8_0,
    /// 4-bit quants with an f16 scale and an f16 minimum per block of 32.
    Q4_1,
}

impl DType {
    /// Elements of one block along axis 0 (1 for plain types).
    pub const fn block(self) -> u32 {
        match self {
            Self::F32 | Self::F16 | Self::I32 => 1,
            Self::Q8_0 | Self::Q4_1 => 32,
        }
    }

    /// Bytes of one block in the host's linear form.
    pub const fn block_bytes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_1 => 20,
        }
    }

    /// Elements along axis 0 that one slot of a layout holds: a texel of a plain type, a block of a quantized one.
    pub const fn lanes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 => 8,
            Self::Q8_0 | Self::Q4_1 => 32,
        }
    }

    /// Texels of quants per slot of a quantized type (its tile adds one texel of scales per four slots); `None` for plain types.
    pub const fn quant_texels(self) -> Option<u32> {
        match self {
            Self::F32 | Self::F16 | Self::I32 => None,
            Self::Q8_0 => Some(2),
            Self::Q4_1 => Some(1),
        }
    }
}
