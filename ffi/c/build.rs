//! Linker arguments of the shared library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let os = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if os == "linux" || os == "android" {
        // Programs record this name of the library; the number is the ABI's. Apps carry libraries by plain names.
        let number = if os == "linux" { format!(".{}", abi()) } else { String::new() };
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfblayout.so{number}");
        // Thread-local destructors and Vulkan layers do not survive an unload.
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}

/// The number that `src/version.rs` has as `FBL_ABI_VERSION`.
fn abi() -> String {
    println!("cargo::rerun-if-changed=src/version.rs");
    let source = std::fs::read_to_string("src/version.rs").expect("src/version.rs is read");
    let line = source.lines().find_map(|line| line.strip_prefix("pub const FBL_ABI_VERSION: u32 = "));
    line.and_then(|rest| rest.strip_suffix(';')).expect("src/version.rs has the ABI's number").to_owned()
}
