//! Loader and instance, with the validation layer and the messages it sends.

use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use ash::{ext, vk};

use super::device::lock;
use super::error::{Error, Result};
use super::options::Validation;

const LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";
const FEATURES_EXTENSION: &CStr = c"VK_EXT_validation_features";

/// The Vulkan version every call of this room is written against.
pub(super) const API_VERSION: u32 = vk::API_VERSION_1_1;

/// The version that the youngest modules are written against; a device of an older one gets none of these.
pub(super) const MODULES_VERSION: u32 = vk::API_VERSION_1_3;

/// Texts kept; further messages are only counted.
const MAX_MESSAGES: usize = 256;

static LOADER: OnceLock<vk::PFN_vkGetInstanceProcAddr> = OnceLock::new();

/// Takes Vulkan from here rather than from the system's loader: for hosts that bring a driver of their own, and for
/// tests that let calls fail. It is for the whole process; false says that another one was given before.
///
/// # Safety
/// `get` does what `vkGetInstanceProcAddr` of a Vulkan loader does, until the process ends.
pub unsafe fn use_loader(get: vk::PFN_vkGetInstanceProcAddr) -> bool {
    LOADER.set(get).is_ok()
}

fn entry() -> Result<ash::Entry> {
    match LOADER.get() {
        // SAFETY: the contract of `use_loader`.
        Some(&get) => Ok(unsafe { ash::Entry::from_static_fn(ash::StaticFn { get_instance_proc_addr: get }) }),
        // SAFETY: loading the system's Vulkan loader runs its initializers, which the platform's ABI document
        // requires to be sound.
        None => unsafe { ash::Entry::load() }.map_err(|e| Error::NoLoader { reason: e.to_string() }),
    }
}

/// Warnings and errors of the validation layer; empty without validation.
#[derive(Debug, Default)]
pub struct ValidationLog {
    count: AtomicU64,
    messages: Mutex<Vec<String>>,
    /// Handles of objects that shaders bind and never touch.
    untouched: Mutex<Vec<u64>>,
}

impl ValidationLog {
    /// Number of messages so far.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// The first few hundred messages.
    pub fn messages(&self) -> Vec<String> {
        lock(&self.messages).clone()
    }

    /// Takes hazards on this object for what they are: the layer counts what a shader might touch before specialization.
    pub(super) fn never_touched(&self, handle: impl vk::Handle) {
        lock(&self.untouched).push(handle.as_raw());
    }

    fn push(&self, message: String) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut messages = lock(&self.messages);
        if messages.len() < MAX_MESSAGES {
            messages.push(message);
        }
    }
}

/// A Vulkan instance; destroyed with its messenger when dropped.
pub(super) struct Instance {
    pub raw: ash::Instance,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
    /// The messenger holds its address; whoever reads it may keep it longer.
    pub log: Arc<ValidationLog>,
    /// Keeps the loader's library open.
    pub entry: ash::Entry,
}

impl Instance {
    pub fn new(validation: Validation) -> Result<Self> {
        let entry = entry()?;
        check_version(&entry)?;
        let log = Arc::<ValidationLog>::default();

        let mut layers = Vec::new();
        let mut extensions = Vec::new();
        if validation != Validation::Off {
            require_layer(&entry)?;
            layers.push(LAYER.as_ptr());
            extensions.push(ext::debug_utils::NAME.as_ptr());
        }
        if validation == Validation::Sync {
            require_features_extension(&entry)?;
            extensions.push(FEATURES_EXTENSION.as_ptr());
        }

        let application = vk::ApplicationInfo::default()
            .application_name(c"fblayout")
            .engine_name(c"fblayout")
            .api_version(MODULES_VERSION);
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        let mut creation = messenger_info(&log);
        let mut info = vk::InstanceCreateInfo::default()
            .application_info(&application)
            .enabled_layer_names(&layers)
            .enabled_extension_names(&extensions);
        if validation != Validation::Off {
            info = info.push_next(&mut creation);
        }
        if validation == Validation::Sync {
            info = info.push_next(&mut features);
        }
        // SAFETY: the chain and the names live until the call returns; `log` outlives the instance: it goes
        // after `Drop` of Self.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => {
                Error::NoDevice { reason: "the Vulkan loader found no driver".to_owned() }
            }
            _ => Error::of_call("vkCreateInstance", result),
        })?;
        let mut instance = Self { raw, messenger: None, log, entry };
        if validation != Validation::Off {
            let functions = ext::debug_utils::Instance::new(&instance.entry, &instance.raw);
            let info = messenger_info(&instance.log);
            // SAFETY: the extension is enabled; the user data is `log`, which the messenger does not outlive.
            let messenger = unsafe { functions.create_debug_utils_messenger(&info, None) }
                .map_err(|r| Error::of_call("vkCreateDebugUtilsMessengerEXT", r))?;
            instance.messenger = Some((functions, messenger));
        }
        Ok(instance)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // SAFETY: whatever was made from the instance holds it in an `Arc` and is gone by now; the messenger goes
        // before it.
        unsafe {
            if let Some((functions, messenger)) = self.messenger.take() {
                functions.destroy_debug_utils_messenger(messenger, None);
            }
            self.raw.destroy_instance(None);
        }
    }
}

fn check_version(entry: &ash::Entry) -> Result<()> {
    // SAFETY: a global command without arguments.
    let version = unsafe { entry.try_enumerate_instance_version() }
        .map_err(|r| Error::of_call("vkEnumerateInstanceVersion", r))?
        .unwrap_or(vk::API_VERSION_1_0);
    if version < API_VERSION {
        return Err(Error::NoLoader {
            reason: format!("it speaks Vulkan {}, and 1.1 is needed", version_text(version)),
        });
    }
    Ok(())
}

fn require_layer(entry: &ash::Entry) -> Result<()> {
    // SAFETY: a global command; ash sizes the arrays.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }
        .map_err(|r| Error::of_call("vkEnumerateInstanceLayerProperties", r))?;
    let present = layers.iter().any(|l| l.layer_name_as_c_str() == Ok(LAYER));
    if present { Ok(()) } else { Err(Error::NoValidation { missing: LAYER.to_string_lossy().into_owned() }) }
}

fn require_features_extension(entry: &ash::Entry) -> Result<()> {
    // SAFETY: a global command about a layer that was just found; ash sizes the arrays.
    let extensions = unsafe { entry.enumerate_instance_extension_properties(Some(LAYER)) }
        .map_err(|r| Error::of_call("vkEnumerateInstanceExtensionProperties", r))?;
    let present = extensions.iter().any(|e| e.extension_name_as_c_str() == Ok(FEATURES_EXTENSION));
    if present {
        Ok(())
    } else {
        Err(Error::NoValidation { missing: FEATURES_EXTENSION.to_string_lossy().into_owned() })
    }
}

fn messenger_info(log: &Arc<ValidationLog>) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    type Severity = vk::DebugUtilsMessageSeverityFlagsEXT;
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::WARNING | Severity::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
        .pfn_user_callback(Some(on_message))
        .user_data(Arc::as_ptr(log).cast_mut().cast())
}

unsafe extern "system" fn on_message(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    user: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer passes valid callback data, and `user` is the log that outlives the messenger.
    let (log, text, hazard, object) = unsafe {
        let data = &*data;
        let text = data.message_as_c_str().map_or_else(String::new, |t| t.to_string_lossy().into_owned());
        let hazard = data.message_id_name_as_c_str().is_some_and(|name| name.to_bytes().starts_with(b"SYNC-HAZARD"));
        let object = (data.object_count > 0).then(|| (*data.p_objects).object_handle);
        (&*user.cast::<ValidationLog>().cast_const(), text, hazard, object)
    };
    if hazard && object.is_some_and(|handle| lock(&log.untouched).contains(&handle)) {
        return vk::FALSE;
    }
    if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) {
        log::error!("validation: {text}");
    } else {
        log::warn!("validation: {text}");
    }
    log.push(text);
    vk::FALSE
}

/// `major.minor.patch` of a packed version.
pub(super) fn version_text(version: u32) -> String {
    format!("{}.{}.{}", vk::api_version_major(version), vk::api_version_minor(version), vk::api_version_patch(version))
}
