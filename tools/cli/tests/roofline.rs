//! `fblayout roofline`: of made-up figures, and of a step on the device present.

mod common;

use std::path::Path;
use std::process::Command;

use common::{well_formed, without_driver};
use fblayout::device::{Preset, Profile};
use fblayout::roofline::{Bound, Kind, Measured, Phase, Runs, Sum, Times};

/// A hundred graphs of three kinds of steps on a machine that is known, and a first one that took a second.
fn made_up(machine: Option<Profile>) -> Measured {
    let kind = |op: &str, flops, bytes| Kind {
        op: op.into(),
        conversion: flops == 0,
        shader: "a_shader".into(),
        schedule: "3 workgroups of <32> invocations".into(),
        operands: vec![Bound {
            access: "reads".into(),
            dtype: "F16".into(),
            shape: [2048, 512, 1, 1],
            storage: "image".into(),
            along: Some(1),
        }],
        flops,
        bytes,
        requests: 9,
    };
    let times = |count, each| Times { count, total_ns: count * each, min_ns: each / 2 };
    let step = |kind, count, each| Sum { kind, first: times(1, 1_000_000_000), again: times(count, each) };
    let runs = |count, each| Runs {
        wall: times(count, each + 50_000),
        device: times(count, each),
        cpu: [(Phase::Submit, times(count, 10_000)), (Phase::Wait, times(count, each))].into(),
    };
    Measured {
        device: "a device & its driver".into(),
        machine,
        first: runs(1, 1_000_000_000),
        again: runs(100, 1_000_000),
        // 200 x 100 us, 100 x 700 us, 100 x 100 us: a tenth, seven tenths and a tenth, and two kinds in one graph.
        steps: vec![
            step(kind("ADD", 1 << 20, 1 << 30), 200, 100_000),
            step(kind("MUL_MAT+ADD", 42_000_000_000, 1 << 20), 100, 700_000),
            step(kind("CPY", 0, 1 << 20), 100, 100_000),
        ],
    }
}

fn write(folder: &Path, measured: &Measured) -> String {
    let path = folder.join("steps.json");
    std::fs::write(&path, serde_json::to_vec(measured).expect("JSON")).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

fn h200() -> Profile {
    let found = Preset::machines().find(|(preset, _)| preset.name == "h200");
    found.map(|(_, profile)| profile.clone()).expect("a preset")
}

#[test]
fn the_table_tells_shares_rates_and_distances() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), &made_up(Some(h200())));
    let output = without_driver(&["roofline", &file]);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<&str> = text.lines().filter(|line| line.contains("[a_shader]")).collect();
    // 42 GFLOP in 700 us are the 60 TFLOP/s of the preset.
    for (line, figures) in lines.iter().zip([
        ["1", "70 %", "70.0 ms", "60.0 TFLOP/s", "1.0 x arithmetic", "MUL_MAT+ADD"],
        ["2", "20 %", "20.0 ms", "10.7 TB/s", "0.4 x memory", "ADD"],
        ["3", "10 %", "10.0 ms", "10.5 GB/s", "83.3 x launch", "CPY"],
    ]) {
        assert!(figures.iter().all(|figure| line.contains(figure)), "{figures:?}: {line}");
    }
    assert_eq!(lines.len(), 3, "{text}");
    for part in ["runs after (100): 1.05 ms each", "submit 10.0 µs", "host 40.0 µs", "reads F16 2048x512 image along 1"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let few = String::from_utf8(without_driver(&["roofline", &file, "--top", "1"]).stdout).expect("UTF-8");
    assert!(few.contains("30 % in 2 more kinds"), "{few}");
}

#[test]
fn roofs_that_are_not_known_are_not_drawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = write(folder.path(), &made_up(None));
    let page = folder.path().join("page.html");
    for (device, drawn) in [(None, false), (Some("h200"), true)] {
        let mut arguments = vec!["roofline", &file, "--html", page.to_str().expect("UTF-8")];
        arguments.extend(device.iter().flat_map(|device| ["--device", device]));
        let output = without_driver(&arguments);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert_eq!(text.contains("no roofs"), !drawn, "{text}");
        let page = std::fs::read_to_string(&page).expect("a page");
        let elements = well_formed(&page);
        assert_eq!(elements.iter().filter(|name| *name == "circle").count(), if drawn { 2 } else { 0 });
        assert!(!elements.iter().any(|name| name == "script") && page.contains("default-src 'none'"));
        assert!(page.contains("a device &amp; its driver") && page.contains("MUL_MAT+ADD"), "{page}");
        assert!(page.len() < 1 << 20 && !page.contains("http:"), "{} bytes", page.len());
    }
    let unknown = without_driver(&["roofline", &file, "--device", "vulkan-minimum"]);
    let told = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(!unknown.status.success() && told.contains("--device"), "{told}");
    let nothing = without_driver(&["roofline"]);
    assert_eq!(nothing.status.code(), Some(2), "a file or a model");
}

#[test]
fn a_step_runs_on_the_device_present_and_its_steps_are_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("steps.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout"));
    command.args(["roofline", file.to_str().expect("UTF-8"), "--model", "qwen2.5-1.5b", "--tiny"]);
    command.args(["--seq", "5", "--steps", "3", "--device", "lavapipe"]).env("FBL_VALIDATION", "sync");
    // Plain ops compile sooner than fused ones.
    command.env("FBL_POLICY", "rtile+maps");
    let output = command.output().expect("the binary runs");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("MUL_MAT"), "{text}{errors}");
    let measured = Measured::read(&file).expect("the file is whole");
    assert_eq!((measured.first.device.count, measured.again.device.count), (1, 3));
    for Sum { kind, first, again } in &measured.steps {
        assert_eq!(again.count, 3 * first.count, "{kind:?}");
        assert!(again.min_ns <= again.total_ns / again.count && kind.bytes > 0, "{kind:?}");
    }
    let sum = |times: &dyn Fn(&Sum) -> u64| measured.steps.iter().map(times).sum::<u64>();
    assert_eq!(sum(&|s| s.again.total_ns), measured.again.device.total_ns);
    // The program was planned and recorded once, and submitted each time.
    let count = |runs: &Runs, phase| runs.cpu.get(&phase).map_or(0, |times| times.count);
    assert_eq!([Phase::Plan, Phase::Record, Phase::Submit].map(|phase| count(&measured.first, phase)), [1, 1, 1]);
    assert_eq!([Phase::Plan, Phase::Record, Phase::Submit].map(|phase| count(&measured.again, phase)), [0, 0, 3]);
}
