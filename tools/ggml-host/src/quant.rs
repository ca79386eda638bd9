//! Conversion between f32 and ggml's types, on the host.

use llama_cpp_sys_2 as sys;

use crate::{Error, Result, Type};

/// Decodes whole rows of `dtype` to f32. `data` holds whole blocks.
pub fn dequantize(dtype: Type, data: &[u8]) -> Result<Vec<f32>> {
    let blocks = data.len() / dtype.block_bytes();
    if blocks * dtype.block_bytes() != data.len() {
        return Err(Error::Graph(format!("{} bytes are not whole blocks of type {dtype}", data.len())));
    }
    let mut out = vec![0.0f32; blocks * dtype.block_len()];
    if dtype == Type::F32 {
        // SAFETY: `out` has exactly as many bytes as `data`, and any four bytes are an f32.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), out.as_mut_ptr().cast(), data.len()) };
        return Ok(out);
    }
    // SAFETY: a table look-up by a valid type number; entries live as long as the program.
    let to_float = unsafe { (*sys::ggml_get_type_traits(dtype.0)).to_float };
    let to_float = to_float.ok_or(Error::Convert(dtype.name(), "to"))?;
    // SAFETY: `data` holds as many values as `out` has room for.
    unsafe { to_float(data.as_ptr().cast(), out.as_mut_ptr(), out.len() as i64) };
    Ok(out)
}

/// Encodes rows of `row` values as `dtype`; `row` is a multiple of the type's block length.
pub fn quantize(dtype: Type, row: usize, values: &[f32]) -> Result<Vec<u8>> {
    // SAFETY: table look-ups by a valid type number.
    let possible = unsafe {
        let traits = sys::ggml_get_type_traits(dtype.0);
        let encodes = dtype == Type::F32 || (*traits).from_float_ref.is_some();
        encodes && !sys::ggml_quantize_requires_imatrix(dtype.0)
    };
    if !possible {
        return Err(Error::Convert(dtype.name(), "from"));
    }
    if row == 0 || !row.is_multiple_of(dtype.block_len()) || !values.len().is_multiple_of(row) {
        let (n, block) = (values.len(), dtype.block_len());
        return Err(Error::Graph(format!("{n} values in rows of {row} do not fill blocks of {block} of type {dtype}")));
    }
    let rows = values.len() / row;
    let mut out = vec![0u8; rows * dtype.row_bytes(row)];
    // SAFETY: source and destination hold `rows` rows.
    let written = unsafe {
        let (src, dst) = (values.as_ptr(), out.as_mut_ptr().cast());
        sys::ggml_quantize_chunk(dtype.0, src, dst, 0, rows as i64, row as i64, std::ptr::null())
    };
    debug_assert_eq!(written, out.len());
    Ok(out)
}
