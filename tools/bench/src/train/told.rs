//! What `bench_train` prints, read: its list of devices, and the line that a run ends with.

use serde::{Deserialize, Serialize};

/// Begins the line that tells what a run found.
const RESULT: &str = "RESULT ";

/// The host's own account of a run.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Told {
    /// Device of the engine.
    pub dev: String,
    pub model: String,
    pub layers: u32,
    pub seq: u32,
    pub wtype: String,
    pub rank: u32,
    /// Which graph: `outprod` or `mulmat`.
    pub grad: String,
    /// Of a step, from submission to the end.
    pub ms_median: f64,
    pub ms_min: f64,
    /// Arithmetic of a step's products.
    pub gflop: f64,
    /// Nodes of the graph, those of them that ran on the CPU because the device refused them, and the parts that the graph fell in.
    pub ops: u32,
    pub cpu_nodes: u32,
    pub splits: u32,
    pub loss_first: f64,
    pub loss_last: f64,
    pub frozen_mib: f64,
    pub compute_mib: f64,
}

/// The result of a run: the last line of its kind.
///
/// # Errors
/// No such line, one that is not as expected, or numbers that are no times.
pub fn result(stdout: &str) -> Result<Told, String> {
    let line = stdout.lines().rev().find_map(|line| line.strip_prefix(RESULT)).ok_or("it printed no RESULT")?;
    let told: Told = serde_json::from_str(line).map_err(|e| format!("its RESULT is not understood: {e}"))?;
    let is_time = |ms: f64| ms.is_finite() && ms > 0.0;
    if !is_time(told.ms_min) || !is_time(told.ms_median) || told.ms_min > told.ms_median {
        return Err(format!("its RESULT has no times: {} and {} ms", told.ms_min, told.ms_median));
    }
    match [told.loss_first, told.loss_last].iter().all(|loss| loss.is_finite()) {
        true => Ok(told),
        false => Err(format!("its loss went from {} to {}", told.loss_first, told.loss_last)),
    }
}

/// A device of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// By which `--dev` names it.
    pub name: String,
    /// What it is, without its memory.
    pub description: String,
}

/// The devices of a list: a name, spaces, a description, and its memory in brackets.
pub fn devices(stdout: &str) -> Vec<Device> {
    let device = |line: &str| {
        let (name, rest) = line.split_once(' ')?;
        let (description, memory) = rest.trim().rsplit_once(" (")?;
        let known = !name.is_empty() && memory.ends_with(')') && memory.contains("MiB");
        known.then(|| Device { name: name.to_owned(), description: description.to_owned() })
    };
    stdout.lines().filter_map(device).collect()
}

/// The device of this name, or the first whose name begins with the backend's.
///
/// # Errors
/// There is none; the devices that there are.
pub fn device<'d>(devices: &'d [Device], asked: Option<&str>, backend: &str) -> Result<&'d Device, String> {
    let found = match asked {
        Some(name) => devices.iter().find(|device| device.name == name),
        None => devices.iter().find(|device| device.name.starts_with(backend)),
    };
    found.ok_or_else(|| {
        let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
        format!("no device {} among {}", asked.unwrap_or(backend), names.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"RESULT {"dev":"CPU","model":"tiny","layers":1,"seq":128,"wtype":"f16","rank":8,"grad":"outprod","ms_median":31.539,"ms_min":30.281,"gflop":0.17,"tflops":0.005,"ops":135,"cpu_nodes":0,"splits":1,"loss_first":8.699528,"loss_last":8.616076,"frozen_mib":1.1,"compute_mib":4.7}"#;

    #[test]
    fn the_last_result_is_read() {
        let stdout = format!("# tiny on CPU\nstep  1  loss 8.699528  44.091 ms  (warm-up)\n{LINE}\n");
        let told = result(&stdout).unwrap();
        assert_eq!((told.dev.as_str(), told.grad.as_str(), told.seq), ("CPU", "outprod", 128));
        assert_eq!((told.ms_median, told.ms_min, told.loss_last), (31.539, 30.281, 8.616076));
        let two = format!("{stdout}{}\n", LINE.replace("31.539", "32.5"));
        assert_eq!(result(&two).unwrap().ms_median, 32.5);
    }

    #[test]
    fn what_is_no_result_is_refused() {
        for (stdout, why) in [
            (String::new(), "no RESULT"),
            ("RESULT {}".into(), "missing field"),
            ("RESULT nothing".into(), "not understood"),
            (LINE.replace("31.539", "0.0"), "no times"),
            (LINE.replace("30.281", "40.0"), "no times"),
            (LINE.replace("8.616076", "1e999"), "not understood"),
        ] {
            let refusal = result(&stdout).unwrap_err();
            assert!(refusal.contains(why), "{refusal}");
        }
    }

    #[test]
    fn devices_are_found_by_name_or_backend() {
        let list = "Vulkan0      llvmpipe (LLVM 15.0.6, 256 bits) (24105 MiB, 21452 MiB free)\n\
                    CPU          AMD EPYC (24105 MiB, 24105 MiB free)\nload_backend: loaded (something)\n";
        let all = devices(list);
        assert_eq!(all.len(), 2);
        let vulkan = device(&all, None, "Vulkan").unwrap();
        assert_eq!(
            (vulkan.name.as_str(), vulkan.description.as_str()),
            ("Vulkan0", "llvmpipe (LLVM 15.0.6, 256 bits)")
        );
        assert_eq!(device(&all, Some("CPU"), "Vulkan").unwrap().description, "AMD EPYC");
        assert_eq!(device(&all, None, "FBLayout").unwrap_err(), "no device FBLayout among Vulkan0, CPU");
    }
}
