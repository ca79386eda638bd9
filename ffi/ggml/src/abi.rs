//! The part of ggml 0.26's C interface (backend API 3) that a plugin touches, written out by hand and checked by size and offset.
//!
//! Structs and fields keep ggml's names. Every C enum is an `i32` here: a value this file does not name is legal input.

#![allow(non_camel_case_types, reason = "ggml's own names")]

use std::ffi::{c_char, c_int, c_void};

/// Value of `ggml_backend_reg::api_version` that matches these structs.
pub const API_VERSION: c_int = 3;
/// Axes of a tensor.
pub const MAX_DIMS: usize = 4;
/// Sources of a tensor.
pub const MAX_SRC: usize = 10;
/// 32-bit words of op parameters.
pub const MAX_OP_PARAMS: usize = 16;

/// `ggml_status`.
pub type Status = i32;
/// Allocation failed.
pub const STATUS_ALLOC_FAILED: Status = -2;
/// The operation failed.
pub const STATUS_FAILED: Status = -1;
/// Done.
pub const STATUS_SUCCESS: Status = 0;

/// `ggml_log_level`: debug.
pub const LOG_DEBUG: i32 = 1;
/// `ggml_log_level`: info.
pub const LOG_INFO: i32 = 2;
/// `ggml_log_level`: warning.
pub const LOG_WARN: i32 = 3;
/// `ggml_log_level`: error.
pub const LOG_ERROR: i32 = 4;

/// `ggml_backend_dev_type`: GPU with its own memory.
pub const DEVICE_TYPE_GPU: i32 = 1;
/// `ggml_backend_dev_type`: GPU that shares the host's memory.
pub const DEVICE_TYPE_IGPU: i32 = 2;

/// `ggml_backend_buffer_usage`: memory of a graph allocator, recycled within a graph.
pub const USAGE_COMPUTE: i32 = 2;

/// `ggml_tensor_flag`: the graph's result.
pub const FLAG_OUTPUT: i32 = 2;
/// `ggml_tensor_flag`: the node must be computed.
pub const FLAG_COMPUTE: i32 = 16;

/// `ggml_tensor`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_tensor {
    pub type_: i32,
    pub buffer: *mut ggml_backend_buffer,
    /// Extents in elements.
    pub ne: [i64; MAX_DIMS],
    /// Strides in bytes.
    pub nb: [usize; MAX_DIMS],
    pub op: i32,
    pub op_params: [i32; MAX_OP_PARAMS],
    pub flags: i32,
    pub src: [*mut ggml_tensor; MAX_SRC],
    /// The root of a view, never itself a view.
    pub view_src: *mut ggml_tensor,
    /// Byte offset of a view in its root.
    pub view_offs: usize,
    pub data: *mut c_void,
    pub name: [c_char; 64],
    pub extra: *mut c_void,
    pub padding: [c_char; 8],
}

/// `ggml_hash_set`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_hash_set {
    pub size: usize,
    /// Bit i of word i / 32 says whether slot i is taken.
    pub used: *mut u32,
    pub keys: *mut *mut ggml_tensor,
}

/// `ggml_cgraph`.
#[repr(C)]
#[derive(Debug)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_cgraph {
    pub size: c_int,
    pub n_nodes: c_int,
    pub n_leafs: c_int,
    pub nodes: *mut *mut ggml_tensor,
    pub grads: *mut *mut ggml_tensor,
    pub grad_accs: *mut *mut ggml_tensor,
    pub leafs: *mut *mut ggml_tensor,
    /// Uses of each tensor as a source, by slot of `visited_hash_set`.
    pub use_counts: *mut i32,
    pub visited_hash_set: ggml_hash_set,
    pub order: i32,
    /// Equal non-zero values mean equal graphs.
    pub uid: u64,
}

/// `ggml_backend_buffer_type_i`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_buffer_type_i {
    pub get_name: Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type) -> *const c_char>,
    pub alloc_buffer: Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type, usize) -> *mut ggml_backend_buffer>,
    pub alloc_buffer_n: Option<
        unsafe extern "C" fn(*mut ggml_backend_buffer_type, *mut *mut ggml_tensor, c_int) -> *mut ggml_backend_buffer,
    >,
    pub get_alignment: Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type) -> usize>,
    pub get_max_size: Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type) -> usize>,
    pub get_alloc_size: Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type, *const ggml_tensor) -> usize>,
    pub get_alloc_size_n:
        Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type, *mut *mut ggml_tensor, c_int) -> usize>,
    pub is_host: Option<unsafe extern "C" fn(*mut ggml_backend_buffer_type) -> bool>,
}

/// `ggml_backend_buffer_type`.
#[repr(C)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_buffer_type {
    pub iface: ggml_backend_buffer_type_i,
    pub device: *mut ggml_backend_device,
    pub context: *mut c_void,
}

/// `set_tensor_2d`: tensor, data, offset, size, copies, stride in the tensor, stride in the data.
pub type SetTensor2d =
    unsafe extern "C" fn(*mut ggml_backend_buffer, *mut ggml_tensor, *const c_void, usize, usize, usize, usize, usize);
/// `get_tensor_2d`, as [`SetTensor2d`].
pub type GetTensor2d =
    unsafe extern "C" fn(*mut ggml_backend_buffer, *const ggml_tensor, *mut c_void, usize, usize, usize, usize, usize);

/// `ggml_backend_buffer_i`; passed by value to `ggml_backend_buffer_init`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_buffer_i {
    pub free_buffer: Option<unsafe extern "C" fn(*mut ggml_backend_buffer)>,
    pub get_base: Option<unsafe extern "C" fn(*mut ggml_backend_buffer) -> *mut c_void>,
    pub init_tensor: Option<unsafe extern "C" fn(*mut ggml_backend_buffer, *mut ggml_tensor) -> Status>,
    pub memset_tensor: Option<unsafe extern "C" fn(*mut ggml_backend_buffer, *mut ggml_tensor, u8, usize, usize)>,
    pub set_tensor:
        Option<unsafe extern "C" fn(*mut ggml_backend_buffer, *mut ggml_tensor, *const c_void, usize, usize)>,
    pub get_tensor:
        Option<unsafe extern "C" fn(*mut ggml_backend_buffer, *const ggml_tensor, *mut c_void, usize, usize)>,
    pub set_tensor_2d: Option<SetTensor2d>,
    pub get_tensor_2d: Option<GetTensor2d>,
    pub cpy_tensor:
        Option<unsafe extern "C" fn(*mut ggml_backend_buffer, *const ggml_tensor, *mut ggml_tensor) -> bool>,
    pub clear: Option<unsafe extern "C" fn(*mut ggml_backend_buffer, u8)>,
    pub reset: Option<unsafe extern "C" fn(*mut ggml_backend_buffer)>,
}

/// `ggml_backend_buffer`; allocated and deleted by the host.
#[repr(C)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_buffer {
    pub iface: ggml_backend_buffer_i,
    pub buft: *mut ggml_backend_buffer_type,
    pub context: *mut c_void,
    pub size: usize,
    pub usage: i32,
}

/// A function slot of `ggml_backend_i` that this plugin leaves empty.
pub type UnusedSlot = Option<unsafe extern "C" fn()>;

/// `ggml_backend_i`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_i {
    pub get_name: Option<unsafe extern "C" fn(*mut ggml_backend) -> *const c_char>,
    pub free: Option<unsafe extern "C" fn(*mut ggml_backend)>,
    pub set_tensor_async: UnusedSlot,
    pub get_tensor_async: UnusedSlot,
    pub set_tensor_2d_async: UnusedSlot,
    pub get_tensor_2d_async: UnusedSlot,
    pub cpy_tensor_async: UnusedSlot,
    pub synchronize: Option<unsafe extern "C" fn(*mut ggml_backend)>,
    pub graph_plan_create: UnusedSlot,
    pub graph_plan_free: UnusedSlot,
    pub graph_plan_update: UnusedSlot,
    pub graph_plan_compute: UnusedSlot,
    pub graph_compute: Option<unsafe extern "C" fn(*mut ggml_backend, *mut ggml_cgraph) -> Status>,
    pub event_record: UnusedSlot,
    pub event_wait: UnusedSlot,
    pub graph_optimize: UnusedSlot,
}

/// `ggml_guid`.
pub type Guid = [u8; 16];

/// `ggml_backend`; allocated and freed by the plugin.
#[repr(C)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend {
    pub guid: *mut Guid,
    pub iface: ggml_backend_i,
    pub device: *mut ggml_backend_device,
    pub context: *mut c_void,
}

/// `ggml_backend_dev_caps`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_dev_caps {
    pub async_: bool,
    pub host_buffer: bool,
    pub buffer_from_host_ptr: bool,
    pub events: bool,
    pub mmap_support: bool,
}

/// `ggml_backend_dev_props`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_dev_props {
    pub name: *const c_char,
    pub description: *const c_char,
    pub memory_free: usize,
    pub memory_total: usize,
    pub type_: i32,
    pub device_id: *const c_char,
    pub caps: ggml_backend_dev_caps,
}

/// `ggml_backend_device_i`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_device_i {
    pub get_name: Option<unsafe extern "C" fn(*mut ggml_backend_device) -> *const c_char>,
    pub get_description: Option<unsafe extern "C" fn(*mut ggml_backend_device) -> *const c_char>,
    pub get_memory: Option<unsafe extern "C" fn(*mut ggml_backend_device, *mut usize, *mut usize)>,
    pub get_type: Option<unsafe extern "C" fn(*mut ggml_backend_device) -> i32>,
    pub get_props: Option<unsafe extern "C" fn(*mut ggml_backend_device, *mut ggml_backend_dev_props)>,
    pub init_backend: Option<unsafe extern "C" fn(*mut ggml_backend_device, *const c_char) -> *mut ggml_backend>,
    pub get_buffer_type: Option<unsafe extern "C" fn(*mut ggml_backend_device) -> *mut ggml_backend_buffer_type>,
    pub get_host_buffer_type: Option<unsafe extern "C" fn(*mut ggml_backend_device) -> *mut ggml_backend_buffer_type>,
    pub buffer_from_host_ptr:
        Option<unsafe extern "C" fn(*mut ggml_backend_device, *mut c_void, usize, usize) -> *mut ggml_backend_buffer>,
    pub supports_op: Option<unsafe extern "C" fn(*mut ggml_backend_device, *const ggml_tensor) -> bool>,
    pub supports_buft: Option<unsafe extern "C" fn(*mut ggml_backend_device, *mut ggml_backend_buffer_type) -> bool>,
    pub offload_op: Option<unsafe extern "C" fn(*mut ggml_backend_device, *const ggml_tensor) -> bool>,
    pub event_new: UnusedSlot,
    pub event_free: UnusedSlot,
    pub event_synchronize: UnusedSlot,
}

/// `ggml_backend_device`.
#[repr(C)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_device {
    pub iface: ggml_backend_device_i,
    pub reg: *mut ggml_backend_reg,
    pub context: *mut c_void,
}

/// `ggml_backend_reg_i`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_reg_i {
    pub get_name: Option<unsafe extern "C" fn(*mut ggml_backend_reg) -> *const c_char>,
    pub get_device_count: Option<unsafe extern "C" fn(*mut ggml_backend_reg) -> usize>,
    pub get_device: Option<unsafe extern "C" fn(*mut ggml_backend_reg, usize) -> *mut ggml_backend_device>,
    pub get_proc_address: Option<unsafe extern "C" fn(*mut ggml_backend_reg, *const c_char) -> *mut c_void>,
}

/// `ggml_backend_reg`.
#[repr(C)]
#[allow(missing_docs, reason = "ggml's own fields")]
pub struct ggml_backend_reg {
    pub api_version: c_int,
    pub iface: ggml_backend_reg_i,
    pub context: *mut c_void,
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<ggml_tensor>() == 336);
    assert!(offset_of!(ggml_tensor, buffer) == 8);
    assert!(offset_of!(ggml_tensor, ne) == 16);
    assert!(offset_of!(ggml_tensor, nb) == 48);
    assert!(offset_of!(ggml_tensor, op) == 80);
    assert!(offset_of!(ggml_tensor, op_params) == 84);
    assert!(offset_of!(ggml_tensor, flags) == 148);
    assert!(offset_of!(ggml_tensor, src) == 152);
    assert!(offset_of!(ggml_tensor, view_src) == 232);
    assert!(offset_of!(ggml_tensor, data) == 248);
    assert!(offset_of!(ggml_tensor, extra) == 320);
    assert!(size_of::<ggml_cgraph>() == 96);
    assert!(offset_of!(ggml_cgraph, nodes) == 16);
    assert!(offset_of!(ggml_cgraph, use_counts) == 48);
    assert!(offset_of!(ggml_cgraph, visited_hash_set) == 56);
    assert!(offset_of!(ggml_cgraph, uid) == 88);
    assert!(size_of::<ggml_backend_buffer_type_i>() == 64);
    assert!(size_of::<ggml_backend_buffer_type>() == 80);
    assert!(size_of::<ggml_backend_buffer_i>() == 88);
    assert!(size_of::<ggml_backend_buffer>() == 120);
    assert!(offset_of!(ggml_backend_buffer, usage) == 112);
    assert!(size_of::<ggml_backend_i>() == 128);
    assert!(size_of::<ggml_backend>() == 152);
    assert!(offset_of!(ggml_backend_i, graph_compute) == 96);
    assert!(size_of::<ggml_backend_dev_caps>() == 5);
    assert!(size_of::<ggml_backend_dev_props>() == 56);
    assert!(size_of::<ggml_backend_device_i>() == 120);
    assert!(offset_of!(ggml_backend_device_i, supports_op) == 72);
    assert!(size_of::<ggml_backend_device>() == 136);
    assert!(size_of::<ggml_backend_reg>() == 48);
};
