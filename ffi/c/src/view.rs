//! Views: other shapes and orders of a tensor's elements, which cost nothing until a kernel reads them, and mostly nothing then.

use fblayout::recipe::View;

use crate::graph::{fbl_graph, made};
use crate::guard::elements;
use crate::handle::{fbl_extent, fbl_tensor};
use crate::status::fbl_status;

/// A view of `x` with the same elements in the same order under another shape, one extent of which may be FBL_REST. Views cost nothing.
///
/// Errors: FBL_ERR_GRAPH where the numbers of elements differ, or `x` is a view whose order no shape has: copy it (CPY).
/// FBL_ERR_INVALID_ARGUMENT where FBL_REST stands twice, or no whole number for it, or the type of `x` has no such shape.
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
/// Errors: FBL_ERR_GRAPH where they leave the axis; FBL_ERR_INVALID_ARGUMENT where there is no such axis, or `count` is FBL_REST.
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
/// Errors: FBL_ERR_GRAPH where the axis has more; FBL_ERR_INVALID_ARGUMENT where there is no such axis, or `count` is FBL_REST.
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
