//! Tells dependents where the engine's shared libraries are (`DEP_GGML_HOST_LIB_DIR`), links our own tests against them, and builds the RPC
//! backend, of which the engine's crate carries the sources alone.

use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let engine =
        PathBuf::from(std::env::var("DEP_LLAMA_ROOT").expect("llama-cpp-sys-2 tells where it built the engine"));
    let lib = engine.join("lib");
    println!("cargo::metadata=lib_dir={}", lib.display());
    println!("cargo::rustc-link-arg=-Wl,-rpath,{}", lib.display());
    println!("cargo::rustc-env=GGML_RPC_LIBRARY={}", rpc_library(&engine, &lib).display());
}

/// Compiles the RPC backend as the engine's own build does one that is loaded at run time, against its `libggml-base`.
fn rpc_library(engine: &Path, lib: &Path) -> PathBuf {
    let ggml = sources(engine).join("ggml");
    let mut build = cc::Build::new();
    build.cpp(true).std("c++17").pic(true).warnings(false).include(ggml.join("include")).include(ggml.join("src"));
    for flag in ["GGML_BACKEND_BUILD", "GGML_BACKEND_DL", "GGML_BACKEND_SHARED", "GGML_SHARED"] {
        build.define(flag, None);
    }
    build.files(["ggml-rpc.cpp", "transport.cpp"].map(|file| ggml.join("src/ggml-rpc").join(file)));
    let objects = build.compile_intermediates();
    let library = PathBuf::from(std::env::var("OUT_DIR").expect("cargo sets it")).join("libggml-rpc.so");
    let mut link = build.get_compiler().to_command();
    link.args(["-shared", "-pthread"]).args(objects).arg("-L").arg(lib).arg("-lggml-base").arg("-o").arg(&library);
    let status = link.status().expect("the C++ compiler runs");
    assert!(status.success(), "linking the RPC backend failed: {link:?}");
    library
}

/// The folder of the engine's sources: CMake notes it in the cache of what it built.
fn sources(engine: &Path) -> PathBuf {
    let cache = engine.join("build/CMakeCache.txt");
    let text = std::fs::read_to_string(&cache).unwrap_or_else(|error| panic!("{}: {error}", cache.display()));
    let home = text.lines().find_map(|line| line.strip_prefix("CMAKE_HOME_DIRECTORY:INTERNAL="));
    PathBuf::from(home.unwrap_or_else(|| panic!("{} names no CMAKE_HOME_DIRECTORY", cache.display())))
}
