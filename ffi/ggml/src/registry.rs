//! The two symbols that ggml looks up, and `ggml_backend_reg_i`.

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::abi::{API_VERSION, ggml_backend_device, ggml_backend_reg, ggml_backend_reg_i};
use crate::choice::choose;
use crate::device::Device;
use crate::engine::Engine;
use crate::engine_link::Link;
use crate::guard::{borrow, guard};
use crate::host::{Host, accept_version};
use crate::ops;

/// The registry of this library; `None` once it was refused. Never freed, like the library.
static REGISTRY: OnceLock<Option<&'static Registry<Link>>> = OnceLock::new();

/// Makes the plugin's registry, or returns null with a line in the log that says why not.
#[unsafe(no_mangle)]
pub extern "C" fn ggml_backend_init() -> *mut ggml_backend_reg {
    guard("ggml_backend_init", std::ptr::null_mut(), || {
        let registry = REGISTRY.get_or_init(|| match find_host() {
            Ok(host) => Some(Registry::new(host, &std::env::var("FBL_DEVICES").unwrap_or_default())),
            Err(why) => {
                log::error!("{why}");
                None
            }
        });
        Ok(registry.map_or(std::ptr::null_mut(), Registry::raw))
    })
}

/// How well the plugin suits this machine, for hosts that choose among files: always more than the 0 that means not at all.
#[unsafe(no_mangle)]
pub extern "C" fn ggml_backend_score() -> c_int {
    1
}

/// The host's ggml, with the log bridged to it, if it is one the bindings are right for.
fn find_host() -> Result<Host, String> {
    // Without a host there is no log to say it in.
    let host = Host::find().inspect_err(|why| eprintln!("fblayout: {why}"))?;
    host.bridge_log();
    let any = std::env::var_os("FBL_GGML_ANY_VERSION").is_some_and(|value| value != "0");
    accept_version(&host.version(), any)?;
    ops::check_numbers(|op| host.op_name(op))?;
    Ok(host)
}

/// The plugin as ggml sees it.
pub struct Registry<E: Engine> {
    raw: ggml_backend_reg,
    devices: Vec<&'static Device<E>>,
}

// SAFETY: the raw pointers inside name immortal objects of this plugin that are never written after `new`.
unsafe impl<E: Engine> Send for Registry<E> {}
// SAFETY: as above.
unsafe impl<E: Engine> Sync for Registry<E> {}

impl<E: Engine> Registry<E> {
    /// An immortal registry with a device for each adapter that `wanted` asks for (see [`choose`]). A machine where Vulkan does not work
    /// gets one with no devices, and so does one without what was asked for.
    pub fn new(host: Host, wanted: &str) -> &'static Self {
        let adapters = adapters::<E>(wanted).unwrap_or_else(|why| {
            log::warn!("no Vulkan devices: {why}");
            Vec::new()
        });
        let registry = Box::into_raw(Box::new(Self {
            raw: ggml_backend_reg { api_version: API_VERSION, iface: interface::<E>(), context: std::ptr::null_mut() },
            devices: Vec::new(),
        }));
        // SAFETY: the box is leaked, so the pointer stays valid, and nobody else has it yet.
        let registry = unsafe {
            (*registry).raw.context = registry.cast();
            let raw = &raw mut (*registry).raw;
            let register = |(index, adapter)| Device::register(raw, index, adapter, host);
            (*registry).devices = adapters.into_iter().enumerate().map(register).collect();
            &*registry
        };
        if registry.devices.is_empty() {
            log::info!("registered without devices");
        }
        for device in &registry.devices {
            log::info!("{} is {}", device.name().to_string_lossy(), device.facts().name);
        }
        registry
    }

    /// What the host calls the registry by.
    pub fn raw(&self) -> *mut ggml_backend_reg {
        // Hosts read this struct and never write it, whatever the pointer's type says.
        (&raw const self.raw).cast_mut()
    }

    /// The devices in order.
    pub fn devices(&self) -> &[&'static Device<E>] {
        &self.devices
    }
}

fn adapters<E: Engine>(wanted: &str) -> Result<Vec<E::Adapter>, String> {
    let all = E::adapters()?;
    let names: Vec<String> = all.iter().map(|adapter| E::describe(adapter).name).collect();
    Ok(choose(wanted, &names)?.into_iter().map(|index| all[index].clone()).collect())
}

fn interface<E: Engine>() -> ggml_backend_reg_i {
    ggml_backend_reg_i {
        get_name: Some(get_name),
        get_device_count: Some(get_device_count::<E>),
        get_device: Some(get_device::<E>),
        get_proc_address: Some(get_proc_address),
    }
}

/// The registry behind the host's pointer.
///
/// # Safety
/// `reg` is null or was made by [`Registry::new`].
unsafe fn context<'a, E: Engine>(reg: *const ggml_backend_reg) -> Result<&'a Registry<E>, String> {
    // SAFETY: the caller's promise; registries are never freed.
    unsafe { borrow(borrow(reg, "registry")?.context.cast::<Registry<E>>(), "registry context") }
}

unsafe extern "C" fn get_name(_: *mut ggml_backend_reg) -> *const c_char {
    c"FBLayout".as_ptr()
}

unsafe extern "C" fn get_device_count<E: Engine>(reg: *mut ggml_backend_reg) -> usize {
    guard("get_device_count", 0, || {
        // SAFETY: the host passes a registry of this interface.
        Ok(unsafe { context::<E>(reg) }?.devices.len())
    })
}

unsafe extern "C" fn get_device<E: Engine>(reg: *mut ggml_backend_reg, index: usize) -> *mut ggml_backend_device {
    guard("get_device", std::ptr::null_mut(), || {
        // SAFETY: the host passes a registry of this interface.
        let devices = &unsafe { context::<E>(reg) }?.devices;
        let device = devices.get(index).ok_or_else(|| format!("no device {index} of {}", devices.len()))?;
        Ok(device.raw())
    })
}

unsafe extern "C" fn get_proc_address(_: *mut ggml_backend_reg, _: *const c_char) -> *mut c_void {
    std::ptr::null_mut()
}
