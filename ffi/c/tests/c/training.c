/* Training: steps against closed forms, adapters, checkpoints, stopping and other threads. */
#include <pthread.h>

#include "check.h"

#define SHAPE(a, b) ((const fbl_extent[4]){(a), (b), 1, 1})

/* `loss = (w . x - 3)^2` with gradient descent: w falls by rate (gradient + decay w). */
static void descent(fbl_engine *engine) {
    fbl_graph *graph = NULL;
    CHECK_OK(fbl_graph_create(engine, &graph));
    fbl_tensor w, x, same, t, y, error, loss;
    CHECK_OK(fbl_parameter(graph, "w", FBL_F32, SHAPE(2, 1), &w));
    CHECK_OK(fbl_input(graph, "x", FBL_F32, SHAPE(2, 1), &x));
    CHECK_OK(fbl_input(graph, "t", FBL_F32, SHAPE(1, 1), &t));
    CHECK_OK(fbl_reshape(graph, x, SHAPE(2, FBL_REST), &same));
    CHECK_OK(fbl_matmul(graph, w, same, &y));
    CHECK_OK(fbl_op(graph, "SUB", NULL, (const fbl_tensor[]){y, t}, 2, &error));
    CHECK_OK(fbl_op(graph, "SQR", NULL, &error, 1, &loss));
    fbl_train_options options;
    FBL_INIT(options);
    options.loss = loss;
    options.optimizer = FBL_OPTIMIZER_SGD;
    options.learning_rate = 0.01f;
    options.weight_decay = 0.5f;
    fbl_trainer *trainer = NULL;
    CHECK_OK(fbl_trainer_create(graph, &options, &trainer));
    fbl_program *program = NULL;
    CHECK_OK(fbl_trainer_program(trainer, &program));
    float ws[2] = {1, -1}, found[2];
    const float xs[2] = {2, 0.5f}, target = 3;
    CHECK_OK(fbl_program_upload(program, w, 0, ws, sizeof ws));
    CHECK_OK(fbl_program_upload(program, x, 0, xs, sizeof xs));
    CHECK_OK(fbl_program_upload(program, t, 0, &target, sizeof target));
    fbl_outcome outcome;
    FBL_INIT(outcome);
    CHECK_OK(fbl_trainer_evaluate(trainer, &outcome));
    CHECK(outcome.step == 0 && fabs(outcome.loss - 2.25) < 1e-5);
    for (int step = 1; step <= 5; step++) {
        float missed = ws[0] * xs[0] + ws[1] * xs[1] - target, rate = step < 4 ? 0.01f : 0.02f;
        if (step == 4) CHECK_OK(fbl_trainer_set_pace(trainer, 0.02f, 0.5f));
        CHECK_OK(fbl_trainer_step(trainer, &outcome));
        CHECK(outcome.step == (uint64_t)step && outcome.rows == 0 && outcome.accuracy == 0);
        CHECK(fabs(outcome.loss - missed * missed) < 1e-5 * (1 + missed * missed));
        for (int k = 0; k < 2; k++) ws[k] -= rate * (2 * missed * xs[k] + 0.5f * ws[k]);
        CHECK_OK(fbl_program_download(program, w, 0, found, sizeof found));
        CHECK(fabsf(found[0] - ws[0]) < 1e-5f && fabsf(found[1] - ws[1]) < 1e-5f);
    }
    CHECK_FAILS(fbl_program_run(program), FBL_ERR_INVALID_ARGUMENT, "is a trainer's");
    CHECK_FAILS(fbl_trainer_set_pace(trainer, -1, 0), FBL_ERR_INVALID_ARGUMENT, "learning_rate is -1");
    outcome.struct_size = 1;
    CHECK_FAILS(fbl_trainer_step(trainer, &outcome), FBL_ERR_STRUCT_SIZE, "fbl_outcome");
    FBL_INIT(outcome);
    CHECK_OK(fbl_trainer_step(trainer, &outcome));
    CHECK(outcome.step == 6);
    fbl_trainer_destroy(trainer);

    options.optimizer = 7;
    CHECK_FAILS(fbl_trainer_create(graph, &options, &trainer), FBL_ERR_INVALID_ARGUMENT, "optimizer 7");
    CHECK(trainer == NULL);
    options.optimizer = FBL_OPTIMIZER_ADAMW;
    options.beta1 = 1.5f;
    CHECK_FAILS(fbl_trainer_create(graph, &options, &trainer), FBL_ERR_INVALID_ARGUMENT, "beta1 is 1.5");
    options.beta1 = 0;
    options.adapters = &(const fbl_adapter){"v", 1, 1};
    options.adapter_count = 1;
    CHECK_FAILS(fbl_trainer_create(graph, &options, &trainer), FBL_ERR_INVALID_ARGUMENT, "no product");
    fbl_graph_destroy(graph);
}

/* What a trainer cannot be made of, resized to or loaded from. */
static void refusals(fbl_engine *engine, const char *path) {
    fbl_graph *graph = NULL;
    CHECK_OK(fbl_graph_create(engine, &graph));
    fbl_extent width;
    CHECK_OK(fbl_graph_extent(graph, "width", 2, &width));
    fbl_tensor w, m, wm, loss;
    CHECK_OK(fbl_parameter(graph, "w", FBL_F32, SHAPE(width, 1), &w));
    CHECK_OK(fbl_parameter(graph, "w.m", FBL_F32, SHAPE(2, 1), &m));
    fbl_train_options options;
    FBL_INIT(options);
    CHECK_OK(fbl_op(graph, "MUL", NULL, (const fbl_tensor[]){w, m}, 2, &wm));
    options.loss = wm;
    fbl_trainer *trainer = NULL;
    CHECK_FAILS(fbl_trainer_create(graph, &options, &trainer), FBL_ERR_INVALID_ARGUMENT, "one F32 element");
    CHECK_OK(fbl_op(graph, "SUM", NULL, &wm, 1, &loss));
    options.loss = loss;
    CHECK_FAILS(fbl_trainer_create(graph, &options, &trainer), FBL_ERR_INVALID_ARGUMENT, "\"w.m\": names two trained");
    options.optimizer = FBL_OPTIMIZER_SGD;
    CHECK_OK(fbl_graph_name(graph, m, "__metadata__"));
    CHECK_FAILS(fbl_trainer_create(graph, &options, &trainer), FBL_ERR_INVALID_ARGUMENT, "none that a file can have");
    CHECK_OK(fbl_graph_name(graph, m, "w.m"));
    CHECK_OK(fbl_trainer_create(graph, &options, &trainer));
    fbl_program *program = NULL;
    CHECK_OK(fbl_trainer_program(trainer, &program));
    CHECK_FAILS(fbl_program_resize(program, &width, &(const uint32_t){4}, 1), FBL_ERR_INVALID_ARGUMENT, "is trained");

    const char *header = "{\"__metadata__\":{\"fblayout.steps\":\"18446744073709551615\",\"fblayout.optimizer\":\"sgd\"}}";
    const unsigned char length[8] = {(unsigned char)strlen(header)};
    FILE *file = fopen(path, "wb");
    fwrite(length, 1, sizeof length, file);
    fputs(header, file);
    fclose(file);
    CHECK_FAILS(fbl_trainer_load(trainer, path), FBL_ERR_FILE, "has no number of steps");
    fbl_trainer_destroy(trainer);
    fbl_graph_destroy(graph);
}

enum { WIDTH = 8, CLASSES = 4, ROWS = 4 };

/* A classifier with a frozen weight. */
typedef struct {
    fbl_graph *graph;
    fbl_tensor w, x, labels, logits, loss;
    fbl_extent rows;
} classifier;

static classifier build(fbl_engine *engine) {
    classifier c;
    CHECK_OK(fbl_graph_create(engine, &c.graph));
    CHECK_OK(fbl_graph_extent(c.graph, "rows", ROWS, &c.rows));
    CHECK_OK(fbl_input(c.graph, "layer.0.weight", FBL_F32, SHAPE(WIDTH, CLASSES), &c.w));
    CHECK_OK(fbl_input(c.graph, "x", FBL_F32, SHAPE(WIDTH, c.rows), &c.x));
    CHECK_OK(fbl_input(c.graph, "labels", FBL_F32, SHAPE(CLASSES, c.rows), &c.labels));
    CHECK_OK(fbl_matmul(c.graph, c.w, c.x, &c.logits));
    CHECK_OK(fbl_cross_entropy(c.graph, c.logits, c.labels, &c.loss));
    return c;
}

static fbl_trainer *train(const classifier *c, uint32_t optimizer) {
    fbl_train_options options;
    FBL_INIT(options);
    options.loss = c->loss;
    options.logits = c->logits;
    options.labels = c->labels;
    options.adapters = &(const fbl_adapter){"layer.*.weight", 2, 4};
    options.adapter_count = 1;
    options.optimizer = optimizer;
    options.learning_rate = 0.05f;
    options.seed = 1;
    fbl_trainer *trainer = NULL;
    CHECK_OK(fbl_trainer_create(c->graph, &options, &trainer));
    fbl_program *program = NULL;
    CHECK_OK(fbl_trainer_program(trainer, &program));
    float w[CLASSES][WIDTH], x[ROWS][WIDTH], labels[ROWS][CLASSES];
    memset(labels, 0, sizeof labels);
    for (int i = 0; i < WIDTH; i++) {
        for (int j = 0; j < CLASSES; j++) w[j][i] = (float)((i * 5 + j * 3) % 7 - 3) / 8;
        for (int j = 0; j < ROWS; j++) x[j][i] = (float)((i * 3 + j * 5) % 11 - 5) / 4;
    }
    for (int j = 0; j < ROWS; j++) labels[j][(3 * j + 1) % CLASSES] = 1;
    CHECK_OK(fbl_program_upload(program, c->w, 0, w, sizeof w));
    CHECK_OK(fbl_program_upload(program, c->x, 0, x, sizeof x));
    CHECK_OK(fbl_program_upload(program, c->labels, 0, labels, sizeof labels));
    return trainer;
}

static float step(fbl_trainer *trainer, fbl_outcome *outcome) {
    CHECK_OK(fbl_trainer_step(trainer, outcome));
    return outcome->loss;
}

static void adapters(fbl_engine *engine, const char *path) {
    classifier c = build(engine);
    fbl_trainer *trainer = train(&c, FBL_DEFAULT), *second = train(&c, FBL_DEFAULT), *third = train(&c, FBL_OPTIMIZER_SGD);
    fbl_program *program = NULL;
    CHECK_OK(fbl_trainer_program(trainer, &program));
    fbl_tensor b;
    CHECK_OK(fbl_program_find(program, "layer.0.weight.lora_b", &b));
    /* What the graph gets later is not taken for what the trainer has added, nor that for the graph's. */
    fbl_tensor late, view;
    CHECK_OK(fbl_input(c.graph, "late", FBL_F32, SHAPE(1, 1), &late));
    CHECK_FAILS(fbl_program_upload(program, late, 0, &(const float){1}, sizeof(float)), FBL_ERR_INVALID_ARGUMENT,
                "after the program was made");
    CHECK_FAILS(fbl_reshape(c.graph, b, SHAPE(FBL_REST, 1), &view), FBL_ERR_INVALID_ARGUMENT, "another graph");
    float zeros[2 * CLASSES], sum = 0;
    CHECK_OK(fbl_program_download(program, b, 0, zeros, sizeof zeros));
    for (int i = 0; i < 2 * CLASSES; i++) sum += fabsf(zeros[i]);
    CHECK(sum == 0);
    fbl_outcome outcome, other;
    FBL_INIT(outcome);
    FBL_INIT(other);
    float first = step(trainer, &outcome);
    CHECK(outcome.rows == ROWS);
    for (int i = 0; i < 60; i++) step(trainer, &outcome);
    CHECK(outcome.loss < first / 10 && outcome.right == ROWS && outcome.accuracy == 1);

    /* Another trainer goes on from the file as this one goes on without it. */
    CHECK_OK(fbl_trainer_save(trainer, path));
    CHECK_OK(fbl_trainer_load(second, path));
    CHECK_OK(fbl_trainer_evaluate(second, &other));
    CHECK(other.step == outcome.step && other.accuracy == 1);
    for (int i = 0; i < 3; i++) CHECK(step(trainer, &outcome) == step(second, &other));
    CHECK_OK(fbl_trainer_save(second, path));

    /* What does not fit changes nothing. */
    CHECK_FAILS(fbl_trainer_load(third, path), FBL_ERR_FILE, "is of adamw, not sgd");
    CHECK_FAILS(fbl_trainer_load(trainer, "/nowhere/at/all"), FBL_ERR_FILE, "/nowhere/at/all");
    CHECK_FAILS(fbl_trainer_save(trainer, "/proc/no/such"), FBL_ERR_FILE, "/proc/no/such");
    FILE *file = fopen(path, "wb");
    fputs("not a checkpoint", file);
    fclose(file);
    CHECK_FAILS(fbl_trainer_load(trainer, path), FBL_ERR_FILE, path);
    CHECK(step(trainer, &outcome) == step(second, &other));

    /* Fewer rows: the pair keeps its values. */
    CHECK_OK(fbl_program_resize(program, &c.rows, &(const uint32_t){2}, 1));
    CHECK_OK(fbl_trainer_evaluate(trainer, &outcome));
    CHECK(outcome.rows == 2 && outcome.step == other.step);
    float pair[2 * CLASSES];
    CHECK_OK(fbl_program_download(program, b, 0, pair, sizeof pair));
    for (int i = 0; i < 2 * CLASSES; i++) sum += fabsf(pair[i]);
    CHECK(sum > 0);
    fbl_graph_destroy(c.graph);
    fbl_trainer_destroy(trainer);
    fbl_trainer_destroy(second);
    fbl_trainer_destroy(third);
}

/* A head that is trained, as it is written and in chunks of two tokens, by a program's options and by an engine's: the same losses but
   for rounding. */
static void heads(fbl_engine *engine) {
    enum { STEPS = 4 };
    const uint32_t heads[3] = {FBL_HEAD_WHOLE, 2, 0};
    double losses[3][STEPS];
    fbl_engine_options of_engine;
    FBL_INIT(of_engine);
    of_engine.head = 2;
    fbl_engine *other = NULL;
    CHECK_OK(fbl_engine_create(&of_engine, &other));
    for (int i = 0; i < 3; i++) {
        fbl_graph *graph = NULL;
        CHECK_OK(fbl_graph_create(i == 2 ? other : engine, &graph));
        fbl_tensor w, x, labels, logits, loss;
        CHECK_OK(fbl_parameter(graph, "head", FBL_F32, SHAPE(WIDTH, CLASSES), &w));
        CHECK_OK(fbl_input(graph, "x", FBL_F32, SHAPE(WIDTH, ROWS), &x));
        CHECK_OK(fbl_input(graph, "labels", FBL_F32, SHAPE(CLASSES, ROWS), &labels));
        CHECK_OK(fbl_matmul(graph, w, x, &logits));
        CHECK_OK(fbl_cross_entropy(graph, logits, labels, &loss));
        fbl_compile_options compile;
        FBL_INIT(compile);
        compile.policy = FBL_POLICY_FULL;
        compile.head = heads[i];
        fbl_train_options options;
        FBL_INIT(options);
        options.loss = loss;
        options.optimizer = FBL_OPTIMIZER_SGD;
        options.learning_rate = 0.1f;
        options.compile = &compile;
        fbl_trainer *trainer = NULL;
        CHECK_OK(fbl_trainer_create(graph, &options, &trainer));
        fbl_program *program = NULL;
        CHECK_OK(fbl_trainer_program(trainer, &program));
        float xs[ROWS][WIDTH], ls[ROWS][CLASSES];
        memset(ls, 0, sizeof ls);
        for (int row = 0; row < ROWS; row++) {
            for (int k = 0; k < WIDTH; k++) xs[row][k] = (float)((k * 3 + row * 5) % 11 - 5) / 4;
            ls[row][(3 * row + 1) % CLASSES] = 1;
        }
        CHECK_OK(fbl_program_upload(program, x, 0, xs, sizeof xs));
        CHECK_OK(fbl_program_upload(program, labels, 0, ls, sizeof ls));
        fbl_outcome outcome;
        FBL_INIT(outcome);
        for (int at = 0; at < STEPS; at++) losses[i][at] = step(trainer, &outcome);
        size_t length = 0;
        CHECK(fbl_program_plan(program, NULL, 0, &length) == FBL_TRUNCATED);
        char *plan = malloc(length + 1);
        CHECK_OK(fbl_program_plan(program, plan, length + 1, NULL));
        CHECK((strstr(plan, "\"chunks\": []") != NULL) == (heads[i] == FBL_HEAD_WHOLE));
        free(plan);
        fbl_trainer_destroy(trainer);
        fbl_graph_destroy(graph);
    }
    fbl_engine_destroy(other);
    for (int at = 0; at < STEPS; at++) {
        CHECK(fabs(losses[0][at] - losses[1][at]) <= 1e-5 * (1 + losses[0][at]));
        CHECK(losses[2][at] == losses[1][at]);
    }
    CHECK(losses[0][STEPS - 1] < losses[0][0]);
}

/* Evaluates while another thread steps, and stops that in the end. */
static void *meddle(void *argument) {
    fbl_trainer *trainer = argument;
    fbl_outcome outcome;
    FBL_INIT(outcome);
    for (int i = 0; i < 50; i++) {
        fbl_status status = fbl_trainer_evaluate(trainer, &outcome);
        if (status != FBL_OK && status != FBL_ERR_BUSY) return argument;
    }
    return fbl_trainer_stop(trainer) == FBL_OK ? NULL : argument;
}

static void threads(fbl_engine *engine) {
    classifier c = build(engine);
    fbl_trainer *trainer = train(&c, FBL_DEFAULT);
    fbl_outcome outcome;
    FBL_INIT(outcome);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, meddle, trainer) == 0);
    fbl_status status;
    do {
        status = fbl_trainer_step(trainer, &outcome);
    } while (status == FBL_OK || status == FBL_ERR_BUSY);
    CHECK(status == FBL_STOPPED);
    void *failed = trainer;
    CHECK(pthread_join(thread, &failed) == 0 && failed == NULL);
    CHECK_OK(fbl_trainer_step(trainer, &outcome));
    fbl_trainer_destroy(trainer);
    fbl_graph_destroy(c.graph);
}

int main(int count, char **arguments) {
    fbl_engine *engine = open_engine();
    const char *path = count > 1 ? arguments[1] : "checkpoint.safetensors";
    descent(engine);
    refusals(engine, path);
    adapters(engine, path);
    heads(engine);
    threads(engine);
    return finish(engine);
}
