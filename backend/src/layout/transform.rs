//! Chains of transforms: what a graph does to a tensor without moving it.

use super::{Illegal, View};

/// One transform of the axes of a view; see the method of [`View`] of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Transform {
    /// [`View::permute`].
    Permute(Vec<usize>),
    /// [`View::split`].
    Split {
        /// Axis to cut.
        axis: usize,
        /// Elements of the inner part.
        inner: u32,
    },
    /// [`View::merge`].
    Merge {
        /// Inner axis, which keeps its number.
        inner: usize,
        /// Outer axis, which goes.
        outer: usize,
    },
    /// [`View::slice`].
    Slice {
        /// Axis to shorten.
        axis: usize,
        /// First element kept.
        start: u32,
        /// Number of elements kept.
        len: u32,
    },
    /// [`View::repeat_each`].
    RepeatEach {
        /// Axis to lengthen.
        axis: usize,
        /// Repetitions.
        fan: u32,
    },
    /// [`View::repeat_whole`].
    RepeatWhole {
        /// Axis to lengthen.
        axis: usize,
        /// Repetitions.
        fan: u32,
    },
    /// [`View::squeeze`].
    Squeeze(usize),
    /// [`View::unsqueeze`].
    Unsqueeze(usize),
    /// [`View::reshape`].
    Reshape(Vec<u32>),
    /// [`View::strided`].
    Strided {
        /// Extents of the window.
        extents: Vec<u32>,
        /// Strides of the window, elements.
        strides: Vec<u64>,
        /// First element of the window.
        offset: u64,
    },
}

/// Why a chain is refused, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("step {at_step}: {why}")]
pub struct Broken {
    /// Index of the transform that failed.
    pub at_step: usize,
    /// Its reason.
    #[source]
    pub why: Illegal,
}

/// Transforms, applied one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Chain(pub Vec<Transform>);

impl Chain {
    /// Applies the whole chain.
    ///
    /// # Errors
    /// The first transform that is illegal, with its index.
    pub fn apply(&self, view: &View) -> Result<View, Broken> {
        let mut view = view.normalize();
        for (at_step, transform) in self.0.iter().enumerate() {
            view = view.apply(transform).map_err(|why| Broken { at_step, why })?;
        }
        Ok(view)
    }
}

impl View {
    /// Applies one transform.
    ///
    /// # Errors
    /// Those of the transform.
    pub fn apply(&self, transform: &Transform) -> Result<Self, Illegal> {
        match transform {
            Transform::Permute(order) => self.permute(order),
            Transform::Split { axis, inner } => self.split(*axis, *inner),
            Transform::Merge { inner, outer } => self.merge(*inner, *outer),
            Transform::Slice { axis, start, len } => self.slice(*axis, *start, *len),
            Transform::RepeatEach { axis, fan } => self.repeat_each(*axis, *fan),
            Transform::RepeatWhole { axis, fan } => self.repeat_whole(*axis, *fan),
            Transform::Squeeze(axis) => self.squeeze(*axis),
            Transform::Unsqueeze(axis) => self.unsqueeze(*axis),
            Transform::Reshape(extents) => self.reshape(extents),
            Transform::Strided { extents, strides, offset } => self.strided(extents, strides, *offset),
        }
    }
}
