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
    /// The upper half of a 32-bit float.
    BF16,
    /// 64-bit signed integer. Kernels that read ids and positions take its low half.
    I64,
    /// 8-bit quants with one f16 scale per block of 32.
    Q8_0,
    /// 4-bit quants with an f16 scale and an f16 minimum per block of 32.
    Q4_1,
    /// 4-bit quants with one f16 scale per block of 32.
    Q4_0,
    /// 5-bit quants with one f16 scale per block of 32.
    Q5_0,
    /// 5-bit quants with an f16 scale and an f16 minimum per block of 32.
    Q5_1,
    /// 4-bit numbers of a table of uneven steps, with one f16 scale per block of 32.
    IQ4_NL,
    /// 4-bit floats (2 bits of exponent, 1 of mantissa) with one power of two per block of 32.
    MXFP4,
    /// 2-bit quants in blocks of 256; every 16 have a 4-bit scale and a 4-bit minimum.
    Q2_K,
    /// 3-bit quants in blocks of 256; every 16 have a 6-bit scale.
    Q3_K,
    /// 4-bit quants in blocks of 256; every 32 have a 6-bit scale and a 6-bit minimum.
    Q4_K,
    /// 5-bit quants in blocks of 256; every 32 have a 6-bit scale and a 6-bit minimum.
    Q5_K,
    /// 6-bit quants in blocks of 256; every 16 have an 8-bit scale.
    Q6_K,
    /// The numbers of [`DType::IQ4_NL`] in blocks of 256; every 32 have a 6-bit scale.
    IQ4_XS,
    /// -1, 0 or 1 with one f16 scale per block of 256; five of them in a byte.
    TQ1_0,
    /// -1, 0 or 1 with one f16 scale per block of 256; four of them in a byte.
    TQ2_0,
}

/// How the slots of a layout lie in a storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// A slot is a texel of elements.
    Texel,
    /// A slot is a block, taken apart: so many texels of quants, and a word of the texel of scales that ends each tile of four slots.
    Tile {
        /// Texels of quants of a slot.
        quants: u32,
    },
    /// A slot is a block as the host has it, byte behind byte with its neighbours in the row.
    Block,
}

/// Slots of a tile of [`Form::Tile`].
pub const TILE_SLOTS: u32 = 4;

impl DType {
    /// Every type.
    pub const ALL: [Self; 20] = [
        Self::F32,
        Self::F16,
        Self::I32,
        Self::BF16,
        Self::I64,
        Self::Q8_0,
        Self::Q4_1,
        Self::Q4_0,
        Self::Q5_0,
        Self::Q5_1,
        Self::IQ4_NL,
        Self::MXFP4,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_XS,
        Self::TQ1_0,
        Self::TQ2_0,
    ];

    /// Elements of one block along axis 0 (1 for plain types).
    pub const fn block(self) -> u32 {
        match self {
            Self::F32 | Self::F16 | Self::I32 | Self::BF16 | Self::I64 => 1,
            Self::Q8_0 | Self::Q4_1 | Self::Q4_0 | Self::Q5_0 | Self::Q5_1 | Self::IQ4_NL | Self::MXFP4 => 32,
            Self::Q2_K | Self::Q3_K | Self::Q4_K | Self::Q5_K | Self::Q6_K => 256,
            Self::IQ4_XS | Self::TQ1_0 | Self::TQ2_0 => 256,
        }
    }

    /// Bytes of one block in the host's linear form.
    pub const fn block_bytes(self) -> u32 {
        match self {
            Self::F32 | Self::I32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::I64 => 8,
            Self::Q8_0 => 34,
            Self::Q4_1 => 20,
            Self::Q4_0 | Self::IQ4_NL => 18,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::MXFP4 => 17,
            Self::Q2_K => 84,
            Self::Q3_K => 110,
            Self::Q4_K => 144,
            Self::Q5_K => 176,
            Self::Q6_K => 210,
            Self::IQ4_XS => 136,
            Self::TQ1_0 => 54,
            Self::TQ2_0 => 66,
        }
    }

    /// Elements along axis 0 that one slot of a layout holds: a texel of a plain type, a block of a quantized one.
    pub const fn lanes(self) -> u32 {
        match self.block() {
            1 => 16 / self.block_bytes(),
            block => block,
        }
    }

    /// How a slot lies in a storage.
    pub const fn form(self) -> Form {
        match self {
            Self::Q8_0 => Form::Tile { quants: 2 },
            Self::Q4_1 => Form::Tile { quants: 1 },
            _ if self.block() == 1 => Form::Texel,
            _ => Form::Block,
        }
    }

    /// Whether elements come in blocks.
    pub const fn is_quantized(self) -> bool {
        self.block() > 1
    }

    /// Whether the elements are integers.
    pub const fn is_integer(self) -> bool {
        matches!(self, Self::I32 | Self::I64)
    }

    /// Texels of quants per slot of [`Form::Tile`] (its tile adds one texel of scales per four slots); `None` for the others.
    pub const fn quant_texels(self) -> Option<u32> {
        match self.form() {
            Form::Tile { quants } => Some(quants),
            Form::Texel | Form::Block => None,
        }
    }

    /// Texels of a row of so many slots; a last tile is whole.
    pub fn row_texels(self, slots: u32) -> u32 {
        let slots = u64::from(slots);
        let texels = match self.form() {
            Form::Texel => slots,
            Form::Tile { quants } => slots.div_ceil(TILE_SLOTS.into()) * u64::from(TILE_SLOTS * quants + 1),
            Form::Block => (slots * u64::from(self.block_bytes())).div_ceil(16),
        };
        u32::try_from(texels).unwrap_or(u32::MAX)
    }

    /// Slots that a row of so many texels has room for; whole tiles.
    pub fn slots_of_row(self, texels: u32) -> u32 {
        let slots = match self.form() {
            Form::Texel => u64::from(texels),
            Form::Tile { quants } => u64::from(texels / (TILE_SLOTS * quants + 1) * TILE_SLOTS),
            Form::Block => 16 * u64::from(texels) / u64::from(self.block_bytes()),
        };
        u32::try_from(slots).unwrap_or(u32::MAX)
    }

    /// Number of the type in the operand contract: plain types from 0, tiles from 8, blocks of 32 from 16, of 256 from 32.
    pub const fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::I32 => 2,
            Self::BF16 => 3,
            Self::I64 => 4,
            Self::Q8_0 => 8,
            Self::Q4_1 => 9,
            Self::Q4_0 => 16,
            Self::Q5_0 => 17,
            Self::Q5_1 => 18,
            Self::IQ4_NL => 19,
            Self::MXFP4 => 20,
            Self::Q2_K => 32,
            Self::Q3_K => 33,
            Self::Q4_K => 34,
            Self::Q5_K => 35,
            Self::Q6_K => 36,
            Self::IQ4_XS => 37,
            Self::TQ1_0 => 38,
            Self::TQ2_0 => 39,
        }
    }

    /// The type of that number.
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.code() == code)
    }
}
