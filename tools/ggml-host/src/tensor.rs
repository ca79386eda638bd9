//! Tensor handles and element types.

use std::ffi::{CStr, CString};
use std::marker::PhantomData;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::logging::capture_errors;
use crate::{Context, Error, Result};

/// An element type of ggml.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type(pub(crate) sys::ggml_type);

impl Type {
    /// 32-bit float.
    pub const F32: Type = Type(sys::GGML_TYPE_F32);
    /// 16-bit float.
    pub const F16: Type = Type(sys::GGML_TYPE_F16);
    /// 16-bit brain float.
    pub const BF16: Type = Type(sys::GGML_TYPE_BF16);
    /// Blocks of 32 values: 4-bit quants with a scale.
    pub const Q4_0: Type = Type(sys::GGML_TYPE_Q4_0);
    /// Blocks of 32 values: 4-bit quants with a scale and a minimum.
    pub const Q4_1: Type = Type(sys::GGML_TYPE_Q4_1);
    /// Blocks of 32 values: 8-bit quants with a scale.
    pub const Q8_0: Type = Type(sys::GGML_TYPE_Q8_0);
    /// 32-bit signed integer.
    pub const I32: Type = Type(sys::GGML_TYPE_I32);
    /// 64-bit signed integer.
    pub const I64: Type = Type(sys::GGML_TYPE_I64);

    /// Every type that the engine knows; numbers that it has retired are left out.
    pub fn all() -> impl Iterator<Item = Type> {
        (0..sys::GGML_TYPE_COUNT).map(Type).filter(|t| t.block_len() > 0 && t.block_bytes() > 0)
    }

    /// The type that ggml calls `name`, such as `q8_0`.
    pub fn by_name(name: &str) -> Option<Type> {
        Type::all().find(|t| t.name() == name)
    }

    /// ggml's name, such as `q8_0`.
    pub fn name(self) -> &'static str {
        // SAFETY: ggml returns a static string for every number below GGML_TYPE_COUNT.
        unsafe { static_str(sys::ggml_type_name(self.0)) }
    }

    /// Number of values in a block; 1 for plain types.
    pub fn block_len(self) -> usize {
        // SAFETY: a table look-up by a number below GGML_TYPE_COUNT.
        unsafe { sys::ggml_blck_size(self.0) as usize }
    }

    /// Bytes of a block.
    pub fn block_bytes(self) -> usize {
        // SAFETY: a table look-up by a number below GGML_TYPE_COUNT.
        unsafe { sys::ggml_type_size(self.0) }
    }

    /// Bytes of a row of `len` values; `len` is a multiple of the block length.
    pub fn row_bytes(self, len: usize) -> usize {
        len / self.block_len() * self.block_bytes()
    }

    /// Whether values are stored as quantized blocks.
    pub fn is_quantized(self) -> bool {
        // SAFETY: a table look-up by a number below GGML_TYPE_COUNT.
        unsafe { sys::ggml_is_quantized(self.0) }
    }
}

impl std::fmt::Debug for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// What a buffer is for; backends may choose a layout by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Anything that persists: inputs, states.
    Any,
    /// Weights that do not change.
    Weights,
    /// Results inside a graph.
    Compute,
}

/// Handle of a tensor in a [`Context`].
#[derive(Clone, Copy)]
pub struct Tensor<'c> {
    pub(crate) ptr: NonNull<sys::ggml_tensor>,
    owner: PhantomData<&'c Context>,
}

impl PartialEq for Tensor<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.ptr == other.ptr
    }
}

impl<'c> Tensor<'c> {
    /// # Safety
    /// `ptr` points at a tensor that lives as long as the context borrowed for `'c`.
    pub(crate) unsafe fn from_raw(ptr: *mut sys::ggml_tensor) -> Self {
        let ptr = NonNull::new(ptr).expect("ggml returned a tensor");
        Tensor { ptr, owner: PhantomData }
    }

    pub(crate) fn raw(&self) -> &sys::ggml_tensor {
        // SAFETY: the context outlives 'c, and nobody holds an exclusive reference to a tensor.
        unsafe { self.ptr.as_ref() }
    }

    /// Gives the tensor a name of at most 63 bytes (longer ones are cut, as ggml does).
    pub fn named(self, name: &str) -> Result<Self> {
        let name = CString::new(name).map_err(|_| Error::Nul(name.to_owned()))?;
        // SAFETY: ggml copies the string into the tensor.
        unsafe { sys::ggml_set_name(self.ptr.as_ptr(), name.as_ptr()) };
        Ok(self)
    }

    /// Name given by [`Tensor::named`], or the one that ggml made up.
    pub fn name(&self) -> String {
        // SAFETY: ggml keeps the name NUL-terminated.
        unsafe { CStr::from_ptr(self.raw().name.as_ptr()) }.to_string_lossy().into_owned()
    }

    /// Element type.
    pub fn dtype(&self) -> Type {
        Type(self.raw().type_)
    }

    /// Extents, innermost axis first; missing axes have extent 1.
    pub fn extents(&self) -> [usize; 4] {
        self.raw().ne.map(|n| n as usize)
    }

    /// Distances in bytes between neighbours along each axis.
    pub fn strides(&self) -> [usize; 4] {
        self.raw().nb
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.extents().iter().product()
    }

    /// Whether the tensor has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that the tensor spans.
    pub fn bytes(&self) -> usize {
        // SAFETY: the pointer is valid.
        unsafe { sys::ggml_nbytes(self.ptr.as_ptr()) }
    }

    /// Whether elements lie densely in axis order.
    pub fn is_contiguous(&self) -> bool {
        // SAFETY: the pointer is valid.
        unsafe { sys::ggml_is_contiguous(self.ptr.as_ptr()) }
    }

    /// ggml's name of the op that computes this tensor, such as `MUL_MAT` or `SWIGLU`; `NONE` for a leaf.
    pub fn op(&self) -> &'static str {
        // SAFETY: the pointer is valid and ggml returns a static string.
        unsafe { static_str(sys::ggml_op_desc(self.ptr.as_ptr())) }
    }

    /// Whether the tensor is a leaf or a mere view, so that nothing is computed for it.
    pub fn is_free(&self) -> bool {
        matches!(
            self.raw().op,
            sys::GGML_OP_NONE
                | sys::GGML_OP_RESHAPE
                | sys::GGML_OP_VIEW
                | sys::GGML_OP_PERMUTE
                | sys::GGML_OP_TRANSPOSE
        )
    }

    /// The operands, in order.
    pub fn sources(&self) -> Vec<Tensor<'c>> {
        let sources = self.raw().src.iter().filter(|s| !s.is_null());
        // SAFETY: operands live at least as long as the tensor that reads them (see `Context`).
        sources.map(|&s| unsafe { Tensor::from_raw(s) }).collect()
    }

    /// The root tensor whose memory this one shares, if it is a view.
    pub fn view_of(&self) -> Option<Tensor<'c>> {
        let root = self.raw().view_src;
        // SAFETY: the root of a view lives at least as long as the view.
        (!root.is_null()).then(|| unsafe { Tensor::from_raw(root) })
    }

    /// Byte at which a view begins within its root; 0 for a root.
    pub fn view_offset(&self) -> usize {
        self.raw().view_offs
    }

    /// Marks a trained parameter: the backward pass makes a gradient for it.
    pub fn mark_param(self) -> Self {
        // SAFETY: sets a flag.
        unsafe { sys::ggml_set_param(self.ptr.as_ptr()) };
        self
    }

    /// Whether [`Tensor::mark_param`] marked it.
    pub fn is_param(&self) -> bool {
        self.raw().flags & sys::GGML_TENSOR_FLAG_PARAM as i32 != 0
    }

    /// Marks the scalar from which the backward pass starts.
    pub fn mark_loss(self) -> Self {
        // SAFETY: sets a flag.
        unsafe { sys::ggml_set_loss(self.ptr.as_ptr()) };
        self
    }

    /// Marks a result that is read after the graph has run, so that its memory is not reused.
    pub fn mark_output(self) -> Self {
        // SAFETY: sets a flag on the tensor and its roots.
        unsafe { sys::ggml_set_output(self.ptr.as_ptr()) };
        self
    }

    /// The buffer that holds the bytes, null when there is none yet.
    pub(crate) fn buffer(&self) -> sys::ggml_backend_buffer_t {
        let raw = self.raw();
        if raw.view_src.is_null() {
            return raw.buffer;
        }
        // SAFETY: the root of a view lives at least as long as the view.
        unsafe { (*raw.view_src).buffer }
    }

    /// Whether the tensor has memory yet.
    pub fn has_memory(&self) -> bool {
        !self.buffer().is_null() && !self.raw().data.is_null()
    }

    /// Writes bytes at a byte offset.
    pub fn set_bytes(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.check_range(offset, data.len())?;
        // SAFETY: the range lies within the tensor, which has memory.
        self.transfer(|| unsafe {
            sys::ggml_backend_tensor_set(self.ptr.as_ptr(), data.as_ptr().cast(), offset, data.len());
        })
    }

    /// Reads bytes at a byte offset.
    pub fn get_bytes(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.check_range(offset, out.len())?;
        // SAFETY: the range lies within the tensor, which has memory.
        self.transfer(|| unsafe {
            sys::ggml_backend_tensor_get(self.ptr.as_ptr(), out.as_mut_ptr().cast(), offset, out.len());
        })
    }

    /// Fills bytes at a byte offset with one value.
    pub fn fill_bytes(&self, value: u8, offset: usize, len: usize) -> Result<()> {
        self.check_range(offset, len)?;
        // SAFETY: the range lies within the tensor, which has memory.
        self.transfer(|| unsafe { sys::ggml_backend_tensor_memset(self.ptr.as_ptr(), value, offset, len) })
    }

    /// Copies all bytes to a tensor of the same type, extents and strides: within a device where its backend can, else through the host.
    pub fn copy_to(&self, target: Tensor<'_>) -> Result<()> {
        let layout = |t: &Tensor<'_>| (t.dtype(), t.extents(), t.strides());
        if layout(self) != layout(&target) {
            return Err(Error::Graph(format!("{self:?} is not laid out as {target:?}")));
        }
        self.check_range(0, self.bytes())?;
        target.check_range(0, target.bytes())?;
        // SAFETY: both have memory, and ggml asserts the layouts that were compared.
        target.transfer(|| unsafe { sys::ggml_backend_tensor_copy(self.ptr.as_ptr(), target.ptr.as_ptr()) })
    }

    /// ggml's transfers return nothing: what a backend logs as an error is the only sign of a failure.
    fn transfer(&self, call: impl FnOnce()) -> Result<()> {
        match capture_errors(call) {
            ((), said) if said.is_empty() => Ok(()),
            ((), said) => Err(Error::Transfer { tensor: self.name(), said }),
        }
    }

    /// Writes all elements of an F32 tensor.
    pub fn set_f32(&self, data: &[f32]) -> Result<()> {
        self.check_whole(Type::F32, data.len())?;
        // SAFETY: any f32 is readable as bytes.
        self.set_bytes(0, unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) })
    }

    /// Writes all elements of an I32 tensor.
    pub fn set_i32(&self, data: &[i32]) -> Result<()> {
        self.check_whole(Type::I32, data.len())?;
        // SAFETY: any i32 is readable as bytes.
        self.set_bytes(0, unsafe { std::slice::from_raw_parts(data.as_ptr().cast(), size_of_val(data)) })
    }

    /// Reads all elements of an F32 tensor.
    pub fn get_f32(&self) -> Result<Vec<f32>> {
        let mut data = vec![0.0f32; self.len()];
        self.check_whole(Type::F32, data.len())?;
        // SAFETY: any four bytes are an f32.
        self.get_bytes(0, unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(&data[..])) })?;
        Ok(data)
    }

    /// Reads all elements of an I32 tensor.
    pub fn get_i32(&self) -> Result<Vec<i32>> {
        let mut data = vec![0i32; self.len()];
        self.check_whole(Type::I32, data.len())?;
        // SAFETY: any four bytes are an i32.
        self.get_bytes(0, unsafe { std::slice::from_raw_parts_mut(data.as_mut_ptr().cast(), size_of_val(&data[..])) })?;
        Ok(data)
    }

    fn check_range(&self, offset: usize, len: usize) -> Result<()> {
        let size = if self.has_memory() { self.bytes() } else { 0 };
        match offset.checked_add(len) {
            Some(end) if end <= size => Ok(()),
            _ => Err(Error::Range { tensor: self.name(), offset, len, size }),
        }
    }

    fn check_whole(&self, dtype: Type, len: usize) -> Result<()> {
        if self.dtype() != dtype || !self.is_contiguous() || self.len() != len {
            return Err(Error::Graph(format!("{len} dense values of type {dtype} are not what {self:?} holds")));
        }
        Ok(())
    }
}

impl std::fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} '{}' {} {:?}", self.op(), self.name(), self.dtype(), self.extents())
    }
}

/// # Safety
/// `ptr` is a NUL-terminated string that lives as long as the program.
pub(crate) unsafe fn static_str(ptr: *const std::ffi::c_char) -> &'static str {
    if ptr.is_null() {
        return "?";
    }
    // SAFETY: by this function's contract.
    unsafe { CStr::from_ptr(ptr) }.to_str().unwrap_or("?")
}
