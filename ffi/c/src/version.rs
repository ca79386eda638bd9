//! Which library this is.

use std::ffi::{CStr, c_char};

use crate::failure::Failure;
use crate::guard::call;
use crate::status::{FBL_ERR_INVALID_ARGUMENT, FBL_OK, fbl_status};

/// Number of the binary interface: it changes when a program must be compiled again. It is part of the library's file name.
pub const FBL_ABI_VERSION: u32 = 0;

/// Ops forward and backward, programs, plans.
pub const FBL_FEATURE_GRAPH: u32 = 1;
/// Adapters, optimizers, checkpoints.
pub const FBL_FEATURE_TRAIN: u32 = 2;
/// The library was built with what only its tests need; do not ship it.
pub const FBL_FEATURE_TEST: u32 = 3;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => panic!("a version has no NUL"),
};

/// Version of the library that runs, "major.minor.patch" by the rules of semver.org.
///
/// Any thread. The text is static.
#[unsafe(no_mangle)]
pub extern "C" fn fbl_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Number of the binary interface of the library that runs; compare with `FBL_ABI_VERSION`, or call `FBL_CHECK_VERSION()`.
///
/// Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn fbl_abi_version() -> u32 {
    FBL_ABI_VERSION
}

/// Whether a program that was compiled with a header of this ABI and version (`FBL_VERSION_NUMBER`) runs with this library.
/// `FBL_CHECK_VERSION()` calls it with those of the header at hand.
///
/// Any thread.
///
/// Errors: FBL_ERR_INVALID_ARGUMENT where the ABI is another, or the header is newer than the library.
#[unsafe(no_mangle)]
pub extern "C" fn fbl_check_version(abi: u32, version: u32) -> fbl_status {
    call("fbl_check_version", || {
        let own =
            number(env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"), env!("CARGO_PKG_VERSION_PATCH"));
        if abi == FBL_ABI_VERSION && version <= own {
            return Ok(FBL_OK);
        }
        let [major, minor, patch] = [version >> 20, version >> 10 & 1023, version & 1023];
        let message = format!(
            "compiled with the header of {major}.{minor}.{patch}, ABI {abi}; the library is {}, ABI {FBL_ABI_VERSION}",
            env!("CARGO_PKG_VERSION")
        );
        Err(Failure::new(FBL_ERR_INVALID_ARGUMENT, message))
    })
}

/// A version as `FBL_VERSION_NUMBER` has it.
pub(crate) fn number(major: &str, minor: &str, patch: &str) -> u32 {
    let [major, minor, patch] = [major, minor, patch].map(|n| n.parse::<u32>().expect("cargo gives numbers"));
    major << 20 | minor << 10 | patch
}

/// 1 where the library has a feature (`FBL_FEATURE_*`), else 0; also of numbers that no version knows.
///
/// Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn fbl_has_feature(feature: u32) -> u32 {
    match feature {
        FBL_FEATURE_GRAPH | FBL_FEATURE_TRAIN => 1,
        FBL_FEATURE_TEST => cfg!(feature = "test-panic").into(),
        _ => 0,
    }
}
