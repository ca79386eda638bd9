//! Blocks of 256, whose parts have small scales under the scale of the block.

use super::small::UNEVEN;
use super::{half, nibbles};

/// Two-bit fields of 32 bytes at a time: the lowest of each, then the next.
fn pairs(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks_exact(32).flat_map(|run| (0..4).flat_map(move |field| run.iter().map(move |b| b >> (2 * field) & 3)))
}

/// Nibbles of 32 bytes at a time.
fn runs_of_nibbles(bytes: &[u8]) -> impl Iterator<Item = u8> {
    bytes.chunks_exact(32).flat_map(nibbles)
}

/// Scales and minima of Q4_K and Q5_K: 6 bits each, the upper two of the last four pairs apart from the rest.
fn six_bits(bytes: &[u8]) -> [(f64, f64); 8] {
    std::array::from_fn(|j| {
        let (scale, min) = match j {
            0..4 => (bytes[j] & 63, bytes[j + 4] & 63),
            _ => (bytes[j + 4] & 15 | bytes[j - 4] >> 6 << 4, bytes[j + 4] >> 4 | bytes[j] >> 6 << 4),
        };
        (scale.into(), min.into())
    })
}

pub(super) fn decode_q2_k(block: &[u8], out: &mut Vec<f64>) {
    let (scales, quants, d, min) = (&block[..16], &block[16..80], half(block, 80), half(block, 82));
    out.extend(pairs(quants).enumerate().map(|(i, q)| {
        let scale = scales[i / 16];
        d * f64::from(scale & 15) * f64::from(q) - min * f64::from(scale >> 4)
    }));
}

pub(super) fn decode_q3_k(block: &[u8], out: &mut Vec<f64>) {
    let (high, quants, scales, d) = (&block[..32], &block[32..96], &block[96..108], half(block, 108));
    let scale = |part: usize| {
        let low = if part < 8 { scales[part] & 15 } else { scales[part - 8] >> 4 };
        f64::from(low | (scales[8 + part % 4] >> (2 * (part / 4)) & 3) << 4) - 32.0
    };
    out.extend(pairs(quants).enumerate().map(|(i, q)| {
        let q = q | (high[i % 32] >> (i / 32) & 1) << 2;
        d * scale(i / 16) * (f64::from(q) - 4.0)
    }));
}

pub(super) fn decode_q4_k(block: &[u8], out: &mut Vec<f64>) {
    let (d, min, parts) = (half(block, 0), half(block, 2), six_bits(&block[4..16]));
    out.extend(runs_of_nibbles(&block[16..]).enumerate().map(|(i, q)| {
        let (scale, m) = parts[i / 32];
        d * scale * f64::from(q) - min * m
    }));
}

pub(super) fn decode_q5_k(block: &[u8], out: &mut Vec<f64>) {
    let (d, min, parts, high) = (half(block, 0), half(block, 2), six_bits(&block[4..16]), &block[16..48]);
    out.extend(runs_of_nibbles(&block[48..]).enumerate().map(|(i, q)| {
        let (scale, m) = parts[i / 32];
        let q = q | (high[i % 32] >> (i / 32) & 1) << 4;
        d * scale * f64::from(q) - min * m
    }));
}

pub(super) fn decode_q6_k(block: &[u8], out: &mut Vec<f64>) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half(block, 208));
    // 64 bytes of low halves go with 32 bytes of high ones.
    let low = low.chunks_exact(64).flat_map(nibbles);
    out.extend(
        low.zip(pairs(high))
            .enumerate()
            .map(|(i, (low, high))| d * f64::from(scales[i / 16] as i8) * (f64::from(low | high << 4) - 32.0)),
    );
}

pub(super) fn decode_iq4_xs(block: &[u8], out: &mut Vec<f64>) {
    let (d, high, low) = (half(block, 0), u16::from_le_bytes([block[2], block[3]]), &block[4..8]);
    for (part, bytes) in block[8..].chunks_exact(16).enumerate() {
        let scale = low[part / 2] >> (4 * (part % 2)) & 15 | ((high >> (2 * part) & 3) << 4) as u8;
        let d = d * (f64::from(scale) - 32.0);
        out.extend(nibbles(bytes).map(|q| d * f64::from(UNEVEN[usize::from(q)])));
    }
}

/// The byte is a fraction of 256, of which each multiplication by 3 brings the next digit before the point.
fn digit(byte: u8, number: u32) -> f64 {
    let rest = byte.wrapping_mul(3_u8.pow(number));
    f64::from(u16::from(rest) * 3 >> 8) - 1.0
}

pub(super) fn decode_tq1_0(block: &[u8], out: &mut Vec<f64>) {
    let d = half(block, 52);
    for (bytes, digits) in [(&block[..32], 5), (&block[32..48], 5), (&block[48..52], 4)] {
        out.extend((0..digits).flat_map(|number| bytes.iter().map(move |&byte| d * digit(byte, number))));
    }
}

pub(super) fn decode_tq2_0(block: &[u8], out: &mut Vec<f64>) {
    let d = half(block, 64);
    out.extend(pairs(&block[..64]).map(|q| d * (f64::from(q) - 1.0)));
}
