//! Tokens per second of whole models: prompts, and one token after the other.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ggml_host::llama::{Model, Session, SessionOptions, Token};
use ggml_host::{Device, Type};

use crate::Options;

/// Turns that each device has; the first is for compiling and is not counted.
const TURNS: usize = 6;

/// Runs a model on each device in turns and prints the median of its tokens per second.
///
/// Attention is fused and the cache in F16. Tokens are spread over the vocabulary; files without a tokenizer serve as well.
pub fn run(options: &Options, path: &Path, devices: &[Device]) -> Result<()> {
    let models = devices.iter().map(|&device| Model::load_onto(path, &[device], usize::MAX));
    let models = models.collect::<Result<Vec<_>, _>>()?;
    let prompts = &options.prompts;
    let room = prompts.iter().copied().max().unwrap_or(0).max(options.tokens);
    let how = SessionOptions { tokens: room, sequences: 1, cache: Type::F16, flash: true };
    let mut sessions = models.iter().map(|model| model.session_with(how, None)).collect::<Result<Vec<_>, _>>()?;
    // Of every device a row of turns for each prompt, and one for generation.
    let mut rates = vec![vec![Vec::new(); prompts.len() + 1]; devices.len()];
    for turn in 0..TURNS {
        for ((session, rates), model) in sessions.iter_mut().zip(&mut rates).zip(&models) {
            let tokens = tokens(model.vocabulary().len(), room);
            let mut measured = Vec::with_capacity(rates.len());
            for &n in prompts {
                measured.push(rate(session, n, |s| s.advance(&tokens[..n]))?);
            }
            let generated = &tokens[..options.tokens];
            measured.push(rate(session, generated.len(), |s| generated.iter().try_for_each(|&t| s.advance(&[t])))?);
            if turn > 0 {
                rates.iter_mut().zip(measured).for_each(|(all, rate)| all.push(rate));
            }
        }
    }
    let heads = prompts.iter().map(|n| format!(" | prompt {n}")).collect::<String>();
    println!("  tokens/s{heads} | generating {}", options.tokens);
    for (device, rates) in devices.iter().zip(rates) {
        println!(
            "  {}{}",
            device.name(),
            rates.into_iter().map(|r| format!(" | {:.1}", median(r))).collect::<String>()
        );
    }
    Ok(())
}

/// Tokens per second of a run that begins with nothing in the cache.
fn rate(
    session: &mut Session<'_>,
    tokens: usize,
    run: impl FnOnce(&mut Session<'_>) -> ggml_host::Result<()>,
) -> Result<f64> {
    session.clear();
    let start = Instant::now();
    run(session)?;
    Ok(tokens as f64 / start.elapsed().as_secs_f64())
}

fn tokens(vocabulary: usize, n: usize) -> Vec<Token> {
    (0..n).map(|i| (i * 7919 % vocabulary) as Token).collect()
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
