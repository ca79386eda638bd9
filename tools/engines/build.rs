//! Lets the executables find the engine's shared libraries wherever they are started from.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let dir = std::env::var("DEP_GGML_HOST_LIB_DIR").expect("ggml-host tells where the engine's libraries are");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{dir}");
}
