//! What a planner may do about layouts: ours, and what the neighbours do, in one binary so that they can be compared.

use super::TransformKind;
use super::fusion::Fusion;

/// How layouts and transforms are treated. Every policy computes the same results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// One layout that ops pass on as it is (as MNN does): permuted and transposed operands are copied once and the copy is reused.
    LayoutReuse,
    /// Layouts converted wherever an op asks for one (as TFLite does): every view is copied for every reader.
    ConvertAlways,
    /// Row-major homes, permuted and transposed operands copied once, elementwise ops run behind the kernel before them (as TVM does).
    FusedElementwise,
    /// Row-major homes that kernels read through strides; copies that the host wrote are made.
    HonestRowmajor,
    /// R-Tile homes; copies that the host wrote are made.
    #[serde(rename = "rtile")]
    RTile,
    /// R-Tile homes; copies that the host wrote become coordinates of their readers.
    #[serde(rename = "rtile+maps")]
    RTileMaps,
    /// The same, and every node that can runs with the kernel before it.
    #[default]
    Full,
}

impl Policy {
    /// All of them, by the names they parse from.
    pub const ALL: [(&'static str, Self); 7] = [
        ("layout-reuse", Self::LayoutReuse),
        ("convert-always", Self::ConvertAlways),
        ("fused-elementwise", Self::FusedElementwise),
        ("honest-rowmajor", Self::HonestRowmajor),
        ("rtile", Self::RTile),
        ("rtile+maps", Self::RTileMaps),
        ("full", Self::Full),
    ];

    /// Whether homes are tiled; otherwise each row lies by itself.
    pub(super) fn tiles(self) -> bool {
        matches!(self, Self::RTile | Self::RTileMaps | Self::Full)
    }

    /// What runs together.
    pub(super) fn fusion(self) -> Fusion {
        match self {
            Self::FusedElementwise => Fusion::Elementwise,
            Self::Full => Fusion::All,
            Self::LayoutReuse | Self::ConvertAlways | Self::HonestRowmajor | Self::RTile | Self::RTileMaps => {
                Fusion::Off
            }
        }
    }

    /// The same with every node by itself.
    pub(super) fn unfused(self) -> Self {
        match self {
            Self::FusedElementwise => Self::LayoutReuse,
            Self::Full => Self::RTileMaps,
            alone => alone,
        }
    }

    /// Whether a host's copy may be the positions of what it copies.
    pub(super) fn elides_copies(self) -> bool {
        matches!(self, Self::RTileMaps | Self::Full)
    }

    /// Whether a reader takes such a view as coordinates.
    pub(super) fn absorbs(self, kind: TransformKind) -> bool {
        match self {
            Self::LayoutReuse | Self::FusedElementwise => matches!(kind, TransformKind::Reshape | TransformKind::Slice),
            Self::ConvertAlways => false,
            Self::HonestRowmajor | Self::RTile | Self::RTileMaps | Self::Full => true,
        }
    }

    /// Whether a copy made for one reader serves the next.
    pub(super) fn reuses_copies(self) -> bool {
        self != Self::ConvertAlways
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = Self::ALL.into_iter().find(|(_, policy)| policy == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|&(name, _)| name == s)
            .map(|(_, policy)| policy)
            .ok_or_else(|| format!("policy '{s}' is not one of {}", Self::ALL.map(|(name, _)| name).join(", ")))
    }
}
