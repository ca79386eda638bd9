//! Stock llama.cpp: models on any device, vocabularies, LoRA adapters, sessions.

mod session;
mod vocabulary;

pub use session::{Session, SessionOptions, Step, likeliest};
pub use vocabulary::Vocabulary;

use std::marker::PhantomData;
use std::path::Path;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::device::{c_path, registry};
use crate::logging::capture_errors;
use crate::{Device, Error, Result};

/// Number of a token.
pub type Token = i32;

/// A model that llama.cpp has loaded; or its vocabulary alone.
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
        Model::open(path, &[], 0, false)
    }

    /// Loads a model's weights in the types of the file, the last `layers` of its layers (the output counts as one) onto `devices`, which
    /// share them, the others onto the CPU.
    pub fn load_onto(path: &Path, devices: &[Device], layers: usize) -> Result<Model> {
        Model::open(path, devices, layers, false)
    }

    /// Loads the vocabulary alone.
    pub fn load_vocabulary(path: &Path) -> Result<Model> {
        Model::open(path, &[], 0, true)
    }

    fn open(path: &Path, devices: &[Device], layers: usize, vocab_only: bool) -> Result<Model> {
        let c = c_path(path)?;
        let mut list: Vec<_> = devices.iter().map(|device| device.raw()).chain([std::ptr::null_mut()]).collect();
        let _registry = registry();
        // SAFETY: the path and the list of devices, which ends with null, are valid during the call.
        let (ptr, log) = capture_errors(|| unsafe {
            let mut params = sys::llama_model_default_params();
            params.devices = list.as_mut_ptr();
            params.n_gpu_layers = i32::try_from(layers).unwrap_or(i32::MAX);
            params.vocab_only = vocab_only;
            // Plain buffers only: repacked weights take no adapter, and some are for instructions that a guest may lack.
            params.use_extra_bufts = false;
            sys::llama_model_load_from_file(c.as_ptr(), params)
        });
        let what = format!("loading '{}'", path.display());
        NonNull::new(ptr).map(Model).ok_or(Error::Llama { what, reason: log })
    }

    fn raw(&self) -> *mut sys::llama_model {
        self.0.as_ptr()
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
}

/// A LoRA adapter that belongs to a model.
pub struct Adapter<'m> {
    ptr: NonNull<sys::llama_adapter_lora>,
    model: PhantomData<&'m Model>,
}

impl Adapter<'_> {
    fn raw(&self) -> *mut sys::llama_adapter_lora {
        self.ptr.as_ptr()
    }
}

/// Writes a model's file again with all weights in F32.
pub fn write_as_f32(from: &Path, to: &Path) -> Result<()> {
    let (source, target) = (c_path(from)?, c_path(to)?);
    let _registry = registry();
    // SAFETY: paths and parameters are valid during the call.
    let (rc, log) = capture_errors(|| unsafe {
        let mut params = sys::llama_model_quantize_default_params();
        params.ftype = sys::LLAMA_FTYPE_ALL_F32;
        params.allow_requantize = true;
        sys::llama_model_quantize(source.as_ptr(), target.as_ptr(), &params)
    });
    let what = || format!("writing '{}' in F32 as '{}'", from.display(), to.display());
    if rc == 0 { Ok(()) } else { Err(Error::Llama { what: what(), reason: format!("code {rc} {log}") }) }
}
