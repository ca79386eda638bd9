//! Logits against logits.

use ggml_host::llama::{Token, likeliest};

/// Squared error over squared magnitude.
pub fn nmse(got: &[f32], want: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let error: f64 = got.iter().zip(want).map(|(&g, &w)| square(f64::from(g) - f64::from(w))).sum();
    error / want.iter().map(|&w| square(w.into())).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Negative log-likelihood of `next`, in nats.
pub fn surprise(row: &[f32], next: Token) -> f64 {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f64 = row.iter().map(|&x| f64::from(x - max).exp()).sum();
    sum.ln() - f64::from(row[next as usize] - max)
}

/// Perplexity of tokens 1.. given the logits of all before the last.
pub fn perplexity(logits: &[f32], tokens: &[Token]) -> f64 {
    let vocabulary = logits.len() / tokens.len();
    let next = tokens[1..].iter().zip(logits.chunks(vocabulary));
    (next.map(|(&token, row)| surprise(row, token)).sum::<f64>() / (tokens.len() - 1) as f64).exp()
}

/// Where two greedy texts part: the place, and how far the other's choice is behind in the logits of the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parting {
    /// Number of tokens that agree.
    pub at: usize,
    /// Difference of the reference's logits of both choices.
    pub gap: f64,
    /// Spread (standard deviation) of the reference's logits there.
    pub spread: f64,
}

/// The first place where the choice made from `rows`, one for each token of `text`, is another than the text's.
pub fn parting(rows: &[f32], reference: &[f32], text: &[Token]) -> Option<Parting> {
    let vocabulary = rows.len() / text.len();
    let pairs = rows.chunks(vocabulary).zip(reference.chunks(vocabulary));
    pairs.zip(text).enumerate().find_map(|(at, ((row, reference), &token))| {
        let own = likeliest(row);
        if own == token {
            return None;
        }
        let mean = reference.iter().map(|&x| f64::from(x)).sum::<f64>() / vocabulary as f64;
        let variance = reference.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / vocabulary as f64;
        let gap = f64::from(reference[token as usize]) - f64::from(reference[own as usize]);
        Some(Parting { at, gap, spread: variance.sqrt() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_odds_surprise_by_a_bit() {
        assert!((surprise(&[3.0, 3.0], 1) - 2.0_f64.ln()).abs() < 1e-12);
        assert!((perplexity(&[0.0; 8], &[0, 1]) - 4.0).abs() < 1e-12);
    }

    #[test]
    fn texts_part_at_the_first_other_choice() {
        let reference = [1.0, 0.0, 0.25, 0.5];
        assert_eq!(parting(&reference, &reference, &[0, 1]), None);
        let parted = parting(&[1.0, 0.0, 0.75, 0.5], &reference, &[0, 1]).expect("the second choice differs");
        assert_eq!((parted.at, parted.gap), (1, 0.25));
        assert_eq!(nmse(&[2.0, 0.0], &[1.0, 0.0]), 1.0);
    }
}
