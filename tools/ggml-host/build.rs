//! Tells dependents where the engine's shared libraries are (`DEP_GGML_HOST_LIB_DIR`), and links our own tests against them.

use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let backends = std::env::var("DEP_LLAMA_BACKENDS_DIR").expect("llama-cpp-sys-2 was built with dynamic-backends");
    let lib = Path::new(&backends).parent().expect("the backends folder lies in OUT_DIR").join("lib");
    println!("cargo::metadata=lib_dir={}", lib.display());
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
}
