//! What a planner asks of layouts and kernels again and again: homes, windows over them, lowered ops. All of it follows from the
//! question alone, so that answers are kept; layers of a model, the layouts that are tried and the next plan ask the same.

use std::hash::Hash;
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::device::Limits;
use crate::graph::{self, Desc, FlashAttn, Inset, Op, Pool, Rope, Shape};
use crate::kernels::{self, Epilogue, Fused, Lowered, Operand, Source};
use crate::layout::{Illegal, View};

use super::chain::Chains;
use super::{Home, PlanError, PlanOptions, Tile};

/// Lowered ops that are kept, about 2 KiB each: the next plan starts afresh when there are more.
pub(super) const MOST: usize = 1 << 13;

/// Places, windows over them and copies that are kept, about half a KiB each. Every lowered op has a few; graphs that are all views have
/// nothing else.
const MOST_PLACES: usize = 1 << 15;

/// A place where a tensor or a window of it is found: an [`Operand`], by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place(u32);

/// A home, and the place of all of it.
#[derive(Clone, Debug)]
pub(super) struct Homed {
    pub home: Arc<Home>,
    pub place: Place,
}

/// Answers for one set of limits and options.
pub(super) struct Lowerings {
    limits: Limits,
    options: PlanOptions,
    operands: Vec<Operand>,
    places: FxHashMap<Operand, Place>,
    homes: FxHashMap<(Desc, Option<Tile>), Result<Homed, PlanError>>,
    windows: FxHashMap<(Place, Window), Result<Place, String>>,
    pub chains: Chains,
    ops: FxHashMap<Key, u32>,
    lowered: FxHashMap<Vec<u32>, Result<Arc<Lowered>, String>>,
    /// Room to put a question in.
    question: Vec<u32>,
}

/// Extents, strides and offset of a window.
pub(super) type Window = (Shape, [u64; 4], u64);

impl Lowerings {
    /// Nothing is known yet.
    pub fn new(limits: &Limits, options: PlanOptions) -> Self {
        Self {
            limits: limits.clone(),
            options,
            operands: Vec::new(),
            places: FxHashMap::default(),
            homes: FxHashMap::default(),
            windows: FxHashMap::default(),
            chains: Chains::default(),
            ops: FxHashMap::default(),
            lowered: FxHashMap::default(),
            question: Vec::new(),
        }
    }

    /// What plans are made under.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// What is asked of plans.
    pub fn options(&self) -> PlanOptions {
        self.options
    }

    /// Whether so much is kept that it is better forgotten.
    pub fn is_full(&self) -> bool {
        let places = self.operands.len() + self.homes.len() + self.windows.len() + self.chains.len();
        self.lowered.len() > MOST || places > MOST_PLACES
    }

    /// Lowered ops that are kept.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.lowered.len()
    }

    /// The place of an operand.
    pub fn place(&mut self, operand: Operand) -> Place {
        let next = Place(u32::try_from(self.operands.len()).expect("fewer than 2^32 places"));
        let operands = &mut self.operands;
        *self.places.entry(operand).or_insert_with_key(|operand| {
            operands.push(operand.clone());
            next
        })
    }

    /// The operand at a place.
    pub fn operand(&self, place: Place) -> &Operand {
        &self.operands[place.0 as usize]
    }

    /// The home of a tensor, with this tile where one is chosen.
    pub fn home(&mut self, desc: Desc, tile: Option<Tile>) -> Result<Homed, PlanError> {
        if let Some(known) = self.homes.get(&(desc, tile)) {
            return known.clone();
        }
        let home = Home::chosen(desc.dtype, &desc.shape, tile, &self.limits, self.options);
        let placed = home.map(|home| self.homed(home));
        self.homes.insert((desc, tile), placed.clone());
        placed
    }

    /// A home, and the place of all of it.
    pub fn homed(&mut self, home: Home) -> Homed {
        Homed { place: self.place(home.operand(&home.layout.view())), home: home.into() }
    }

    /// The place of an operand's window over a value at a place, or why it is none.
    pub fn window_of(&mut self, place: Place, window: &graph::Operand) -> Result<Place, String> {
        self.window(place, window.shape, window.strides, window.offset)
    }

    /// A window over the elements of a place that kernels take, or why it is none.
    pub fn window(&mut self, place: Place, shape: Shape, strides: [u64; 4], offset: u64) -> Result<Place, String> {
        let key = (place, (shape, strides, offset));
        if let Some(known) = self.windows.get(&key) {
            return known.clone();
        }
        let view = self.operand(place).view.strided(&shape, &strides, offset);
        let window = self.taken(place, view);
        self.windows.insert(key, window.clone());
        window
    }

    /// The place of a view over the storage of another place, if kernels take it.
    pub fn taken(&mut self, of: Place, view: Result<View, Illegal>) -> Result<Place, String> {
        let view = view.map_err(|illegal| illegal.to_string())?;
        let operand = Operand { view, ..*self.operand(of) };
        kernels::takes(&operand).map_err(|refusal| refusal.0)?;
        Ok(self.place(operand))
    }

    /// A window of any strides over the elements of a place, by their numbers, or why those do not tell where the elements are.
    pub fn flat(&mut self, place: Place, window: &graph::Operand) -> Result<Place, String> {
        let graph::Operand { shape, strides, offset, .. } = window;
        let flat = kernels::flat(self.operand(place), shape, strides, *offset).map_err(|refusal| refusal.0)?;
        kernels::takes(&flat).map_err(|refusal| refusal.0)?;
        Ok(self.place(flat))
    }

    /// [`kernels::lower`] at these places.
    pub fn lower(
        &mut self,
        op: &Op,
        inputs: impl Iterator<Item = Place>,
        output: Place,
    ) -> Result<Arc<Lowered>, String> {
        let mut key = std::mem::take(&mut self.question);
        key.clear();
        key.extend([self.op(op), output.0].into_iter().chain(inputs.map(|place| place.0)));
        if let Some(known) = self.lowered.get(&key) {
            self.question = key;
            return known.clone();
        }
        let at = |place: u32| self.operands[place as usize].clone();
        let inputs: Vec<Operand> = key[2..].iter().map(|&place| at(place)).collect();
        let lowered = kernels::lower(op, &inputs, &at(output.0), &self.limits).map(Arc::new).map_err(|r| r.0);
        self.lowered.insert(key, lowered.clone());
        lowered
    }

    /// [`kernels::lower_fused`] at these places.
    pub fn lower_fused(
        &mut self,
        fused: &Fused,
        inputs: &[Place],
        extras: &[Place],
        output: Place,
    ) -> Result<Arc<Lowered>, String> {
        // No op has this number, and every part says how long it is.
        let mut key = vec![u32::MAX, self.op(&fused.op)];
        key.extend(fused.second.map_or([u32::MAX, 0], |second| [self.op(&second.op), second.scale.to_bits()]));
        let rotation = fused.rotation.map(|r| [self.op(&Op::Rope(r.rope)), r.head_dim, r.axis as u32]);
        key.extend(rotation.unwrap_or([u32::MAX, 0, 0]));
        let norm = fused.norm.map(|norm| [1, norm.eps.to_bits(), norm.gain.into()]);
        key.extend(norm.unwrap_or([0; 3]).into_iter().chain([fused.twin.into()]));
        let Epilogue { steps, store_root, .. } = &fused.epilogue;
        let word = |n: Option<usize>| n.map_or(0, |n| n as u32 + 1);
        key.extend([word(*store_root), steps.len() as u32]);
        for step in steps {
            key.extend([self.op(&step.op), word(step.store), step.inputs.len() as u32]);
            key.extend(step.inputs.iter().map(|source| match *source {
                Source::Result(i) => 2 * i as u32,
                Source::Extra(i) => 2 * i as u32 + 1,
                Source::Second => u32::MAX,
            }));
        }
        let places = || inputs.iter().chain(extras).chain([&output]);
        key.push(inputs.len() as u32);
        key.extend(places().map(|place| place.0));
        if let Some(known) = self.lowered.get(&key) {
            return known.clone();
        }
        let operands: Vec<Operand> = places().map(|&place| self.operand(place).clone()).collect();
        let (inputs, rest) = operands.split_at(inputs.len());
        let (extras, output) = rest.split_at(extras.len());
        let lowered = kernels::lower_fused(fused, inputs, &output[0], extras, &self.limits);
        let lowered = lowered.map(Arc::new).map_err(|r| r.0);
        self.lowered.insert(key, lowered.clone());
        lowered
    }

    /// A place repeated along axes where it has one element and `shape` has more.
    pub fn repeated(&mut self, place: Place, shape: &Shape) -> Option<Place> {
        let operand = self.operand(place);
        let own = &operand.view;
        let single = |axis: &usize| own.axes.get(*axis).is_some_and(|a| a.extent == 1) && shape[*axis] > 1;
        let axes: Vec<usize> = (0..4).filter(single).collect();
        if axes.is_empty() {
            return Some(place);
        }
        let view = axes.iter().try_fold(own.clone(), |view, &axis| view.repeat_whole(axis, shape[axis]).ok())?;
        let repeated = Operand { view, ..*operand };
        Some(self.place(repeated))
    }

    /// The number of an op: equal for ops that compute the same.
    pub fn op(&mut self, op: &Op) -> u32 {
        let next = self.ops.len() as u32;
        *self.ops.entry(Key::of(op)).or_insert(next)
    }
}

/// An op, bit for bit: floats that are equal need not be the same constant.
#[derive(PartialEq, Eq, Hash)]
struct Key(Discriminant<Op>, [u32; 16]);

impl Key {
    fn of(op: &Op) -> Self {
        let words = |words: &[u32]| {
            let mut all = [0; 16];
            all.iter_mut().zip(words).for_each(|(place, word)| *place = *word);
            all
        };
        let floats = |floats: &[f32]| words(&floats.iter().map(|float| float.to_bits()).collect::<Vec<_>>());
        let windows = |window: graph::Window, more: u32| words(&[&window.words()[..], &[more]].concat());
        let parameters = match *op {
            Op::Binary(kind) => words(&[kind as u32]),
            Op::Unary(_) | Op::Gated(_) => match kernels::function(op) {
                Some((number, [a, b, c, d])) => words(&[1, number, a.to_bits(), b.to_bits(), c.to_bits(), d.to_bits()]),
                None => words(&[0, kernels::step(op).unwrap_or_default()]),
            },
            Op::Scale { scale, bias } => floats(&[scale, bias]),
            Op::RmsNorm { eps } | Op::RmsNormBack { eps } => floats(&[eps]),
            Op::SoftMax { scale, max_bias, sinks } => words(&[scale.to_bits(), max_bias.to_bits(), u32::from(sinks)]),
            Op::SoftMaxBack { scale } => floats(&[scale]),
            Op::FlashAttn(attention) | Op::FlashAttnBackQ(attention) | Op::FlashAttnBackKv(attention) => {
                let FlashAttn { scale, max_bias, softcap, mask, sinks, logs } = attention;
                let flags = [mask, sinks, logs].map(u32::from);
                words(&[[scale, max_bias, softcap].map(f32::to_bits), flags].concat())
            }
            Op::Norm { eps } | Op::L2Norm { eps } => floats(&[eps]),
            Op::GroupNorm { groups, eps } => words(&[groups, eps.to_bits()]),
            Op::ArgSort { descending } => words(&[u32::from(descending)]),
            Op::Pad { before } | Op::PadCircular { before } => words(&before),
            Op::Roll { shift } => words(&shift.map(|steps| steps as u32)),
            Op::Upscale { sampling, align_corners } => words(&[sampling as u32, align_corners.into()]),
            Op::Tri(triangle) => words(&[triangle as u32]),
            Op::Fill { value } => floats(&[value]),
            Op::Arange { start, step } => floats(&[start, step]),
            Op::Concat { axis: word }
            | Op::PadReflect { before: word }
            | Op::DiagMaskInf { past: word }
            | Op::DiagMaskZero { past: word }
            | Op::TimestepEmbedding { max_period: word } => words(&[word]),
            Op::Rope(Rope {
                mode,
                n_dims,
                offset,
                sections,
                n_ctx_orig,
                freq_base,
                freq_scale,
                ext_factor,
                attn_factor,
                beta_fast,
                beta_slow,
                back,
            }) => {
                let floats = [freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow].map(f32::to_bits);
                let back = u32::from(back);
                words(&[&[mode as u32, n_dims, n_ctx_orig, back, offset][..], &floats, &sections].concat())
            }
            Op::Im2Col { window, plane } | Op::Im2ColBack { window, plane } => windows(window, u32::from(plane)),
            Op::Im2Col3d { window, channels } | Op::Conv3d { window, channels } => windows(window, channels),
            Op::Conv2d(window) | Op::Conv2dDw(window) => windows(window, 0),
            Op::SsmScan { snapshots } | Op::GatedDeltaNet { snapshots } => words(&[snapshots]),
            Op::GatedLinearAttn { scale } => floats(&[scale]),
            Op::Dsv4HcComb { eps, iterations } => words(&[eps.to_bits(), iterations]),
            Op::Dsv4HcPre { scale, gated } => words(&[scale.to_bits(), u32::from(gated)]),
            Op::Col2Im1d { stride, channels, pad } => words(&[stride, channels, pad]),
            Op::ConvTranspose1d { stride } | Op::ConvTranspose2d { stride } => words(&[stride]),
            Op::Pool1d(pool) | Op::Pool2d(pool) | Op::Pool2dBack(pool) => {
                let Pool { kind, extent: [e0, e1], stride: [s0, s1], pad: [p0, p1] } = pool;
                words(&[kind as u32, e0, e1, s0, s1, p0, p1])
            }
            Op::Set(inset) | Op::Acc(inset) | Op::SetRows(inset) => {
                let Inset { shape: [a, b, c, d], strides: [s, t, u, v], offset } = inset;
                words(&[a, b, c, d, s, t, u, v, offset])
            }
            Op::MulMat
            | Op::OutProd
            | Op::MulMatId
            | Op::SiluBack
            | Op::TanhBack
            | Op::GeluBack
            | Op::SwiGlu
            | Op::GeGlu
            | Op::Repeat
            | Op::RepeatBack
            | Op::Copy
            | Op::Diag
            | Op::GetRows
            | Op::GetRowsBack
            | Op::CrossEntropyLoss
            | Op::CrossEntropyLossBack
            | Op::ArgMax
            | Op::Sum
            | Op::SumRows
            | Op::CountEqual
            | Op::Mean
            | Op::CumSum
            | Op::AddId
            | Op::TopK
            | Op::Sgd
            | Op::AdamW
            | Op::SsmConv
            | Op::RwkvWkv6
            | Op::RwkvWkv7
            | Op::SolveTri
            | Op::LightningIndexer
            | Op::Dsv4HcPost => words(&[]),
        };
        Self(discriminant(op), parameters)
    }
}
