//! Stock llama.cpp: vocabularies, and generation on the CPU with LoRA adapters.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::device::{c_path, registry};
use crate::logging::capture_errors;
use crate::{Error, Result};

/// Number of a token.
pub type Token = i32;

/// A model, loaded by llama.cpp onto the CPU; or its vocabulary alone.
pub struct Model(NonNull<sys::llama_model>);

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: this is the only owner, and sessions and adapters borrow it.
        unsafe { sys::llama_model_free(self.0.as_ptr()) };
    }
}

impl Model {
    /// Loads a model's weights in the types of the file, without any other device than the CPU.
    pub fn load(path: &Path) -> Result<Model> {
        Model::open(path, false)
    }

    /// Loads the vocabulary alone.
    pub fn load_vocabulary(path: &Path) -> Result<Model> {
        Model::open(path, true)
    }

    fn open(path: &Path, vocab_only: bool) -> Result<Model> {
        let c = c_path(path)?;
        let mut no_devices: [sys::ggml_backend_dev_t; 1] = [std::ptr::null_mut()];
        let _registry = registry();
        // SAFETY: the path and the list of devices, which ends with null, are valid during the call.
        let (ptr, log) = capture_errors(|| unsafe {
            let mut params = sys::llama_model_default_params();
            params.devices = no_devices.as_mut_ptr();
            params.n_gpu_layers = 0;
            params.vocab_only = vocab_only;
            // Plain buffers only: repacked weights take no adapter, and some are for instructions that a guest may lack.
            params.use_extra_bufts = false;
            sys::llama_model_load_from_file(c.as_ptr(), params)
        });
        let what = format!("loading '{}'", path.display());
        NonNull::new(ptr).map(Model).ok_or(Error::Llama { what, reason: log })
    }

    /// The model's vocabulary.
    pub fn vocabulary(&self) -> Vocabulary<'_> {
        // SAFETY: the vocabulary belongs to the model.
        let ptr = unsafe { sys::llama_model_get_vocab(self.0.as_ptr()) };
        Vocabulary { ptr, model: PhantomData }
    }

    /// Loads a LoRA adapter for this model.
    pub fn load_adapter(&self, path: &Path) -> Result<Adapter<'_>> {
        let c = c_path(path)?;
        let _registry = registry();
        // SAFETY: model and path are valid; the model frees its adapters.
        let (ptr, log) = capture_errors(|| unsafe { sys::llama_adapter_lora_init(self.0.as_ptr(), c.as_ptr()) });
        let what = format!("loading the adapter '{}'", path.display());
        let ptr = NonNull::new(ptr).ok_or(Error::Llama { what, reason: log })?;
        Ok(Adapter { ptr, model: PhantomData })
    }

    /// Opens a session of at most `tokens` tokens. The cache is F32 and attention unfused, so that results are exact.
    pub fn session(&self, tokens: usize, adapter: Option<&Adapter<'_>>) -> Result<Session<'_>> {
        let threads = std::thread::available_parallelism().map_or(1, |n| n.get()) as i32;
        let _registry = registry();
        // SAFETY: the model is valid.
        let (ptr, log) = capture_errors(|| unsafe {
            let mut params = sys::llama_context_default_params();
            params.n_ctx = tokens as u32;
            params.n_batch = tokens as u32;
            params.n_ubatch = tokens as u32;
            params.n_threads = threads;
            params.n_threads_batch = threads;
            params.flash_attn_type = sys::LLAMA_FLASH_ATTN_TYPE_DISABLED;
            params.type_k = sys::GGML_TYPE_F32;
            params.type_v = sys::GGML_TYPE_F32;
            sys::llama_init_from_model(self.0.as_ptr(), params)
        });
        let failed = |reason| Error::Llama { what: format!("a session of {tokens} tokens"), reason };
        let ptr = NonNull::new(ptr).ok_or_else(|| failed(log))?;
        let session = Session { ptr, vocabulary: self.vocabulary(), used: 0, room: tokens };
        if let Some(adapter) = adapter {
            let mut adapters = [adapter.ptr.as_ptr()];
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

/// A LoRA adapter that belongs to a model.
pub struct Adapter<'m> {
    ptr: NonNull<sys::llama_adapter_lora>,
    model: PhantomData<&'m Model>,
}

/// Texts to tokens and back.
#[derive(Clone, Copy)]
pub struct Vocabulary<'m> {
    ptr: *const sys::llama_vocab,
    model: PhantomData<&'m Model>,
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

    fn contains(&self, token: Token) -> bool {
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

/// A running text: its tokens so far and their cache.
pub struct Session<'m> {
    ptr: NonNull<sys::llama_context>,
    vocabulary: Vocabulary<'m>,
    used: usize,
    room: usize,
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { sys::llama_free(self.ptr.as_ptr()) };
    }
}

impl Session<'_> {
    /// Appends tokens and returns the logits of each of them, row by row.
    pub fn logits(&mut self, tokens: &[Token]) -> Result<Vec<f32>> {
        let failed = |reason: String| Error::Llama { what: format!("running {} tokens", tokens.len()), reason };
        if tokens.is_empty() || self.used + tokens.len() > self.room {
            return Err(failed(format!("the session has room for 1 to {} more", self.room - self.used)));
        }
        let vocabulary = self.vocabulary.len();
        if let Some(bad) = tokens.iter().find(|&&t| !self.vocabulary.contains(t)) {
            return Err(failed(format!("token {bad} is not in the vocabulary of {vocabulary}")));
        }
        let n = tokens.len();
        // SAFETY: the batch has room for `n` tokens of one sequence each, and is freed before we leave.
        let (rc, log) = unsafe {
            let mut batch = sys::llama_batch_init(n as i32, 0, 1);
            for (i, &token) in tokens.iter().enumerate() {
                *batch.token.add(i) = token;
                *batch.pos.add(i) = (self.used + i) as i32;
                *batch.n_seq_id.add(i) = 1;
                **batch.seq_id.add(i) = 0;
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

    /// Continues `prompt` with the likeliest token each time, until one ends the generation or there are `most` of them.
    pub fn generate(&mut self, prompt: &[Token], most: usize) -> Result<Vec<Token>> {
        let vocabulary = self.vocabulary.len();
        let mut logits = self.logits(prompt)?;
        let mut answer = Vec::new();
        while answer.len() < most {
            let row = &logits[logits.len() - vocabulary..];
            let best = row.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(i, _)| i as Token);
            if self.vocabulary.ends_generation(best) {
                break;
            }
            answer.push(best);
            if answer.len() == most || self.used == self.room {
                break;
            }
            logits = self.logits(&[best])?;
        }
        Ok(answer)
    }
}
