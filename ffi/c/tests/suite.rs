//! The C suite: programs of `tests/c`, compiled against the header and linked with the library, and the examples; plain, under
//! valgrind, and with the address and undefined-behaviour sanitizers, where these are installed.

#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use tempfile::TempDir;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// A folder with the library under the names that it is installed by.
static LIBRARY: LazyLock<TempDir> = LazyLock::new(|| {
    let built = std::env::current_exe().expect("a path");
    let built = built.parent().expect("a folder").join("libfblayout_c.so");
    let folder = TempDir::new().expect("a folder");
    for name in ["libfblayout.so", "libfblayout.so.0"] {
        symlink(&built, folder.path().join(name)).expect("a link");
    }
    folder
});

/// Compiles a program and links it with the library.
fn compile(source: &Path, flags: &[&str], folder: &TempDir) -> PathBuf {
    let cpp = source.extension() == Some(OsStr::new("cpp"));
    let program = folder.path().join("program");
    let library = LIBRARY.path().display();
    let output = Command::new(if cpp { "c++" } else { "cc" })
        .arg(if cpp { "-std=c++17" } else { "-std=c99" })
        .args(WARNINGS)
        .args(["-g", "-O1", "-I"])
        .arg(format!("{ROOT}/include"))
        .args(flags)
        .arg(source)
        .args([format!("-L{library}"), format!("-Wl,-rpath,{library}")])
        .args(["-lfblayout", "-lm", "-pthread", "-o"])
        .arg(&program)
        .output()
        .expect("a compiler");
    assert!(output.status.success(), "{}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    program
}

/// Runs a program, which must say that all is well.
fn passes(mut command: Command) -> String {
    let output = command.env("FBL_CACHE", "off").env_remove("FBL_PROFILE").output().expect("the program starts");
    let [stdout, stderr] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{command:?}: {}\n{stdout}\n{stderr}", output.status);
    stdout
}

fn test(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// Compiles and runs a program of the suite, with a file of its own.
fn run(name: &str) {
    let folder = TempDir::new().expect("a folder");
    let mut command = Command::new(compile(&test(name), &[], &folder));
    command.arg(folder.path().join("file"));
    passes(command);
}

/// The same with the sanitizers of the compiler; what Vulkan drivers leave behind is theirs. Without the validation layer, which leaves
/// much behind and is gone by name when that is looked at.
fn run_sanitized(name: &str) {
    let folder = TempDir::new().expect("a folder");
    let program = compile(&test(name), &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"], &folder);
    let theirs = folder.path().join("theirs");
    std::fs::write(&theirs, "leak:libvulkan\nleak:libVkLayer\nleak:dlopen\nleak:_dl_\n").expect("a file");
    let mut command = Command::new(program);
    command.arg(folder.path().join("file"));
    command.env("FBL_VALIDATION", "off");
    command.env("LSAN_OPTIONS", format!("suppressions={}:print_suppressions=0", theirs.display()));
    passes(command);
}

/// The same under valgrind, where it is installed: no use of freed, foreign or unwritten memory by the program or the library.
fn run_under_valgrind(name: &str) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("valgrind is not installed: {name} was not run under it");
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let mut command = Command::new("valgrind");
    command.args(["--error-exitcode=99", "--quiet", "--leak-check=full", "--show-leak-kinds=definite"]);
    command.arg("--errors-for-leak-kinds=none");
    command.arg(compile(&test(name), &[], &folder)).arg(folder.path().join("file"));
    passes(command);
}

#[test]
fn the_border_answers() {
    run("border.c");
}

#[test]
fn graphs_compute() {
    run("graphs.c");
}

#[test]
fn training_trains() {
    run("training.c");
}

#[test]
#[cfg(feature = "test-panic")]
fn a_panic_poisons_the_engine() {
    run("panic.c");
    run_sanitized("panic.c");
}

#[test]
fn sanitizers_find_nothing() {
    ["border.c", "graphs.c", "training.c"].into_iter().for_each(run_sanitized);
}

#[test]
fn valgrind_finds_nothing() {
    run_under_valgrind("border.c");
}

#[test]
fn the_example_in_c_is_right() {
    let folder = TempDir::new().expect("a folder");
    let told = passes(Command::new(compile(&Path::new(ROOT).join("examples/matmul.c"), &[], &folder)));
    assert!(told.contains("dw"), "{told}");
}

#[test]
fn the_example_in_cpp_learns_its_sentence() {
    let folder = TempDir::new().expect("a folder");
    let mut command = Command::new(compile(&Path::new(ROOT).join("examples/transformer.cpp"), &[], &folder));
    let plan = folder.path().join("plan.html");
    let told = passes({
        command.arg(&plan);
        command
    });
    assert!(told.ends_with("\nlearned\n"), "{told}");
    let page = std::fs::read_to_string(plan).expect("a page");
    assert!(page.contains("layers 0\u{2013}1, backward and update") && page.ends_with("</html>"), "layers are folded");
}
