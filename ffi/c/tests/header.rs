//! `include/fblayout.h` is what this crate says. `FBL_UPDATE_HEADER=1 cargo test -p fblayout-c --test header` writes it.

use std::path::Path;
use std::process::Command;

use cbindgen::{Braces, Config, DocumentationStyle, ExportConfig, FunctionConfig, Language, Style};

const HEAD: &str = "\
// fblayout: tensor graphs forward and backward, planned and replayed on Vulkan.
//
// Generated from ffi/c by its test `header`; docs/c.md introduces it.
//
// What holds for every call that does not say otherwise:
//
// Answers. A call that can fail answers an fbl_status. It never aborts while the host has memory: NULL where something is needed is
// FBL_ERR_NULL, a number or a handle that means nothing FBL_ERR_INVALID_ARGUMENT, a struct of a size that never was FBL_ERR_STRUCT_SIZE,
// and a defect of the library FBL_ERR_PANIC, after which its engine answers FBL_ERR_POISONED. A call that fails changes nothing. Only a
// pointer that is neither NULL nor what the call's contract says, and a handle that was destroyed, is undefined behaviour, as everywhere
// in C.
//
// Threads. An engine may be used by any number of threads at once. A graph, a program and a trainer by one thread at a time, whichever:
// a call while another thread is in one with the same handle is FBL_ERR_BUSY.
//
// Ownership. What a call creates is the caller's, until it is destroyed; what belongs together lives as long as one of it does, so that
// the order does not matter. What pointers of a call name is read or written during the call alone. Destroying NULL is allowed.
//
// Sizes are bytes, extents are elements, times are seconds.";

const TAIL: &str = r#"#include <string.h>

#define FBL_VERSION_MAJOR @MAJOR@
#define FBL_VERSION_MINOR @MINOR@
#define FBL_VERSION_PATCH @PATCH@
/* For comparisons by the preprocessor, and for fbl_check_version. */
#define FBL_VERSION_NUMBER ((FBL_VERSION_MAJOR << 20) | (FBL_VERSION_MINOR << 10) | FBL_VERSION_PATCH)

/* Whether the library that runs serves programs compiled with this header: FBL_OK, or why not by fbl_error_message. */
#define FBL_CHECK_VERSION() fbl_check_version(FBL_ABI_VERSION, FBL_VERSION_NUMBER)

/* Every field of a struct its default, and its size: fbl_engine_options options; FBL_INIT(options); */
#define FBL_INIT(object) (memset(&(object), 0, sizeof(object)), (void)((object).struct_size = sizeof(object)))

#if defined(_WIN32) && !defined(FBL_STATIC)
#define FBL_API __declspec(dllimport)
#else
#define FBL_API
#endif"#;

fn generated() -> String {
    let folder = env!("CARGO_MANIFEST_DIR");
    let mut tail = TAIL.to_owned();
    for (mark, value) in [
        ("@MAJOR@", env!("CARGO_PKG_VERSION_MAJOR")),
        ("@MINOR@", env!("CARGO_PKG_VERSION_MINOR")),
        ("@PATCH@", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        tail = tail.replace(mark, value);
    }
    let config = Config {
        language: Language::C,
        style: Style::Both,
        header: Some(HEAD.into()),
        include_guard: Some("FBLAYOUT_H".into()),
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        after_includes: Some(tail),
        cpp_compat: true,
        usize_is_size_t: true,
        line_length: 120,
        braces: Braces::SameLine,
        documentation_style: DocumentationStyle::C99,
        function: FunctionConfig { prefix: Some("FBL_API".into()), ..FunctionConfig::default() },
        export: ExportConfig { exclude: vec!["fbl_test_panic".into()], ..ExportConfig::default() },
        ..Config::default()
    };
    let bindings = cbindgen::Builder::new().with_crate(folder).with_config(config).generate().expect("bindings");
    let mut bytes = Vec::new();
    bindings.write(&mut bytes);
    // Rust speaks of safety where C has contracts; a negative number is one operand.
    let text = String::from_utf8(bytes).expect("UTF-8").replace("// # Safety\n", "// Contract:\n");
    let line = |line: &str| match line.split_once(" -") {
        Some((name, number)) if name.starts_with("#define ") => format!("{name} (-{number})\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[test]
fn the_committed_header_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../include/fblayout.h");
    let generated = generated();
    if std::env::var_os("FBL_UPDATE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("the header is written");
    }
    let committed = std::fs::read_to_string(&path).expect("include/fblayout.h");
    assert!(committed == generated, "include/fblayout.h is not current: run with FBL_UPDATE_HEADER=1");
}

/// Alone, in every language that it serves, without a warning.
#[test]
fn the_header_compiles_as_c_and_as_cpp() {
    let folder = tempfile::tempdir().expect("a folder");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");
    for (compiler, source, standard) in
        [("cc", "a.c", "c99"), ("cc", "a.c", "c11"), ("c++", "a.cpp", "c++17"), ("c++", "a.cpp", "c++20")]
    {
        let path = folder.path().join(source);
        let text =
            "#include <fblayout.h>\nint main(void) { fbl_engine_options o; FBL_INIT(o); return (int)o.device; }\n";
        std::fs::write(&path, text).expect("the source is written");
        let output = Command::new(compiler)
            .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I", include])
            .arg(format!("-std={standard}"))
            .arg(path)
            .output()
            .expect("a compiler");
        assert!(output.status.success(), "{standard}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
