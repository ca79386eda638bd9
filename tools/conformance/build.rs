//! Tells the driver where the engine's libraries are, for the programs of the public suite to be built against them.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let dir = std::env::var("DEP_GGML_HOST_LIB_DIR").expect("ggml-host tells where the engine's libraries are");
    println!("cargo::rustc-env=ENGINE_LIB_DIR={dir}");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{dir}");
}
