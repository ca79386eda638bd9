//! Graphs: tensors, ops by name, views, gradients.

use std::ffi::c_char;
use std::sync::{Arc, Mutex, TryLockError};

use fblayout::graph::{Op, ROWS};
use fblayout::recipe::{Recipe, Role, TensorId, View};
use serde::Serialize;

use crate::dtype::{dtype, number};
use crate::engine::{Shared, fbl_engine};
use crate::failure::Failure;
use crate::guard::{borrow, call, elements, engine_call, out};
use crate::handle::{Serial, fbl_extent, fbl_tensor};
use crate::status::*;
use crate::text::{Room, json, optional, text};
use crate::versioned::{self, Versioned};

/// A graph under construction. One thread at a time: a call while another is in one with the same graph is FBL_ERR_BUSY.
///
/// Shapes have four axes, axis 0 innermost: element `(i0, i1, i2, i3)` of a tensor lies behind `i0 + n0 (i1 + n1 (i2 + n2 i3))` others in the
/// host's bytes. A matrix of `r` rows of `c` numbers, as C has it, is `{c, r, 1, 1}`.
pub struct fbl_graph {
    pub(crate) shared: Arc<Shared>,
    pub(crate) serial: Serial,
    pub(crate) recipe: Mutex<Recipe>,
}

/// Dtype, shape and size of a tensor.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct fbl_tensor_desc {
    /// sizeof this struct: FBL_INIT.
    pub struct_size: usize,
    /// Bytes of the tensor as the host has it.
    pub bytes: u64,
    /// Elements of each axis, axis 0 innermost.
    pub shape: [u32; 4],
    /// Its element type, by the number that GGUF files have.
    pub dtype: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: numbers behind a size.
unsafe impl Versioned for fbl_tensor_desc {
    const NAME: &'static str = "fbl_tensor_desc";
    const FIRST: usize = size_of::<Self>();
}

/// Runs a body with what a lock holds, unless another thread does.
pub(crate) fn locked<T>(
    lock: &Mutex<T>,
    body: impl FnOnce(&mut T) -> Result<fbl_status, Failure>,
) -> Result<fbl_status, Failure> {
    match lock.try_lock() {
        Ok(mut held) => body(&mut held),
        Err(TryLockError::WouldBlock) => {
            Err(Failure::new(FBL_ERR_BUSY, "another thread is in a call with this handle"))
        }
        // Only a panic leaves that behind, and it has poisoned the engine.
        Err(TryLockError::Poisoned(_)) => Err(Failure::new(FBL_ERR_POISONED, "an earlier call broke off in the midst")),
    }
}

/// Runs the body of an entry with a graph.
///
/// # Safety
/// `graph` is NULL or a graph.
pub(crate) unsafe fn with_graph(
    entry: &str,
    graph: *const fbl_graph,
    body: impl FnOnce(Serial, &mut Recipe) -> Result<fbl_status, Failure>,
) -> fbl_status {
    call(entry, || {
        // SAFETY: this function's contract.
        let graph = unsafe { borrow(graph, "graph") }?;
        Ok(engine_call(entry, &graph.shared, || locked(&graph.recipe, |recipe| body(graph.serial, recipe))))
    })
}

/// Runs the body of an entry that makes one tensor, which `*result` gets; 0 where it fails.
///
/// # Safety
/// `graph` is NULL or a graph, `result` NULL or a place for a tensor.
pub(crate) unsafe fn made(
    entry: &str,
    graph: *mut fbl_graph,
    result: *mut fbl_tensor,
    body: impl FnOnce(Serial, &mut Recipe) -> Result<TensorId, Failure>,
) -> fbl_status {
    call(entry, || {
        // SAFETY: this function's contract.
        let place = unsafe { out(result, "result") }?;
        // SAFETY: not NULL; as above.
        unsafe { result.write_unaligned(0) };
        // SAFETY: as above.
        Ok(unsafe {
            with_graph(entry, graph, |serial, recipe| {
                place.set(serial.tensor(body(serial, recipe)?));
                Ok(FBL_OK)
            })
        })
    })
}

/// The op of a name and attributes that C gave.
///
/// # Safety
/// The texts are NULL or end with NUL.
unsafe fn named(name: *const c_char, attributes: *const c_char) -> Result<Op, Failure> {
    // SAFETY: this function's contract.
    let (name, attributes) = unsafe { (text(name, "op")?, optional(attributes, "attributes")?) };
    Op::named(name, attributes.unwrap_or_default()).map_err(|e| Failure::argument(e.to_string()))
}

/// Makes an empty graph.
///
/// Any thread. `*graph` is the caller's, to be destroyed by `fbl_graph_destroy`; it is NULL where the call fails.
///
/// # Safety
/// `engine` is an engine, `graph` points to a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_graph_create(engine: *const fbl_engine, graph: *mut *mut fbl_graph) -> fbl_status {
    call("fbl_graph_create", || {
        // SAFETY: this function's contract.
        let place = unsafe { out(graph, "graph") }?;
        // SAFETY: not NULL; as above.
        unsafe { graph.write_unaligned(std::ptr::null_mut()) };
        // SAFETY: as above.
        let shared = &unsafe { borrow(engine, "engine") }?.shared;
        Ok(engine_call("fbl_graph_create", shared, || {
            let graph = fbl_graph { shared: Arc::clone(shared), serial: Serial::next(), recipe: Mutex::default() };
            place.set(Box::into_raw(Box::new(graph)));
            Ok(FBL_OK)
        }))
    })
}

/// Destroys a graph; NULL is allowed. Programs and trainers of it live on.
///
/// Any thread, once for each graph.
///
/// # Safety
/// `graph` is NULL or came from `fbl_graph_create`, was not destroyed, and no thread is in a call with it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_graph_destroy(graph: *mut fbl_graph) {
    call("fbl_graph_destroy", || {
        if !graph.is_null() {
            // SAFETY: made by `Box::into_raw`, and this function's contract.
            drop(unsafe { Box::from_raw(graph) });
        }
        Ok(FBL_OK)
    });
}

/// Declares an extent that may change after compilation (`fbl_program_resize`), such as the number of tokens, with its value of now. Shapes
/// and views take `*extent` where they take a number.
///
/// One thread at a time.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where `value` is 0.
///
/// # Safety
/// `graph` is a graph, `name` ends with NUL, `extent` points to an fbl_extent.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_graph_extent(
    graph: *mut fbl_graph,
    name: *const c_char,
    value: u32,
    extent: *mut fbl_extent,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_graph("fbl_graph_extent", graph, |serial, recipe| {
            let (name, place) = (text(name, "name")?, out(extent, "extent")?);
            place.set(serial.extent(recipe.declare(name, value)?)?);
            Ok(FBL_OK)
        })
    }
}

/// Adds a tensor that exists outside the graph: data, a frozen weight, a cache. Its content is zero in a new program, until it is uploaded.
///
/// `shape` are extents of the four axes, `type` one of FBL_F32, FBL_Q4_K and so on; `name` is for people, adapters and `fbl_graph_find`.
///
/// One thread at a time.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT for an unknown type, an extent of 0, or a row that is no whole number of the type's blocks.
///
/// # Safety
/// `graph` is a graph, `name` ends with NUL, `shape` has four extents, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_input(
    graph: *mut fbl_graph,
    name: *const c_char,
    r#type: u32,
    shape: *const fbl_extent,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { external("fbl_input", graph, name, r#type, shape, Role::Input, result) }
}

/// `fbl_input` for a weight that a trainer without adapters trains. F32.
///
/// # Safety
/// As `fbl_input`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_parameter(
    graph: *mut fbl_graph,
    name: *const c_char,
    r#type: u32,
    shape: *const fbl_extent,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { external("fbl_parameter", graph, name, r#type, shape, Role::Parameter, result) }
}

/// # Safety
/// As [`fbl_input`].
unsafe fn external(
    entry: &str,
    graph: *mut fbl_graph,
    name: *const c_char,
    of: u32,
    shape: *const fbl_extent,
    role: Role,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made(entry, graph, result, |serial, recipe| {
            let (name, shape) = (text(name, "name")?, serial.shape(elements(shape, 4, "shape")?)?);
            Ok(recipe.external(name, dtype(of)?, shape, role)?)
        })
    }
}

/// Adds an op of the table (`fbl_ops` lists it): `op` is its name, such as "MUL_MAT", `attributes` are those that it takes, as
/// "name=value" with spaces between, such as "n_dims=64 mode=neox", or NULL. Numbers have a point, whatever the locale; lists have commas. They stay as they are when extents change.
///
/// `inputs` are `count` tensors in the op's order, each of which may be a view. `*result` is the tensor computed.
///
/// One thread at a time.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT for an unknown op or attribute, FBL_ERR_GRAPH where shapes or types break the op's rule, which the
/// message tells.
///
/// # Safety
/// `graph` is a graph, the texts end with NUL, `inputs` has `count` tensors, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_op(
    graph: *mut fbl_graph,
    op: *const c_char,
    attributes: *const c_char,
    inputs: *const fbl_tensor,
    count: usize,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_op", graph, result, |serial, recipe| {
            let inputs = serial.ids(elements(inputs, count, "inputs")?)?;
            Ok(recipe.node(named(op, attributes)?, &inputs, None)?)
        })
    }
}

/// `fbl_op` for ops that take type and shape of their result from the caller: CPY, REPEAT, REPEAT_BACK, GET_ROWS_BACK, FILL, ARANGE, TOP_K,
/// PAD and its kind, UPSCALE, pools, IM2COL and IM2COL_BACK. For all others they must be what the op's rule gives.
///
/// # Safety
/// As `fbl_op`; `shape` has four extents.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_op_as(
    graph: *mut fbl_graph,
    op: *const c_char,
    attributes: *const c_char,
    inputs: *const fbl_tensor,
    count: usize,
    r#type: u32,
    shape: *const fbl_extent,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_op_as", graph, result, |serial, recipe| {
            let inputs = serial.ids(elements(inputs, count, "inputs")?)?;
            let output = (dtype(r#type)?, serial.shape(elements(shape, 4, "shape")?)?);
            Ok(recipe.node(named(op, attributes)?, &inputs, Some(output))?)
        })
    }
}

/// `fbl_op` that writes a tensor that exists outside the graph, `target`: steps of an optimizer (OPT_STEP_ADAMW, OPT_STEP_SGD, whose first
/// input is the target), caches (SET_ROWS, SET, whose first input is), accumulators (ADD of the target and something). Nodes that are added later see what it wrote.
///
/// # Safety
/// As `fbl_op`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_op_into(
    graph: *mut fbl_graph,
    op: *const c_char,
    attributes: *const c_char,
    inputs: *const fbl_tensor,
    count: usize,
    target: fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_graph("fbl_op_into", graph, |serial, recipe| {
            let inputs = serial.ids(elements(inputs, count, "inputs")?)?;
            recipe.node_into(named(op, attributes)?, &inputs, serial.id(target)?)?;
            Ok(FBL_OK)
        })
    }
}

/// A view of `x` with the same elements in the same order under another shape, one extent of which may be FBL_REST. Views cost nothing.
///
/// Errors: FBL_ERR_GRAPH where the numbers of elements differ, or `x` is a view whose order no shape has: copy it (CPY).
///
/// # Safety
/// `graph` is a graph, `shape` has four extents, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_reshape(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    shape: *const fbl_extent,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_reshape", graph, result, |serial, recipe| {
            let shape = serial.shape(elements(shape, 4, "shape")?)?;
            Ok(recipe.view(serial.id(x)?, View::Reshape(shape))?)
        })
    }
}

/// A view of `x` with its axes in another order: axis `i` of the result is axis `axes[i]` of `x`. {1, 0, 2, 3} transposes.
///
/// Errors: FBL_ERR_GRAPH where `axes` are not 0 to 3 in some order.
///
/// # Safety
/// `graph` is a graph, `axes` has four numbers, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_permute(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    axes: *const u32,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_permute", graph, result, |serial, recipe| {
            let mut order = [0; 4];
            for (axis, &given) in order.iter_mut().zip(elements(axes, 4, "axes")?) {
                *axis = given as usize;
            }
            Ok(recipe.view(serial.id(x)?, View::Permute(order))?)
        })
    }
}

/// A view of `count` neighbours of `x` along an axis, from `start` on.
///
/// Errors: FBL_ERR_GRAPH where they leave the axis.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_slice(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    axis: u32,
    start: u32,
    count: fbl_extent,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_slice", graph, result, |serial, recipe| {
            let view = View::Slice { axis: axis as usize, start, count: serial.size(count)? };
            Ok(recipe.view(serial.id(x)?, view)?)
        })
    }
}

/// A view of `x` with an axis of one element repeated `count` times.
///
/// Errors: FBL_ERR_GRAPH where the axis has more.
///
/// # Safety
/// `graph` is a graph, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_expand(
    graph: *mut fbl_graph,
    x: fbl_tensor,
    axis: u32,
    count: fbl_extent,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        made("fbl_expand", graph, result, |serial, recipe| {
            let view = View::Expand { axis: axis as usize, count: serial.size(count)? };
            Ok(recipe.view(serial.id(x)?, view)?)
        })
    }
}

/// Adds nodes that compute the gradients of `loss` with respect to `count` tensors, `wanted`: `results[i]` is F32, in the shape of
/// `wanted[i]`. Of a loss of more than one element it is the gradient of their sum. Trainers do this by themselves.
///
/// Errors: FBL_ERR_GRAPH where the loss does not depend on a tensor, or an op on the way has no gradient: the message says which, and why.
///
/// # Safety
/// `graph` is a graph, `wanted` has `count` tensors, `results` has room for as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_gradients(
    graph: *mut fbl_graph,
    loss: fbl_tensor,
    wanted: *const fbl_tensor,
    count: usize,
    results: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_graph("fbl_gradients", graph, |serial, recipe| {
            if results.is_null() {
                return Err(Failure::null("results"));
            }
            let wanted = serial.ids(elements(wanted, count, "wanted")?)?;
            let found = recipe.gradients(serial.id(loss)?, &wanted)?;
            for (i, id) in found.into_iter().enumerate() {
                results.add(i).write_unaligned(serial.tensor(id));
            }
            Ok(FBL_OK)
        })
    }
}

/// Keeps what a computed tensor holds after a run, to be downloaded; what is not kept has no memory of its own. Inputs and parameters are
/// there anyway.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where it is a view: copy it (CPY) and keep the copy.
///
/// # Safety
/// `graph` is a graph.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_output(graph: *mut fbl_graph, x: fbl_tensor) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_graph("fbl_output", graph, |serial, recipe| {
            recipe.keep(serial.id(x)?)?;
            Ok(FBL_OK)
        })
    }
}

/// Names a tensor that is no view, for plans and for `fbl_graph_find`.
///
/// # Safety
/// `graph` is a graph, `name` ends with NUL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_graph_name(graph: *mut fbl_graph, x: fbl_tensor, name: *const c_char) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_graph("fbl_graph_name", graph, |serial, recipe| {
            recipe.name(serial.id(x)?, text(name, "name")?)?;
            Ok(FBL_OK)
        })
    }
}

/// The first tensor with this name; 0 where there is none.
///
/// # Safety
/// `graph` is a graph, `name` ends with NUL, `result` points to an fbl_tensor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_graph_find(
    graph: *const fbl_graph,
    name: *const c_char,
    result: *mut fbl_tensor,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe {
        with_graph("fbl_graph_find", graph, |serial, recipe| {
            let (name, place) = (text(name, "name")?, out(result, "result")?);
            place.set(recipe.find(name).map_or(0, |id| serial.tensor(id)));
            Ok(FBL_OK)
        })
    }
}

/// Type, shape and size of a tensor, at the extents of now.
///
/// # Safety
/// `graph` is a graph, `desc` points to a struct of `desc->struct_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_graph_describe(
    graph: *const fbl_graph,
    x: fbl_tensor,
    desc: *mut fbl_tensor_desc,
) -> fbl_status {
    // SAFETY: this function's contract.
    unsafe { with_graph("fbl_graph_describe", graph, |serial, recipe| describe(recipe, serial.id(x)?, desc)) }
}

/// # Safety
/// `desc` is NULL or points to a struct of `desc->struct_size` bytes.
pub(crate) unsafe fn describe(
    recipe: &Recipe,
    id: TensorId,
    desc: *mut fbl_tensor_desc,
) -> Result<fbl_status, Failure> {
    if desc.is_null() {
        return Err(Failure::null("desc"));
    }
    let found = recipe.desc(id)?;
    let told = fbl_tensor_desc {
        struct_size: 0,
        bytes: found.bytes(),
        shape: found.shape,
        dtype: number(found.dtype),
        reserved: 0,
    };
    // SAFETY: not NULL; this function's contract.
    unsafe { versioned::write(desc, &told) }?;
    Ok(FBL_OK)
}

/// What there is to know of an op.
#[derive(Serialize)]
struct Told {
    name: &'static str,
    operands: [usize; 2],
    updates: &'static [usize],
    attributes: Vec<fblayout::graph::Attribute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_gradient: Option<&'static str>,
}

/// The table of ops as JSON: per op its name, fewest and most operands, those that it updates in place, attributes with what they may be
/// and their defaults, and why it has no gradient, where it has none. Text convention: see `fbl_error_message`.
///
/// Any thread.
///
/// # Safety
/// `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fbl_ops(buffer: *mut c_char, capacity: usize, length: *mut usize) -> fbl_status {
    call("fbl_ops", || {
        let told = ROWS.iter().map(|row| Told {
            name: row.name,
            operands: [row.min_operands, row.max_operands],
            updates: row.updates,
            attributes: row.attributes(),
            no_gradient: row.no_gradient(),
        });
        let text = json(&told.collect::<Vec<_>>())?;
        // SAFETY: this function's contract.
        Ok(unsafe { Room { buffer, capacity, length }.fill(&text) })
    })
}
