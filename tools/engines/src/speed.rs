//! Tokens per second of whole models: prompts of two lengths, and one token after the other.

use std::path::Path;
use std::time::Instant;

use anyhow::Result;
use ggml_host::llama::{Model, Session, SessionOptions, Token};
use ggml_host::{Device, Type};

use crate::Options;

/// Tokens of the prompts.
const PROMPTS: [usize; 2] = [128, 512];

/// Turns that each device has; the first is for compiling and is not counted.
const TURNS: usize = 6;

/// Rates of a device, a row of turns for each prompt and one for generation.
struct Rates([Vec<f64>; 3]);

/// Runs a model on each device in turns and prints the median of its tokens per second.
///
/// Attention is fused and the cache in F16. Tokens are spread over the vocabulary; files without a tokenizer serve as well.
pub fn run(options: &Options, path: &Path, devices: &[Device]) -> Result<()> {
    let models = devices.iter().map(|&device| Model::load_onto(path, &[device], usize::MAX));
    let models = models.collect::<Result<Vec<_>, _>>()?;
    let room = PROMPTS.into_iter().max().unwrap_or(0).max(options.tokens);
    let how = SessionOptions { tokens: room, sequences: 1, cache: Type::F16, flash: true };
    let mut sessions = models.iter().map(|model| model.session_with(how, None)).collect::<Result<Vec<_>, _>>()?;
    let mut rates: Vec<Rates> = devices.iter().map(|_| Rates(Default::default())).collect();
    for turn in 0..TURNS {
        for ((session, rates), model) in sessions.iter_mut().zip(&mut rates).zip(&models) {
            let tokens = tokens(model.vocabulary().len(), room);
            let [short, long, generated] = &mut rates.0;
            let prompt = |session: &mut Session<'_>, n: usize| session.advance(&tokens[..n]);
            let one =
                |session: &mut Session<'_>| tokens[..options.tokens].iter().try_for_each(|&t| session.advance(&[t]));
            let measured = [
                (short, rate(session, PROMPTS[0], |s| prompt(s, PROMPTS[0]))?),
                (long, rate(session, PROMPTS[1], |s| prompt(s, PROMPTS[1]))?),
                (generated, rate(session, options.tokens, one)?),
            ];
            if turn > 0 {
                measured.into_iter().for_each(|(all, rate)| all.push(rate));
            }
        }
    }
    println!("  tokens/s | prompt {} | prompt {} | generating {}", PROMPTS[0], PROMPTS[1], options.tokens);
    for (device, Rates(rates)) in devices.iter().zip(rates) {
        let [short, long, generated] = rates.map(median);
        println!("  {} | {short:.0} | {long:.0} | {generated:.1}", device.name());
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
