//! Vocabularies of stock llama.cpp.

use std::ffi::CStr;
use std::marker::PhantomData;

use llama_cpp_sys_2 as sys;

use super::{Model, Token};
use crate::{Error, Result};

/// Texts to tokens and back.
#[derive(Clone, Copy)]
pub struct Vocabulary<'m> {
    pub(super) ptr: *const sys::llama_vocab,
    pub(super) model: PhantomData<&'m Model>,
}

impl Vocabulary<'_> {
    /// Number of tokens.
    pub fn len(&self) -> usize {
        // SAFETY: the vocabulary is valid.
        unsafe { sys::llama_vocab_n_tokens(self.ptr) as usize }
    }

    /// Whether there are no tokens at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn contains(&self, token: Token) -> bool {
        usize::try_from(token).is_ok_and(|t| t < self.len())
    }

    /// Whether texts can be tokenized: some files carry no tokenizer.
    pub fn has_tokenizer(&self) -> bool {
        // SAFETY: the vocabulary is valid.
        unsafe { sys::llama_vocab_type(self.ptr) != sys::LLAMA_VOCAB_TYPE_NONE }
    }

    /// The tokens of a text. Control tokens written in the text count as such; `begin` adds what the model wants at the
    /// beginning of an input.
    pub fn tokenize(&self, text: &str, begin: bool) -> Result<Vec<Token>> {
        if !self.has_tokenizer() {
            return Err(Error::Llama {
                what: "tokenizing".to_owned(),
                reason: "the model has no tokenizer".to_owned(),
            });
        }
        let mut tokens = vec![0; text.len() + 8];
        // SAFETY: source and destination are valid for the lengths passed.
        let n = unsafe {
            let (len, room) = (text.len() as i32, tokens.len() as i32);
            sys::llama_tokenize(self.ptr, text.as_ptr().cast(), len, tokens.as_mut_ptr(), room, begin, true)
        };
        if n < 0 {
            let what = format!("tokenizing a text of {} bytes", text.len());
            return Err(Error::Llama { what, reason: format!("it answered {n}") });
        }
        tokens.truncate(n as usize);
        Ok(tokens)
    }

    /// The bytes that a token stands for; with `special`, control tokens are written out.
    pub fn piece(&self, token: Token, special: bool) -> Vec<u8> {
        let mut bytes = vec![0u8; 64];
        if !self.contains(token) {
            return Vec::new();
        }
        loop {
            // SAFETY: the destination is valid for the length passed.
            let n = unsafe {
                let (p, len) = (bytes.as_mut_ptr().cast(), bytes.len() as i32);
                sys::llama_token_to_piece(self.ptr, token, p, len, 0, special)
            };
            if n >= 0 {
                bytes.truncate(n as usize);
                return bytes;
            }
            bytes.resize(n.unsigned_abs() as usize, 0);
        }
    }

    /// The text of some tokens, without control tokens.
    pub fn text(&self, tokens: &[Token]) -> String {
        let bytes: Vec<u8> = tokens.iter().flat_map(|&t| self.piece(t, false)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether the token ends a generation.
    pub fn ends_generation(&self, token: Token) -> bool {
        // SAFETY: the vocabulary is valid.
        unsafe { sys::llama_vocab_is_eog(self.ptr, token) }
    }

    /// The token that begins an input, if there is one.
    pub fn begin(&self) -> Option<Token> {
        // SAFETY: the vocabulary is valid.
        let token = unsafe { sys::llama_vocab_bos(self.ptr) };
        (token >= 0).then_some(token)
    }

    /// The token that ends an input, if there is one.
    pub fn end(&self) -> Option<Token> {
        // SAFETY: the vocabulary is valid.
        let token = unsafe { sys::llama_vocab_eos(self.ptr) };
        (token >= 0).then_some(token)
    }

    /// The token that fills up, if there is one.
    pub fn pad(&self) -> Option<Token> {
        // SAFETY: the vocabulary is valid.
        let token = unsafe { sys::llama_vocab_pad(self.ptr) };
        (token >= 0).then_some(token)
    }

    /// The vocabulary's own spelling of a token, such as `<|im_end|>`.
    pub fn spelling(&self, token: Token) -> String {
        if !self.contains(token) {
            return String::new();
        }
        // SAFETY: the token is in the vocabulary, which keeps its texts NUL-terminated.
        unsafe { CStr::from_ptr(sys::llama_vocab_get_text(self.ptr, token)).to_string_lossy().into_owned() }
    }
}
