//! Writing a GGUF file.

use std::ffi::CString;
use std::io::Write;
use std::ptr::NonNull;

use llama_cpp_sys_2 as sys;

use super::Reader;
use crate::{Context, Error, Result, Type};

/// A GGUF file in the making: metadata, and tensors with their bytes.
pub struct Writer {
    ptr: NonNull<sys::gguf_context>,
    descriptions: Context,
    data: Vec<Vec<u8>>,
    room: usize,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // SAFETY: this is the only owner.
        unsafe { sys::gguf_free(self.ptr.as_ptr()) };
    }
}

impl Writer {
    /// An empty file with room for that many tensors.
    pub fn new(tensors: usize) -> Writer {
        // SAFETY: makes an empty context that we own.
        let ptr = NonNull::new(unsafe { sys::gguf_init_empty() }).expect("ggml made an empty GGUF");
        Writer { ptr, descriptions: Context::new(tensors, 0), data: Vec::new(), room: tensors }
    }

    /// Takes over every metadata value of another file.
    pub fn copy_metadata(&mut self, from: &Reader) {
        // SAFETY: both contexts are valid; ggml copies the values.
        unsafe { sys::gguf_set_kv(self.ptr.as_ptr(), from.raw()) };
    }

    /// Sets a text value.
    pub fn set_text(&mut self, key: &str, value: &str) -> Result<()> {
        let (key, value) = (c_text(key)?, c_text(value)?);
        // SAFETY: ggml copies both strings.
        unsafe { sys::gguf_set_val_str(self.ptr.as_ptr(), key.as_ptr(), value.as_ptr()) };
        Ok(())
    }

    /// Sets a 32-bit unsigned value.
    pub fn set_u32(&mut self, key: &str, value: u32) -> Result<()> {
        let key = c_text(key)?;
        // SAFETY: ggml copies the key.
        unsafe { sys::gguf_set_val_u32(self.ptr.as_ptr(), key.as_ptr(), value) };
        Ok(())
    }

    /// Sets a 32-bit float value.
    pub fn set_f32(&mut self, key: &str, value: f32) -> Result<()> {
        let key = c_text(key)?;
        // SAFETY: ggml copies the key.
        unsafe { sys::gguf_set_val_f32(self.ptr.as_ptr(), key.as_ptr(), value) };
        Ok(())
    }

    /// Sets a truth value.
    pub fn set_bool(&mut self, key: &str, value: bool) -> Result<()> {
        let key = c_text(key)?;
        // SAFETY: ggml copies the key.
        unsafe { sys::gguf_set_val_bool(self.ptr.as_ptr(), key.as_ptr(), value) };
        Ok(())
    }

    /// Sets a list of texts.
    pub fn set_texts(&mut self, key: &str, values: &[impl AsRef<str>]) -> Result<()> {
        let key = c_text(key)?;
        let values: Vec<CString> = values.iter().map(|v| c_text(v.as_ref())).collect::<Result<_>>()?;
        let mut pointers: Vec<_> = values.iter().map(|v| v.as_ptr()).collect();
        // SAFETY: ggml copies that many strings.
        unsafe { sys::gguf_set_arr_str(self.ptr.as_ptr(), key.as_ptr(), pointers.as_mut_ptr(), pointers.len()) };
        Ok(())
    }

    /// Sets a list of 32-bit signed values.
    pub fn set_i32s(&mut self, key: &str, values: &[i32]) -> Result<()> {
        self.set_list(key, sys::GGUF_TYPE_INT32, values)
    }

    /// Sets a list of 32-bit float values.
    pub fn set_f32s(&mut self, key: &str, values: &[f32]) -> Result<()> {
        self.set_list(key, sys::GGUF_TYPE_FLOAT32, values)
    }

    fn set_list<T: Copy>(&mut self, key: &str, kind: sys::gguf_type, values: &[T]) -> Result<()> {
        let key = c_text(key)?;
        // SAFETY: ggml copies that many values; `kind` is the type of `T` in both callers.
        unsafe { sys::gguf_set_arr_data(self.ptr.as_ptr(), key.as_ptr(), kind, values.as_ptr().cast(), values.len()) };
        Ok(())
    }

    /// Adds a tensor with its bytes. Names are unique and at most 63 bytes long.
    pub fn add(&mut self, name: &str, dtype: Type, extents: &[usize], data: Vec<u8>) -> Result<()> {
        let c = c_text(name)?;
        // SAFETY: the context is valid.
        let known = unsafe { sys::gguf_find_tensor(self.ptr.as_ptr(), c.as_ptr()) } >= 0;
        if known || name.len() > 63 || self.data.len() == self.room {
            return Err(Error::Graph(format!(
                "tensor '{name}': a file's names are unique, of 63 bytes at most, {} in all",
                self.room
            )));
        }
        let row = extents.first().copied().unwrap_or(0);
        let bytes = dtype.row_bytes(row) * extents.iter().skip(1).product::<usize>();
        if !row.is_multiple_of(dtype.block_len()) || bytes != data.len() || extents.len() > 4 {
            let (n, axes) = (data.len(), extents.len());
            return Err(Error::Graph(format!(
                "tensor '{name}' of type {dtype} and extents {extents:?} ({axes} axes) is not {n} bytes"
            )));
        }
        let t = self.descriptions.tensor(dtype, extents).named(name)?;
        // SAFETY: ggml copies the description; the name is new.
        unsafe { sys::gguf_add_tensor(self.ptr.as_ptr(), t.ptr.as_ptr()) };
        self.data.push(data);
        Ok(())
    }

    /// Writes the file.
    pub fn write(&self, out: &mut impl Write) -> std::io::Result<()> {
        // SAFETY: the context is valid, and `meta` has the size that ggml asks for.
        let (meta, alignment) = unsafe {
            let mut meta = vec![0u8; sys::gguf_get_meta_size(self.ptr.as_ptr())];
            sys::gguf_get_meta_data(self.ptr.as_ptr(), meta.as_mut_ptr().cast());
            (meta, sys::gguf_get_alignment(self.ptr.as_ptr()))
        };
        out.write_all(&meta)?;
        for data in &self.data {
            out.write_all(data)?;
            let padding = data.len().next_multiple_of(alignment) - data.len();
            out.write_all(&vec![0u8; padding])?;
        }
        out.flush()
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::Nul(text.to_owned()))
}
