// fblayout: tensor graphs forward and backward, planned and replayed on Vulkan.
//
// Generated from ffi/c by its test `header`; docs/c.md introduces it.
//
// What holds for every call that does not say otherwise:
//
// Answers. A call that can fail answers an fbl_status. It never aborts while the host has memory: NULL where something is needed is
// FBL_ERR_NULL, a number or a handle that means nothing FBL_ERR_INVALID_ARGUMENT, a struct of a size that never was FBL_ERR_STRUCT_SIZE,
// and a defect of the library FBL_ERR_PANIC, after which its engine answers FBL_ERR_POISONED. A call that fails changes nothing. Only a
// pointer that is neither NULL nor what the call's contract says, and a handle that was destroyed, is undefined behaviour, as everywhere
// in C.
//
// Threads. An engine may be used by any number of threads at once. A graph, a program and a trainer by one thread at a time, whichever:
// a call while another thread is in one with the same handle is FBL_ERR_BUSY.
//
// Ownership. What a call creates is the caller's, until it is destroyed; what belongs together lives as long as one of it does, so that
// the order does not matter. What pointers of a call name is read or written during the call alone. Destroying NULL is allowed.
//
// Sizes are bytes, extents are elements, times are seconds.

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

// Number of the binary interface: it changes when a program must be compiled again. It is part of the library's file name.
#define FBL_ABI_VERSION 0

// Ops forward and backward, programs, plans.
#define FBL_FEATURE_GRAPH 1

// Adapters, optimizers, checkpoints.
#define FBL_FEATURE_TRAIN 2

// The library was built with what only its tests need; do not ship it.
#define FBL_FEATURE_TEST 3

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

// Attention that a graph trains is fused where matrix units compute it: the default.
#define FBL_ATTENTION_AUTO 1

// Attention that a graph trains is computed as it is written.
#define FBL_ATTENTION_UNFUSED 2

// Attention that a graph trains as products and a softmax is computed in one sweep, without memory for its scores.
#define FBL_ATTENTION_FUSED 3

// A head is computed with its loss in chunks of as many tokens as suit the device: the default.
#define FBL_HEAD_CHUNKED 4294967294

// A head is computed as it is written, with logits of all tokens at once.
#define FBL_HEAD_WHOLE 4294967295

// No validation of Vulkan's calls.
#define FBL_VALIDATION_OFF 1

// The Khronos validation layer; its messages are counted by `fbl_engine_validation_count`.
#define FBL_VALIDATION_CORE 2

// The same with synchronization.
#define FBL_VALIDATION_SYNC 3

// 32-bit float.
#define FBL_F32 0

// 16-bit float.
#define FBL_F16 1

// 4-bit quants with a scale per block of 32.
#define FBL_Q4_0 2

// 4-bit quants with a scale and a minimum per block of 32.
#define FBL_Q4_1 3

// 5-bit quants with a scale per block of 32.
#define FBL_Q5_0 6

// 5-bit quants with a scale and a minimum per block of 32.
#define FBL_Q5_1 7

// 8-bit quants with a scale per block of 32.
#define FBL_Q8_0 8

// 2-bit quants in blocks of 256.
#define FBL_Q2_K 10

// 3-bit quants in blocks of 256.
#define FBL_Q3_K 11

// 4-bit quants in blocks of 256.
#define FBL_Q4_K 12

// 5-bit quants in blocks of 256.
#define FBL_Q5_K 13

// 6-bit quants in blocks of 256.
#define FBL_Q6_K 14

// 4-bit numbers of a table of uneven steps, in blocks of 32.
#define FBL_IQ4_NL 20

// The same in blocks of 256.
#define FBL_IQ4_XS 23

// 32-bit signed integer.
#define FBL_I32 26

// 64-bit signed integer.
#define FBL_I64 27

// The upper half of a 32-bit float.
#define FBL_BF16 30

// -1, 0 or 1 in blocks of 256, five to a byte.
#define FBL_TQ1_0 34

// -1, 0 or 1 in blocks of 256, four to a byte.
#define FBL_TQ2_0 35

// 4-bit floats with a power of two per block of 32.
#define FBL_MXFP4 39

// AdamW: the default.
#define FBL_OPTIMIZER_ADAMW 1

// Gradient descent.
#define FBL_OPTIMIZER_SGD 2

// An engine: one device, opened. Its calls may come from any thread, several at once.
typedef struct fbl_engine fbl_engine;

// A graph under construction. One thread at a time: a call while another is in one with the same graph is FBL_ERR_BUSY.
//
// Shapes have four axes, axis 0 innermost: element `(i0, i1, i2, i3)` of a tensor lies behind `i0 + n0 (i1 + n1 (i2 + n2 i3))` others in the
// host's bytes. A matrix of `r` rows of `c` numbers, as C has it, is `{c, r, 1, 1}`.
typedef struct fbl_graph fbl_graph;

// A graph compiled for its engine's device: layouts, memory and commands are decided and recorded, to be replayed by every run. It has
// memory for the inputs, parameters and outputs of the graph. One thread at a time: a call while another is in one with the same program
// is FBL_ERR_BUSY.
typedef struct fbl_program fbl_program;

// A training run: a graph with its gradients and an optimizer, compiled to one program per step. One thread at a time, but for
// `fbl_trainer_stop`: a call while another is in one with the same trainer or its program is FBL_ERR_BUSY.
typedef struct fbl_trainer fbl_trainer;

// What a call answers: 0 or a positive number where it did what was asked, a negative one where it did not. A call that fails changes
// nothing, unless its description says otherwise.
typedef int32_t fbl_status;

// What the log calls: `level` is one of `FBL_LOG_*`, `message` is UTF-8 of `length` bytes and ends with NUL; it is valid during the call.
// It comes from any thread, also from several at once, and must neither call the library nor throw.
typedef void (*fbl_log_callback)(uint32_t level, const char *message, size_t length, void *user);

// What a device says of itself.
typedef struct fbl_device_info {
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
typedef struct fbl_engine_options {
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
  // How heads are computed with their losses, by the full policy: one of FBL_HEAD_*, or in chunks of so many tokens at most (of more
  // where that would be more than 1024 chunks).
  uint32_t head;
  // Bytes that a program may take together with its tensors; values are computed again where it would take more. 0: no bound.
  uint64_t budget_bytes;
  // Limits to pretend: a preset's name such as "adreno-830", or JSON such as {"heap_bytes": 67108864}. NULL: the device's own.
  const char *limits;
  // Folder for what is kept from run to run (pipelines, profiles), or "off". NULL: the user's cache folder.
  const char *cache;
} fbl_engine_options;

// An extent of a shape: a number of elements from 1 on, or what `fbl_graph_extent` gave (which is negative), or FBL_REST.
typedef int64_t fbl_extent;

// A tensor of a graph: a value or a view of one. It is a number and owns nothing; it means the same in the graph that made it and in the
// programs and trainers made of that later, and nothing elsewhere, where it is refused. What only a trainer has (`fbl_program_find`) means
// nothing outside its program. 0 is no tensor.
typedef uint64_t fbl_tensor;

// Dtype, shape and size of a tensor.
typedef struct fbl_tensor_desc {
  // sizeof this struct: FBL_INIT.
  size_t struct_size;
  // Bytes of the tensor as the host has it.
  uint64_t bytes;
  // Elements of each axis, axis 0 innermost.
  uint32_t shape[4];
  // Its element type, by the number that GGUF files have.
  uint32_t dtype;
  // Zero.
  uint32_t reserved;
} fbl_tensor_desc;

// An input or parameter whose memory is that of another program's tensor: weights that several programs read, state that one writes and
// another reads. Programs that share what one of them writes run one after the other. Two tensors of one program cannot share.
typedef struct fbl_binding {
  // The input or parameter.
  fbl_tensor tensor;
  // A program of the same engine.
  const struct fbl_program *program;
  // An input, parameter or output of it, of the same type and shape.
  fbl_tensor source;
} fbl_binding;

// How a graph is compiled. Zero is the engine's choice.
typedef struct fbl_compile_options {
  // sizeof this struct: FBL_INIT.
  size_t struct_size;
  // One of FBL_STORAGE_*.
  uint32_t storage;
  // One of FBL_POLICY_*.
  uint32_t policy;
  // One of FBL_ATTENTION_*.
  uint32_t attention;
  // How heads are computed with their losses, by the full policy: one of FBL_HEAD_*, or in chunks of so many tokens at most (of more
  // where that would be more than 1024 chunks).
  uint32_t head;
  // Bytes that the program may take together with its tensors; values are computed again where it would take more.
  uint64_t budget_bytes;
  // Inputs and parameters that share their memory.
  const struct fbl_binding *bindings;
  // How many.
  size_t binding_count;
} fbl_compile_options;

// Low-rank pairs beside frozen weights: products `MUL_MAT(W, x)` become `W x + alpha / rank * B (A x)`, with A {k, rank} and B {rank, m}
// trained in F32 beside W {k, m} of any type.
typedef struct fbl_adapter {
  // Names of the weights, in which * stands for any letters: "blk.*.attn_q.weight".
  const char *weights;
  // At least 1.
  uint32_t rank;
  // The pair's product is scaled by alpha / rank.
  float alpha;
} fbl_adapter;

// What is trained, and how. Zero is the default of every field but `loss`.
typedef struct fbl_train_options {
  // sizeof this struct: FBL_INIT.
  size_t struct_size;
  // What is minimised: F32, one element.
  fbl_tensor loss;
  // Logits {classes, rows} by which accuracy is counted; 0: it is not.
  fbl_tensor logits;
  // Labels of the same shape.
  fbl_tensor labels;
  // Adapters, of which the first that names a weight counts. Without any, the graph's parameters are trained.
  const struct fbl_adapter *adapters;
  // How many.
  size_t adapter_count;
  // Start of the random numbers in the pairs: uniform up to 1 / sqrt(k) in A; B begins with zeros, so that at first nothing changes.
  uint64_t seed;
  // One of FBL_OPTIMIZER_*.
  uint32_t optimizer;
  // AdamW: decay of the first moment; 0 means 0.9.
  float beta1;
  // AdamW: decay of the second moment; 0 means 0.999.
  float beta2;
  // AdamW: added to the root of the second moment; 0 means 1e-8.
  float eps;
  // Step size of the first steps; 0 means 1e-3. `fbl_trainer_set_pace` changes it.
  float learning_rate;
  // Weights shrink by `learning_rate` times this a step.
  float weight_decay;
  // How the step is compiled; NULL: as the engine does. Bindings share frozen weights with other programs.
  const struct fbl_compile_options *compile;
} fbl_train_options;

// What a step or an evaluation found.
typedef struct fbl_outcome {
  // sizeof this struct: FBL_INIT.
  size_t struct_size;
  // Steps taken until now, those of a checkpoint included.
  uint64_t step;
  // Rows of labels.
  uint64_t rows;
  // Rows whose greatest logit is where their greatest label is.
  uint64_t right;
  // The loss, of the weights before the step.
  float loss;
  // `right / rows`; 0 where nothing is counted.
  float accuracy;
} fbl_outcome;

// Done.
#define FBL_OK 0

// Done, but a text had no room: `*length` tells how much it needs.
#define FBL_TRUNCATED 1

// Training was stopped by `fbl_trainer_stop`; no step was taken.
#define FBL_STOPPED 2

// A pointer is NULL that must not be.
#define FBL_ERR_NULL (-1)

// An argument is none of those allowed: an unknown number of an enumeration, a handle of something else, a text that means nothing.
#define FBL_ERR_INVALID_ARGUMENT (-2)

// `struct_size` is smaller than the struct ever was, or the caller knows fields that this library does not and has set them.
#define FBL_ERR_STRUCT_SIZE (-3)

// The graph breaks a rule of shapes, dtypes or order; the message names node, operand and rule.
#define FBL_ERR_GRAPH (-4)

// The graph is sound, but this device cannot run it; the message names the limit.
#define FBL_ERR_UNSUPPORTED (-5)

// Device memory ran out.
#define FBL_ERR_OUT_OF_MEMORY (-6)

// There is no such device, no driver or no loader, or a call of Vulkan failed.
#define FBL_ERR_DEVICE (-7)

// The device was lost, and its engine with it: destroy it and create another.
#define FBL_ERR_DEVICE_LOST (-8)

// A file cannot be read or written, or holds something else.
#define FBL_ERR_FILE (-9)

// Another thread is in a call with this handle, or a callback called back.
#define FBL_ERR_BUSY (-10)

// An earlier call with this engine failed by a defect of the library (`FBL_ERR_PANIC`): only destroy it.
#define FBL_ERR_POISONED (-11)

// A defect of the library; the engine is poisoned.
#define FBL_ERR_PANIC (-100)

// In a reshape, one axis may have what the others leave.
#define FBL_REST 0

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

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
FBL_API fbl_status fbl_device_get(uint32_t index, struct fbl_device_info *info);

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
fbl_status fbl_engine_create(const struct fbl_engine_options *options,
                             struct fbl_engine **engine);

// Destroys an engine; NULL is allowed. Graphs, programs and trainers of it may live on and be used: the device is closed with the last
// of them.
//
// Any thread, once for each engine.
//
// Contract:
// `engine` is NULL or came from `fbl_engine_create`, was not destroyed, and no thread is in a call with it.
FBL_API
void fbl_engine_destroy(struct fbl_engine *engine);

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
fbl_status fbl_error_message(const struct fbl_engine *engine,
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
fbl_status fbl_engine_limits(const struct fbl_engine *engine,
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
fbl_status fbl_engine_profile(const struct fbl_engine *engine,
                              char *buffer,
                              size_t capacity,
                              size_t *length);

// Measures what the device does, which takes seconds to a minute and wants the device for itself, and gives it as `fbl_engine_profile`
// does, for which it is kept if there is a folder that can be written. Call it with room for 16 KiB: to ask for the length is to measure.
//
// Any thread.
//
// Errors: FBL_ERR_OUT_OF_MEMORY, FBL_ERR_DEVICE_LOST, FBL_ERR_DEVICE.
//
// Contract:
// `engine` is an engine; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_engine_probe(const struct fbl_engine *engine,
                            char *buffer,
                            size_t capacity,
                            size_t *length);

// Messages of the validation layer until now; 0 without validation. Each is a defect of the library.
//
// Any thread.
//
// Contract:
// `engine` is an engine, `count` points to a uint64_t.
FBL_API fbl_status fbl_engine_validation_count(const struct fbl_engine *engine, uint64_t *count);

// Makes an empty graph.
//
// Any thread. `*graph` is the caller's, to be destroyed by `fbl_graph_destroy`; it is NULL where the call fails.
//
// Contract:
// `engine` is an engine, `graph` points to a pointer.
FBL_API fbl_status fbl_graph_create(const struct fbl_engine *engine, struct fbl_graph **graph);

// Destroys a graph; NULL is allowed. Programs and trainers of it live on.
//
// Any thread, once for each graph.
//
// Contract:
// `graph` is NULL or came from `fbl_graph_create`, was not destroyed, and no thread is in a call with it.
FBL_API void fbl_graph_destroy(struct fbl_graph *graph);

// Declares an extent that may change after compilation (`fbl_program_resize`), such as the number of tokens, with its value of now. Shapes
// and views take `*extent` where they take a number.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where `value` is 0.
//
// Contract:
// `graph` is a graph, `name` ends with NUL, `extent` points to an fbl_extent.
FBL_API
fbl_status fbl_graph_extent(struct fbl_graph *graph,
                            const char *name,
                            uint32_t value,
                            fbl_extent *extent);

// Adds a tensor that exists outside the graph: data, a frozen weight, a cache. Its content is zero in a new program, until it is uploaded.
//
// `shape` are extents of the four axes, `type` one of FBL_F32, FBL_Q4_K and so on; `name` is for people, adapters and `fbl_graph_find`.
//
// Errors: FBL_ERR_INVALID_ARGUMENT for an unknown type, an extent of 0, or a row that is no whole number of the type's blocks.
//
// Contract:
// `graph` is a graph, `name` ends with NUL, `shape` has four extents, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_input(struct fbl_graph *graph,
                     const char *name,
                     uint32_t type,
                     const fbl_extent *shape,
                     fbl_tensor *result);

// `fbl_input` for a weight that a trainer without adapters trains. F32.
//
// Contract:
// As `fbl_input`.
FBL_API
fbl_status fbl_parameter(struct fbl_graph *graph,
                         const char *name,
                         uint32_t type,
                         const fbl_extent *shape,
                         fbl_tensor *result);

// Adds an op of the table (`fbl_ops` lists it): `op` is its name, such as "MUL_MAT", `attributes` are those that it takes, as
// "name=value" with spaces between, such as "n_dims=64 mode=neox", or NULL. Numbers have a point, whatever the locale; lists have commas. They stay as they are when extents change.
//
// `inputs` are `count` tensors in the op's order, each of which may be a view. `*result` is the tensor computed.
//
// Errors: FBL_ERR_INVALID_ARGUMENT for an unknown op or attribute, FBL_ERR_GRAPH where shapes or types break the op's rule, which the
// message tells.
//
// Contract:
// `graph` is a graph, the texts end with NUL, `inputs` has `count` tensors, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_op(struct fbl_graph *graph,
                  const char *op,
                  const char *attributes,
                  const fbl_tensor *inputs,
                  size_t count,
                  fbl_tensor *result);

// `fbl_op` for ops that take type and shape of their result from the caller: CPY, REPEAT, REPEAT_BACK, GET_ROWS_BACK, FILL, ARANGE, TOP_K,
// PAD and its kind, UPSCALE, pools, IM2COL and IM2COL_BACK. For all others they must be what the op's rule gives.
//
// Contract:
// As `fbl_op`; `shape` has four extents.
FBL_API
fbl_status fbl_op_as(struct fbl_graph *graph,
                     const char *op,
                     const char *attributes,
                     const fbl_tensor *inputs,
                     size_t count,
                     uint32_t type,
                     const fbl_extent *shape,
                     fbl_tensor *result);

// `fbl_op` that writes a tensor that exists outside the graph, `target`: steps of an optimizer (OPT_STEP_ADAMW, OPT_STEP_SGD, whose first
// input is the target), caches (SET_ROWS, SET, whose first input is), accumulators (ADD of the target and something). Nodes that are added later see what it wrote.
//
// Contract:
// As `fbl_op`.
FBL_API
fbl_status fbl_op_into(struct fbl_graph *graph,
                       const char *op,
                       const char *attributes,
                       const fbl_tensor *inputs,
                       size_t count,
                       fbl_tensor target);

// Adds nodes that compute the gradients of `loss` with respect to `count` tensors, `wanted`: `results[i]` is F32, in the shape of
// `wanted[i]`. Of a loss of more than one element it is the gradient of their sum. Trainers do this by themselves.
//
// Errors: FBL_ERR_GRAPH where the loss does not depend on a tensor, or an op on the way has no gradient: the message says which, and why.
//
// Contract:
// `graph` is a graph, `wanted` has `count` tensors, `results` has room for as many.
FBL_API
fbl_status fbl_gradients(struct fbl_graph *graph,
                         fbl_tensor loss,
                         const fbl_tensor *wanted,
                         size_t count,
                         fbl_tensor *results);

// Keeps what a computed tensor holds after a run, to be downloaded; what is not kept has no memory of its own. Inputs and parameters are
// there anyway.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where it is a view: copy it (CPY) and keep the copy.
//
// Contract:
// `graph` is a graph.
FBL_API
fbl_status fbl_output(struct fbl_graph *graph,
                      fbl_tensor x);

// Names a tensor that is no view, for plans and for `fbl_graph_find`.
//
// Contract:
// `graph` is a graph, `name` ends with NUL.
FBL_API fbl_status fbl_graph_name(struct fbl_graph *graph, fbl_tensor x, const char *name);

// The first tensor with this name; 0 where there is none.
//
// Contract:
// `graph` is a graph, `name` ends with NUL, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_graph_find(const struct fbl_graph *graph, const char *name, fbl_tensor *result);

// Type, shape and size of a tensor, at the extents of now.
//
// Contract:
// `graph` is a graph, `desc` points to a struct of `desc->struct_size` bytes.
FBL_API fbl_status fbl_graph_describe(const struct fbl_graph *graph, fbl_tensor x, struct fbl_tensor_desc *desc);

// The table of ops as JSON: per op its name, fewest and most operands, those that it updates in place, attributes with what they may be
// and their defaults, and why it has no gradient, where it has none. Text convention: see `fbl_error_message`.
//
// Any thread.
//
// Contract:
// `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_ops(char *buffer,
                   size_t capacity,
                   size_t *length);

// A view of `x` with the same elements in the same order under another shape, one extent of which may be FBL_REST. Views cost nothing.
//
// Errors: FBL_ERR_GRAPH where the numbers of elements differ, or `x` is a view whose order no shape has: copy it (CPY).
// FBL_ERR_INVALID_ARGUMENT where FBL_REST stands twice, or no whole number for it, or the type of `x` has no such shape.
//
// Contract:
// `graph` is a graph, `shape` has four extents, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_reshape(struct fbl_graph *graph,
                       fbl_tensor x,
                       const fbl_extent *shape,
                       fbl_tensor *result);

// A view of `x` with its axes in another order: axis `i` of the result is axis `axes[i]` of `x`. {1, 0, 2, 3} transposes.
//
// Errors: FBL_ERR_GRAPH where `axes` are not 0 to 3 in some order.
//
// Contract:
// `graph` is a graph, `axes` has four numbers, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_permute(struct fbl_graph *graph,
                       fbl_tensor x,
                       const uint32_t *axes,
                       fbl_tensor *result);

// A view of `count` neighbours of `x` along an axis, from `start` on.
//
// Errors: FBL_ERR_GRAPH where they leave the axis; FBL_ERR_INVALID_ARGUMENT where there is no such axis, or `count` is FBL_REST.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_slice(struct fbl_graph *graph,
                     fbl_tensor x,
                     uint32_t axis,
                     uint32_t start,
                     fbl_extent count,
                     fbl_tensor *result);

// A view of `x` with an axis of one element repeated `count` times.
//
// Errors: FBL_ERR_GRAPH where the axis has more; FBL_ERR_INVALID_ARGUMENT where there is no such axis, or `count` is FBL_REST.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_expand(struct fbl_graph *graph,
                      fbl_tensor x,
                      uint32_t axis,
                      fbl_extent count,
                      fbl_tensor *result);

// MUL_MAT: `w` {k, m} of any float or quantized type, `x` F32 {k, n, b, c} -> F32 {m, n, b, c}: every row of `x` times every row of `w`.
// Axes 2 and 3 of `w` divide those of `x`, and are shared by neighbours.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_matmul(struct fbl_graph *graph,
                      fbl_tensor w,
                      fbl_tensor x,
                      fbl_tensor *result);

// ADD: F32 `a + b`; `b` repeats to the shape of `a`.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_add(struct fbl_graph *graph, fbl_tensor a, fbl_tensor b, fbl_tensor *result);

// MUL: F32 `a * b` by element; `b` repeats to the shape of `a`.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_mul(struct fbl_graph *graph, fbl_tensor a, fbl_tensor b, fbl_tensor *result);

// SCALE: F32 `x * scale`.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_scale(struct fbl_graph *graph, fbl_tensor x, float scale, fbl_tensor *result);

// SILU: F32 `x / (1 + exp(-x))`.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_silu(struct fbl_graph *graph, fbl_tensor x, fbl_tensor *result);

// SWIGLU: F32 `silu(gate) * up`, of one shape.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_swiglu(struct fbl_graph *graph, fbl_tensor gate, fbl_tensor up, fbl_tensor *result);

// RMS_NORM: every row of F32 `x` over the root of its mean square plus `eps`.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_rms_norm(struct fbl_graph *graph, fbl_tensor x, float eps, fbl_tensor *result);

// ROPE: the first `n_dims` elements of each head of F32 `x` {head size, heads, tokens, batch} are turned by their token's position, I32
// {tokens}; pairs are halves apart (`neox` is not 0) or neighbours. YaRN, sections and frequency factors: `fbl_op` with "ROPE".
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_rope(struct fbl_graph *graph,
                    fbl_tensor x,
                    fbl_tensor positions,
                    uint32_t n_dims,
                    uint32_t neox,
                    float freq_base,
                    fbl_tensor *result);

// SOFT_MAX: every row of `scale * x + mask` as probabilities. `mask` is F32 or F16 with the rows' extents, repeating over axes 2 and 3, or 0.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_soft_max(struct fbl_graph *graph,
                        fbl_tensor x,
                        fbl_tensor mask,
                        float scale,
                        fbl_tensor *result);

// FLASH_ATTN_EXT: `softmax(scale q k + mask) v` per query and head, without memory for the scores, forward and backward. `q` F32
// {size, tokens, heads, batch}, `k` and `v` {size, keys, kv heads, batch} F32 (F16 and quants forward only), `mask` {keys, tokens} F16 or F32, or 0 -> F32
// {size, heads, tokens, batch}: heads before tokens.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_attention(struct fbl_graph *graph,
                         fbl_tensor q,
                         fbl_tensor k,
                         fbl_tensor v,
                         fbl_tensor mask,
                         float scale,
                         fbl_tensor *result);

// GET_ROWS: rows of a table {n, rows} of any type that `ids`, I32 {count}, name -> F32 {n, count}.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API fbl_status fbl_get_rows(struct fbl_graph *graph, fbl_tensor table, fbl_tensor ids, fbl_tensor *result);

// CROSS_ENTROPY_LOSS: F32 `logits` and `labels` {classes, rows} -> one element, the mean over rows of
// `-sum(labels * log_softmax(logits))`. Each row of labels sums to 1, which the gradient takes for granted: rows without a label are left
// out by `fbl_get_rows` before the logits.
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_cross_entropy(struct fbl_graph *graph,
                             fbl_tensor logits,
                             fbl_tensor labels,
                             fbl_tensor *result);

// CPY: the elements of `x` in their order as a tensor of type `type` that is no view; plain types, and F32 to those quants that a row alone
// decides (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, IQ4_NL).
//
// Contract:
// `graph` is a graph, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_copy(struct fbl_graph *graph,
                    fbl_tensor x,
                    uint32_t type,
                    fbl_tensor *result);

// Compiles a graph. `options` may be NULL. The graph may change afterwards, and the program does not.
//
// `*program` is the caller's, to be destroyed by `fbl_program_destroy`; it is NULL where the call
// fails.
//
// Errors: FBL_ERR_GRAPH, FBL_ERR_UNSUPPORTED where the device cannot run it or the budget cannot be met, FBL_ERR_OUT_OF_MEMORY.
//
// Contract:
// `graph` is a graph, `options` is NULL or points to a struct of `options->struct_size` bytes, `program` points to a pointer.
FBL_API
fbl_status fbl_compile(const struct fbl_graph *graph,
                       const struct fbl_compile_options *options,
                       struct fbl_program **program);

// Destroys a program; NULL is allowed. Memory that others share lives on.
//
// Any thread, once for each program; not for that of a trainer.
//
// Contract:
// `program` is NULL or came from `fbl_compile`, was not destroyed, and no thread is in a call with it.
FBL_API void fbl_program_destroy(struct fbl_program *program);

// Runs the program once on what its tensors hold, and returns when its outputs do.
//
// Errors: FBL_ERR_DEVICE_LOST; FBL_ERR_INVALID_ARGUMENT for the program of a trainer, which `fbl_trainer_step` runs.
//
// Contract:
// `program` is a program.
FBL_API fbl_status fbl_program_run(struct fbl_program *program);

// Writes `size` bytes of an input or parameter, from byte `offset` of the tensor on, in the host's order (see `fbl_graph`); quantized types
// are blocks as in GGUF files. With a part travels what lies in the same rows of texels, there and back: all of a tensor at once is fastest.
//
// `data` may be freed after the call. No other program that shares the tensor may write it meanwhile.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where the tensor has no memory of its own, or no such bytes.
//
// Contract:
// `program` is a program, `data` has `size` bytes.
FBL_API
fbl_status fbl_program_upload(struct fbl_program *program,
                              fbl_tensor tensor,
                              uint64_t offset,
                              const void *data,
                              size_t size);

// Reads `size` bytes of an input, parameter or output, from byte `offset` of the tensor on, in the host's order.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where the tensor is computed and no output, or has no such bytes.
//
// Contract:
// `program` is a program, `data` has room for `size` bytes.
FBL_API
fbl_status fbl_program_download(struct fbl_program *program,
                                fbl_tensor tensor,
                                uint64_t offset,
                                void *data,
                                size_t size);

// Gives `count` declared extents other values, and plans again with what the engine's planner knows already. Inputs and parameters whose
// shape stays keep their content; the others are zero, and so are outputs until the next run. A tensor whose shape changes is no longer
// shared.
//
// After an error the program is as before.
//
// Errors: as `fbl_compile`, and FBL_ERR_INVALID_ARGUMENT for an extent that its graph did not declare, a value of 0, or where
// the shape of what a trainer trains would change.
//
// Contract:
// `program` is a program, `extents` and `values` have `count` elements.
FBL_API
fbl_status fbl_program_resize(struct fbl_program *program,
                              const fbl_extent *extents,
                              const uint32_t *values,
                              size_t count);

// The first tensor with this name; 0 where there is none. So are found what a trainer adds: the halves "WEIGHT.lora_a" and "WEIGHT.lora_b"
// of the pair beside a weight, and the moments "NAME.m" and "NAME.v". These are tensors of this program alone.
//
// Contract:
// `program` is a program, `name` ends with NUL, `result` points to an fbl_tensor.
FBL_API
fbl_status fbl_program_find(const struct fbl_program *program,
                            const char *name,
                            fbl_tensor *result);

// Type, shape and size of a tensor, at the program's extents.
//
// Contract:
// `program` is a program, `desc` points to a struct of `desc->struct_size` bytes.
FBL_API
fbl_status fbl_program_describe(const struct fbl_program *program,
                                fbl_tensor tensor,
                                struct fbl_tensor_desc *desc);

// The program's plan as JSON: bytes, dispatches and barriers, which views and copies became coordinates and which moved bytes and why
// ("report"), every dispatch ("steps") and storage ("slots"). Text convention: see `fbl_error_message`.
//
// Contract:
// `program` is a program; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_program_plan(const struct fbl_program *program,
                            char *buffer,
                            size_t capacity,
                            size_t *length);

// The program's plan as a page: one HTML file without anything from elsewhere. It shows the step op after op, what lives where and when,
// which views and copies became coordinates and why others moved bytes; where the machine's rates are known (`fbl_engine_probe`, or a preset
// in FBL_PROFILE) times, bytes and a roofline as well, all of them simulated. Layers whose nodes are named "blk.0.", "blk.1." and so on
// are drawn once where they are alike. `title` is what the page says it is of. Text convention: see `fbl_error_message`.
//
// To ask for the length is to make the page.
//
// Contract:
// `program` is a program, `title` ends with NUL; `buffer` is NULL or has `capacity` bytes; `length` is NULL or points to a size_t.
FBL_API
fbl_status fbl_program_plan_html(const struct fbl_program *program,
                                 const char *title,
                                 char *buffer,
                                 size_t capacity,
                                 size_t *length);

// Compiles a training step of a graph: its nodes, the gradients of what is trained, and an optimizer's step for each. Weights and data
// are uploaded to its program (`fbl_trainer_program`); adapters are filled already, parameters are zero.
//
// The graph stays as it is. `*trainer` is the caller's, to be destroyed by `fbl_trainer_destroy`; it is
// NULL where the call fails.
//
// Errors: as `fbl_compile`; FBL_ERR_INVALID_ARGUMENT where there is nothing to train, no product has a weight that an adapter names, the
// loss is not one F32 element, or two tensors that `fbl_trainer_save` would write have one name; FBL_ERR_GRAPH where a gradient does not
// exist.
//
// Contract:
// `graph` is a graph, `options` points to a struct of `options->struct_size` bytes with pointers as its fields say, `trainer` points to a
// pointer.
FBL_API
fbl_status fbl_trainer_create(const struct fbl_graph *graph,
                              const struct fbl_train_options *options,
                              struct fbl_trainer **trainer);

// Destroys a trainer and its program; NULL is allowed.
//
// Any thread, once for each trainer.
//
// Contract:
// `trainer` is NULL or came from `fbl_trainer_create`, was not destroyed, and no thread is in a call with it.
FBL_API void fbl_trainer_destroy(struct fbl_trainer *trainer);

// The trainer's program, for uploads, downloads, other extents and its plan; `fbl_trainer_step` runs it.
//
// Any thread. `*program` belongs to the trainer and is destroyed with it.
//
// Contract:
// `trainer` is a trainer, `program` points to a pointer.
FBL_API fbl_status fbl_trainer_program(struct fbl_trainer *trainer, struct fbl_program **program);

// Step size and weight decay, from the next step on.
//
// Errors: FBL_ERR_INVALID_ARGUMENT where one is negative or no number.
//
// Contract:
// `trainer` is a trainer.
FBL_API fbl_status fbl_trainer_set_pace(struct fbl_trainer *trainer, float learning_rate, float weight_decay);

// One step on what the inputs hold: loss, gradients, new weights. FBL_STOPPED, without a step, where `fbl_trainer_stop` was called since
// the last one.
//
// Errors: FBL_ERR_DEVICE_LOST.
//
// Contract:
// `trainer` is a trainer, `outcome` points to a struct of `outcome->struct_size` bytes.
FBL_API
fbl_status fbl_trainer_step(struct fbl_trainer *trainer,
                            struct fbl_outcome *outcome);

// Loss and accuracy on what the inputs hold, without a step; nodes that write in place do so. The first call, and the first after other
// extents, compiles.
//
// Contract:
// As `fbl_trainer_step`.
FBL_API
fbl_status fbl_trainer_evaluate(struct fbl_trainer *trainer,
                                struct fbl_outcome *outcome);

// Makes the next step none: `fbl_trainer_step` answers FBL_STOPPED once. A step that runs comes to its end.
//
// Any thread, also while another is in a call with the trainer.
//
// Contract:
// `trainer` is a trainer.
FBL_API fbl_status fbl_trainer_stop(const struct fbl_trainer *trainer);

// Writes what is trained, the optimizer's moments and the number of steps to a safetensors file. The file is replaced at once: whoever
// reads it finds the old one or the new. Tensors are F32 under their names ("WEIGHT.lora_a", "WEIGHT.lora_b", moments ".m", ".v" behind).
//
// Errors: FBL_ERR_FILE.
//
// Contract:
// `trainer` is a trainer, `path` ends with NUL.
FBL_API
fbl_status fbl_trainer_save(struct fbl_trainer *trainer,
                            const char *path);

// Goes on from a file of `fbl_trainer_save`. The step size is not in it.
//
// Errors: FBL_ERR_FILE where it cannot be read, or is of another optimizer, other weights or other shapes; then nothing changes.
//
// Contract:
// `trainer` is a trainer, `path` ends with NUL.
FBL_API
fbl_status fbl_trainer_load(struct fbl_trainer *trainer,
                            const char *path);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* FBLAYOUT_H */
