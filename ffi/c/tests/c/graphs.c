/* Graphs compiled and run: numbers, parts, extents, shared memory, policies. */
#include <pthread.h>

#include "check.h"

#define SHAPE(a, b) ((const fbl_extent[4]){(a), (b), 1, 1})

static int near(float found, double expected) {
    return fabs(found - expected) <= 1e-5 * (1 + fabs(expected));
}

/* `y = w x` and `loss = sum(y)`; dL/dw[k, m] is the sum of x[k, :] , dL/dx[k, n] that of w[k, :]. */
static void product(fbl_engine *engine, uint32_t policy) {
    enum { K = 5, M = 3, N = 4 };
    fbl_graph *graph = NULL;
    CHECK_OK(fbl_graph_create(engine, &graph));
    fbl_extent columns;
    fbl_tensor w, x, y, loss, dw_dx[2];
    CHECK_OK(fbl_graph_extent(graph, "columns", N, &columns));
    CHECK_OK(fbl_parameter(graph, "w", FBL_F32, SHAPE(K, M), &w));
    CHECK_OK(fbl_input(graph, "x", FBL_F32, SHAPE(K, columns), &x));
    CHECK_OK(fbl_matmul(graph, w, x, &y));
    CHECK_OK(fbl_op(graph, "SUM", NULL, &y, 1, &loss));
    CHECK_OK(fbl_gradients(graph, loss, (const fbl_tensor[]){w, x}, 2, dw_dx));
    CHECK_OK(fbl_output(graph, y));
    CHECK_OK(fbl_output(graph, dw_dx[0]));
    CHECK_OK(fbl_output(graph, dw_dx[1]));
    fbl_compile_options options;
    FBL_INIT(options);
    options.policy = policy;
    fbl_program *program = NULL;
    CHECK_OK(fbl_compile(graph, &options, &program));

    float ws[M][K], xs[N + 2][K], ys[N + 2][M], dw[M][K], dx[N + 2][K];
    for (int k = 0; k < K; k++) {
        for (int m = 0; m < M; m++) ws[m][k] = (float)(k - 2 * m) / 4;
        for (int n = 0; n < N + 2; n++) xs[n][k] = (float)(3 * n - k) / 8;
    }
    CHECK_OK(fbl_program_upload(program, w, 0, ws, sizeof ws));
    /* In two parts, the second of which begins within a row. */
    size_t part = sizeof(float) * (K + 2), whole = sizeof(float) * K * N;
    CHECK_OK(fbl_program_upload(program, x, 0, xs, part));
    CHECK_OK(fbl_program_upload(program, x, part, (const char *)xs + part, whole - part));
    for (int columns_now = N; columns_now <= N + 2; columns_now += 2) {
        if (columns_now != N) {
            /* Longer: w stays, x is anew. */
            CHECK_OK(fbl_program_resize(program, &columns, &(const uint32_t){N + 2}, 1));
            CHECK_OK(fbl_program_upload(program, x, 0, xs, sizeof xs));
        }
        size_t n_bytes = sizeof(float) * (size_t)columns_now;
        CHECK_OK(fbl_program_run(program));
        CHECK_OK(fbl_program_download(program, y, 0, ys, n_bytes * M));
        CHECK_OK(fbl_program_download(program, dw_dx[0], 0, dw, sizeof dw));
        CHECK_OK(fbl_program_download(program, dw_dx[1], 0, dx, n_bytes * K));
        for (int n = 0; n < columns_now; n++) {
            for (int m = 0; m < M; m++) {
                double sum = 0;
                for (int k = 0; k < K; k++) sum += (double)ws[m][k] * xs[n][k];
                CHECK(near(ys[n][m], sum));
            }
        }
        for (int k = 0; k < K; k++) {
            double of_x = 0, of_w = 0;
            for (int n = 0; n < columns_now; n++) of_x += xs[n][k];
            for (int m = 0; m < M; m++) of_w += ws[m][k];
            for (int m = 0; m < M; m++) CHECK(near(dw[m][k], of_x));
            for (int n = 0; n < columns_now; n++) CHECK(near(dx[n][k], of_w));
        }
    }
    float one = 0;
    CHECK_OK(fbl_program_download(program, y, sizeof(float) * M, &one, sizeof one));
    CHECK(one == ys[1][0]);
    fbl_tensor_desc desc;
    FBL_INIT(desc);
    CHECK_OK(fbl_program_describe(program, y, &desc));
    CHECK(desc.shape[0] == M && desc.shape[1] == N + 2 && desc.bytes == sizeof ys && desc.dtype == FBL_F32);
    CHECK_OK(fbl_graph_describe(graph, y, &desc));
    CHECK(desc.shape[1] == N);

    CHECK_FAILS(fbl_program_download(program, loss, 0, &one, sizeof one), FBL_ERR_INVALID_ARGUMENT, "not among the outputs");
    CHECK_FAILS(fbl_program_upload(program, w, 4, ws, sizeof ws), FBL_ERR_INVALID_ARGUMENT, "has 60 bytes");
    CHECK_FAILS(fbl_program_upload(program, w, UINT64_MAX, ws, 4), FBL_ERR_INVALID_ARGUMENT, "has 60 bytes");
    CHECK_FAILS(fbl_program_download(program, w, 0, dw, SIZE_MAX), FBL_ERR_INVALID_ARGUMENT, "60 bytes");
    CHECK_FAILS(fbl_program_resize(program, &columns, &(const uint32_t){0}, 1), FBL_ERR_INVALID_ARGUMENT, "at least 1");
    CHECK_FAILS(fbl_program_resize(program, &(const fbl_extent){7}, &(const uint32_t){2}, 1), FBL_ERR_INVALID_ARGUMENT,
                "not declared");
    size_t length = 0;
    CHECK(fbl_program_plan(program, NULL, 0, &length) == FBL_TRUNCATED);
    char *plan = malloc(length + 1);
    CHECK_OK(fbl_program_plan(program, plan, length + 1, NULL));
    CHECK(strstr(plan, "\"dispatches\"") && strstr(plan, "MUL_MAT") && strstr(plan, "\"arena_bytes\""));
    free(plan);
    CHECK(fbl_program_plan_html(program, "y = w x, y < z", NULL, 0, &length) == FBL_TRUNCATED);
    char *page = malloc(length + 1);
    CHECK_OK(fbl_program_plan_html(program, "y = w x, y < z", page, length + 1, NULL));
    CHECK(strlen(page) == length && strncmp(page, "<!DOCTYPE html>", 15) == 0 && strcmp(page + length - 7, "</html>") == 0);
    CHECK(strstr(page, "<h1>y = w x, y &lt; z</h1>") && strstr(page, "<code>MUL_MAT</code>") && strstr(page, "Nothing is predicted"));
    free(page);
    CHECK_FAILS(fbl_program_plan_html(program, NULL, NULL, 0, &length), FBL_ERR_NULL, "title is NULL");
    fbl_program_destroy(program);
    fbl_graph_destroy(graph);
}

/* A cache that one program writes in place and another reads, through memory that they share. */
static void shared(fbl_engine *engine) {
    fbl_graph *writer = NULL, *reader = NULL;
    CHECK_OK(fbl_graph_create(engine, &writer));
    CHECK_OK(fbl_graph_create(engine, &reader));
    fbl_tensor cache, rows, ids, seen, doubled;
    CHECK_OK(fbl_input(writer, "cache", FBL_F32, SHAPE(4, 3), &cache));
    CHECK_OK(fbl_input(writer, "rows", FBL_F32, SHAPE(4, 1), &rows));
    CHECK_OK(fbl_input(writer, "ids", FBL_I64, SHAPE(1, 1), &ids));
    CHECK_OK(fbl_op_into(writer, "SET_ROWS", "shape=4,3,1,1 strides=1,4,12,12", (const fbl_tensor[]){cache, rows, ids}, 3, cache));
    CHECK_FAILS(fbl_op_into(writer, "SET_ROWS", "shape=4,3,1,1 strides=1,4,12,12", (const fbl_tensor[]){cache, rows, rows}, 3, cache),
                FBL_ERR_GRAPH, "SET_ROWS");
    CHECK_OK(fbl_input(reader, "seen", FBL_F32, SHAPE(4, 3), &seen));
    CHECK_OK(fbl_scale(reader, seen, 2, &doubled));
    CHECK_OK(fbl_output(reader, doubled));
    fbl_program *write = NULL, *read = NULL;
    CHECK_OK(fbl_compile(writer, NULL, &write));
    fbl_binding binding = {seen, write, cache};
    fbl_compile_options options;
    FBL_INIT(options);
    options.bindings = &binding;
    options.binding_count = 1;
    CHECK_OK(fbl_compile(reader, &options, &read));
    const float row[4] = {1, 2, 3, 4};
    const int64_t second = 1;
    float found[12];
    CHECK_OK(fbl_program_upload(write, rows, 0, row, sizeof row));
    CHECK_OK(fbl_program_upload(write, ids, 0, &second, sizeof second));
    CHECK_OK(fbl_program_run(write));
    fbl_program_destroy(write);
    CHECK_OK(fbl_program_run(read));
    CHECK_OK(fbl_program_download(read, doubled, 0, found, sizeof found));
    for (int i = 0; i < 12; i++) CHECK(found[i] == (i / 4 == 1 ? 2 * row[i % 4] : 0));
    /* What cannot be shared. */
    binding.program = read;
    binding.source = doubled;
    fbl_program *third = NULL;
    CHECK_OK(fbl_compile(reader, &options, &third));
    fbl_program_destroy(third);
    const fbl_binding twice[2] = {binding, binding};
    options.bindings = twice;
    options.binding_count = 2;
    CHECK_FAILS(fbl_compile(reader, &options, &third), FBL_ERR_INVALID_ARGUMENT, "bound twice");
    options.bindings = &binding;
    options.binding_count = 1;
    binding.tensor = doubled;
    CHECK_FAILS(fbl_compile(reader, &options, &third), FBL_ERR_INVALID_ARGUMENT, "only external tensors can be bound");
    binding.program = NULL;
    CHECK_FAILS(fbl_compile(reader, &options, &third), FBL_ERR_NULL, "program is NULL");
    fbl_program_destroy(read);
    fbl_graph_destroy(reader);
    fbl_graph_destroy(writer);
}

/* Blocks of Q8_0 as GGUF files have them: a half as scale, then 32 bytes. */
static void quants(fbl_engine *engine) {
    fbl_graph *graph = NULL;
    CHECK_OK(fbl_graph_create(engine, &graph));
    fbl_tensor w, x, y;
    CHECK_OK(fbl_input(graph, "w", FBL_Q8_0, SHAPE(32, 2), &w));
    CHECK_OK(fbl_input(graph, "x", FBL_F32, SHAPE(32, 1), &x));
    CHECK_OK(fbl_matmul(graph, w, x, &y));
    CHECK_OK(fbl_output(graph, y));
    fbl_program *program = NULL;
    CHECK_OK(fbl_compile(graph, NULL, &program));
    unsigned char blocks[2][34];
    float xs[32], ys[2];
    double expected[2] = {0, 0};
    for (int row = 0; row < 2; row++) {
        blocks[row][0] = 0;
        blocks[row][1] = 0x38; /* 0.5 */
        for (int i = 0; i < 32; i++) {
            signed char quant = (signed char)(i - 16 + row);
            memcpy(&blocks[row][2 + i], &quant, 1);
            xs[i] = (float)i / 16;
            expected[row] += 0.5 * quant * xs[i];
        }
    }
    CHECK_OK(fbl_program_upload(program, w, 0, blocks, sizeof blocks));
    CHECK_OK(fbl_program_upload(program, x, 0, xs, sizeof xs));
    /* One byte in the midst of a block, there and back. */
    unsigned char byte = 0;
    CHECK_OK(fbl_program_upload(program, w, 40, &byte, 1));
    CHECK_OK(fbl_program_upload(program, w, 40, &blocks[1][6], 1));
    CHECK_OK(fbl_program_download(program, w, 40, &byte, 1));
    CHECK(byte == blocks[1][6]);
    CHECK_OK(fbl_program_run(program));
    CHECK_OK(fbl_program_download(program, y, 0, ys, sizeof ys));
    for (int row = 0; row < 2; row++) CHECK(near(ys[row], expected[row]));
    fbl_program_destroy(program);
    fbl_graph_destroy(graph);
}

/* Nothing to do is done. What is too large, or cannot be planned, is refused by name. */
static void edges(fbl_engine *engine) {
    fbl_graph *graph = NULL;
    fbl_program *program = NULL;
    CHECK_OK(fbl_graph_create(engine, &graph));
    CHECK_OK(fbl_compile(graph, NULL, &program));
    CHECK_OK(fbl_program_run(program));
    fbl_program_destroy(program);
    fbl_tensor x, y;
    CHECK_OK(fbl_input(graph, "x", FBL_F32, ((const fbl_extent[4]){1 << 20, 1 << 20, 1 << 10, 1}), &x));
    CHECK_OK(fbl_silu(graph, x, &y));
    fbl_status status = fbl_compile(graph, NULL, &program);
    CHECK(status == FBL_ERR_UNSUPPORTED || status == FBL_ERR_OUT_OF_MEMORY);
    CHECK(program == NULL);
    fbl_graph_destroy(graph);
    CHECK_OK(fbl_graph_create(engine, &graph));
    CHECK_OK(fbl_input(graph, "x", FBL_F32, SHAPE(64, 64), &x));
    CHECK_OK(fbl_matmul(graph, x, x, &y));
    CHECK_OK(fbl_output(graph, y));
    fbl_compile_options options;
    FBL_INIT(options);
    options.budget_bytes = 16;
    CHECK_FAILS(fbl_compile(graph, &options, &program), FBL_ERR_UNSUPPORTED, "budget of 16 bytes");
    FBL_INIT(options);
    options.storage = FBL_STORAGE_IMAGE;
    options.attention = FBL_ATTENTION_FUSED;
    CHECK_OK(fbl_compile(graph, &options, &program));
    CHECK_OK(fbl_program_run(program));
    fbl_graph_destroy(graph);
    fbl_program_destroy(program);
}

static void *product_beside(void *engine) {
    product(engine, FBL_DEFAULT);
    return NULL;
}

/* Threads share an engine, each with graphs and programs of its own. */
static void beside(fbl_engine *engine) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&threads[i], NULL, product_beside, engine) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void) {
    fbl_engine *engine = open_engine();
    product(engine, FBL_DEFAULT);
    beside(engine);
    product(engine, FBL_POLICY_HONEST_ROWMAJOR);
    shared(engine);
    quants(engine);
    edges(engine);
    return finish(engine);
}
