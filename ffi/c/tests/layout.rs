//! Structs have the same size and fields in C and in Rust.

use std::fmt::Write as _;
use std::mem::offset_of;
use std::process::Command;

use fblayout_c::device::fbl_device_info;
use fblayout_c::engine::fbl_engine_options;
use fblayout_c::graph::fbl_tensor_desc;
use fblayout_c::program::{fbl_binding, fbl_compile_options};
use fblayout_c::train::{fbl_adapter, fbl_outcome, fbl_train_options};

/// What Rust says, and a C program that says it.
macro_rules! structs {
    ($($name:ident { $($field:ident)* })*) => {{
        let (mut rust, mut c) = (String::new(), String::new());
        $(
            let _ = writeln!(rust, "{} {}", stringify!($name), size_of::<$name>());
            let _ = writeln!(c, "printf(\"{0} %zu\\n\", sizeof({0}));", stringify!($name));
            $(
                let _ = writeln!(rust, "{} {}", stringify!($field), offset_of!($name, $field));
                let _ = writeln!(c, "printf(\"{1} %zu\\n\", offsetof({0}, {1}));", stringify!($name), stringify!($field));
            )*
        )*
        (rust, c)
    }};
}

#[test]
fn structs_are_alike_in_c() {
    let (rust, c) = structs! {
        fbl_device_info { struct_size memory_bytes kind index name driver }
        fbl_engine_options { struct_size device storage policy attention validation head budget_bytes limits cache }
        fbl_tensor_desc { struct_size bytes shape dtype reserved }
        fbl_binding { tensor program source }
        fbl_compile_options { struct_size storage policy attention head budget_bytes bindings binding_count }
        fbl_adapter { weights rank alpha }
        fbl_train_options {
            struct_size loss logits labels adapters adapter_count seed optimizer beta1 beta2 eps learning_rate
            weight_decay compile
        }
        fbl_outcome { struct_size step rows right loss accuracy }
    };
    let folder = tempfile::tempdir().expect("a folder");
    let [source, program] = ["a.c", "a"].map(|name| folder.path().join(name));
    let text = format!("#include <stdio.h>\n#include <fblayout.h>\nint main(void) {{\n{c}return 0;\n}}\n");
    std::fs::write(&source, text).expect("the source is written");
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../../include");
    let compiled = Command::new("cc").args(["-std=c99", "-I", include, "-o"]).arg(&program).arg(&source).status();
    assert!(compiled.expect("a compiler").success());
    let told = Command::new(&program).output().expect("the program runs");
    assert_eq!(String::from_utf8_lossy(&told.stdout), rust);
}
