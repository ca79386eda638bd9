//! Reading a GGUF file.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use crate::device::c_path;
use crate::logging::capture_errors;
use crate::{Error, Result, Type};

/// What a file says of one of its tensors.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Name.
    pub name: String,
    /// Element type.
    pub dtype: Type,
    /// Extents, innermost first; missing axes have extent 1.
    pub extents: [usize; 4],
    /// First byte in the file.
    offset: u64,
    /// Number of bytes.
    pub bytes: usize,
}

/// An open GGUF file, checked to hold all the bytes that its tensors need.
pub struct Reader {
    ptr: NonNull<sys::gguf_context>,
    path: PathBuf,
    file: File,
    tensors: Vec<TensorInfo>,
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { sys::gguf_free(self.ptr.as_ptr()) };
    }
}

impl Reader {
    /// Opens a file and reads its metadata.
    pub fn open(path: &Path) -> Result<Reader> {
        let io = |source| Error::Io { path: path.display().to_string(), source };
        let file = File::open(path).map_err(io)?;
        let size = file.metadata().map_err(io)?.len();
        let c = c_path(path)?;
        let params = sys::gguf_init_params { no_alloc: true, ctx: std::ptr::null_mut() };
        // SAFETY: the path is valid during the call, and no tensor context is asked for.
        let (ptr, log) = capture_errors(|| unsafe { sys::gguf_init_from_file(c.as_ptr(), params) });
        let bad = |reason: String| Error::Gguf { path: path.display().to_string(), reason };
        let reason = if log.is_empty() { "its header is damaged".to_owned() } else { log };
        let ptr = NonNull::new(ptr).ok_or_else(|| bad(reason))?;
        let mut reader = Reader { ptr, path: path.to_owned(), file, tensors: Vec::new() };
        // SAFETY: the context is valid and indices are below the count.
        reader.tensors = unsafe {
            let start = sys::gguf_get_data_offset(ptr.as_ptr()) as u64;
            let count = sys::gguf_get_n_tensors(ptr.as_ptr());
            (0..count).map(|i| reader.info(i, start)).collect()
        };
        for t in &reader.tensors {
            let end = t.offset + t.bytes as u64;
            if end > size {
                return Err(bad(format!("truncated: tensor '{}' ends at byte {end}, the file at {size}", t.name)));
            }
        }
        Ok(reader)
    }

    /// # Safety
    /// `index` is below the number of tensors.
    unsafe fn info(&self, index: i64, start: u64) -> TensorInfo {
        let p = self.ptr.as_ptr();
        // SAFETY: by this function's contract; ggml keeps names NUL-terminated and extents at four.
        unsafe {
            let extents = std::slice::from_raw_parts(sys::gguf_get_tensor_ne(p, index), 4);
            TensorInfo {
                name: CStr::from_ptr(sys::gguf_get_tensor_name(p, index)).to_string_lossy().into_owned(),
                dtype: Type(sys::gguf_get_tensor_type(p, index)),
                extents: [extents[0], extents[1], extents[2], extents[3]].map(|n| n as usize),
                offset: start + sys::gguf_get_tensor_offset(p, index) as u64,
                bytes: sys::gguf_get_tensor_size(p, index),
            }
        }
    }

    pub(super) fn raw(&self) -> *const sys::gguf_context {
        self.ptr.as_ptr()
    }

    /// The tensors, in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The bytes of a tensor of this file.
    pub fn read(&self, tensor: &TensorInfo) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; tensor.bytes];
        let io = |source| Error::Io { path: self.path.display().to_string(), source };
        self.file.read_exact_at(&mut bytes, tensor.offset).map_err(io)?;
        Ok(bytes)
    }

    /// Index and type of a key.
    fn find(&self, key: &str) -> Option<(i64, sys::gguf_type)> {
        let key = CString::new(key).ok()?;
        // SAFETY: the context is valid; the type is asked for an index that exists.
        unsafe {
            let index = sys::gguf_find_key(self.raw(), key.as_ptr());
            (index >= 0).then(|| (index, sys::gguf_get_kv_type(self.raw(), index)))
        }
    }

    /// A text value.
    pub fn text(&self, key: &str) -> Option<String> {
        let (index, kind) = self.find(key)?;
        if kind != sys::GGUF_TYPE_STRING {
            return None;
        }
        // SAFETY: the value is a string.
        unsafe { Some(CStr::from_ptr(sys::gguf_get_val_str(self.raw(), index)).to_string_lossy().into_owned()) }
    }

    /// A non-negative whole number, whatever its width.
    pub fn uint(&self, key: &str) -> Option<usize> {
        let (index, kind) = self.find(key)?;
        let p = self.raw();
        // SAFETY: each reader is called for its own type.
        let value = unsafe {
            match kind {
                sys::GGUF_TYPE_UINT8 => i128::from(sys::gguf_get_val_u8(p, index)),
                sys::GGUF_TYPE_INT8 => i128::from(sys::gguf_get_val_i8(p, index)),
                sys::GGUF_TYPE_UINT16 => i128::from(sys::gguf_get_val_u16(p, index)),
                sys::GGUF_TYPE_INT16 => i128::from(sys::gguf_get_val_i16(p, index)),
                sys::GGUF_TYPE_UINT32 => i128::from(sys::gguf_get_val_u32(p, index)),
                sys::GGUF_TYPE_INT32 => i128::from(sys::gguf_get_val_i32(p, index)),
                sys::GGUF_TYPE_UINT64 => i128::from(sys::gguf_get_val_u64(p, index)),
                sys::GGUF_TYPE_INT64 => i128::from(sys::gguf_get_val_i64(p, index)),
                _ => return None,
            }
        };
        usize::try_from(value).ok()
    }

    /// A number with a fraction.
    pub fn float(&self, key: &str) -> Option<f32> {
        let (index, kind) = self.find(key)?;
        // SAFETY: each reader is called for its own type.
        unsafe {
            match kind {
                sys::GGUF_TYPE_FLOAT32 => Some(sys::gguf_get_val_f32(self.raw(), index)),
                sys::GGUF_TYPE_FLOAT64 => Some(sys::gguf_get_val_f64(self.raw(), index) as f32),
                _ => None,
            }
        }
    }

    /// Number of elements of a list value.
    pub fn list_len(&self, key: &str) -> Option<usize> {
        let (index, kind) = self.find(key)?;
        // SAFETY: the value is an array.
        (kind == sys::GGUF_TYPE_ARRAY).then(|| unsafe { sys::gguf_get_arr_n(self.raw(), index) })
    }
}
