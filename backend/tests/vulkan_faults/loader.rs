//! A Vulkan whose calls fail when they are told to: the system's loader, with every call that answers with a `VkResult`
//! counted on its way to the driver.

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, OnceLock, PoisonError};

use ash::vk::{self, Result as Answer};

/// A call that may fail.
pub struct Call {
    pub name: &'static str,
    /// What it may answer beside success.
    pub answers: &'static [Answer],
}

/// The call of that name fails once, after so many that do not.
pub struct Fault {
    pub call: &'static str,
    pub after: usize,
    pub answer: Answer,
}

const MEMORY: &[Answer] = &[Answer::ERROR_OUT_OF_HOST_MEMORY, Answer::ERROR_OUT_OF_DEVICE_MEMORY];
const WORK: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_DEVICE_LOST];
const START: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_INITIALIZATION_FAILED];
const OPEN: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_INITIALIZATION_FAILED, Answer::ERROR_DEVICE_LOST];
const ALLOCATE: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_TOO_MANY_OBJECTS];
const MAP: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_MEMORY_MAP_FAILED];
const POOL: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_FRAGMENTED_POOL];
const FORMAT: &[Answer] = &[MEMORY[0], MEMORY[1], Answer::ERROR_FORMAT_NOT_SUPPORTED];
/// Drivers lose devices in calls of which the specification does not say so; compiling is long enough for that.
const BUILD: &[Answer] = WORK;

/// What a thunk stands before, by position in [`CALLS`].
static REAL: [AtomicPtr<c_void>; CALLS.len()] = [const { AtomicPtr::new(std::ptr::null_mut()) }; CALLS.len()];
static MADE: [AtomicUsize; CALLS.len()] = [const { AtomicUsize::new(0) }; CALLS.len()];
static ARMED: Mutex<Option<Fault>> = Mutex::new(None);
/// Instances and devices that were created and not destroyed.
static ALIVE: AtomicUsize = AtomicUsize::new(0);

/// Thunks of calls, whose arguments are words: so are all handles, pointers and integers of Vulkan to the 64-bit calling
/// conventions of the systems that this runs on.
macro_rules! calls {
    ($($name:ident($($argument:ident)*) = $answers:ident;)*) => {
        pub const CALLS: &[Call] = &[$(Call { name: stringify!($name), answers: $answers }),*];

        /// The thunk of a call, by position.
        const THUNKS: &[vk::PFN_vkVoidFunction] = &[$({
            #[allow(non_snake_case, reason = "Vulkan's names")]
            unsafe extern "system" fn $name($($argument: usize),*) -> Answer {
                answer(stringify!($name), |real| {
                    type Real = unsafe extern "system" fn($(words!($argument)),*) -> Answer;
                    // SAFETY: `real` is this function of the loader, called with what it was asked for.
                    unsafe { std::mem::transmute::<*mut c_void, Real>(real)($($argument),*) }
                })
            }
            // SAFETY: whoever looked up the name calls it as the function that it names.
            Some(unsafe { std::mem::transmute::<*const c_void, unsafe extern "system" fn()>($name as *const c_void) })
        }),*];
    };
}

macro_rules! words {
    ($argument:ident) => {
        usize
    };
}

calls! {
    vkEnumerateInstanceVersion(version) = MEMORY;
    vkEnumerateInstanceLayerProperties(count layers) = MEMORY;
    vkEnumerateInstanceExtensionProperties(layer count extensions) = MEMORY;
    vkCreateInstance(info allocator instance) = START;
    vkCreateDebugUtilsMessengerEXT(instance info allocator messenger) = MEMORY;
    vkEnumeratePhysicalDevices(instance count devices) = START;
    vkEnumerateDeviceExtensionProperties(device layer count extensions) = MEMORY;
    vkGetPhysicalDeviceImageFormatProperties(device format kind tiling usage flags properties) = FORMAT;
    vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(device count properties) = MEMORY;
    vkCreateDevice(adapter info allocator device) = OPEN;
    vkAllocateMemory(device info allocator memory) = ALLOCATE;
    vkMapMemory(device memory offset size flags address) = MAP;
    vkCreateBuffer(device info allocator buffer) = MEMORY;
    vkBindBufferMemory(device buffer memory offset) = MEMORY;
    vkCreateImage(device info allocator image) = MEMORY;
    vkBindImageMemory(device image memory offset) = MEMORY;
    vkCreateImageView(device info allocator view) = MEMORY;
    vkCreateDescriptorSetLayout(device info allocator layout) = MEMORY;
    vkCreatePipelineLayout(device info allocator layout) = MEMORY;
    vkCreateShaderModule(device info allocator module) = MEMORY;
    vkCreatePipelineCache(device info allocator cache) = MEMORY;
    vkGetPipelineCacheData(device cache size data) = MEMORY;
    vkCreateComputePipelines(device cache count infos allocator pipelines) = BUILD;
    vkCreateDescriptorPool(device info allocator pool) = MEMORY;
    vkAllocateDescriptorSets(device info sets) = POOL;
    vkCreateCommandPool(device info allocator pool) = MEMORY;
    vkAllocateCommandBuffers(device info buffers) = MEMORY;
    vkBeginCommandBuffer(commands info) = MEMORY;
    vkEndCommandBuffer(commands) = MEMORY;
    vkResetCommandBuffer(commands flags) = MEMORY;
    vkCreateFence(device info allocator fence) = MEMORY;
    vkResetFences(device count fences) = MEMORY;
    vkWaitForFences(device count fences all timeout) = WORK;
    vkCreateQueryPool(device info allocator pool) = MEMORY;
    vkGetQueryPoolResults(device pool first count size data stride flags) = WORK;
    vkQueueSubmit(queue count submits fence) = WORK;
    vkQueueWaitIdle(queue) = WORK;
}

/// Answers a call: by the fault that is armed for it, or as the loader does.
fn answer(name: &str, real: impl FnOnce(*mut c_void) -> Answer) -> Answer {
    let call = CALLS.iter().position(|call| call.name == name).expect("thunks are of calls");
    let made = MADE[call].fetch_add(1, SeqCst);
    let fault = armed().take_if(|fault| fault.call == name && fault.after == made);
    let real = || real(REAL[call].load(SeqCst));
    match fault {
        Some(fault) => {
            // What is waited for ends all the same, since validation knows nothing of the fault.
            if name.contains("Wait") {
                let _ = real();
            }
            fault.answer
        }
        None => {
            let answer = real();
            if answer == Answer::SUCCESS && matches!(name, "vkCreateInstance" | "vkCreateDevice") {
                ALIVE.fetch_add(1, SeqCst);
            }
            answer
        }
    }
}

fn armed() -> std::sync::MutexGuard<'static, Option<Fault>> {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts from 0 again, and lets a call fail.
pub fn arm(fault: Option<Fault>) {
    *armed() = fault;
    MADE.iter().for_each(|made| made.store(0, SeqCst));
}

/// Whether the armed fault is still to come; it does not come any more.
pub fn disarm() -> bool {
    armed().take().is_some()
}

/// Calls since they were counted from 0, by position in [`CALLS`].
pub fn made() -> Vec<usize> {
    MADE.iter().map(|made| made.load(SeqCst)).collect()
}

/// Instances and devices that are alive.
pub fn alive() -> usize {
    ALIVE.load(SeqCst)
}

static LOADER: OnceLock<ash::Entry> = OnceLock::new();
static DEVICE_PROC: OnceLock<vk::PFN_vkGetDeviceProcAddr> = OnceLock::new();
static DESTROY_INSTANCE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
static DESTROY_DEVICE: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Lets this process have the system's Vulkan through the thunks.
pub fn install() {
    // SAFETY: the system's loader is what devices use without this, too.
    LOADER.get_or_init(|| unsafe { ash::Entry::load() }.expect("a Vulkan loader"));
    // SAFETY: `instance_proc` answers as the loader does, or with a function that does what the one named does, or fails.
    assert!(unsafe { fblayout::vulkan::use_loader(instance_proc) }, "the first loader of this process");
}

unsafe extern "system" fn instance_proc(instance: vk::Instance, name: *const c_char) -> vk::PFN_vkVoidFunction {
    let loader = LOADER.get().expect("installed").static_fn();
    // SAFETY: the caller's promise.
    let (real, name) = unsafe { ((loader.get_instance_proc_addr)(instance, name)?, CStr::from_ptr(name)) };
    if name == c"vkGetDeviceProcAddr" {
        // SAFETY: that is the function's type.
        DEVICE_PROC.get_or_init(|| unsafe { std::mem::transmute::<unsafe extern "system" fn(), _>(real) });
        // SAFETY: whoever looked up the name calls it as that function.
        return Some(unsafe {
            std::mem::transmute::<vk::PFN_vkGetDeviceProcAddr, unsafe extern "system" fn()>(device_proc)
        });
    }
    Some(thunk(name, real))
}

unsafe extern "system" fn device_proc(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    let get = DEVICE_PROC.get().expect("devices are of instances");
    // SAFETY: the caller's promise.
    unsafe { Some(thunk(CStr::from_ptr(name), get(device, name)?)) }
}

/// The thunk of this name, if there is one, before the real function.
fn thunk(name: &CStr, real: unsafe extern "system" fn()) -> unsafe extern "system" fn() {
    type Destroy = unsafe extern "system" fn(usize, usize);
    let destroy = |slot: &AtomicPtr<c_void>, thunk: Destroy| {
        slot.store(real as *mut c_void, SeqCst);
        // SAFETY: whoever looked up the name calls it as that function.
        unsafe { std::mem::transmute::<Destroy, unsafe extern "system" fn()>(thunk) }
    };
    match name.to_str() {
        Ok("vkDestroyInstance") => destroy(&DESTROY_INSTANCE, destroy_instance),
        Ok("vkDestroyDevice") => destroy(&DESTROY_DEVICE, destroy_device),
        name => match CALLS.iter().position(|call| Ok(call.name) == name) {
            Some(call) => {
                REAL[call].store(real as *mut c_void, SeqCst);
                THUNKS[call].expect("a thunk of every call")
            }
            None => real,
        },
    }
}

unsafe extern "system" fn destroy_instance(instance: usize, allocator: usize) {
    // SAFETY: the caller's promise.
    unsafe { destroy(&DESTROY_INSTANCE, instance, allocator) }
}

unsafe extern "system" fn destroy_device(device: usize, allocator: usize) {
    // SAFETY: the caller's promise.
    unsafe { destroy(&DESTROY_DEVICE, device, allocator) }
}

unsafe fn destroy(real: &AtomicPtr<c_void>, object: usize, allocator: usize) {
    type Destroy = unsafe extern "system" fn(usize, usize);
    ALIVE.fetch_sub(1, SeqCst);
    // SAFETY: the slot holds the function of that name, and the arguments are those it was called with.
    unsafe { std::mem::transmute::<*mut c_void, Destroy>(real.load(SeqCst))(object, allocator) }
}
