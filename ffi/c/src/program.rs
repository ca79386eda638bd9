//! Programs: graphs compiled, with memory for their tensors.

use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex};

use fblayout::engine::{Engine, Tensor};
use fblayout::plan::Budget;
use fblayout::recipe::{Dim, TensorId};
use fblayout::session::{self, Session};
use fblayout::train::Trainer;

use crate::engine::{Shared, attention, head, policy, storage};
use crate::failure::Failure;
use crate::graph::{describe, fbl_graph, fbl_tensor_desc, locked, with_graph};
use crate::guard::{borrow, call, elements, engine_call, out};
use crate::handle::{Handles, Serial, fbl_extent, fbl_tensor};
use crate::page;
use crate::plan::Told;
use crate::status::*;
use crate::text::{Room, json, text};
use crate::versioned::{self, Versioned};

/// A graph compiled for its engine's device: layouts, memory and commands are decided and recorded, to be replayed by every run. It has
/// memory for the inputs, parameters and outputs of the graph. One thread at a time: a call while another is in one with the same program
/// is FBL_ERR_BUSY.
pub struct fbl_program {
    pub(crate) shared: Arc<Shared>,
    pub(crate) handles: Handles,
    pub(crate) work: Arc<Mutex<Work>>,
}

/// What runs: a graph as it is, or a training step.
pub(crate) enum Work {
    Session(Box<Session>),
    Trainer(Box<Trainer>),
}

impl Work {
    pub fn session(&self) -> &Session {
        match self {
            Self::Session(session) => session,
            Self::Trainer(trainer) => trainer.session(),
        }
    }

    fn resize(&mut self, changes: &[(Dim, u32)]) -> Result<(), session::Error> {
        match self {
            Self::Session(session) => session.resize(changes),
            Self::Trainer(trainer) => trainer.resize(changes),
        }
    }
}

/// Engines are shared by threads, and what a lock holds goes from one to another.
const _: fn() = || {
    fn shared<T: Send + Sync>() {}
    shared::<Shared>();
    shared::<Mutex<Work>>();
};

/// An input or parameter whose memory is that of another program's tensor: weights that several programs read, state that one writes and
/// another reads. Programs that share what one of them writes run one after the other. Two tensors of one program cannot share.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_binding {
    /// The input or parameter.
    pub tensor: fbl_tensor,
    /// A program of the same engine.
    pub program: *const fbl_program,
    /// An input, parameter or output of it, of the same type and shape.
    pub source: fbl_tensor,
}

/// How a graph is compiled. Zero is the engine's choice.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_compile_options {
    /// sizeof this struct: FBL_INIT.
    pub struct_size: usize,
    /// One of FBL_STORAGE_*.
    pub storage: u32,
    /// One of FBL_POLICY_*.
    pub policy: u32,
    /// One of FBL_ATTENTION_*.
    pub attention: u32,
    /// How heads are computed with their losses, by the full policy: one of FBL_HEAD_*, or in chunks of so many tokens at most (of more
    /// where that would be more than 1024 chunks).
    pub head: u32,
    /// Bytes that the program may take together with its tensors; values are computed again where it would take more.
    pub budget_bytes: u64,
    /// Inputs and parameters that share their memory.
    pub bindings: *const fbl_binding,
    /// How many.
    pub binding_count: usize,
}

// SAFETY: numbers and a pointer behind a size.
unsafe impl Versioned for fbl_compile_options {
    const NAME: &'static str = "fbl_compile_options";
    const FIRST: usize = size_of::<Self>();
}

/// What a compilation is told: the engine that plans, and tensors of other programs.
pub(crate) struct Compilation {
    pub engine: Arc<Engine>,
    pub bound: Vec<(TensorId, Tensor)>,
}

impl Compilation {
    /// # Safety
    /// `options` is NULL or points to a struct of `options->struct_size` bytes, whose pointers are as its fields say.
    pub unsafe fn read(options: *const fbl_compile_options, shared: &Shared, serial: Serial) -> Result<Self, Failure> {
        if options.is_null() {
            return Ok(Self { engine: Arc::clone(&shared.engine), bound: Vec::new() });
        }
        // SAFETY: not NULL; this function's contract.
        let given = unsafe { versioned::read(options) }?;
        let mut planned = shared.engine.options().clone();
        planned.plan.storage = storage(given.storage)?.unwrap_or(planned.plan.storage);
        planned.plan.policy = policy(given.policy)?.unwrap_or(planned.plan.policy);
        planned.attention = attention(given.attention)?.unwrap_or(planned.attention);
        planned.head = head(given.head).unwrap_or(planned.head);
        if given.budget_bytes != 0 {
            planned.budget = Some(Budget(given.budget_bytes));
        }
        // SAFETY: this function's contract.
        let bindings = unsafe { elements(given.bindings, given.binding_count, "bindings") }?;
        let mut bound = Vec::with_capacity(bindings.len());
        for binding in bindings {
            // SAFETY: as above.
            let program = unsafe { borrow(binding.program, "a binding's program") }?;
            if !Arc::ptr_eq(program.shared.engine.gpu(), shared.engine.gpu()) {
                return Err(Failure::argument("a binding's program is of another engine"));
            }
            let id = serial.id(binding.tensor)?;
            locked(&program.work, |work| {
                bound.push((id, work.session().tensor(program.handles.id(binding.source)?)?.clone()));
                Ok(FBL_OK)
            })?;
        }
        Ok(Self { engine: shared.planning(&planned), bound })
    }
}

/// Runs the body of an entry with a program.
///
/// # Safety
/// `program` is NULL or a program.
pub(crate) unsafe fn with_program(
    entry: &str,
    program: *const fbl_program,
    body: impl FnOnce(Handles, &mut Work) -> Result<fbl_status, Failure>,
) -> fbl_status {
    call(entry, || {
        // SAFETY: this function's contract.
        let program = unsafe { borrow(program, "program") }?;
        Ok(engine_call(entry, &program.shared, || locked(&program.work, |work| body(program.handles, work))))
    })
}

/// Compiles a graph. `options` may be NULL. The graph may change afterwards, and the program does not.
///
/// `*program` is the caller's, to be destroyed by `fbl_program_destroy`; it is NULL where the call
/// fails.
///
/// Errors: FBL_ERR_GRAPH, FBL_ERR_UNSUPPORTED where the device cannot run it or the budget cannot be met, FBL_ERR_OUT_OF_MEMORY.
///
/// # Safety
/// `graph` is a graph, `options` is NULL or points to a struct of `options->struct_size` bytes, `program` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_compile(
    graph: *const fbl_graph,
    options: *const fbl_compile_options,
    program: *mut *mut fbl_program,
) -> fbl_status {
    call("fbl_compile", || {
        // SAFETY: this function's contract.
        let place = unsafe { out(program, "program") }?;
        // SAFETY: not NULL; as above.
        unsafe { program.write_unaligned(std::ptr::null_mut()) };
        // SAFETY: as above.
        let shared = &unsafe { borrow(graph, "graph") }?.shared;
        // SAFETY: as above.
        Ok(unsafe {
            with_graph("fbl_compile", graph, |serial, recipe| {
                let Compilation { engine, bound } = Compilation::read(options, shared, serial)?;
                let session = Session::new(&engine, recipe.clone(), &bound)?;
                let work = Arc::new(Mutex::new(Work::Session(Box::new(session))));
                let handles = Handles::new(serial, recipe.tensors().count());
                place.set(Box::into_raw(Box::new(fbl_program { shared: Arc::clone(shared), handles, work })));
                Ok(FBL_OK)
            })
        })
    })
}

/// Destroys a program; NULL is allowed. Memory that others share lives on.
///
/// Any thread, once for each program; not for that of a trainer.
///
/// # Safety
/// `program` is NULL or came from `fbl_compile`, was not destroyed, and no thread is in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_destroy(program: *mut fbl_program) {
    call("fbl_program_destroy", || {
        if !program.is_null() {
            // SAFETY: made by `Box::into_raw`, and this function's contract.
            drop(unsafe { Box::from_raw(program) });
        }
        Ok(FBL_OK)
    });
}

/// Runs the program once on what its tensors hold, and returns when its outputs do.
///
/// Errors: FBL_ERR_DEVICE_LOST; FBL_ERR_INVALID_ARGUMENT for the program of a trainer, which `fbl_trainer_step` runs.
///
/// # Safety
/// `program` is a program.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_run(program: *mut fbl_program) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_run", program, |_, work| match work {
            Work::Session(session) => {
                session.run()?;
                Ok(FBL_OK)
            }
            Work::Trainer(_) => Err(Failure::argument("the program is a trainer's: fbl_trainer_step runs it")),
        })
    }
}

/// Writes `size` bytes of an input or parameter, from byte `offset` of the tensor on, in the host's order (see `fbl_graph`); quantized types
/// are blocks as in GGUF files. With a part travels what lies in the same rows of texels, there and back: all of a tensor at once is fastest.
///
/// `data` may be freed after the call. No other program that shares the tensor may write it meanwhile.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where the tensor has no memory of its own, or no such bytes.
///
/// # Safety
/// `program` is a program, `data` has `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_upload(
    program: *mut fbl_program,
    tensor: fbl_tensor,
    offset: u64,
    data: *const c_void,
    size: usize,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_upload", program, |handles, work| {
            work.session().upload(handles.id(tensor)?, offset, elements(data.cast::<u8>(), size, "data")?)?;
            Ok(FBL_OK)
        })
    }
}

/// Reads `size` bytes of an input, parameter or output, from byte `offset` of the tensor on, in the host's order.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where the tensor is computed and no output, or has no such bytes.
///
/// # Safety
/// `program` is a program, `data` has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_download(
    program: *mut fbl_program,
    tensor: fbl_tensor,
    offset: u64,
    data: *mut c_void,
    size: usize,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_download", program, |handles, work| {
            if size > 0 && data.is_null() {
                return Err(Failure::null("data"));
            }
            let id = handles.id(tensor)?;
            let most = work.session().recipe().desc(id)?.bytes();
            if size as u64 > most {
                return Err(Failure::argument(format!("the tensor has {most} bytes, not {size}")));
            }
            // C may have left the bytes without a value, of which Rust makes no slice.
            let mut bytes = vec![0_u8; size];
            work.session().download(id, offset, &mut bytes)?;
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), data.cast(), size);
            Ok(FBL_OK)
        })
    }
}

/// Gives `count` declared extents other values, and plans again with what the engine's planner knows already. Inputs and parameters whose
/// shape stays keep their content; the others are zero, and so are outputs until the next run. A tensor whose shape changes is no longer
/// shared.
///
/// After an error the program is as before.
///
/// Errors: as `fbl_compile`, and FBL_ERR_INVALID_ARGUMENT for an extent that its graph did not declare, a value of 0, or where
/// the shape of what a trainer trains would change.
///
/// # Safety
/// `program` is a program, `extents` and `values` have `count` elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_resize(
    program: *mut fbl_program,
    extents: *const fbl_extent,
    values: *const u32,
    count: usize,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_resize", program, |handles, work| {
            let given = elements(extents, count, "extents")?.iter().zip(elements(values, count, "values")?);
            let changes = given.map(|(&extent, &value)| Ok((handles.dim(extent)?, value)));
            work.resize(&changes.collect::<Result<Vec<_>, Failure>>()?)?;
            Ok(FBL_OK)
        })
    }
}

/// The first tensor with this name; 0 where there is none. So are found what a trainer adds: the halves "WEIGHT.lora_a" and "WEIGHT.lora_b"
/// of the pair beside a weight, and the moments "NAME.m" and "NAME.v". These are tensors of this program alone.
///
/// # Safety
/// `program` is a program, `name` ends with NUL, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_find(
    program: *const fbl_program,
    name: *const c_char,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_find", program, |handles, work| {
            let (name, place) = (text(name, "name")?, out(result, "result")?);
            place.set(work.session().recipe().find(name).map_or(0, |id| handles.tensor(id)));
            Ok(FBL_OK)
        })
    }
}

/// Type, shape and size of a tensor, at the program's extents.
///
/// # Safety
/// `program` is a program, `desc` points to a struct of `desc->struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_describe(
    program: *const fbl_program,
    tensor: fbl_tensor,
    desc: *mut fbl_tensor_desc,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_describe", program, |handles, work| {
            describe(work.session().recipe(), handles.id(tensor)?, desc)
        })
    }
}

/// The program's plan as JSON: bytes, dispatches and barriers, which views and copies became coordinates and which moved bytes and why
/// ("report"), every dispatch ("steps") and storage ("slots"). Text convention: see `fbl_error_message`.
///
/// # Safety
/// `program` is a program; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_plan(
    program: *const fbl_program,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_plan", program, |_, work| {
            let text = json(&Told::new(work.session().plan()))?;
            Ok(Room { buffer, capacity, length }.fill(&text))
        })
    }
}

/// The program's plan as a page: one HTML file without anything from elsewhere. It shows the step op after op, what lives where and when,
/// which views and copies became coordinates and why others moved bytes; where the machine's rates are known (`fbl_engine_probe`, or a preset
/// in FBL_PROFILE) times, bytes and a roofline as well, all of them simulated. Layers whose nodes are named "blk.0.", "blk.1." and so on
/// are drawn once where they are alike. `title` is what the page says it is of. Text convention: see `fbl_error_message`.
///
/// To ask for the length is to make the page.
///
/// # Safety
/// `program` is a program, `title` ends with NUL; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_program_plan_html(
    program: *const fbl_program,
    title: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_program("fbl_program_plan_html", program, |_, work| {
            let page = page::of(work.session(), text(title, "title")?)?;
            Ok(Room { buffer, capacity, length }.fill(&page))
        })
    }
}
