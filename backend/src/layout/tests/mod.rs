//! Properties of the layout algebra, named after the list in the design (L1, L2, ..).
