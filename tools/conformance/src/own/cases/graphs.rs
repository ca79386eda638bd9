//! Small graphs: a decoder layer with its cache, and a training step of its LoRA factors.
//!
//! Their nodes are compared one by one on the reference's values, and their ends after all of them ran. Where errors of many ops add up
//! along unknown paths, the bound is a normalized mean square error; a decoder layer's is that of ggml's own suite.

use ggml_host::{Rope, RopeMode, Tensor, Type};

use super::Cases;
use super::attention::causal;
use crate::own::bound::Bound;
use crate::own::kit::{Kit, View};

/// Width of a head, heads of queries and of keys, width of the layer and of its MLP, cells of the cache.
const HEAD: usize = 32;
const HEADS: usize = 4;
const SHARED: usize = 2;
const WIDTH: usize = HEAD * HEADS;
const HIDDEN: usize = 3 * 64;
const CELLS: usize = 24;

const ROPE: Rope = Rope { dims: HEAD, mode: RopeMode::Neox, freq_base: 10000.0, freq_scale: 1.0 };

/// A product of F32 values: 192 units of terms that cancel to a 14th, squared.
const PRODUCT: Bound = Bound::Nmse(1e-9);
/// Reads a cache of halves, for which the CPU rounds the other operand to halves: 2^-22 for each of two products.
const HALVES: Bound = Bound::Nmse(1e-6);
/// Reads a cache of blocks, for which the CPU rounds the other operand to 8 bits.
const BLOCKS: Bound = Bound::Nmse(5e-4);
/// Rotated by sines that are good to 2^-11.
const ROTATED: Bound = Bound::Nmse(1e-6);
/// A layer, as ggml's suite has it.
const LAYER: Bound = Bound::Nmse(2e-3);
/// A gradient in F32 throughout, but for the sines.
const GRADIENT: Bound = Bound::Nmse(1e-5);

pub fn add(cases: &mut Cases) {
    for weights in [Type::F32, Type::Q8_0, Type::Q4_0] {
        for cache in [Type::F16, Type::Q8_0] {
            for tokens in [1, 5] {
                for flash in [true, false] {
                    // A cache of V in blocks cannot be transposed.
                    if !flash && cache == Type::Q8_0 {
                        continue;
                    }
                    let attention = if flash { "flash attention" } else { "softmax" };
                    let name = format!("graph: decoder layer {weights}, {tokens} tokens, cache {cache}, {attention}");
                    cases.add(one(weights == Type::Q4_0 && tokens == 5), name, move |k| {
                        decoder(k, weights, cache, tokens, flash)
                    });
                }
            }
        }
        for tokens in [1, 7] {
            cases.add(
                one(weights == Type::Q4_0 && tokens == 7),
                format!("graph: LoRA training step {weights}, {tokens} tokens"),
                move |k| lora(k, weights, tokens),
            );
        }
    }
}

/// All of a kind in the bounded part, or none.
fn one(bounded: bool) -> u64 {
    u64::from(bounded)
}

/// Weights of a size that keeps the layer's values near 1.
fn matrix<'c>(k: &Kit<'c>, dtype: Type, from: usize, to: usize) -> Tensor<'c> {
    let size = 1.7 / (from as f32).sqrt();
    k.constants(dtype, &[from, to], View::Dense, k.values(from * to, -size, size))
}

fn gain<'c>(k: &Kit<'c>) -> Tensor<'c> {
    k.input(Type::F32, &[WIDTH], View::Dense, k.values(WIDTH, 0.5, 1.5))
}

fn normed<'c>(k: &Kit<'c>, x: Tensor<'c>) -> Tensor<'c> {
    let c = k.ops();
    let norm = k.step(c.rms_norm(x, 1e-5), PRODUCT);
    k.step(c.mul(norm, gain(k)), Bound::roundings(1))
}

/// Heads rotated: `[HEAD, heads, tokens]`.
fn rotated<'c>(k: &Kit<'c>, x: Tensor<'c>, positions: Tensor<'c>) -> Tensor<'c> {
    let [width, tokens, ..] = x.extents();
    let heads = k.ops().reshape(x, [HEAD, width / HEAD, tokens, 1]);
    k.step(k.ops().rope(heads, positions, None, &ROPE), ROTATED)
}

fn product<'c>(k: &Kit<'c>, weights: Tensor<'c>, x: Tensor<'c>) -> Tensor<'c> {
    k.step(k.ops().mul_mat(weights, x), PRODUCT)
}

/// `silu(gate x) * (up x)`, then down.
fn mlp<'c>(k: &Kit<'c>, dtype: Type, x: Tensor<'c>) -> Tensor<'c> {
    let gate = product(k, matrix(k, dtype, WIDTH, HIDDEN), x);
    let up = product(k, matrix(k, dtype, WIDTH, HIDDEN), x);
    let hidden = k.step(k.ops().swiglu(gate, up), PRODUCT);
    product(k, matrix(k, dtype, HIDDEN, WIDTH), hidden)
}

fn decoder(k: &Kit<'_>, dtype: Type, cache: Type, tokens: usize, flash: bool) {
    let (c, past, shared) = (k.ops(), CELLS - tokens, HEAD * SHARED);
    let reads = if cache == Type::Q8_0 { BLOCKS } else { HALVES };
    let stored = if cache == Type::Q8_0 { Bound::Quanta } else { Bound::roundings(1) };
    let x = k.f32(&[WIDTH, tokens], View::Dense);
    let positions = (past..CELLS).map(|p| p as f32).collect::<Vec<_>>();
    let cells = k.input(Type::I64, &[tokens], View::Dense, positions.clone());
    let positions = k.input(Type::I32, &[tokens], View::Dense, positions);
    let mask = causal(k, tokens, CELLS);

    let h = normed(k, x);
    let q = rotated(k, product(k, matrix(k, dtype, WIDTH, WIDTH), h), positions);
    let key = rotated(k, product(k, matrix(k, dtype, WIDTH, shared), h), positions);
    let value = product(k, matrix(k, dtype, WIDTH, shared), h);

    // The caches are written by nodes that nobody reads; what reads them are views of the caches.
    let keys = k.floats(cache, &[shared, CELLS], View::Dense);
    let key = c.reshape(key, [shared, tokens, 1, 1]);
    k.end(c.set_rows(keys, key, cells), stored, LAYER);
    let row = cache.row_bytes(shared);
    let heads = |t| c.view(t, [HEAD, CELLS, SHARED, 1], [row, cache.row_bytes(HEAD), row * CELLS], 0);
    let q = c.permute(q, [0, 2, 1, 3]);
    let scale = 1.0 / (HEAD as f32).sqrt();
    let attention = if flash {
        let values = k.floats(cache, &[shared, CELLS], View::Dense);
        k.end(c.set_rows(values, value, cells), stored, LAYER);
        k.step(c.flash_attn([q, heads(keys), heads(values)], Some(mask), scale, 0.0), reads)
    } else {
        let size = cache.block_bytes();
        let values = k.floats(cache, &[CELLS, shared], View::Dense);
        let target = c.view(values, [tokens, shared, 1, 1], [CELLS * size; 3], past * size);
        k.end(c.cpy(c.transpose(value), target), stored, LAYER);
        let scores = k.step(c.mul_mat(heads(keys), q), reads);
        let weights = k.step(c.soft_max(scores, Some(mask), scale), PRODUCT);
        let plane = CELLS * HEAD * size;
        let turned = c.view(values, [CELLS, HEAD, SHARED, 1], [CELLS * size, plane, plane * SHARED], 0);
        let mixed = k.step(c.mul_mat(turned, weights), reads);
        k.step(c.cont(c.permute(mixed, [0, 2, 1, 3])), Bound::Exact)
    };
    let attention = c.reshape(attention, [WIDTH, tokens, 1, 1]);
    let x = k.step(c.add(product(k, matrix(k, dtype, WIDTH, WIDTH), attention), x), Bound::roundings(1));
    let h = normed(k, x);
    k.end(c.add(mlp(k, dtype, h), x), Bound::roundings(1), LAYER);
}

/// A frozen product and a trained one of low rank beside it.
fn adapted<'c>(k: &Kit<'c>, dtype: Type, to: usize, x: Tensor<'c>) -> Tensor<'c> {
    let (c, rank) = (k.ops(), 4);
    let frozen = product(k, matrix(k, dtype, WIDTH, to), x);
    let down = matrix(k, Type::F32, WIDTH, rank).mark_param();
    let up = matrix(k, Type::F32, rank, to).mark_param();
    let part = product(k, up, product(k, down, x));
    k.step(c.add(frozen, k.step(c.scale(part, 0.5), Bound::roundings(1))), Bound::roundings(1))
}

fn lora(k: &Kit<'_>, dtype: Type, tokens: usize) {
    let (c, shared) = (k.ops(), HEAD * SHARED);
    let x = k.f32(&[WIDTH, tokens], View::Dense);
    let positions = k.input(Type::I32, &[tokens], View::Dense, (0..tokens).map(|p| p as f32).collect());
    let mask = causal(k, tokens, tokens);
    let h = normed(k, x);
    let q = rotated(k, adapted(k, dtype, WIDTH, h), positions);
    let key = rotated(k, product(k, matrix(k, dtype, WIDTH, shared), h), positions);
    let value = adapted(k, dtype, shared, h);

    let (q, key) = (c.permute(q, [0, 2, 1, 3]), c.permute(key, [0, 2, 1, 3]));
    let value = c.permute(c.reshape(value, [HEAD, SHARED, tokens, 1]), [1, 2, 0, 3]);
    let value = k.step(c.cont(value), Bound::Exact);
    let scores = k.step(c.mul_mat(key, q), PRODUCT);
    let weights = k.step(c.soft_max(scores, Some(mask), 1.0 / (HEAD as f32).sqrt()), PRODUCT);
    let mixed = k.step(c.mul_mat(value, weights), PRODUCT);
    let mixed = k.step(c.cont(c.permute(mixed, [0, 2, 1, 3])), Bound::Exact);
    let mixed = c.reshape(mixed, [WIDTH, tokens, 1, 1]);
    let x = k.step(c.add(product(k, matrix(k, dtype, WIDTH, WIDTH), mixed), x), Bound::roundings(1));
    let h = normed(k, x);
    let x = k.step(c.add(mlp(k, dtype, h), x), Bound::roundings(1));
    let words = 50;
    let logits = product(k, matrix(k, dtype, WIDTH, words), x);
    let labels = (0..words * tokens).map(|i| f32::from(i % words == 3 * (i / words))).collect();
    let labels = k.input(Type::F32, &[words, tokens], View::Dense, labels);
    let loss = k.end(c.cross_entropy_loss(logits, labels), PRODUCT, GRADIENT);
    k.train(loss, GRADIENT);
}
