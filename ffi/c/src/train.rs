//! Training: adapters and parameters that follow gradients, step by step.

use std::ffi::c_char;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use fblayout::recipe::Adapter;
use fblayout::train::{Optimizer, Outcome, Pace, Trainer, Training};

use crate::failure::Failure;
use crate::graph::{fbl_graph, with_graph};
use crate::guard::{borrow, call, elements, out};
use crate::handle::{Handles, Serial, fbl_tensor};
use crate::program::{Compilation, Work, fbl_compile_options, fbl_program, with_program};
use crate::status::*;
use crate::text::text;
use crate::versioned::{self, Versioned};

/// AdamW: the default.
pub const FBL_OPTIMIZER_ADAMW: u32 = 1;
/// Gradient descent.
pub const FBL_OPTIMIZER_SGD: u32 = 2;

/// A training run: a graph with its gradients and an optimizer, compiled to one program per step. One thread at a time, but for
/// `fbl_trainer_stop`: a call while another is in one with the same trainer or its program is FBL_ERR_BUSY.
pub struct fbl_trainer {
    program: fbl_program,
    stop: Arc<AtomicBool>,
}

/// Low-rank pairs beside frozen weights: products `MUL_MAT(W, x)` become `W x + alpha / rank * B (A x)`, with A {k, rank} and B {rank, m}
/// trained in F32 beside W {k, m} of any type.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_adapter {
    /// Names of the weights, in which * stands for any letters: "blk.*.attn_q.weight".
    pub weights: *const c_char,
    /// At least 1.
    pub rank: u32,
    /// The pair's product is scaled by alpha / rank.
    pub alpha: f32,
}

/// What is trained, and how. Zero is the default of every field but `loss`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_train_options {
    /// sizeof this struct: FBL_INIT.
    pub struct_size: usize,
    /// What is minimised: F32, one element.
    pub loss: fbl_tensor,
    /// Logits {classes, rows} by which accuracy is counted; 0: it is not.
    pub logits: fbl_tensor,
    /// Labels of the same shape.
    pub labels: fbl_tensor,
    /// Adapters, of which the first that names a weight counts. Without any, the graph's parameters are trained.
    pub adapters: *const fbl_adapter,
    /// How many.
    pub adapter_count: usize,
    /// Start of the random numbers in the pairs: uniform up to 1 / sqrt(k) in A; B begins with zeros, so that at first nothing changes.
    pub seed: u64,
    /// One of FBL_OPTIMIZER_*.
    pub optimizer: u32,
    /// AdamW: decay of the first moment; 0 means 0.9.
    pub beta1: f32,
    /// AdamW: decay of the second moment; 0 means 0.999.
    pub beta2: f32,
    /// AdamW: added to the root of the second moment; 0 means 1e-8.
    pub eps: f32,
    /// Step size of the first steps; 0 means 1e-3. `fbl_trainer_set_pace` changes it.
    pub learning_rate: f32,
    /// Weights shrink by `learning_rate` times this a step.
    pub weight_decay: f32,
    /// How the step is compiled; NULL: as the engine does. Bindings share frozen weights with other programs.
    pub compile: *const fbl_compile_options,
}

// SAFETY: numbers and pointers behind a size.
unsafe impl Versioned for fbl_train_options {
    const NAME: &'static str = "fbl_train_options";
    const FIRST: usize = size_of::<Self>();
}

/// What a step or an evaluation found.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_outcome {
    /// sizeof this struct: FBL_INIT.
    pub struct_size: usize,
    /// Steps taken until now, those of a checkpoint included.
    pub step: u64,
    /// Rows of labels.
    pub rows: u64,
    /// Rows whose greatest logit is where their greatest label is.
    pub right: u64,
    /// The loss, of the weights before the step.
    pub loss: f32,
    /// `right / rows`; 0 where nothing is counted.
    pub accuracy: f32,
}

// SAFETY: numbers behind a size.
unsafe impl Versioned for fbl_outcome {
    const NAME: &'static str = "fbl_outcome";
    const FIRST: usize = size_of::<Self>();
}

/// A number that is not negative, or its default for 0.
fn setting(value: f32, default: f32, name: &str) -> Result<f32, Failure> {
    match value {
        0.0 => Ok(default),
        _ if value.is_finite() && value > 0.0 => Ok(value),
        _ => Err(Failure::argument(format!("{name} is {value}, must be a number from 0 on"))),
    }
}

impl fbl_train_options {
    /// # Safety
    /// The pointers are as the fields say.
    unsafe fn meant(&self, serial: Serial) -> Result<Training, Failure> {
        let optimizer = match self.optimizer {
            0 | FBL_OPTIMIZER_ADAMW => {
                let [beta1, beta2] =
                    [(self.beta1, 0.9, "beta1"), (self.beta2, 0.999, "beta2")].map(|(given, default, name)| {
                        match setting(given, default, name)? {
                            beta if beta < 1.0 => Ok(beta),
                            beta => Err(Failure::argument(format!("{name} is {beta}, must be below 1"))),
                        }
                    });
                Optimizer::AdamW { beta1: beta1?, beta2: beta2?, eps: setting(self.eps, 1e-8, "eps")? }
            }
            FBL_OPTIMIZER_SGD => Optimizer::Sgd,
            number => return Err(Failure::argument(format!("optimizer {number} is none of FBL_OPTIMIZER_*"))),
        };
        // SAFETY: this function's contract.
        let adapters = unsafe { elements(self.adapters, self.adapter_count, "adapters") }?.iter().map(|adapter| {
            // SAFETY: as above.
            let weights = unsafe { text(adapter.weights, "an adapter's weights") }?.to_owned();
            Ok(Adapter { weights, rank: adapter.rank, alpha: adapter.alpha })
        });
        let predictions = match (self.logits, self.labels) {
            (0, 0) => None,
            (logits, labels) => Some([serial.id(logits)?, serial.id(labels)?]),
        };
        Ok(Training {
            loss: serial.id(self.loss)?,
            predictions,
            adapters: adapters.collect::<Result<_, Failure>>()?,
            optimizer,
            seed: self.seed,
        })
    }

    fn pace(&self) -> Result<Pace, Failure> {
        Ok(Pace {
            learning_rate: setting(self.learning_rate, 1e-3, "learning_rate")?,
            weight_decay: setting(self.weight_decay, 0.0, "weight_decay")?,
        })
    }
}

/// Compiles a training step of a graph: its nodes, the gradients of what is trained, and an optimizer's step for each. Weights and data
/// are uploaded to its program (`fbl_trainer_program`); adapters are filled already, parameters are zero.
///
/// The graph stays as it is. `*trainer` is the caller's, to be destroyed by `fbl_trainer_destroy`; it is
/// NULL where the call fails.
///
/// Errors: as `fbl_compile`; FBL_ERR_INVALID_ARGUMENT where there is nothing to train, no product has a weight that an adapter names, the
/// loss is not one F32 element, or two tensors that `fbl_trainer_save` would write have one name; FBL_ERR_GRAPH where a gradient does not
/// exist.
///
/// # Safety
/// `graph` is a graph, `options` points to a struct of `options->struct_size` bytes with pointers as its fields say, `trainer` points to a
/// pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_create(
    graph: *const fbl_graph,
    options: *const fbl_train_options,
    trainer: *mut *mut fbl_trainer,
) -> fbl_status {
    call("fbl_trainer_create", || {
        // SAFETY: this function's contract.
        let place = unsafe { out(trainer, "trainer") }?;
        // SAFETY: not NULL; as above.
        unsafe { trainer.write_unaligned(std::ptr::null_mut()) };
        if options.is_null() {
            return Err(Failure::null("options"));
        }
        // SAFETY: as above.
        let (shared, options) = unsafe { (&borrow(graph, "graph")?.shared, versioned::read(options)?) };
        // SAFETY: as above.
        Ok(unsafe {
            with_graph("fbl_trainer_create", graph, |serial, recipe| {
                let (training, pace) = (options.meant(serial)?, options.pace()?);
                let Compilation { engine, bound } = Compilation::read(options.compile, shared, serial)?;
                let mut made = Trainer::new(&engine, recipe, &training, &bound)?;
                *made.pace() = pace;
                let stop = Arc::clone(made.stop());
                let work = Arc::new(Mutex::new(Work::Trainer(Box::new(made))));
                let handles = Handles::new(serial, recipe.tensors().count());
                let program = fbl_program { shared: Arc::clone(shared), handles, work };
                place.set(Box::into_raw(Box::new(fbl_trainer { program, stop })));
                Ok(FBL_OK)
            })
        })
    })
}

/// Destroys a trainer and its program; NULL is allowed.
///
/// Any thread, once for each trainer.
///
/// # Safety
/// `trainer` is NULL or came from `fbl_trainer_create`, was not destroyed, and no thread is in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_destroy(trainer: *mut fbl_trainer) {
    call("fbl_trainer_destroy", || {
        if !trainer.is_null() {
            // SAFETY: made by `Box::into_raw`, and this function's contract.
            drop(unsafe { Box::from_raw(trainer) });
        }
        Ok(FBL_OK)
    });
}

/// Runs the body of an entry with a trainer.
///
/// # Safety
/// `trainer` is NULL or a trainer.
unsafe fn with_trainer(
    entry: &str,
    trainer: *const fbl_trainer,
    body: impl FnOnce(&mut Trainer) -> Result<fbl_status, Failure>,
) -> fbl_status {
    call(entry, || {
        // SAFETY: this function's contract.
        let trainer = unsafe { borrow(trainer, "trainer") }?;
        // SAFETY: the program is the trainer's own.
        Ok(unsafe {
            with_program(entry, &raw const trainer.program, |_, work| match work {
                Work::Trainer(trainer) => body(trainer),
                Work::Session(_) => Err(Failure::argument("no trainer")),
            })
        })
    })
}

/// The trainer's program, for uploads, downloads, other extents and its plan; `fbl_trainer_step` runs it.
///
/// Any thread. `*program` belongs to the trainer and is destroyed with it.
///
/// # Safety
/// `trainer` is a trainer, `program` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_program(trainer: *mut fbl_trainer, program: *mut *mut fbl_program) -> fbl_status {
    call("fbl_trainer_program", || {
        // SAFETY: this function's contract.
        let place = unsafe { out(program, "program") }?;
        if trainer.is_null() {
            return Err(Failure::null("trainer"));
        }
        // SAFETY: not NULL; as above.
        place.set(unsafe { &raw mut (*trainer).program });
        Ok(FBL_OK)
    })
}

/// Step size and weight decay, from the next step on.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where one is negative or no number.
///
/// # Safety
/// `trainer` is a trainer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_set_pace(
    trainer: *mut fbl_trainer,
    learning_rate: f32,
    weight_decay: f32,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_trainer("fbl_trainer_set_pace", trainer, |trainer| {
            *trainer.pace() = Pace {
                learning_rate: setting(learning_rate, 0.0, "learning_rate")?,
                weight_decay: setting(weight_decay, 0.0, "weight_decay")?,
            };
            Ok(FBL_OK)
        })
    }
}

/// # Safety
/// `outcome` is NULL or points to a struct of `outcome->struct_size` bytes.
unsafe fn tell(outcome: *mut fbl_outcome, found: &Outcome) -> Result<(), Failure> {
    let &Outcome { step, loss, right, rows } = found;
    let accuracy = if rows == 0 { 0.0 } else { right as f32 / rows as f32 };
    // SAFETY: not NULL, as the callers have seen; this function's contract.
    unsafe { versioned::write(outcome, &fbl_outcome { struct_size: 0, step, rows, right, loss, accuracy }) }
}

/// Looks at a place for an outcome before anything is done for it.
///
/// # Safety
/// As [`tell`].
unsafe fn check(outcome: *mut fbl_outcome) -> Result<(), Failure> {
    if outcome.is_null() {
        return Err(Failure::null("outcome"));
    }
    // SAFETY: not NULL; this function's contract.
    unsafe { versioned::read(outcome) }.map(drop)
}

/// One step on what the inputs hold: loss, gradients, new weights. FBL_STOPPED, without a step, where `fbl_trainer_stop` was called since
/// the last one.
///
/// Errors: FBL_ERR_DEVICE_LOST.
///
/// # Safety
/// `trainer` is a trainer, `outcome` points to a struct of `outcome->struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_step(trainer: *mut fbl_trainer, outcome: *mut fbl_outcome) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_trainer("fbl_trainer_step", trainer, |trainer| {
            check(outcome)?;
            let Some(found) = trainer.step()? else { return Ok(FBL_STOPPED) };
            tell(outcome, &found)?;
            Ok(FBL_OK)
        })
    }
}

/// Loss and accuracy on what the inputs hold, without a step; nodes that write in place do so. The first call, and the first after other
/// extents, compiles.
///
/// # Safety
/// As `fbl_trainer_step`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_evaluate(trainer: *mut fbl_trainer, outcome: *mut fbl_outcome) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_trainer("fbl_trainer_evaluate", trainer, |trainer| {
            check(outcome)?;
            tell(outcome, &trainer.evaluate()?)?;
            Ok(FBL_OK)
        })
    }
}

/// Makes the next step none: `fbl_trainer_step` answers FBL_STOPPED once. A step that runs comes to its end.
///
/// Any thread, also while another is in a call with the trainer.
///
/// # Safety
/// `trainer` is a trainer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_stop(trainer: *const fbl_trainer) -> fbl_status {
    call("fbl_trainer_stop", || {
        // SAFETY: this function's contract.
        unsafe { borrow(trainer, "trainer") }?.stop.store(true, Ordering::Release);
        Ok(FBL_OK)
    })
}

/// Writes what is trained, the optimizer's moments and the number of steps to a safetensors file. The file is replaced at once: whoever
/// reads it finds the old one or the new. Tensors are F32 under their names ("WEIGHT.lora_a", "WEIGHT.lora_b", moments ".m", ".v" behind).
///
/// Errors: FBL_ERR_FILE.
///
/// # Safety
/// `trainer` is a trainer, `path` ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_save(trainer: *mut fbl_trainer, path: *const c_char) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_trainer("fbl_trainer_save", trainer, |trainer| {
            trainer.save(Path::new(text(path, "path")?))?;
            Ok(FBL_OK)
        })
    }
}

/// Goes on from a file of `fbl_trainer_save`. The step size is not in it.
///
/// Errors: FBL_ERR_FILE where it cannot be read, or is of another optimizer, other weights or other shapes; then nothing changes.
///
/// # Safety
/// `trainer` is a trainer, `path` ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_trainer_load(trainer: *mut fbl_trainer, path: *const c_char) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_trainer("fbl_trainer_load", trainer, |trainer| {
            trainer.load(Path::new(text(path, "path")?))?;
            Ok(FBL_OK)
        })
    }
}
