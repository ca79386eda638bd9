//! Numbers that rules are about: mostly small, sometimes at the ends of their types.

use arbitrary::{Result, Unstructured};

/// An extent or a parameter.
pub fn number(u: &mut Unstructured<'_>) -> Result<u32> {
    const USUAL: [u32; 16] = [1, 1, 1, 2, 2, 3, 4, 4, 5, 8, 16, 32, 64, 96, 128, 256];
    Ok(match u.arbitrary::<u8>()? {
        byte @ 0..=0xdf => USUAL[usize::from(byte % 16)],
        0xe0..=0xef => u.arbitrary::<u8>()?.into(),
        0xf0..=0xf7 => 1 << (u.arbitrary::<u8>()? % 32),
        0xf8..=0xfb => u32::MAX - u32::from(u.arbitrary::<u8>()?),
        _ => u.arbitrary()?,
    })
}

/// The same in 64 bits.
pub fn wide(u: &mut Unstructured<'_>) -> Result<u64> {
    Ok(match u.arbitrary::<u8>()? {
        0..=0xf7 => number(u)?.into(),
        0xf8..=0xfb => 1 << (u.arbitrary::<u8>()? % 64),
        _ => u64::MAX - u64::from(u.arbitrary::<u8>()?),
    })
}

/// As many numbers.
#[allow(dead_code, reason = "not every target has lists")]
pub fn numbers<const N: usize>(u: &mut Unstructured<'_>) -> Result<[u32; N]> {
    let mut all = [0; N];
    for n in &mut all {
        *n = number(u)?;
    }
    Ok(all)
}
