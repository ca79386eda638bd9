//! Answers of stock llama.cpp, without and with an adapter.

use std::path::Path;

use ggml_host::llama::Model;

use crate::chat::Message;
use crate::error::{Error, Result};
use crate::spans::Encoder;

/// Longest answer, in tokens.
const MOST: usize = 64;

/// What the model answers before and after training.
pub struct Answers {
    /// Of the base model.
    pub before: String,
    /// With the adapter.
    pub after: String,
}

/// Lets llama.cpp answer a question on the CPU with the base model as it lies on the disk, without and with the adapter.
pub fn compare(model: &Path, adapter: &Path, encoder: &Encoder<'_>, question: &str) -> Result<Answers> {
    let message = Message { role: "user".to_owned(), content: question.to_owned() };
    let failed = |reason| Error::Template { origin: encoder.template.origin().to_owned(), reason };
    let prompt = encoder.prompt(&[message]).map_err(failed)?;
    let model = Model::load(model)?;
    let adapter = model.load_adapter(adapter)?;
    let answer = |adapter| -> Result<String> {
        let mut session = model.session(prompt.len() + MOST, adapter)?;
        let tokens = session.generate(&prompt, MOST)?;
        Ok(model.vocabulary().text(&tokens))
    };
    Ok(Answers { before: answer(None)?, after: answer(Some(&adapter))? })
}
