//! Our own suite on the device present, in processes of its own: a plugin reads its settings once. It needs `libggml_fblayout.so` beside
//! the program, or `GGML_BACKEND_PATH`.

use std::process::Command;

fn suite(storage: &str, options: &[&str]) {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fblayout-conformance"));
    let output = program.arg("own").args(options).env("FBL_STORAGE", storage).output().unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{storage}: {said}");
    assert!(output.status.success(), "{storage}: {}\n{said}{errors}", output.status);
}

#[test]
fn bounded_in_buffers() {
    suite("buffer", &[]);
}

#[test]
fn bounded_in_images() {
    suite("image", &[]);
}

#[test]
#[ignore = "every case takes minutes; ./x test --full runs it"]
fn all_in_buffers() {
    suite("buffer", &["--full"]);
}

#[test]
#[ignore = "every case takes minutes; ./x test --full runs it"]
fn all_in_images() {
    suite("image", &["--full"]);
}
