//! Picks the ggml device, loading the plugin when it is needed.

use std::path::{Path, PathBuf};

use ggml_host::{Backend, Device, DeviceKind, devices, find_device, load_installed_backends, load_plugin};

use crate::error::{Error, Result};

/// File names of the plugin: as installed, and as cargo builds it.
const PLUGIN_NAMES: [&str; 2] = ["libggml-fblayout.so", "libggml_fblayout.so"];

/// The device of that name. The plugin is loaded when asked for by path, or when the device is not there without it.
pub fn choose(name: &str, plugin: Option<&Path>) -> Result<Device> {
    load_installed_backends()?;
    let said = match plugin {
        Some(path) => load_plugin(path)?.said,
        None if find_device(name).is_some() => String::new(),
        None => match find_plugin() {
            Some(path) => load_plugin(&path)?.said,
            None => {
                return Err(missing(name, &format!("no plugin {} beside the executable", PLUGIN_NAMES.join(" or "))));
            }
        },
    };
    let why = if said.is_empty() { "the plugin offers no such device" } else { &said };
    find_device(name).ok_or_else(|| missing(name, why))
}

/// Streams for a training step: the device, and the CPU behind it, as ggml's scheduler wants.
pub fn open(device: Device) -> Result<Vec<Backend>> {
    let mut backends = vec![Backend::open(device)?];
    if device.kind() != DeviceKind::Cpu {
        let cpu = devices().into_iter().find(|d| d.kind() == DeviceKind::Cpu);
        let cpu = cpu.ok_or_else(|| missing("CPU", "the engine's CPU backend did not load"))?;
        backends.push(Backend::open(cpu)?);
    }
    Ok(backends)
}

fn find_plugin() -> Option<PathBuf> {
    let folder = std::env::current_exe().ok()?.parent()?.to_owned();
    // Test executables lie one folder deeper than the plugin.
    let folders = [folder.clone(), folder.parent()?.to_owned()];
    folders.iter().flat_map(|f| PLUGIN_NAMES.map(|n| f.join(n))).find(|path| path.is_file())
}

fn missing(name: &str, why: &str) -> Error {
    let present: Vec<&str> = devices().into_iter().map(Device::name).collect();
    let present = if present.is_empty() { "none".to_owned() } else { present.join(", ") };
    Error::Device { name: name.to_owned(), rule: format!("not present: {why}; present: {present}") }
}
