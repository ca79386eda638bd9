//! A device opened: what graphs are compiled for and programs run on.

use std::ffi::c_char;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use fblayout::device::LimitsClamp;
use fblayout::engine::{AttentionChoice, Engine, EngineOptions};
use fblayout::plan::{Budget, HeadChoice, Policy, StorageChoice};
use fblayout::probe;
use fblayout::vulkan::{TapeOptions, Validation};

use crate::failure::{self, Failure};
use crate::guard::{borrow, call, engine_call, out};
use crate::status::*;
use crate::text::{Room, json, optional};
use crate::versioned::{self, Versioned};

/// As the engine does, or as the environment says (`FBL_POLICY`, `FBL_STORAGE`, ...).
pub const FBL_DEFAULT: u32 = 0;

/// Tensors live in what the device does best.
pub const FBL_STORAGE_AUTO: u32 = 1;
/// Tensors live in buffers.
pub const FBL_STORAGE_BUFFER: u32 = 2;
/// Tensors live in images wherever the limits allow.
pub const FBL_STORAGE_IMAGE: u32 = 3;

/// Tiled layouts, copies become coordinates, ops run together: the default.
pub const FBL_POLICY_FULL: u32 = 1;
/// The same with every op by itself.
pub const FBL_POLICY_RTILE_MAPS: u32 = 2;
/// Tiled layouts; copies that the graph asks for are made.
pub const FBL_POLICY_RTILE: u32 = 3;
/// Row-major layouts that kernels read through strides.
pub const FBL_POLICY_HONEST_ROWMAJOR: u32 = 4;
/// Row-major layouts; elementwise ops run behind the kernel before them.
pub const FBL_POLICY_FUSED_ELEMENTWISE: u32 = 5;
/// One layout, passed on; permuted operands are copied once.
pub const FBL_POLICY_LAYOUT_REUSE: u32 = 6;
/// Every view is copied for every reader.
pub const FBL_POLICY_CONVERT_ALWAYS: u32 = 7;

/// Attention that a graph trains is fused where matrix units compute it: the default.
pub const FBL_ATTENTION_AUTO: u32 = 1;
/// Attention that a graph trains is computed as it is written.
pub const FBL_ATTENTION_UNFUSED: u32 = 2;
/// Attention that a graph trains as products and a softmax is computed in one sweep, without memory for its scores.
pub const FBL_ATTENTION_FUSED: u32 = 3;

/// A head is computed with its loss in chunks of as many tokens as suit the device: the default.
pub const FBL_HEAD_CHUNKED: u32 = 0xffff_fffe;
/// A head is computed as it is written, with logits of all tokens at once.
pub const FBL_HEAD_WHOLE: u32 = 0xffff_ffff;

/// No validation of Vulkan's calls.
pub const FBL_VALIDATION_OFF: u32 = 1;
/// The Khronos validation layer; its messages are counted by `fbl_engine_validation_count`.
pub const FBL_VALIDATION_CORE: u32 = 2;
/// The same with synchronization.
pub const FBL_VALIDATION_SYNC: u32 = 3;

/// How an engine opens its device. Zero is the default of every field: what the environment says where the library reads a variable for
/// it (docs: README.md, "Use it from your own ggml host"), else what the library thinks best.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_engine_options {
    /// sizeof this struct: FBL_INIT.
    pub struct_size: usize,
    /// Which device, from 0: real GPUs come first.
    pub device: u32,
    /// One of FBL_STORAGE_*.
    pub storage: u32,
    /// One of FBL_POLICY_*: how programs treat layouts, unless `fbl_compile_options` says otherwise.
    pub policy: u32,
    /// One of FBL_ATTENTION_*.
    pub attention: u32,
    /// One of FBL_VALIDATION_*.
    pub validation: u32,
    /// How heads are computed with their losses, by the full policy: one of FBL_HEAD_*, or in chunks of so many tokens at most (of more
    /// where that would be more than 1024 chunks).
    pub head: u32,
    /// Bytes that a program may take together with its tensors; values are computed again where it would take more. 0: no bound.
    pub budget_bytes: u64,
    /// Limits to pretend: a preset's name such as "adreno-830", or JSON such as {"heap_bytes": 67108864}. NULL: the device's own.
    pub limits: *const c_char,
    /// Folder for what is kept from run to run (pipelines, profiles), or "off". NULL: the user's cache folder.
    pub cache: *const c_char,
}

// SAFETY: numbers and pointers behind a size.
unsafe impl Versioned for fbl_engine_options {
    const NAME: &'static str = "fbl_engine_options";
    const FIRST: usize = size_of::<Self>();
}

/// An engine: one device, opened. Its calls may come from any thread, several at once.
pub struct fbl_engine {
    pub(crate) shared: Arc<Shared>,
}

/// What an engine's handles share; the device lives as long as one of them.
pub(crate) struct Shared {
    pub engine: Arc<Engine>,
    /// Engines on the same device that plan otherwise, as compilations have asked.
    beside: Mutex<Vec<Arc<Engine>>>,
    poisoned: AtomicBool,
    last: Mutex<String>,
}

impl Shared {
    /// The engine that plans as these options say, which are those of the engine but for policy, storage, attention, heads and budget.
    pub fn planning(&self, options: &EngineOptions) -> Arc<Engine> {
        let asks = |o: &EngineOptions| (o.plan, o.attention, o.head, o.budget);
        let mut beside = self.beside.lock().unwrap_or_else(PoisonError::into_inner);
        let known = [&self.engine].into_iter().chain(&*beside).find(|known| asks(known.options()) == asks(options));
        if let Some(known) = known {
            return Arc::clone(known);
        }
        let new = self.engine.beside(options);
        beside.push(Arc::clone(&new));
        new
    }

    /// That no defect showed in an earlier call.
    pub fn check(&self) -> Result<(), Failure> {
        if self.poisoned.load(Ordering::Acquire) {
            let message = "an earlier call failed by a defect of the library; destroy the engine";
            return Err(Failure::new(FBL_ERR_POISONED, message));
        }
        Ok(())
    }

    /// Keeps what failed.
    pub fn failed(&self, status: fbl_status, message: &str) {
        if status == FBL_ERR_PANIC {
            self.poisoned.store(true, Ordering::Release);
        }
        message.clone_into(&mut self.last.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// The storage that a number means; `None` for the default.
pub(crate) fn storage(number: u32) -> Result<Option<StorageChoice>, Failure> {
    Ok(match number {
        FBL_DEFAULT => None,
        FBL_STORAGE_AUTO => Some(StorageChoice::Auto),
        FBL_STORAGE_BUFFER => Some(StorageChoice::Buffer),
        FBL_STORAGE_IMAGE => Some(StorageChoice::Image),
        _ => return Err(Failure::argument(format!("storage {number} is none of FBL_STORAGE_*"))),
    })
}

/// The policy that a number means; `None` for the default.
pub(crate) fn policy(number: u32) -> Result<Option<Policy>, Failure> {
    Ok(match number {
        FBL_DEFAULT => None,
        FBL_POLICY_FULL => Some(Policy::Full),
        FBL_POLICY_RTILE_MAPS => Some(Policy::RTileMaps),
        FBL_POLICY_RTILE => Some(Policy::RTile),
        FBL_POLICY_HONEST_ROWMAJOR => Some(Policy::HonestRowmajor),
        FBL_POLICY_FUSED_ELEMENTWISE => Some(Policy::FusedElementwise),
        FBL_POLICY_LAYOUT_REUSE => Some(Policy::LayoutReuse),
        FBL_POLICY_CONVERT_ALWAYS => Some(Policy::ConvertAlways),
        _ => return Err(Failure::argument(format!("policy {number} is none of FBL_POLICY_*"))),
    })
}

/// What is done with attention that a number means; `None` for the default.
pub(crate) fn attention(number: u32) -> Result<Option<AttentionChoice>, Failure> {
    Ok(match number {
        FBL_DEFAULT => None,
        FBL_ATTENTION_AUTO => Some(AttentionChoice::Auto),
        FBL_ATTENTION_UNFUSED => Some(AttentionChoice::Unfused),
        FBL_ATTENTION_FUSED => Some(AttentionChoice::Fused),
        _ => return Err(Failure::argument(format!("attention {number} is none of FBL_ATTENTION_*"))),
    })
}

/// What is done with heads that a number means; `None` for the default.
pub(crate) fn head(number: u32) -> Option<HeadChoice> {
    match number {
        FBL_DEFAULT => None,
        FBL_HEAD_CHUNKED => Some(HeadChoice::Chunked),
        FBL_HEAD_WHOLE => Some(HeadChoice::Whole),
        tokens => Some(HeadChoice::Tokens(tokens)),
    }
}

impl fbl_engine_options {
    /// The options that the fields mean.
    ///
    /// # Safety
    /// The texts are NULL or end with NUL.
    unsafe fn meant(&self) -> Result<EngineOptions, Failure> {
        let mut options = EngineOptions::from_env()?;
        options.plan.storage = storage(self.storage)?.unwrap_or(options.plan.storage);
        options.plan.policy = policy(self.policy)?.unwrap_or(options.plan.policy);
        options.attention = attention(self.attention)?.unwrap_or(options.attention);
        options.head = head(self.head).unwrap_or(options.head);
        let validation = match self.validation {
            FBL_DEFAULT => options.gpu.validation,
            FBL_VALIDATION_OFF => Validation::Off,
            FBL_VALIDATION_CORE => Validation::Core,
            FBL_VALIDATION_SYNC => Validation::Sync,
            number => return Err(Failure::argument(format!("validation {number} is none of FBL_VALIDATION_*"))),
        };
        options.gpu.validation = validation;
        options.tape = TapeOptions::under(validation);
        if self.budget_bytes != 0 {
            options.budget = Some(Budget(self.budget_bytes));
        }
        // SAFETY: this function's contract.
        let (limits, cache) = unsafe { (optional(self.limits, "limits")?, optional(self.cache, "cache")?) };
        if let Some(limits) = limits {
            let clamp = LimitsClamp::parse(limits).map_err(|e| Failure::argument(format!("limits: {e}")))?;
            options.gpu.limits_clamp = Some(clamp);
        }
        match cache {
            Some("off") => options.gpu.cache_folder = None,
            Some(folder) => options.gpu.cache_folder = Some(folder.into()),
            None => {}
        }
        Ok(options)
    }
}

/// Opens a device. `options` may be NULL: the first device, every default.
///
/// Any thread. `*engine` is the caller's, to be destroyed by `fbl_engine_destroy`; it is NULL where the call fails.
///
/// Errors: FBL_ERR_DEVICE without such a device, FBL_ERR_INVALID_ARGUMENT for an unknown number, clamp or environment variable,
/// FBL_ERR_STRUCT_SIZE.
///
/// # Safety
/// `options` is NULL or points to a struct of `options->struct_size` bytes, `engine` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_engine_create(
    options: *const fbl_engine_options,
    engine: *mut *mut fbl_engine,
) -> fbl_status {
    call("fbl_engine_create", || {
        // SAFETY: this function's contract.
        let result = unsafe { out(engine, "engine") }?;
        // SAFETY: as above.
        unsafe { engine.write_unaligned(std::ptr::null_mut()) };
        let (device, options) = if options.is_null() {
            (0, EngineOptions::from_env()?)
        } else {
            // SAFETY: not NULL; this function's contract.
            let options = unsafe { versioned::read(options) }?;
            // SAFETY: as above.
            (options.device, unsafe { options.meant() }?)
        };
        let engine = Engine::open(device as usize, &options)?;
        let shared =
            Shared { engine, beside: Mutex::default(), poisoned: AtomicBool::new(false), last: Mutex::default() };
        result.set(Box::into_raw(Box::new(fbl_engine { shared: Arc::new(shared) })));
        Ok(FBL_OK)
    })
}

/// Destroys an engine; NULL is allowed. Graphs, programs and trainers of it may live on and be used: the device is closed with the last
/// of them.
///
/// Any thread, once for each engine.
///
/// # Safety
/// `engine` is NULL or came from `fbl_engine_create`, was not destroyed, and no thread is in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_engine_destroy(engine: *mut fbl_engine) {
    call("fbl_engine_destroy", || {
        if !engine.is_null() {
            // SAFETY: made by `Box::into_raw`, and this function's contract.
            drop(unsafe { Box::from_raw(engine) });
        }
        Ok(FBL_OK)
    });
}

/// Words of the last failure: with an engine of that in any call with it or what belongs to it, with NULL of that in any call of this
/// thread. Empty where nothing failed.
///
/// Text convention, here and elsewhere: `buffer` gets as much as fits in `capacity` bytes, with a NUL at the end, and `*length` the
/// length of the whole text without NUL. FBL_TRUNCATED says that more room is needed; `buffer` may be NULL and `capacity` 0 to ask for
/// the length, `length` may be NULL.
///
/// Any thread; also with an engine that is poisoned.
///
/// # Safety
/// `engine` is NULL or an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_error_message(
    engine: *const fbl_engine,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    call("fbl_error_message", || {
        // SAFETY: this function's contract.
        let message = match unsafe { engine.as_ref() } {
            Some(engine) => engine.shared.last.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            None => failure::last(),
        };
        // SAFETY: as above.
        Ok(unsafe { Room { buffer, capacity, length }.fill(&message) })
    })
}

/// Runs the body of an entry with an engine, which gives a text.
///
/// # Safety
/// `engine` is NULL or an engine, the room is as its description says.
unsafe fn told(
    entry: &str,
    engine: *const fbl_engine,
    room: Room,
    body: impl FnOnce(&Engine) -> Result<String, Failure>,
) -> fbl_status {
    call(entry, || {
        // SAFETY: this function's contract.
        let shared = &unsafe { borrow(engine, "engine") }?.shared;
        Ok(engine_call(entry, shared, || {
            let text = body(&shared.engine)?;
            // SAFETY: as above.
            Ok(unsafe { room.fill(&text) })
        }))
    })
}

/// Limits of an engine's device, clamped as its options asked, as a JSON object. Text convention: see `fbl_error_message`.
///
/// Any thread.
///
/// # Safety
/// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_engine_limits(
    engine: *const fbl_engine,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { told("fbl_engine_limits", engine, Room { buffer, capacity, length }, |engine| json(engine.limits())) }
}

/// What the device does, as it was measured before (`fbl_engine_probe`, or `fblayout probe`): caches in bytes, rates a second, times in
/// seconds, as a JSON object. Text convention: see `fbl_error_message`.
///
/// Any thread.
///
/// Errors: FBL_ERR_FILE where it was never measured, or no folder is kept.
///
/// # Safety
/// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_engine_profile(
    engine: *const fbl_engine,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    let kept = |engine: &Engine| {
        let profile = probe::kept(engine.gpu()).map_err(|e| Failure::new(FBL_ERR_FILE, e.to_string()))?;
        json(&profile)
    };
    // SAFETY: this function's contract.
    unsafe { told("fbl_engine_profile", engine, Room { buffer, capacity, length }, kept) }
}

/// Measures what the device does, which takes seconds to a minute and wants the device for itself, and gives it as `fbl_engine_profile`
/// does, for which it is kept if there is a folder that can be written. Call it with room for 16 KiB: to ask for the length is to measure.
///
/// Any thread.
///
/// Errors: FBL_ERR_OUT_OF_MEMORY, FBL_ERR_DEVICE_LOST, FBL_ERR_DEVICE.
///
/// # Safety
/// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_engine_probe(
    engine: *const fbl_engine,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    let measured = |engine: &Engine| {
        let profile = probe::measure(engine.gpu())?;
        match probe::keep(engine.gpu(), &profile, &[]) {
            Ok(_) | Err(probe::KeptError::NoFolder) => {}
            Err(error) => log::warn!("the profile is not kept: {error}"),
        }
        json(&profile)
    };
    // SAFETY: this function's contract.
    unsafe { told("fbl_engine_probe", engine, Room { buffer, capacity, length }, measured) }
}

/// Messages of the validation layer until now; 0 without validation. Each is a defect of the library.
///
/// Any thread.
///
/// # Safety
/// `engine` is an engine, `count` points to a uint64_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_engine_validation_count(engine: *const fbl_engine, count: *mut u64) -> fbl_status {
    call("fbl_engine_validation_count", || {
        // SAFETY: this function's contract.
        let (shared, count) = unsafe { (&borrow(engine, "engine")?.shared, out(count, "count")?) };
        count.set(shared.engine.gpu().validation_count());
        Ok(FBL_OK)
    })
}

/// Panics, so that tests see what becomes of it.
///
/// # Safety
/// `engine` is NULL or an engine.
#[cfg(feature = "test-panic")]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_test_panic(engine: *const fbl_engine) -> fbl_status {
    call("fbl_test_panic", || {
        // SAFETY: this function's contract.
        let shared = &unsafe { borrow(engine, "engine") }?.shared;
        Ok(engine_call("fbl_test_panic", shared, || panic!("on purpose")))
    })
}
