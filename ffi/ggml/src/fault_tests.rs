//! Calls of Vulkan that fail while a graph is computed: the host gets a status, and the next graph is computed unless the device is lost.

#[allow(dead_code, reason = "the test that it belongs to uses more of it")]
#[path = "../../../backend/tests/vulkan_faults/loader.rs"]
mod loader;

use std::process::Command;

use crate::abi::*;
use crate::engine_link::Link;
use crate::testing::plugin::Plugin;

use loader::{CALLS, Fault};

const F32: i32 = 0;
const ADD: i32 = 2;
const MUL_MAT: i32 = 29;

/// True in a process of its own, since the faulty Vulkan is for the whole of one; elsewhere runs that process.
fn is_alone(test: &str) -> bool {
    const CHILD: &str = "FBL_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    let output = child.args(["--exact", test, "--nocapture"]).env(CHILD, "1").output().unwrap();
    print!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    false
}

/// `x + w x` in buffers of its own, so that it is planned and recorded each time; the calls that computing it made, and its result.
fn compute(plugin: &Plugin<Link>, fault: Option<Fault>) -> (Status, Vec<usize>, Vec<f32>) {
    let w = &plugin.world;
    let (weights, buffer) = (plugin.buffer(1024, 1), plugin.buffer(1024, USAGE_COMPUTE));
    let weight = weights.place(w.tensor(F32, [8, 8, 1, 1]), 0);
    weights.set_floats(weight, &(0..64).map(|i| (i % 7) as f32 - 3.0).collect::<Vec<_>>());
    let x = buffer.place(w.tensor(F32, [8, 5, 1, 1]), 0);
    buffer.set_floats(x, &(0..40).map(|i| (i % 5) as f32).collect::<Vec<_>>());
    let product = buffer.place(w.node(MUL_MAT, &[], F32, [8, 5, 1, 1], &[weight, x]), 256);
    let out = buffer.place(w.node(ADD, &[], F32, [8, 5, 1, 1], &[product, x]), 512);
    loader::arm(fault);
    let status = plugin.compute(&[product, out], 0);
    let made = loader::made();
    assert!(!loader::disarm(), "the call is not made");
    let result = if status == STATUS_SUCCESS { buffer.floats(out, 40) } else { Vec::new() };
    weights.free();
    buffer.free();
    (status, made, result)
}

#[test]
fn a_fault_is_a_status() {
    if !is_alone("fault_tests::a_fault_is_a_status") {
        return;
    }
    loader::install();
    let mut plugin = Plugin::<Link>::new("0");
    // The first graph builds the pipelines; the second makes the calls that every new graph makes.
    compute(&plugin, None);
    let (status, made, expected) = compute(&plugin, None);
    assert_eq!(status, STATUS_SUCCESS);
    let (mut failed, mut lost) = (0, 0);
    for (call, &made) in CALLS.iter().zip(&made) {
        for (after, &answer) in (0..made).flat_map(|after| call.answers.iter().map(move |answer| (after, answer))) {
            let at = format!("{} number {after} answers {answer:?}", call.name);
            let (status, _, _) = compute(&plugin, Some(Fault { call: call.name, after, answer }));
            assert_eq!(status, STATUS_FAILED, "{at}");
            failed += 1;
            let (status, _, again) = compute(&plugin, None);
            if plugin.engine().engine().gpu().is_lost() {
                assert_eq!(status, STATUS_FAILED, "{at}: a lost device stays lost");
                lost += 1;
                plugin = Plugin::new("0");
                compute(&plugin, None);
            } else {
                assert_eq!((status, again), (STATUS_SUCCESS, expected.clone()), "{at}");
            }
        }
    }
    println!("faults while a graph is computed: {failed} are a status, after {lost} of them the device is lost");
    assert!(failed > lost && lost > 0);
}
