//! Properties of the layout algebra, named after the list in the design: L1 bijection, L2 pack and unpack, L4 inverses,
//! L5 composition, L6 views against plain index arithmetic, L7 legality of tiles, L8 normal forms, L9 reduced index
//! arithmetic, L10 illegal chains, L11 lines of a
//! rectangle, L12 tiles in both directions.

mod compose;
mod covered;
mod index;
mod legality;
mod naive;
mod normal_form;
mod pack;
mod rtile;
mod shapes;
mod tiles;
mod views;
