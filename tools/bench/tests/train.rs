//! The peers' host is a script here that answers as `bench_train` does: what is asked of it, and what becomes of its answers.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// 4 ms by the plugin, 20 by the peer's stock graph, 8 by the rewritten one; `tiny` learns other things on the plugin.
const HOST: &str = r##"#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        --list) list=1 ;;
        --dev) dev=$2 ;; --model) model=$2 ;; --layers) layers=$2 ;; --seq) seq=$2 ;;
        --wtype) wtype=$2 ;; --grad) grad=$2 ;; --load) plugin=$2 ;;
    esac
    shift
done
case $LD_LIBRARY_PATH in "$(dirname "$0")"*) ;; *) echo "not beside its libraries" >&2; exit 1 ;; esac
if [ -n "$list" ]; then
    [ -z "$plugin" ] || echo 'FBLayout0    Some GPU (1) (100 MiB, 90 MiB free)'
    echo 'Vulkan0      Some GPU (1) (100 MiB, 90 MiB free)'
    echo 'CPU          Some CPU (100 MiB, 100 MiB free)'
    exit 0
fi
[ "$seq" != 99 ] || { echo "cannot do 99" >&2; exit 3; }
loss=8.5
case $dev-$grad in
    FBLayout0-outprod) ms=4; [ "$model" != tiny ] || loss=9.5; [ -n "$plugin" ] || exit 4 ;;
    Vulkan0-outprod) ms=20 ;;
    Vulkan0-mulmat) ms=8 ;;
    *) exit 5 ;;
esac
echo "# $model on $dev"
echo "RESULT {\"dev\":\"$dev\",\"model\":\"$model\",\"layers\":$layers,\"seq\":$seq,\"wtype\":\"$wtype\",\"rank\":8,\"grad\":\"$grad\",\"ms_median\":$ms,\"ms_min\":$ms,\"gflop\":1,\"tflops\":1,\"ops\":135,\"cpu_nodes\":0,\"splits\":1,\"loss_first\":$loss,\"loss_last\":8.1,\"frozen_mib\":1.1,\"compute_mib\":4.7}"
"##;

/// A folder with such a host and a file for a plugin.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("bench_train");
    fs::write(&program, HOST).expect("the host");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a program");
    fs::write(folder.path().join("plugin.so"), "").expect("a plugin");
    folder
}

fn train(folder: &Path, more: &[&str]) -> Output {
    let at = |name: &str| folder.join(name);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fblayout-bench"));
    command.arg("train").arg("--peers").arg(folder).arg("--plugin").arg(at("plugin.so"));
    command.arg("--results").arg(at("results")).args(more).output().expect("the binary runs")
}

#[test]
fn contenders_take_turns_and_ratios_are_kept() {
    let folder = folder();
    let output = train(folder.path(), &["--rounds", "2", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let told: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let kept: Vec<_> = fs::read_dir(folder.path().join("results")).expect("results").flatten().collect();
    let [file] = &kept[..] else { panic!("{kept:?}") };
    let date = told["date"].as_str().expect("a date");
    assert_eq!(file.file_name().to_string_lossy(), format!("{date}-some-gpu-1.json"));
    let written: Value = serde_json::from_slice(&fs::read(file.path()).expect("results")).expect("JSON");
    assert_eq!(written, told);
    let rows = told["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 8, "two models, two lengths, two types");
    for row in rows {
        assert_eq!(row["compared"]["ratio"].as_f64(), Some(2.0), "{row}");
        assert_eq!(row["compared"]["better_peer"], "peer-rewritten");
        let runs: Vec<_> = row["runs"].as_array().expect("runs").iter().map(|run| &run["contender"]).collect();
        assert_eq!(runs, ["own", "peer-stock", "peer-rewritten", "peer-stock", "peer-rewritten", "own"]);
    }
}

#[test]
fn what_cannot_be_compared_is_told() {
    let folder = folder();
    let some = train(folder.path(), &["--rounds", "1", "--model", "tiny", "--model", "llama1b", "--seq", "128"]);
    let table = String::from_utf8_lossy(&some.stdout).into_owned();
    assert!(some.status.success() && table.contains("refused: it was not the same work"), "{table}");
    assert!(table.contains("| llama1b | 128 | f16 | 4.00 | 20.0 | 8.00 | 2.00 | 0 | 0 | 0e0 |"), "{table}");
    for (more, why) in [
        (["--seq", "99"], "cannot do 99"),
        (["--rounds", "0"], "at least one round"),
        (["--peer-device", "Vulkan1"], "no device Vulkan1 among FBLayout0, Vulkan0, CPU"),
    ] {
        let output = train(folder.path(), &more);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{more:?}: {error}");
    }
    fs::remove_file(folder.path().join("bench_train")).expect("a host");
    assert!(String::from_utf8_lossy(&train(folder.path(), &[]).stderr).contains("holds no program bench_train"));
}
