/* What calls answer to NULLs, unknown numbers, short structs and handles of something else. */
#include "check.h"

#define SHAPE(a, b) ((const fbl_extent[4]){(a), (b), 1, 1})

static void versions(void) {
    CHECK(FBL_CHECK_VERSION() == FBL_OK);
    CHECK(fbl_abi_version() == FBL_ABI_VERSION);
    char expected[32];
    snprintf(expected, sizeof expected, "%d.%d.%d", FBL_VERSION_MAJOR, FBL_VERSION_MINOR, FBL_VERSION_PATCH);
    CHECK(strcmp(fbl_version(), expected) == 0);
    CHECK_FAILS(fbl_check_version(FBL_ABI_VERSION + 1, FBL_VERSION_NUMBER), FBL_ERR_INVALID_ARGUMENT, "the library is");
    CHECK_FAILS(fbl_check_version(FBL_ABI_VERSION, FBL_VERSION_NUMBER + 1), FBL_ERR_INVALID_ARGUMENT, "the library is");
    CHECK(fbl_has_feature(FBL_FEATURE_GRAPH) == 1 && fbl_has_feature(FBL_FEATURE_TRAIN) == 1);
    CHECK(fbl_has_feature(12345) == 0);
    CHECK(strcmp(fbl_status_name(FBL_ERR_BUSY), "FBL_ERR_BUSY") == 0);
    CHECK(strcmp(fbl_status_name(7777), "FBL_ERR_UNKNOWN") == 0);
}

static void devices(void) {
    uint32_t count = 0;
    CHECK_OK(fbl_device_count(&count));
    CHECK(count > 0);
    CHECK_FAILS(fbl_device_count(NULL), FBL_ERR_NULL, "count is NULL");
    fbl_device_info info;
    FBL_INIT(info);
    CHECK_OK(fbl_device_get(0, &info));
    CHECK(info.name[0] != 0 && info.driver[0] != 0 && info.kind >= FBL_DEVICE_DISCRETE && info.kind <= FBL_DEVICE_OTHER);
    CHECK(info.memory_bytes > 0 && info.struct_size == sizeof info);
    CHECK_FAILS(fbl_device_get(count, &info), FBL_ERR_INVALID_ARGUMENT, "is none of the");
    CHECK_FAILS(fbl_device_get(0, NULL), FBL_ERR_NULL, "info is NULL");
    info.struct_size = 8;
    CHECK_FAILS(fbl_device_get(0, &info), FBL_ERR_STRUCT_SIZE, "must be at least");
    size_t length = 0;
    CHECK(fbl_device_limits(0, NULL, 0, &length) == FBL_TRUNCATED);
    char *text = malloc(length + 1);
    CHECK_OK(fbl_device_limits(0, text, length + 1, NULL));
    CHECK(strlen(text) == length && strstr(text, "max_image_2d") != NULL);
    free(text);
}

static void engines(void) {
    fbl_engine *engine = (fbl_engine *)&failures;
    CHECK_FAILS(fbl_engine_create(NULL, NULL), FBL_ERR_NULL, "engine is NULL");
    fbl_engine_options options;
    FBL_INIT(options);
    options.device = 999;
    CHECK_FAILS(fbl_engine_create(&options, &engine), FBL_ERR_DEVICE, "no usable Vulkan device");
    CHECK(engine == NULL);
    FBL_INIT(options);
    options.policy = 99;
    CHECK_FAILS(fbl_engine_create(&options, &engine), FBL_ERR_INVALID_ARGUMENT, "policy 99");
    FBL_INIT(options);
    options.head = 64;
    CHECK_OK(fbl_engine_create(&options, &engine));
    fbl_engine_destroy(engine);
    FBL_INIT(options);
    options.limits = "pixel-1";
    CHECK_FAILS(fbl_engine_create(&options, &engine), FBL_ERR_INVALID_ARGUMENT, "no preset is named");
    options.limits = "\xff\xfe";
    CHECK_FAILS(fbl_engine_create(&options, &engine), FBL_ERR_INVALID_ARGUMENT, "no UTF-8");
    FBL_INIT(options);
    options.struct_size = 4;
    CHECK_FAILS(fbl_engine_create(&options, &engine), FBL_ERR_STRUCT_SIZE, "use FBL_INIT");
    /* A program that was compiled with a header of the future. */
    struct {
        fbl_engine_options known;
        uint64_t unknown;
    } newer;
    memset(&newer, 0, sizeof newer);
    newer.known.struct_size = sizeof newer;
    CHECK_OK(fbl_engine_create(&newer.known, &engine));
    fbl_engine_destroy(engine);
    newer.unknown = 1;
    CHECK_FAILS(fbl_engine_create(&newer.known, &engine), FBL_ERR_STRUCT_SIZE, "newer than the library");
}

static void nulls(fbl_engine *engine) {
    fbl_engine_destroy(NULL);
    fbl_graph_destroy(NULL);
    fbl_program_destroy(NULL);
    fbl_trainer_destroy(NULL);
    fbl_graph *graph = NULL;
    fbl_program *program = (fbl_program *)&failures;
    fbl_trainer *trainer = (fbl_trainer *)&failures;
    fbl_tensor x = 1;
    char text[8];
    CHECK_FAILS(fbl_engine_limits(NULL, text, 8, NULL), FBL_ERR_NULL, "engine is NULL");
    CHECK_FAILS(fbl_graph_create(NULL, &graph), FBL_ERR_NULL, "engine is NULL");
    CHECK_FAILS(fbl_graph_create(engine, NULL), FBL_ERR_NULL, "graph is NULL");
    CHECK_FAILS(fbl_input(NULL, "x", FBL_F32, SHAPE(1, 1), &x), FBL_ERR_NULL, "graph is NULL");
    CHECK(x == 0);
    CHECK_FAILS(fbl_compile(NULL, NULL, &program), FBL_ERR_NULL, "graph is NULL");
    CHECK(program == NULL);
    CHECK_FAILS(fbl_trainer_create(NULL, NULL, &trainer), FBL_ERR_NULL, "options is NULL");
    CHECK(trainer == NULL);
    CHECK_FAILS(fbl_program_run(NULL), FBL_ERR_NULL, "program is NULL");
    CHECK_FAILS(fbl_program_upload(NULL, 0, 0, text, 8), FBL_ERR_NULL, "program is NULL");
    CHECK_FAILS(fbl_trainer_step(NULL, NULL), FBL_ERR_NULL, "trainer is NULL");
    CHECK_FAILS(fbl_trainer_stop(NULL), FBL_ERR_NULL, "trainer is NULL");
    CHECK_FAILS(fbl_trainer_program(NULL, &program), FBL_ERR_NULL, "trainer is NULL");
    CHECK_OK(fbl_graph_create(engine, &graph));
    CHECK_FAILS(fbl_input(graph, NULL, FBL_F32, SHAPE(1, 1), &x), FBL_ERR_NULL, "name is NULL");
    CHECK_FAILS(fbl_input(graph, "x", FBL_F32, NULL, &x), FBL_ERR_NULL, "shape is NULL");
    CHECK_FAILS(fbl_input(graph, "x", FBL_F32, SHAPE(1, 1), NULL), FBL_ERR_NULL, "result is NULL");
    CHECK_FAILS(fbl_op(graph, NULL, NULL, NULL, 0, &x), FBL_ERR_NULL, "op is NULL");
    CHECK_FAILS(fbl_op(graph, "ADD", NULL, NULL, 2, &x), FBL_ERR_NULL, "inputs is NULL");
    CHECK_FAILS(fbl_op(graph, "ADD", NULL, &x, SIZE_MAX, &x), FBL_ERR_INVALID_ARGUMENT, "elements in memory");
    fbl_graph_destroy(graph);
}

static void rules(fbl_engine *engine) {
    fbl_graph *graph = NULL, *other = NULL;
    CHECK_OK(fbl_graph_create(engine, &graph));
    CHECK_OK(fbl_graph_create(engine, &other));
    fbl_tensor x, y, z;
    fbl_extent tokens;
    CHECK_FAILS(fbl_input(graph, "x", 4, SHAPE(4, 3), &x), FBL_ERR_INVALID_ARGUMENT, "dtype 4");
    CHECK_FAILS(fbl_input(graph, "x", FBL_F32, SHAPE(0, 3), &x), FBL_ERR_INVALID_ARGUMENT, "left open");
    CHECK_FAILS(fbl_input(graph, "x", FBL_F32, SHAPE(-5, 3), &x), FBL_ERR_INVALID_ARGUMENT, "not declared");
    CHECK_FAILS(fbl_input(graph, "x", FBL_F32, SHAPE((fbl_extent)1 << 40, 3), &x), FBL_ERR_INVALID_ARGUMENT, "32 bits");
    CHECK_FAILS(fbl_input(graph, "x", FBL_Q4_K, SHAPE(100, 3), &x), FBL_ERR_INVALID_ARGUMENT, "256 elements");
    CHECK_FAILS(fbl_graph_extent(graph, "tokens", 0, &tokens), FBL_ERR_INVALID_ARGUMENT, "at least 1");
    CHECK_OK(fbl_input(graph, "x", FBL_F32, SHAPE(4, 3), &x));
    CHECK_OK(fbl_input(other, "y", FBL_F32, SHAPE(4, 3), &y));
    CHECK_FAILS(fbl_add(graph, x, y, &z), FBL_ERR_INVALID_ARGUMENT, "of another graph");
    CHECK(z == 0);
    CHECK_FAILS(fbl_add(graph, x, 0, &z), FBL_ERR_INVALID_ARGUMENT, "which is none");
    CHECK_FAILS(fbl_add(graph, x, x + 1, &z), FBL_ERR_INVALID_ARGUMENT, "is none of this graph");
    CHECK_FAILS(fbl_op(graph, "PLUS", NULL, &x, 1, &z), FBL_ERR_INVALID_ARGUMENT, "there is no op \"PLUS\"");
    CHECK_FAILS(fbl_op(graph, "RMS_NORM", NULL, &x, 1, &z), FBL_ERR_INVALID_ARGUMENT, "eps is missing");
    CHECK_FAILS(fbl_op(graph, "RMS_NORM", "eps=1e-5 epsilon=1", &x, 1, &z), FBL_ERR_INVALID_ARGUMENT, "\"epsilon\"");
    CHECK_FAILS(fbl_op(graph, "ADD", NULL, &x, 1, &z), FBL_ERR_GRAPH, "1 given, 2 wanted");
    CHECK_FAILS(fbl_permute(graph, x, (const uint32_t[4]){0, 0, 1, 2}, &z), FBL_ERR_GRAPH, "no permutation");
    CHECK_FAILS(fbl_slice(graph, x, 7, 0, 1, &z), FBL_ERR_INVALID_ARGUMENT, "no axis 7");
    CHECK_FAILS(fbl_reshape(graph, x, SHAPE(5, FBL_REST), &z), FBL_ERR_INVALID_ARGUMENT, "cannot be shared out");
    CHECK_OK(fbl_permute(graph, x, (const uint32_t[4]){1, 0, 2, 3}, &z));
    CHECK_FAILS(fbl_output(graph, z), FBL_ERR_INVALID_ARGUMENT, "is a view of \"x\"");
    CHECK_FAILS(fbl_gradients(graph, x, &z, 1, &y), FBL_ERR_INVALID_ARGUMENT, "is a view");
    fbl_tensor ids, best;
    CHECK_OK(fbl_op(graph, "ARGMAX", NULL, &x, 1, &ids));
    CHECK_FAILS(fbl_gradients(graph, ids, &x, 1, &y), FBL_ERR_GRAPH, "its result is an index");
    CHECK_OK(fbl_graph_find(graph, "nobody", &best));
    CHECK(best == 0);
    CHECK_OK(fbl_graph_find(graph, "x", &best));
    CHECK(best == x);
    /* The engine keeps the words of its last failure, whichever thread it was in. */
    char message[512];
    CHECK_OK(fbl_error_message(engine, message, sizeof message, NULL));
    CHECK(strstr(message, "its result is an index") != NULL);
    size_t length = 0;
    CHECK(fbl_error_message(engine, message, 10, &length) == FBL_TRUNCATED);
    CHECK(strlen(message) == 9 && length > 9);
    fbl_graph_destroy(other);
    fbl_graph_destroy(graph);
}

struct Heard {
    int errors;
    size_t length;
    fbl_status inside;
};

static void hear(uint32_t level, const char *message, size_t length, void *user) {
    struct Heard *heard = user;
    heard->errors += level == FBL_LOG_ERROR;
    heard->length = strlen(message) == length ? length : 0;
    heard->inside = fbl_log_set(NULL, NULL, FBL_LOG_OFF);
}

static void logs(void) {
    struct Heard heard = {0, 0, FBL_OK};
    CHECK_FAILS(fbl_log_set(hear, &heard, 99), FBL_ERR_INVALID_ARGUMENT, "level 99");
    CHECK_OK(fbl_log_set(hear, &heard, FBL_LOG_ERROR));
    CHECK(fbl_device_count(NULL) == FBL_ERR_NULL);
    CHECK(heard.errors == 1 && heard.length > 0 && heard.inside == FBL_ERR_BUSY);
    CHECK_OK(fbl_log_set(NULL, NULL, FBL_LOG_ERROR));
    CHECK(fbl_device_count(NULL) == FBL_ERR_NULL);
    CHECK(heard.errors == 1);
}

static void table(void) {
    size_t length = 0;
    CHECK(fbl_ops(NULL, 0, &length) == FBL_TRUNCATED);
    char *text = malloc(length + 1);
    CHECK_OK(fbl_ops(text, length + 1, NULL));
    CHECK(strstr(text, "\"MUL_MAT\"") && strstr(text, "\"freq_base\"") && strstr(text, "its result is an index"));
    free(text);
}

int main(void) {
    versions();
    devices();
    engines();
    logs();
    table();
    fbl_engine *engine = open_engine();
    nulls(engine);
    rules(engine);
    return finish(engine);
}
