//! Without a driver or the validation layer there is an error that says so. Each case runs this binary again in an
//! environment that hides them.

use std::process::Command;

use fblayout::vulkan::{Error, Gpu, GpuOptions, Validation, adapters};

const CHILD: &str = "FBL_TEST_CHILD";

/// True in the child; the parent runs the test `name` again with `hide` pointing nowhere.
fn is_child(name: &str, hide: &[&str]) -> bool {
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", name, "--nocapture"]).env(CHILD, "1");
    for variable in hide {
        child.env(variable, "/nonexistent");
    }
    let output = child.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

#[test]
fn no_driver_is_an_error() {
    if is_child("no_driver_is_an_error", &["VK_ICD_FILENAMES", "VK_DRIVER_FILES"]) {
        for error in [adapters().unwrap_err(), Gpu::open(0, &GpuOptions::default()).unwrap_err()] {
            assert!(matches!(error, Error::NoDevice { .. }), "{error:?}");
            assert!(error.to_string().contains("driver"), "{error}");
        }
    }
}

#[test]
fn an_absent_validation_layer_is_an_error() {
    if is_child("an_absent_validation_layer_is_an_error", &["VK_LAYER_PATH"]) {
        for validation in [Validation::Core, Validation::Sync] {
            let error = Gpu::open(0, &GpuOptions { validation, ..GpuOptions::default() }).unwrap_err();
            assert!(matches!(error, Error::NoValidation { .. }), "{error:?}");
        }
        Gpu::open(0, &GpuOptions::default()).unwrap();
    }
}
