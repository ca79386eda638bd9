//! Linker arguments of the plugin.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // ggml opens, closes and opens a plugin again; thread-local destructors and Vulkan layers do not survive an unload.
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux" || os == "android") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
