//! Blocks of 32: ggml's first quantized types, and those of a table.

use half::f16;

use super::{half, nibbles};

/// The numbers that IQ4_NL and IQ4_XS choose from.
pub(super) const UNEVEN: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// Twice the numbers of a float of 2 bits of exponent and 1 of mantissa.
const FP4: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

pub(super) fn decode_q8_0(block: &[u8], out: &mut Vec<f64>) {
    let d = half(block, 0);
    out.extend(block[2..].iter().map(|&q| d * f64::from(q as i8)));
}

pub(super) fn decode_q4_0(block: &[u8], out: &mut Vec<f64>) {
    let d = half(block, 0);
    out.extend(nibbles(&block[2..]).map(|q| d * (f64::from(q) - 8.0)));
}

pub(super) fn decode_q4_1(block: &[u8], out: &mut Vec<f64>) {
    let (d, m) = (half(block, 0), half(block, 2));
    out.extend(nibbles(&block[4..]).map(|q| d * f64::from(q) + m));
}

pub(super) fn decode_q5_0(block: &[u8], out: &mut Vec<f64>) {
    let d = half(block, 0);
    out.extend(fives(&block[2..]).map(|q| d * (f64::from(q) - 16.0)));
}

pub(super) fn decode_q5_1(block: &[u8], out: &mut Vec<f64>) {
    let (d, m) = (half(block, 0), half(block, 2));
    out.extend(fives(&block[4..]).map(|q| d * f64::from(q) + m));
}

pub(super) fn decode_iq4_nl(block: &[u8], out: &mut Vec<f64>) {
    let d = half(block, 0);
    out.extend(nibbles(&block[2..]).map(|q| d * f64::from(UNEVEN[usize::from(q)])));
}

pub(super) fn decode_mxfp4(block: &[u8], out: &mut Vec<f64>) {
    let d = f64::from(i32::from(block[0]) - 128).exp2();
    out.extend(nibbles(&block[1..]).map(|q| d * f64::from(FP4[usize::from(q)])));
}

/// 5-bit quants: a word of fifth bits, then nibbles.
fn fives(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let (high, low) = bytes.split_at(4);
    nibbles(low).enumerate().map(move |(i, q)| q | (high[i / 8] >> (i % 8) & 1) << 4)
}

fn inverse(d: f32) -> f32 {
    if d == 0.0 { 0.0 } else { 1.0 / d }
}

/// The element of the greatest magnitude, the first of them, with its sign.
fn extreme(block: &[f32]) -> f32 {
    block.iter().fold(0.0, |max: f32, &x| if max.abs() < x.abs() { x } else { max })
}

/// The least element, and a step that reaches the greatest in `levels`.
fn range(block: &[f32], levels: f32) -> (f32, f32) {
    let min = block.iter().copied().fold(f32::INFINITY, f32::min);
    let max = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (min, (max - min) / levels)
}

/// Half and half: the quants of the first half of a block in the low nibbles, of the second in the high ones.
fn in_nibbles(quants: &[u8]) -> impl Iterator<Item = u8> {
    let (low, high) = quants.split_at(quants.len() / 2);
    low.iter().zip(high).map(|(low, high)| low & 15 | high << 4)
}

/// The fifth bits of 32 quants.
fn fifth_bits(quants: &[u8]) -> [u8; 4] {
    quants.iter().zip(0..).fold(0, |bits: u32, (q, i)| bits | u32::from(q >> 4 & 1) << i).to_le_bytes()
}

fn bits(x: f32) -> [u8; 2] {
    f16::from_f32(x).to_le_bytes()
}

pub(super) fn encode_q8_0(block: &[f32], out: &mut Vec<u8>) {
    let d = extreme(block).abs() / 127.0;
    let scale = inverse(d);
    out.extend(bits(d));
    out.extend(block.iter().map(|x| (x * scale).round() as i8 as u8));
}

/// Quants of a scale alone: the element of the greatest magnitude becomes `-zero`.
fn around(block: &[f32], zero: f32) -> (f32, Vec<u8>) {
    let d = extreme(block) / -zero;
    let scale = inverse(d);
    let most = 2.0 * zero - 1.0;
    (d, block.iter().map(|x| (x * scale + (zero + 0.5)).min(most) as u8).collect())
}

/// Quants of a scale and a minimum.
fn above(block: &[f32], levels: f32) -> (f32, f32, Vec<u8>) {
    let (min, d) = range(block, levels);
    let scale = inverse(d);
    (d, min, block.iter().map(|x| ((x - min) * scale + 0.5).min(levels) as u8).collect())
}

pub(super) fn encode_q4_0(block: &[f32], out: &mut Vec<u8>) {
    let (d, quants) = around(block, 8.0);
    out.extend(bits(d));
    out.extend(in_nibbles(&quants));
}

pub(super) fn encode_q4_1(block: &[f32], out: &mut Vec<u8>) {
    let (d, m, quants) = above(block, 15.0);
    out.extend([bits(d), bits(m)].concat());
    out.extend(in_nibbles(&quants));
}

pub(super) fn encode_q5_0(block: &[f32], out: &mut Vec<u8>) {
    let (d, quants) = around(block, 16.0);
    out.extend(bits(d));
    out.extend(fifth_bits(&quants));
    out.extend(in_nibbles(&quants));
}

pub(super) fn encode_q5_1(block: &[f32], out: &mut Vec<u8>) {
    let (d, m, quants) = above(block, 31.0);
    out.extend([bits(d), bits(m)].concat());
    out.extend(fifth_bits(&quants));
    out.extend(in_nibbles(&quants));
}

/// The quants that the greatest element asks for, then the scale that fits them best where large elements weigh more.
pub(super) fn encode_iq4_nl(block: &[f32], out: &mut Vec<u8>) {
    let greatest = extreme(block);
    if greatest.abs() < 1e-15 {
        out.extend([0; 18]);
        return;
    }
    let scale = 1.0 / (greatest / f32::from(UNEVEN[0]));
    let quants: Vec<u8> = block.iter().map(|x| nearest(scale * x)).collect();
    let (mut with_x, mut with_q) = (0.0_f32, 0.0_f32);
    for (&x, &q) in block.iter().zip(&quants) {
        let (weight, q) = (x * x, f32::from(UNEVEN[usize::from(q)]));
        with_x += weight * q * x;
        with_q += weight * q * q;
    }
    out.extend(bits(if with_q > 0.0 { with_x / with_q } else { 0.0 }));
    out.extend(in_nibbles(&quants));
}

/// Number of the entry of [`UNEVEN`] nearest to x; of two as near, the greater.
fn nearest(x: f32) -> u8 {
    let above = UNEVEN.iter().position(|&entry| x < f32::from(entry)).unwrap_or(UNEVEN.len() - 1);
    let below = above.saturating_sub(1);
    let [low, high] = [below, above].map(|i| f32::from(UNEVEN[i]));
    if x - low < high - x { below as u8 } else { above as u8 }
}
