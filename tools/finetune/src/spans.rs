//! Which tokens of a dialogue the assistant says, found by rendering the dialogue turn by turn.

use ggml_host::llama::{Token, Vocabulary};

use crate::chat::{Message, Template};

/// Turns dialogues into tokens.
pub struct Encoder<'v> {
    /// The model's vocabulary.
    pub vocabulary: Vocabulary<'v>,
    /// The chat template.
    pub template: Template,
}

/// The tokens of a dialogue, each with whether the assistant says it.
pub struct Encoded {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// For each token, whether it is to be learned.
    pub supervised: Vec<bool>,
}

impl Encoder<'_> {
    /// Tokens of a rendered text. The token that begins an input is added unless the template wrote it.
    pub fn tokenize(&self, text: &str) -> Result<Vec<Token>, String> {
        let begin = self.vocabulary.begin().map(|t| self.vocabulary.spelling(t)).filter(|s| !s.is_empty());
        let written = begin.is_some_and(|b| text.starts_with(&b));
        self.vocabulary.tokenize(text, !written).map_err(|e| e.to_string())
    }

    /// The tokens before which an answer to `messages` begins.
    pub fn prompt(&self, messages: &[Message]) -> Result<Vec<Token>, String> {
        self.tokenize(&self.template.render(messages, true).map_err(|e| e.to_string())?)
    }

    /// The tokens of a dialogue. What the assistant says in a turn is what rendering that turn adds to the rendered
    /// turns before it, up to and including the last token that ends a generation.
    pub fn encode(&self, messages: &[Message]) -> Result<Encoded, String> {
        let render =
            |n: usize, answer_next| self.template.render(&messages[..n], answer_next).map_err(|e| e.to_string());
        let whole = render(messages.len(), false)?;
        let tokens = self.tokenize(&whole)?;
        let mut supervised = vec![false; tokens.len()];
        for turn in (0..messages.len()).filter(|&i| messages[i].role == "assistant") {
            let (before, after) = (render(turn, true)?, render(turn + 1, false)?);
            if !whole.starts_with(&before) || !whole.starts_with(&after) || after.len() < before.len() {
                return Err(format!("the template renders turn {} otherwise when other turns follow", turn + 1));
            }
            let (start, end) = (self.common(&tokens, &before)?, self.common(&tokens, &after)?);
            let said = &tokens[start..end.max(start)];
            let kept =
                said.iter().rposition(|&t| self.vocabulary.ends_generation(t)).map_or(said.len(), |last| last + 1);
            supervised[start..start + kept].fill(true);
        }
        Ok(Encoded { tokens, supervised })
    }

    /// How many tokens of the whole are those of its prefix; a token that reaches beyond the prefix does not count.
    fn common(&self, tokens: &[Token], prefix: &str) -> Result<usize, String> {
        let prefix = self.tokenize(prefix)?;
        Ok(tokens.iter().zip(&prefix).take_while(|(a, b)| a == b).count())
    }
}
