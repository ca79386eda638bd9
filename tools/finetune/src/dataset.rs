//! Chat data: JSONL lines to samples, with an account of what was left out.

use std::path::Path;

use ggml_host::llama::Token;

use crate::chat::{Message, dialogue};
use crate::error::{Error, Result};
use crate::spans::{Encoded, Encoder};

/// The data set that comes with the program.
const BUILT_IN: &str = include_str!("../../../data/lighthouse.jsonl");

/// A dialogue as the training step takes it.
#[derive(Clone, Debug)]
pub struct Sample {
    tokens: Vec<Token>,
    /// Positions in `tokens`, none of them 0, that are to be predicted from what stands before them.
    learned: Vec<usize>,
}

impl Sample {
    fn new(encoded: Encoded) -> Sample {
        let learned = (1..encoded.tokens.len()).filter(|&i| encoded.supervised[i]).collect();
        Sample { tokens: encoded.tokens, learned }
    }

    /// The tokens that the model reads; the last one of the dialogue is only predicted.
    pub fn inputs(&self) -> &[Token] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// Each supervised row (index of the token read last) with the token that should follow.
    pub fn targets(&self) -> impl Iterator<Item = (usize, Token)> {
        self.learned.iter().map(|&i| (i - 1, self.tokens[i]))
    }
}

/// Why a line was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Skip {
    /// Not a dialogue, or one that the template refuses.
    Malformed(String),
    /// More tokens than a step has.
    TooLong(usize),
    /// Nothing that the assistant says.
    Empty,
}

/// A data set, ready for training.
pub struct Dataset {
    /// Where it came from.
    pub origin: String,
    /// The usable dialogues, in file order.
    pub samples: Vec<Sample>,
    /// Lines left out, by their number from 1.
    pub skipped: Vec<(usize, Skip)>,
    /// What the user says first in the first usable dialogue.
    pub first_question: Option<String>,
}

impl Dataset {
    /// Reads a file, or the built-in data. Blank lines are no lines. `most` is the number of tokens that a step can read.
    pub fn read(path: Option<&Path>, encoder: &Encoder<'_>, most: usize) -> Result<Dataset> {
        let (origin, text) = match path {
            Some(path) => {
                let bytes = std::fs::read(path).map_err(Error::io(path))?;
                (path.display().to_string(), String::from_utf8_lossy(&bytes).into_owned())
            }
            None => ("built-in lighthouse FAQ".to_owned(), BUILT_IN.to_owned()),
        };
        let mut set = Dataset { origin, samples: Vec::new(), skipped: Vec::new(), first_question: None };
        for (i, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match read_line(line, encoder, most) {
                Ok((sample, question)) => {
                    set.samples.push(sample);
                    set.first_question = set.first_question.take().or(question);
                }
                Err(why) => set.skipped.push((i + 1, why)),
            }
        }
        if set.samples.is_empty() {
            let rule = format!("no usable dialogue ({})", set.account(most));
            return Err(Error::Data { path: set.origin, rule });
        }
        Ok(set)
    }

    /// The largest number of supervised tokens of a sample.
    pub fn most_targets(&self) -> usize {
        self.samples.iter().map(|s| s.learned.len()).max().unwrap_or(0)
    }

    /// One line on what was used and what was left out, with line numbers.
    pub fn account(&self, most: usize) -> String {
        let mut parts = vec![format!("{} lines: {} used", self.samples.len() + self.skipped.len(), self.samples.len())];
        let mut part = |name: &str, pick: &dyn Fn(&Skip) -> Option<String>| {
            let hits: Vec<String> =
                self.skipped.iter().filter_map(|(n, why)| pick(why).map(|note| format!("{n}{note}"))).collect();
            if !hits.is_empty() {
                let shown = hits.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
                let more = if hits.len() > 5 { ", ..." } else { "" };
                parts.push(format!("{} {name} (line {shown}{more})", hits.len()));
            }
        };
        part("malformed", &|why| match why {
            Skip::Malformed(reason) => Some(format!(": {reason}")),
            _ => None,
        });
        part(&format!("longer than {most} tokens"), &|why| match why {
            Skip::TooLong(n) => Some(format!(": {n}")),
            _ => None,
        });
        part("without an answer", &|why| (*why == Skip::Empty).then(String::new));
        parts.join("; ")
    }
}

fn read_line(line: &str, encoder: &Encoder<'_>, most: usize) -> std::result::Result<(Sample, Option<String>), Skip> {
    let messages = dialogue(line).map_err(|e| Skip::Malformed(e.to_string()))?;
    let says = |m: &Message| m.role == "assistant" && !m.content.trim().is_empty();
    if !messages.iter().any(says) {
        return Err(Skip::Empty);
    }
    let sample = Sample::new(encoder.encode(&messages).map_err(Skip::Malformed)?);
    if sample.learned.is_empty() {
        return Err(Skip::Empty);
    }
    if sample.inputs().len() > most {
        return Err(Skip::TooLong(sample.inputs().len()));
    }
    let question = messages.into_iter().find(|m| m.role == "user").map(|m| m.content);
    Ok((sample, question))
}
