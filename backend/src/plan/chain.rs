//! Copies that are not made, one after the other: a map of element numbers over the place where the first of them starts. Only what a
//! reader sees at the end has to regroup that place's digits, whatever the steps between would cut.

use rustc_hash::FxHashMap;

use crate::graph::{self, Operand, Shape};
use crate::layout::{Layout, View};

use super::lowering::{Lowerings, Place, Window};

/// What copies that are not made show: elements of the place that they start from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Chain {
    base: Place,
    /// Index of the map of their numbers.
    numbers: u32,
}

/// How a value is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Seen {
    /// At a place.
    At(Place),
    /// Through copies that are not made.
    Through(Chain),
}

/// What was asked about chains, see [`Lowerings`].
#[derive(Default)]
pub(super) struct Chains {
    /// Maps of element numbers, each a view of [`Layout::linear`].
    maps: Vec<View>,
    numbers: FxHashMap<View, u32>,
    copies: FxHashMap<(Seen, Window, Shape), Result<Chain, String>>,
    windows: FxHashMap<(Chain, Window), Result<Place, String>>,
}

impl Chains {
    /// Maps and answers that are kept.
    pub fn len(&self) -> usize {
        self.maps.len() + self.copies.len() + self.windows.len()
    }

    /// The index of a map.
    fn number(&mut self, map: View) -> u32 {
        let next = self.maps.len() as u32;
        let maps = &mut self.maps;
        *self.numbers.entry(map).or_insert_with_key(|map| {
            maps.push(map.clone());
            next
        })
    }
}

impl Seen {
    /// A window over the value as a place that kernels take.
    ///
    /// # Errors
    /// The cut that the digits do not have, or the limit of kernels.
    pub fn window(self, lowerings: &mut Lowerings, window: &Operand) -> Result<Place, String> {
        let chain = match self {
            Self::At(place) => return lowerings.window_of(place, window),
            Self::Through(chain) => chain,
        };
        let Operand { shape, strides, offset, .. } = *window;
        let key = (chain, (shape, strides, offset));
        if let Some(known) = lowerings.chains.windows.get(&key) {
            return known.clone();
        }
        let numbers = lowerings.chains.maps[chain.numbers as usize].strided(&shape, &strides, offset);
        let view = numbers.and_then(|numbers| lowerings.operand(chain.base).view.compose(&numbers));
        let place = lowerings.taken(chain.base, view);
        lowerings.chains.windows.insert(key, place.clone());
        place
    }

    /// The result, of this shape, of a copy of a window over the value.
    ///
    /// # Errors
    /// The numbers of its elements are no digits.
    pub fn copied(self, lowerings: &mut Lowerings, window: &Operand, shape: Shape) -> Result<Chain, String> {
        let Operand { shape: from, strides, offset, .. } = *window;
        let key = (self, (from, strides, offset), shape);
        if let Some(known) = lowerings.chains.copies.get(&key) {
            return known.clone();
        }
        let (base, all) = match self {
            Self::At(place) => (place, Layout::linear(&lowerings.operand(place).view.extents()).map(|all| all.view())),
            Self::Through(Chain { base, numbers }) => (base, Ok(lowerings.chains.maps[numbers as usize].clone())),
        };
        let map = all
            .and_then(|all| all.strided(&from, &strides, offset))
            .and_then(|window| window.strided(&shape, &graph::linear_strides(&shape), 0));
        let chain = match map {
            Ok(map) => Ok(Chain { base, numbers: lowerings.chains.number(map) }),
            Err(illegal) => Err(illegal.to_string()),
        };
        lowerings.chains.copies.insert(key, chain.clone());
        chain
    }
}
