//! Plain index arithmetic to compare with: an array of root element numbers that transforms really move.

use crate::layout::{Layout, Position, Transform, View};

/// Root element numbers by linear index, axis 0 innermost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Naive {
    pub extents: Vec<u32>,
    pub ids: Vec<u32>,
}

/// Every index of a box, axis 0 fastest.
pub fn indices(extents: &[u32]) -> impl Iterator<Item = Vec<u32>> {
    let extents = extents.to_vec();
    let count: u32 = extents.iter().product();
    (0..count).map(move |linear| index_of(&extents, linear))
}

pub fn index_of(extents: &[u32], mut linear: u32) -> Vec<u32> {
    let mut index = Vec::with_capacity(extents.len());
    for &extent in extents {
        index.push(linear % extent);
        linear /= extent;
    }
    index
}

pub fn linear_of(extents: &[u32], index: &[u32]) -> u32 {
    extents.iter().zip(index).rev().fold(0, |linear, (&extent, &i)| linear * extent + i)
}

impl Naive {
    pub fn root(extents: &[u32]) -> Self {
        Self { extents: extents.to_vec(), ids: (0..extents.iter().product()).collect() }
    }

    fn gather(&self, extents: Vec<u32>, source: impl Fn(&[u32]) -> u32) -> Self {
        let ids = indices(&extents).map(|index| self.ids[source(&index) as usize]).collect();
        Self { extents, ids }
    }

    /// Moves the elements; `None` when the transform makes no sense for these extents.
    pub fn apply(&self, transform: &Transform) -> Option<Self> {
        let rank = self.extents.len();
        let old = &self.extents;
        let mut extents = old.clone();
        Some(match transform {
            Transform::Permute(order) => {
                let extents = order.iter().map(|&axis| old[axis]).collect();
                self.gather(extents, |index| {
                    let mut source = vec![0; rank];
                    order.iter().zip(index).for_each(|(&axis, &i)| source[axis] = i);
                    linear_of(old, &source)
                })
            }
            &Transform::Split { axis, inner } => {
                if !old[axis].is_multiple_of(inner) {
                    return None;
                }
                extents[axis] = inner;
                extents.insert(axis + 1, old[axis] / inner);
                Self { extents, ids: self.ids.clone() }
            }
            &Transform::Merge { inner, outer } => {
                if inner == outer {
                    return None;
                }
                let n = old[inner];
                extents[inner] *= old[outer];
                extents.remove(outer);
                self.gather(extents, |index| {
                    let mut source = index.to_vec();
                    source.insert(outer, 0);
                    let joined = source[inner];
                    source[inner] = joined % n;
                    source[outer] = joined / n;
                    linear_of(old, &source)
                })
            }
            &Transform::Slice { axis, start, len } => {
                if len == 0 || start + len > old[axis] {
                    return None;
                }
                extents[axis] = len;
                self.gather(extents, |index| {
                    let mut source = index.to_vec();
                    source[axis] += start;
                    linear_of(old, &source)
                })
            }
            &Transform::RepeatEach { axis, fan } => {
                extents[axis] *= fan;
                self.gather(extents, |index| {
                    let mut source = index.to_vec();
                    source[axis] /= fan;
                    linear_of(old, &source)
                })
            }
            &Transform::RepeatWhole { axis, fan } => {
                extents[axis] *= fan;
                self.gather(extents, |index| {
                    let mut source = index.to_vec();
                    source[axis] %= old[axis];
                    linear_of(old, &source)
                })
            }
            &Transform::Squeeze(axis) => {
                if extents.remove(axis) != 1 {
                    return None;
                }
                Self { extents, ids: self.ids.clone() }
            }
            &Transform::Unsqueeze(axis) => {
                extents.insert(axis, 1);
                Self { extents, ids: self.ids.clone() }
            }
            Transform::Reshape(extents) => {
                if extents.iter().product::<u32>() as usize != self.ids.len() {
                    return None;
                }
                Self { extents: extents.clone(), ids: self.ids.clone() }
            }
            Transform::Strided { extents, strides, offset } => {
                let last: u64 = extents.iter().zip(strides).map(|(&n, &s)| u64::from(n - 1) * s).sum();
                if offset + last >= self.ids.len() as u64 {
                    return None;
                }
                self.gather(extents.clone(), |index| {
                    let moved: u64 = index.iter().zip(strides).map(|(&i, &s)| u64::from(i) * s).sum();
                    (offset + moved) as u32
                })
            }
        })
    }

    /// Asserts that a view of `layout` shows exactly these elements, and stays inside the root.
    pub fn assert_shown_by(&self, view: &View, layout: &Layout) {
        assert_eq!(view.extents(), self.extents);
        let root = layout.extents();
        for (index, &id) in indices(&self.extents).zip(&self.ids) {
            let expected = layout.address(&index_of(&root, id));
            assert_eq!(view.address(&index), expected, "element {index:?} of {view:?} over {layout:?}");
        }
        let Position { x, y, lane } = view.reach();
        assert!(x < layout.width() && y < layout.height() && lane < layout.lanes(), "{view:?} leaves {layout:?}");
        for axis in &view.axes {
            assert_eq!(axis.padded, axis.terms.iter().map(|term| term.radix).product::<u32>());
            assert!(axis.extent <= axis.padded);
        }
    }
}
