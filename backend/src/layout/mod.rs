//! Where element (i0, i1, i2, i3) lives: mixed-radix digits of the axes, assigned to physical places.
//!
//! A layout is a bijection from the padded index box to the physical box by construction; a reshape regroups digits, a
//! permute renames them, an expansion is an axis with no digit. What is not provably so is an `Err` that says which
//! axis and which cut.
//!
//! | file | idea |
//! |---|---|
//! | `home` | [`Layout`], the home of a root tensor: its digits, and where they put an element |
//! | `verify` | what makes a layout well formed |
//! | `rtile` | the R-Tile home and the one rule that chooses it |
//! | `view` | [`View`], other logical axes over the same positions |
//! | `strided` | the decision behind every view: is this strided window a regrouping of digits? |
//! | `transform` | chains of transforms, applied step by step |
//! | `compose` | a whole chain at once, as a map of element numbers |
//! | `tiles` | maps of tile numbers: composition, inverse |
//! | `legality` | whether a consumer's tiles survive a chain, and where they come from |
//! | `index` | coordinates as expressions: naive, reduced, as a machine computes them |
//! | `covered` | cache lines under texels, and under the loads of a subgroup |
//! | `pack` | between the host's linear bytes and the physical order |

mod compose;
mod covered;
mod home;
mod illegal;
mod index;
mod legality;
mod pack;
mod rtile;
mod strided;
#[cfg(test)]
mod tests;
mod tiles;
mod transform;
mod verify;
mod view;

pub use covered::{Coverage, LineShape, Loads, Spread};
pub use home::{Axis, Digit, Layout, Place, Position};
pub use illegal::Illegal;
pub use index::{Expr, Ops};
pub use legality::{Legality, Side, Tiling};
pub(crate) use pack::copy_run;
pub use rtile::{TileTarget, tile_rule};
pub use tiles::{TileDigit, TileMap};
pub use transform::{Broken, Chain, Transform};
pub use view::{Term, View, ViewAxis};
