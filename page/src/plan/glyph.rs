//! A tensor as a small rectangle: rows by columns of texels on a logarithmic scale, hatched the way its texels follow each other.

use fblayout::graph::Shape;
use fblayout::kernels::{Addressing, StorageKind};
use fblayout::plan::{Slot, TransformKind};
use serde::Serialize;

use super::coordinates;
use super::tensors::{Role, Tensor, storage};
use crate::scale::round;
use crate::units;

/// A drawn tensor.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Glyph {
    width: f64,
    height: f64,
    /// Hatching: `r1`, `r2`, `r4` by rows side by side, `q` for quantized tiles.
    fill: &'static str,
    /// Outline: role and storage.
    class: String,
    title: String,
}

/// A drawing with its meaning.
#[derive(Serialize)]
pub struct Meaning {
    glyph: Glyph,
    text: &'static str,
}

impl Glyph {
    /// Draws a slot as a shader finds it.
    pub fn new(slot: &Slot, tensor: &Tensor, name: &str, at: Option<&Addressing>) -> Self {
        let home = &slot.home;
        let tile = coordinates::tile(home);
        let mut title = format!(
            "{name}\n{:?} {} in {} of {} x {} texels, {}\n{}\n{}",
            home.dtype,
            extents(tensor.shape),
            storage(home.kind),
            home.width,
            home.height,
            units::bytes(home.bytes()),
            coordinates::tile_in_words(tile),
            coordinates::layout(&home.layout),
        );
        if let Some(at) = at {
            title += &format!("\nfound at {}", coordinates::map(at));
        }
        let fill = match tile.strip {
            _ if home.dtype.is_quantized() => "q",
            4.. => "r4",
            2 | 3 => "r2",
            _ => "r1",
        };
        Self::drawn(tensor.shape, home.dtype.lanes(), fill, tensor.role, home.kind, title)
    }

    fn drawn(shape: Shape, lanes: u32, fill: &'static str, role: Role, kind: StorageKind, title: String) -> Self {
        let columns = f64::from(shape[0].div_ceil(lanes));
        let rows: f64 = shape[1..].iter().map(|&n| f64::from(n)).product();
        let side = |n: f64, per_doubling: f64, most: f64| round((5.0 + per_doubling * n.log2()).clamp(5.0, most));
        let role = match role {
            Role::External => "ext",
            Role::Kept => "kept",
            Role::Computed => "comp",
            Role::Copy => "copy",
            Role::Scratch => "scr",
        };
        let class = format!("{role} {}", storage(kind));
        Self { width: side(columns, 2.7, 46.0), height: side(rows, 1.9, 30.0), fill, class, title }
    }
}

/// Every drawing that a page has.
pub fn legend() -> Vec<Meaning> {
    use StorageKind::{Buffer, Image};
    let meaning = |fill, role, kind, text: &'static str| Meaning {
        glyph: Glyph::drawn([256, 256, 1, 1], 4, fill, role, kind, text.to_owned()),
        text,
    };
    vec![
        meaning("r1", Role::Computed, Buffer, "row-major: texels follow each other along a row"),
        meaning("r2", Role::Computed, Buffer, "strips of 2 rows side by side"),
        meaning("r4", Role::Computed, Buffer, "strips of 4 rows: a fragment of 4 x 4 is 4 neighbouring texels"),
        meaning("q", Role::External, Buffer, "quantized tiles: 4 rows of a block, then their scales"),
        meaning("r4", Role::Computed, Image, "double outline: in an image, else in a buffer"),
        meaning("r1", Role::External, Buffer, "grey outline: exists outside the plan"),
        meaning("r1", Role::Copy, Buffer, "red outline: a copy in another layout"),
    ]
}

/// A kind of transform, in a word.
pub fn kind(kind: TransformKind) -> String {
    format!("{kind:?}").to_lowercase()
}

/// Extents without the trailing ones.
fn extents(shape: Shape) -> String {
    let last = shape.iter().rposition(|&n| n > 1).unwrap_or(0);
    format!("{:?}", &shape[..=last])
}
