//! What is compared, and how far apart it may be.

use std::path::Path;

use anyhow::Result;
use ggml_host::llama::{Adapter, Model, SessionOptions, Step, Token, write_as_f32};
use ggml_host::{Device, Type, rpc};

use crate::compare::{nmse, parting, perplexity};
use crate::{Options, adapter};

/// What a model continues.
const PROMPT: &str = "The lighthouse keeper climbed the stairs every evening, and";

/// Whose perplexity is taken.
const TEXT: &str = include_str!("../../../data/lighthouse.jsonl");

/// Largest error of logits from weights in F32, by squares: a device sums in another order.
const LOGITS: f64 = 1e-6;

/// The same where the cache rounds to halves: one side's rounding may fall to the other side of a tie.
const HALVES: f64 = 1e-4;

/// The same from quantized weights, whose CPU kernels round activations to 8 bits.
const QUANTIZED: f64 = 5e-3;

/// Largest difference of perplexities, relative.
const PERPLEXITY: f64 = 0.005;

/// A choice whose logit is no further behind than this share of the logits' spread is a near-tie.
const TIE: f64 = 0.05;

/// All layers.
const ALL: usize = 1 << 16;

struct Bench<'a> {
    options: &'a Options,
    devices: &'a [Device],
    passed: bool,
}

impl Bench<'_> {
    /// Runs a check by its name and prints what it says.
    fn check(&mut self, name: &str, body: impl FnOnce() -> Result<(bool, String)>) {
        if self.options.only.as_ref().is_some_and(|only| !name.contains(only.as_str())) {
            return;
        }
        let (passed, said) = body().unwrap_or_else(|error| (false, format!("error: {error:#}")));
        println!("  {} {name}: {said}", if passed { "ok  " } else { "FAIL" });
        self.passed &= passed;
    }
}

/// Runs every check on a model; false if one is out of its bound.
pub fn run(options: &Options, path: &Path, devices: &[Device]) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let exact = folder.path().join("f32.gguf");
    write_as_f32(path, &exact)?;
    let random = folder.path().join("adapter.gguf");
    adapter::write(path, &random)?;

    let mut bench = Bench { options, devices, passed: true };
    weights_in_f32(&mut bench, &exact, &random)?;
    weights_as_they_are(&mut bench, path, &exact)?;
    Ok(bench.passed)
}

fn weights_in_f32(bench: &mut Bench<'_>, path: &Path, random: &Path) -> Result<()> {
    let (options, devices) = (bench.options, bench.devices);
    let cpu = Model::load(path)?;
    let model = Model::load_onto(path, devices, ALL)?;
    let prompt = cpu.vocabulary().tokenize(PROMPT, true)?;
    let room = prompt.len() + options.tokens;

    bench.check("F32 weights, F32 cache: greedy text", || {
        let want = cpu.session(room, None)?.generate(&prompt, options.tokens)?;
        let got = model.session(room, None)?.generate(&prompt, options.tokens)?;
        Ok((got == want, format!("{} of {} tokens agree", agreeing(&got, &want), want.len())))
    });
    for (cache, flash, bound) in [
        // llama.cpp casts keys and values to F16 for fused attention, whose CPU kernel sums in F16.
        (Type::F32, true, HALVES),
        (Type::F16, false, HALVES),
        (Type::F16, true, HALVES),
        (Type::Q8_0, true, QUANTIZED),
    ] {
        let attention = if flash { "fused" } else { "unfused" };
        bench.check(&format!("F32 weights, {cache} cache, {attention} attention: logits"), || {
            let session = SessionOptions { cache, flash, ..SessionOptions::exact(room) };
            compare(&cpu, &model, session, None, &prompt, bound)
        });
    }
    bench.check("several sequences side by side: logits", || {
        let options = SessionOptions { sequences: 3, cache: Type::F16, flash: true, ..SessionOptions::exact(4 * room) };
        let mut steps = Vec::new();
        for (sequence, skip) in [(0, 0), (1, 2), (2, 5)] {
            let tokens = prompt.iter().skip(skip).enumerate();
            steps.extend(tokens.map(|(position, &token)| Step { token, position, sequence }));
        }
        let mut sessions = [cpu.session_with(options, None)?, model.session_with(options, None)?];
        let first = [sessions[0].run(&steps)?, sessions[1].run(&steps)?];
        let next: Vec<Step> = (0..3)
            .map(|sequence| Step { token: prompt[1], position: prompt.len() - [0, 2, 5][sequence], sequence })
            .collect();
        let second = [sessions[0].run(&next)?, sessions[1].run(&next)?];
        let error = nmse(&first[1], &first[0]).max(nmse(&second[1], &second[0]));
        Ok((error <= HALVES, format!("error {error:.1e}, bound {HALVES:.0e}")))
    });
    bench.check("saved and restored, on the device and from the CPU: greedy text", || {
        let options = SessionOptions { cache: Type::F16, flash: true, ..SessionOptions::exact(room) };
        let most = options.tokens.min(prompt.len() + 16) - prompt.len();
        let mut own = model.session_with(options, None)?;
        own.logits(&prompt[..prompt.len() - 1])?;
        let last = &prompt[prompt.len() - 1..];
        let saved = own.save()?;
        let want = own.generate(last, most)?;
        let mut foreign = cpu.session_with(options, None)?;
        foreign.logits(&prompt[..prompt.len() - 1])?;
        let mut agree = true;
        for state in [saved, foreign.save()?] {
            let mut restored = model.session_with(options, None)?;
            restored.restore(&state, prompt.len() - 1)?;
            agree &= restored.generate(last, most)? == want;
        }
        Ok((agree, format!("{} tokens", want.len())))
    });
    bench.check("context shifted: logits", || {
        let options = SessionOptions { cache: Type::F16, flash: true, ..SessionOptions::exact(room) };
        let mut sessions = [cpu.session_with(options, None)?, model.session_with(options, None)?];
        let mut rows = Vec::new();
        for session in &mut sessions {
            session.logits(&prompt)?;
            if !session.shift(3) {
                return Ok((true, "this model's cache cannot shift".into()));
            }
            rows.push(session.logits(&prompt[1..4])?);
        }
        let error = nmse(&rows[1], &rows[0]);
        Ok((error <= HALVES, format!("error {error:.1e}, bound {HALVES:.0e}")))
    });
    bench.check("an adapter applied as the model runs: logits", || {
        let adapters = [cpu.load_adapter(random)?, model.load_adapter(random)?];
        let session = SessionOptions::exact(room);
        let plain = cpu.session_with(session, None)?.logits(&prompt)?;
        let adapted = cpu.session_with(session, Some(&adapters[0]))?.logits(&prompt)?;
        let effect = nmse(&adapted, &plain);
        let (passed, said) = compare(&cpu, &model, session, Some(&adapters), &prompt, LOGITS)?;
        Ok((passed && effect > 100.0 * LOGITS, format!("{said}; the adapter changes {effect:.1e}")))
    });
    bench.check("half of the layers on the device: logits", || {
        let layers = layers(path)? / 2;
        let half = Model::load_onto(path, devices, layers)?;
        let (passed, said) = compare(&cpu, &half, SessionOptions::exact(room), None, &prompt, LOGITS)?;
        Ok((passed, format!("{layers} layers, {said}")))
    });
    // A server has one client at a time, and the one at hand may be such.
    if options.server.is_empty() {
        bench.check("the device served to this process by a second one: logits", || {
            let server = options.start_server()?;
            let remote = Model::load_onto(path, &rpc::connect(server.address())?, ALL)?;
            compare(&model, &remote, SessionOptions::exact(room), None, &prompt, LOGITS)
        });
    }
    Ok(())
}

fn weights_as_they_are(bench: &mut Bench<'_>, path: &Path, exact: &Path) -> Result<()> {
    let options = bench.options;
    let cpu = Model::load(path)?;
    let exact = Model::load(exact)?;
    let model = Model::load_onto(path, bench.devices, ALL)?;
    let vocabulary = cpu.vocabulary();
    let prompt = vocabulary.tokenize(PROMPT, true)?;
    let room = prompt.len() + options.tokens;

    bench.check("weights of the file, F16 cache: where greedy texts part", || {
        let session = SessionOptions { cache: Type::F16, flash: true, ..SessionOptions::exact(room) };
        let text = cpu.session_with(session, None)?.generate(&prompt, options.tokens)?;
        // All choices of both along the CPU's text.
        let along: Vec<Token> = prompt.iter().chain(&text[..text.len() - 1]).copied().collect();
        let rows = |model: &Model| -> Result<Vec<f32>> {
            let mut rows = model.session_with(session, None)?.logits(&along)?;
            Ok(rows.split_off((prompt.len() - 1) * vocabulary.len()))
        };
        let (reference, own) = (rows(&cpu)?, rows(&model)?);
        Ok(match parting(&own, &reference, &text) {
            None => (true, format!("never within {} tokens", text.len())),
            Some(at) => {
                let share = at.gap / at.spread;
                let said =
                    format!("after {} tokens, {:.3} behind, {:.1} % of the spread", at.at, at.gap, 100.0 * share);
                (share <= TIE, said)
            }
        })
    });
    let text = vocabulary.tokenize(TEXT, true)?;
    let text = &text[..options.text_tokens.min(text.len())];
    for (cache, flash) in [(Type::F16, false), (Type::F16, true), (Type::Q8_0, true)] {
        let attention = if flash { "fused" } else { "unfused" };
        bench.check(&format!("weights of the file, {cache} cache, {attention} attention: perplexity"), || {
            let session = SessionOptions { cache, flash, ..SessionOptions::exact(text.len()) };
            let of = |model: &Model| -> Result<f64> {
                Ok(perplexity(&model.session_with(session, None)?.logits(text)?, text))
            };
            let (rounding, want, got) = (of(&cpu)?, of(&exact)?, of(&model)?);
            let apart = (got / want - 1.0).abs();
            let cpu =
                format!("CPU {want:.4} from the same weights in F32, {rounding:.4} with activations rounded to 8 bits");
            Ok((apart <= PERPLEXITY, format!("{got:.4}, {cpu}; {:.3} % apart", 100.0 * apart)))
        });
    }
    Ok(())
}

/// Logits of a prompt in one run, and of its first tokens one by one.
fn compare(
    reference: &Model,
    model: &Model,
    options: SessionOptions,
    adapters: Option<&[Adapter<'_>; 2]>,
    prompt: &[Token],
    bound: f64,
) -> Result<(bool, String)> {
    let mut error = 0.0_f64;
    let sessions = || -> Result<_> {
        let [first, second] = adapters.map_or([None, None], |[a, b]| [Some(a), Some(b)]);
        Ok([reference.session_with(options, first)?, model.session_with(options, second)?])
    };
    let [mut want, mut got] = sessions()?;
    error = error.max(nmse(&got.logits(prompt)?, &want.logits(prompt)?));
    for token in &prompt[..3] {
        error = error.max(nmse(&got.logits(&[*token])?, &want.logits(&[*token])?));
    }
    Ok((error <= bound, format!("error {error:.1e}, bound {bound:.0e}")))
}

fn agreeing(a: &[Token], b: &[Token]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

fn layers(model: &Path) -> Result<usize> {
    let reader = ggml_host::gguf::Reader::open(model)?;
    let name = reader.text("general.architecture").unwrap_or_default();
    Ok(reader.uint(&format!("{name}.block_count")).unwrap_or(2))
}
