// fblayout: tensor graphs forward and backward, planned and replayed on Vulkan.
//
// Generated from ffi/c by its test `header`; docs/c.md introduces it.
//
// Any call answers NULLs, unknown numbers and short structs with a status: none aborts. A pointer that is neither NULL nor what the
// contract of a call says, and a handle that was destroyed, is undefined behaviour, as everywhere in C.

#ifndef FBLAYOUT_H
#define FBLAYOUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FBL_VERSION_MAJOR 0
#define FBL_VERSION_MINOR 1
#define FBL_VERSION_PATCH 0
/* For comparisons by the preprocessor, and for fbl_check_version. */
#define FBL_VERSION_NUMBER ((FBL_VERSION_MAJOR << 20) | (FBL_VERSION_MINOR << 10) | FBL_VERSION_PATCH)

/* Whether the library that runs serves programs compiled with this header: FBL_OK, or why not by fbl_error_message. */
#define FBL_CHECK_VERSION() fbl_check_version(FBL_ABI_VERSION, FBL_VERSION_NUMBER)

/* Every field of a struct its default, and its size: fbl_engine_options options; FBL_INIT(options); */
#define FBL_INIT(object) (memset(&(object), 0, sizeof(object)), (void)((object).struct_size = sizeof(object)))

#if defined(_WIN32) && !defined(FBL_STATIC)
#define FBL_API __declspec(dllimport)
#else
#define FBL_API
#endif

// A GPU with memory of its own.
#define FBL_DEVICE_DISCRETE 1

// A GPU that shares the host's memory.
#define FBL_DEVICE_INTEGRATED 2

// A GPU seen through a hypervisor.
#define FBL_DEVICE_VIRTUAL 3

// A driver that computes on the CPU.
#define FBL_DEVICE_CPU 4

// Something else.
#define FBL_DEVICE_OTHER 5

// As the engine does, or as the environment says (`FBL_POLICY`, `FBL_STORAGE`, ...).
#define FBL_DEFAULT 0

// Tensors live in what the device does best.
#define FBL_STORAGE_AUTO 1

// Tensors live in buffers.
#define FBL_STORAGE_BUFFER 2

// Tensors live in images wherever the limits allow.
#define FBL_STORAGE_IMAGE 3

// Tiled layouts, copies become coordinates, ops run together: the default.
#define FBL_POLICY_FULL 1

// The same with every op by itself.
#define FBL_POLICY_RTILE_MAPS 2

// Tiled layouts; copies that the graph asks for are made.
#define FBL_POLICY_RTILE 3

// Row-major layouts that kernels read through strides.
#define FBL_POLICY_HONEST_ROWMAJOR 4

// Row-major layouts; elementwise ops run behind the kernel before them.
#define FBL_POLICY_FUSED_ELEMENTWISE 5

// One layout, passed on; permuted operands are copied once.
#define FBL_POLICY_LAYOUT_REUSE 6

// Every view is copied for every reader.
#define FBL_POLICY_CONVERT_ALWAYS 7

// Attention that a graph trains is computed as it is written.
#define FBL_ATTENTION_UNFUSED 1

// Attention that a graph trains as products and a softmax is computed in one sweep, without memory for its scores.
#define FBL_ATTENTION_FUSED 2

// No validation of Vulkan's calls.
#define FBL_VALIDATION_OFF 1

// The Khronos validation layer; its messages are counted by `fbl_engine_validation_count`.
#define FBL_VALIDATION_CORE 2

// The same with synchronization.
#define FBL_VALIDATION_SYNC 3

// Nothing is told.
#define FBL_LOG_OFF 0

// Calls that failed.
#define FBL_LOG_ERROR 1

// What works, but not as it should.
#define FBL_LOG_WARN 2

// What happens once: devices, files.
#define FBL_LOG_INFO 3

// What is decided: plans, refusals.
#define FBL_LOG_DEBUG 4

// Number of the binary interface: it changes when a program must be compiled again. It is part of the library's file name.
#define FBL_ABI_VERSION 0

// Ops forward and backward, programs, plans.
#define FBL_FEATURE_GRAPH 1

// Adapters, optimizers, checkpoints.
#define FBL_FEATURE_TRAIN 2

// The library was built with what only its tests need; do not ship it.
#define FBL_FEATURE_TEST 3

// An engine: one device, opened. Its calls may come from any thread, several at once.
typedef struct fbl_engine fbl_engine;

// What a call answers: 0 or a positive number where it did what was asked, a negative one where it did not. A call that fails changes
// nothing, unless its description says otherwise.
typedef int32_t fbl_status;

// What a device says of itself.
typedef struct {
  // sizeof this struct, set by the caller: FBL_INIT.
  size_t struct_size;
  // Bytes of its largest heap.
  uint64_t memory_bytes;
  // One of FBL_DEVICE_*.
  uint32_t kind;
  // Its place in the list, which `fbl_engine_options` takes.
  uint32_t index;
  // Name, UTF-8, cut to what fits.
  char name[256];
  // Name and version of the driver, the same.
  char driver[256];
} fbl_device_info;

// How an engine opens its device. Zero is the default of every field: what the environment says where the library reads a variable for
// it (docs: README.md, "Use it from your own ggml host"), else what the library thinks best.
typedef struct {
  // sizeof this struct: FBL_INIT.
  size_t struct_size;
  // Which device, from 0: real GPUs come first.
  uint32_t device;
  // One of FBL_STORAGE_*.
  uint32_t storage;
  // One of FBL_POLICY_*: how programs treat layouts, unless `fbl_compile_options` says otherwise.
  uint32_t policy;
  // One of FBL_ATTENTION_*.
  uint32_t attention;
  // One of FBL_VALIDATION_*.
  uint32_t validation;
  // Zero.
  uint32_t reserved;
  // Bytes that a program may take together with its tensors; values are computed again where it would take more. 0: no bound.
  uint64_t budget_bytes;
  // Limits to pretend: a preset's name such as "adreno-830", or JSON such as {"heap_bytes": 67108864}. NULL: the device's own.
  const char *limits;
  // Folder for what is kept from run to run (pipelines, profiles), or "off". NULL: the user's cache folder.
  const char *cache;
} fbl_engine_options;

// What the log calls: `level` is one of `FBL_LOG_*`, `message` is UTF-8 of `length` bytes and ends with NUL; it is valid during the call.
// It comes from any thread, also from several at once, and must not call the library.
typedef void (*fbl_log_callback)(uint32_t level, const char *message, size_t length, void *user);

// Done.
#define FBL_OK 0

// Done, but a text had no room: `*length` tells how much it needs.
#define FBL_TRUNCATED 1

// Training was stopped by `fbl_trainer_stop`; no step was taken.
#define FBL_STOPPED 2

// A pointer is NULL that must not be.
#define FBL_ERR_NULL -1

// An argument is none of those allowed: an unknown number of an enumeration, a handle of something else, a text that means nothing.
#define FBL_ERR_INVALID_ARGUMENT -2

// `struct_size` is smaller than the struct ever was, or the caller knows fields that this library does not and has set them.
#define FBL_ERR_STRUCT_SIZE -3

// The graph breaks a rule of shapes, dtypes or order; the message names node, operand and rule.
#define FBL_ERR_GRAPH -4

// The graph is sound, but this device cannot run it; the message names the limit.
#define FBL_ERR_UNSUPPORTED -5

// Device memory ran out.
#define FBL_ERR_OUT_OF_MEMORY -6

// There is no such device, no driver or no loader, or a call of Vulkan failed.
#define FBL_ERR_DEVICE -7

// The device was lost, and its engine with it: destroy it and create another.
#define FBL_ERR_DEVICE_LOST -8

// A file cannot be read or written, or holds something else.
#define FBL_ERR_FILE -9

// Another thread is in a call with this handle, or a callback called back.
#define FBL_ERR_BUSY -10

// An earlier call with this engine failed by a defect of the library (`FBL_ERR_PANIC`): only destroy it.
#define FBL_ERR_POISONED -11

// A defect of the library; the engine is poisoned.
#define FBL_ERR_PANIC -100

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Number of devices that can be opened: Vulkan 1.1 and compute; real GPUs come before drivers of the CPU.
//
// Any thread.
//
// Errors: FBL_ERR_DEVICE where there is no loader or no device.
//
// Contract:
// `count` points to a uint32_t.
FBL_API fbl_status fbl_device_count(uint32_t *count);

// What the device with this index is.
//
// Any thread.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where there is no such device, FBL_ERR_STRUCT_SIZE, FBL_ERR_DEVICE.
//
// Contract:
// `info` points to a struct of `info->struct_size` bytes.
FBL_API fbl_status fbl_device_get(uint32_t index, fbl_device_info *info);

// Limits of a device as a JSON object, as an engine without a clamp has them: sizes in bytes, images in texels of 16 bytes, its matrix
// units. Text convention: see `fbl_error_message`.
//
// Any thread.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where there is no such device, FBL_ERR_DEVICE.
//
// Contract:
// `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_device_limits(uint32_t index,
                             char *buffer,
                             size_t capacity,
                             size_t *length);

// Opens a device. `options` may be NULL: the first device, every default.
//
// Any thread. `*engine` is the caller's, to be destroyed by `fbl_engine_destroy`; it is NULL where the call fails.
//
// Errors: FBL_ERR_DEVICE without such a device, FBL_ERR_INVALID_ARGUMENT for an unknown number, clamp or environment variable,
// FBL_ERR_STRUCT_SIZE.
//
// Contract:
// `options` is NULL or points to a struct of `options->struct_size` bytes, `engine` points to a pointer.
FBL_API
fbl_status fbl_engine_create(const fbl_engine_options *options,
                             fbl_engine **engine);

// Destroys an engine; NULL is allowed. Graphs, programs and trainers of it may live on and be used: the device is closed with the last
// of them.
//
// Any thread, once for each engine.
//
// Contract:
// `engine` is NULL or came from `fbl_engine_create`, was not destroyed, and no thread is in a call with it.
FBL_API
void fbl_engine_destroy(fbl_engine *engine);

// Words of the last failure: with an engine of that in any call with it or what belongs to it, with NULL of that in any call of this
// thread. Empty where nothing failed.
//
// Text convention, here and elsewhere: `buffer` gets as much as fits in `capacity` bytes, with a NUL at the end, and `*length` the
// length of the whole text without NUL. FBL_TRUNCATED says that more room is needed; `buffer` may be NULL and `capacity` 0 to ask for
// the length, `length` may be NULL.
//
// Any thread; also with an engine that is poisoned.
//
// Contract:
// `engine` is NULL or an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_error_message(const fbl_engine *engine,
                             char *buffer,
                             size_t capacity,
                             size_t *length);

// Limits of an engine's device, clamped as its options asked, as a JSON object. Text convention: see `fbl_error_message`.
//
// Any thread.
//
// Contract:
// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_engine_limits(const fbl_engine *engine,
                             char *buffer,
                             size_t capacity,
                             size_t *length);

// What the device does, as it was measured before (`fbl_engine_probe`, or `fblayout probe`): caches in bytes, rates a second, times in
// seconds, as a JSON object. Text convention: see `fbl_error_message`.
//
// Any thread.
//
// Errors: FBL_ERR_FILE where it was never measured, or no folder is kept.
//
// Contract:
// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_engine_profile(const fbl_engine *engine,
                              char *buffer,
                              size_t capacity,
                              size_t *length);

// Measures what the device does, which takes seconds to a minute and wants the device for itself, and gives it as `fbl_engine_profile`
// does, for which it is kept if there is a folder. Call it with room for 16 KiB: to ask for the length is to measure.
//
// Any thread.
//
// Errors: FBL_ERR_DEVICE and those of a lost device.
//
// Contract:
// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_engine_probe(const fbl_engine *engine,
                            char *buffer,
                            size_t capacity,
                            size_t *length);

// Messages of the validation layer until now; 0 without validation. Each is a defect of the library.
//
// Any thread.
//
// Contract:
// `engine` is an engine, `count` points to a uint64_t.
FBL_API fbl_status fbl_engine_validation_count(const fbl_engine *engine, uint64_t *count);

// Tells messages up to a level (`FBL_LOG_*`) to a callback, with `user` as its last argument; of what was set before, nothing is called
// once this returns. NULL tells nobody. At first nobody is told.
//
// Any thread, but not the callback. `user` stays the program's.
//
// Errors: FBL_ERR_INVALID_ARGUMENT for an unknown level, FBL_ERR_BUSY from within the callback.
FBL_API
fbl_status fbl_log_set(fbl_log_callback callback,
                       void *user,
                       uint32_t max_level);

// Name of a status, such as "FBL_ERR_NULL"; "FBL_ERR_UNKNOWN" of a number that is none.
//
// Any thread. The text is static.
FBL_API const char *fbl_status_name(fbl_status status);

// Version of the library that runs, "major.minor.patch" by the rules of semver.org.
//
// Any thread. The text is static.
FBL_API const char *fbl_version(void);

// Number of the binary interface of the library that runs; compare with `FBL_ABI_VERSION`, or call `FBL_CHECK_VERSION()`.
//
// Any thread.
FBL_API
uint32_t fbl_abi_version(void);

// Whether a program that was compiled with a header of this ABI and version (`FBL_VERSION_NUMBER`) runs with this library.
// `FBL_CHECK_VERSION()` calls it with those of the header at hand.
//
// Any thread.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where the ABI is another, or the header is newer than the library.
FBL_API
fbl_status fbl_check_version(uint32_t abi,
                             uint32_t version);

// 1 where the library has a feature (`FBL_FEATURE_*`), else 0; also of numbers that no version knows.
//
// Any thread.
FBL_API uint32_t fbl_has_feature(uint32_t feature);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FBLAYOUT_H */
