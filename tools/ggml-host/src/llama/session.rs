//! Running texts: what llama.cpp calls a context.

use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use super::{Adapter, Model, Token, Vocabulary};
use crate::device::registry;
use crate::logging::capture_errors;
use crate::{Error, Result, Type};

/// How a session keeps and uses its cache of keys and values.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Tokens that the cache holds, of all sequences together.
    pub tokens: usize,
    /// Sequences that run side by side.
    pub sequences: usize,
    /// Type of cached keys and values.
    pub cache: Type,
    /// Fused attention; a quantized cache needs it.
    pub flash: bool,
}

impl SessionOptions {
    /// One sequence, a cache in F32 and attention unfused, so that results are exact.
    pub const fn exact(tokens: usize) -> Self {
        Self { tokens, sequences: 1, cache: Type::F32, flash: false }
    }
}

/// A token to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The token.
    pub token: Token,
    /// Its place in its sequence.
    pub position: usize,
    /// The sequence.
    pub sequence: usize,
}

/// A running text, or several: their tokens so far and their cache.
pub struct Session<'m> {
    ptr: NonNull<sys::llama_context>,
    vocabulary: Vocabulary<'m>,
    used: usize,
    options: SessionOptions,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { sys::llama_free(self.ptr.as_ptr()) };
    }
}

impl Model {
    /// Opens a session of at most `tokens` tokens, as exact as can be.
    pub fn session(&self, tokens: usize, adapter: Option<&Adapter<'_>>) -> Result<Session<'_>> {
        self.session_with(SessionOptions::exact(tokens), adapter)
    }

    /// Opens a session.
    pub fn session_with(&self, options: SessionOptions, adapter: Option<&Adapter<'_>>) -> Result<Session<'_>> {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as i32;
        let SessionOptions { tokens, sequences, cache, flash } = options;
        let _registry = registry();
        // SAFETY: the model is valid.
        let (ptr, log) = capture_errors(|| unsafe {
            let mut params = sys::llama_context_default_params();
            params.n_ctx = tokens as u32;
            params.n_batch = tokens as u32;
            params.n_ubatch = tokens as u32;
            params.n_seq_max = sequences as u32;
            params.n_threads = threads;
            params.n_threads_batch = threads;
            params.flash_attn_type = match flash {
                true => sys::LLAMA_FLASH_ATTN_TYPE_ENABLED,
                false => sys::LLAMA_FLASH_ATTN_TYPE_DISABLED,
            };
            params.type_k = cache.0;
            params.type_v = cache.0;
            sys::llama_init_from_model(self.raw(), params)
        });
        let failed = |reason| Error::Llama { what: format!("a session of {tokens} tokens"), reason };
        let ptr = NonNull::new(ptr).ok_or_else(|| failed(log))?;
        let session = Session { ptr, vocabulary: self.vocabulary(), used: 0, options };
        if let Some(adapter) = adapter {
            let mut adapters = [adapter.raw()];
            let mut scales = [1.0f32];
            // SAFETY: one adapter with one scale, both valid.
            let rc =
                unsafe { sys::llama_set_adapters_lora(ptr.as_ptr(), adapters.as_mut_ptr(), 1, scales.as_mut_ptr()) };
            if rc != 0 {
                return Err(failed(format!("the adapter was refused with code {rc}")));
            }
        }
        Ok(session)
    }
}

impl Session<'_> {
    /// Appends tokens to the first sequence and returns the logits of each of them, row by row.
    pub fn logits(&mut self, tokens: &[Token]) -> Result<Vec<f32>> {
        let used = self.used;
        let step = |(i, &token)| Step { token, position: used + i, sequence: 0 };
        self.run(&tokens.iter().enumerate().map(step).collect::<Vec<_>>())
    }

    /// Runs tokens of any sequences and returns the logits of each of them, row by row.
    pub fn run(&mut self, steps: &[Step]) -> Result<Vec<f32>> {
        let failed = |reason: String| Error::Llama { what: format!("running {} tokens", steps.len()), reason };
        let SessionOptions { tokens: room, sequences, .. } = self.options;
        if steps.is_empty() || self.used + steps.len() > room {
            return Err(failed(format!("the session has room for 1 to {} more", room - self.used)));
        }
        let vocabulary = self.vocabulary.len();
        for step in steps {
            if !self.vocabulary.contains(step.token) {
                return Err(failed(format!("token {} is not in the vocabulary of {vocabulary}", step.token)));
            }
            if step.sequence >= sequences || step.position >= room {
                return Err(failed(format!("{step:?} is beyond {sequences} sequences of {room} tokens")));
            }
        }
        let n = steps.len();
        // SAFETY: the batch has room for `n` tokens of one sequence each, and is freed before we leave.
        let (rc, log) = unsafe {
            let mut batch = sys::llama_batch_init(n as i32, 0, 1);
            for (i, step) in steps.iter().enumerate() {
                *batch.token.add(i) = step.token;
                *batch.pos.add(i) = step.position as i32;
                *batch.n_seq_id.add(i) = 1;
                **batch.seq_id.add(i) = step.sequence as i32;
                *batch.logits.add(i) = 1;
            }
            batch.n_tokens = n as i32;
            let result = capture_errors(|| sys::llama_decode(self.ptr.as_ptr(), batch));
            sys::llama_batch_free(batch);
            result
        };
        if rc != 0 {
            return Err(failed(format!("code {rc} {log}")));
        }
        self.used += n;
        // SAFETY: every token asked for its logits, so there are `n` rows of the vocabulary's size.
        unsafe {
            let logits = sys::llama_get_logits(self.ptr.as_ptr());
            if logits.is_null() {
                return Err(failed("no logits came back".to_owned()));
            }
            Ok(std::slice::from_raw_parts(logits, n * vocabulary).to_vec())
        }
    }

    /// Appends tokens to the first sequence and waits for what comes behind the last of them; its logits stay with llama.cpp.
    pub fn advance(&mut self, tokens: &[Token]) -> Result<()> {
        let failed = |reason: String| Error::Llama { what: format!("running {} tokens", tokens.len()), reason };
        let room = self.options.tokens - self.used;
        if tokens.is_empty() || tokens.len() > room || tokens.iter().any(|&token| !self.vocabulary.contains(token)) {
            return Err(failed(format!("the session has room for 1 to {room} more, of its vocabulary")));
        }
        let mut tokens = tokens.to_vec();
        // SAFETY: the batch points to `tokens`, which outlive it; the context is valid.
        let (rc, log) = unsafe {
            let batch = sys::llama_batch_get_one(tokens.as_mut_ptr(), tokens.len() as i32);
            capture_errors(|| {
                let rc = sys::llama_decode(self.ptr.as_ptr(), batch);
                sys::llama_synchronize(self.ptr.as_ptr());
                rc
            })
        };
        if rc != 0 {
            return Err(failed(format!("code {rc} {log}")));
        }
        self.used += tokens.len();
        Ok(())
    }

    /// Forgets all tokens; what the cache holds of them stays until others take their places.
    pub fn clear(&mut self) {
        // SAFETY: the context has its memory.
        unsafe { sys::llama_memory_clear(sys::llama_get_memory(self.ptr.as_ptr()), false) };
        self.used = 0;
    }

    /// Continues `prompt` with the likeliest token each time, until one ends the generation or there are `most` of them.
    pub fn generate(&mut self, prompt: &[Token], most: usize) -> Result<Vec<Token>> {
        let vocabulary = self.vocabulary.len();
        let mut logits = self.logits(prompt)?;
        let mut answer = Vec::new();
        while answer.len() < most {
            let best = likeliest(&logits[logits.len() - vocabulary..]);
            if self.vocabulary.ends_generation(best) {
                break;
            }
            answer.push(best);
            if answer.len() == most || self.used == self.options.tokens {
                break;
            }
            logits = self.logits(&[best])?;
        }
        Ok(answer)
    }

    /// The session's state: cache and logits.
    pub fn save(&mut self) -> Result<Vec<u8>> {
        let mut state = vec![0; 0];
        // SAFETY: the state is written to memory of the size that it asks for.
        let written = unsafe {
            state.resize(sys::llama_state_get_size(self.ptr.as_ptr()), 0);
            sys::llama_state_get_data(self.ptr.as_ptr(), state.as_mut_ptr(), state.len())
        };
        match written {
            0 => Err(Error::Llama { what: "saving a session".into(), reason: "nothing was written".into() }),
            written => {
                state.truncate(written);
                Ok(state)
            }
        }
    }

    /// Puts a session in the state of another of the same model and options, which had run `used` tokens.
    pub fn restore(&mut self, state: &[u8], used: usize) -> Result<()> {
        // SAFETY: the state is valid memory of that length; llama.cpp checks what it reads.
        let (read, log) =
            capture_errors(|| unsafe { sys::llama_state_set_data(self.ptr.as_ptr(), state.as_ptr(), state.len()) });
        if read != state.len() {
            let reason = format!("{read} of {} bytes were taken {log}", state.len());
            return Err(Error::Llama { what: "restoring a session".into(), reason });
        }
        self.used = used;
        Ok(())
    }

    /// Drops the first `count` tokens of the first sequence; later ones move to their places. Of `false` nothing is changed: the cache
    /// cannot shift.
    pub fn shift(&mut self, count: usize) -> bool {
        // SAFETY: the context has its memory; sequence 0 exists.
        unsafe {
            let memory = sys::llama_get_memory(self.ptr.as_ptr());
            if !sys::llama_memory_can_shift(memory) || !sys::llama_memory_seq_rm(memory, 0, 0, count as i32) {
                return false;
            }
            sys::llama_memory_seq_add(memory, 0, count as i32, -1, -(count as i32));
        }
        self.used -= count;
        true
    }
}

/// The token of the greatest logit.
pub fn likeliest(row: &[f32]) -> Token {
    row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i as Token)
}
