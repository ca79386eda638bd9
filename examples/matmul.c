/*
 * A matrix product and both of its gradients, in C99, checked against loops.
 *
 *     cc -std=c99 matmul.c $(pkg-config --cflags --libs fblayout) -lm -o matmul && ./matmul
 *
 * y = w x, and the gradients of sum(g * y) for some g: dw = g x', dx = w' g.
 */
#include <fblayout.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { K = 64, M = 48, N = 20 };

/* A call that fails says why. */
static void must(fbl_status status) {
    if (status < 0) {
        char message[512];
        fbl_error_message(NULL, message, sizeof message, NULL);
        fprintf(stderr, "%s: %s\n", fbl_status_name(status), message);
        exit(1);
    }
}

/* Whether numbers are what they should be: sums of `terms` products of numbers up to 1, each rounded to 24 bits. */
static int check(const char *name, const float *found, const double *expected, int count, int terms) {
    double worst = 0;
    for (int i = 0; i < count; i++) {
        worst = fmax(worst, fabs(found[i] - expected[i]));
    }
    double bound = 2.0 * terms * terms / (1 << 24);
    printf("%-3s off by at most %.2e of %.2e that rounding may be\n", name, worst, bound);
    return worst <= bound;
}

static float w[M][K], x[N][K], g[N][M], y[N][M], dw[M][K], dx[N][K];
static double ey[N][M], edw[M][K], edx[N][K];

int main(void) {
    /* The header that was compiled must be one that the library serves. */
    must(FBL_CHECK_VERSION());

    /* The first device, with every option its default. */
    fbl_engine *engine;
    must(fbl_engine_create(NULL, &engine));
    fbl_device_info device;
    FBL_INIT(device);
    must(fbl_device_get(0, &device));
    printf("fblayout %s on %s\n", fbl_version(), device.name);

    /* Shapes are innermost first: w has M rows of K numbers. */
    const fbl_extent w_shape[4] = {K, M, 1, 1}, x_shape[4] = {K, N, 1, 1}, g_shape[4] = {M, N, 1, 1};
    fbl_graph *graph;
    must(fbl_graph_create(engine, &graph));
    fbl_tensor tw, tx, tg, ty, weighted, loss, gradients[2];
    must(fbl_input(graph, "w", FBL_F32, w_shape, &tw));
    must(fbl_input(graph, "x", FBL_F32, x_shape, &tx));
    must(fbl_input(graph, "g", FBL_F32, g_shape, &tg));
    must(fbl_matmul(graph, tw, tx, &ty));
    must(fbl_mul(graph, ty, tg, &weighted));
    /* Any op of the table by its name; fbl_ops lists them. */
    must(fbl_op(graph, "SUM", NULL, &weighted, 1, &loss));

    /* The library writes the backward part. */
    const fbl_tensor wanted[2] = {tw, tx};
    must(fbl_gradients(graph, loss, wanted, 2, gradients));
    must(fbl_output(graph, ty));
    must(fbl_output(graph, gradients[0]));
    must(fbl_output(graph, gradients[1]));

    /* Layouts, memory and commands are decided here, once. */
    fbl_program *program;
    must(fbl_compile(graph, NULL, &program));
    fbl_graph_destroy(graph);

    for (int k = 0; k < K; k++) {
        for (int m = 0; m < M; m++) w[m][k] = sinf((float)(k + 7 * m));
        for (int n = 0; n < N; n++) x[n][k] = cosf((float)(3 * k + n));
    }
    for (int n = 0; n < N; n++) {
        for (int m = 0; m < M; m++) g[n][m] = sinf((float)(5 * m - n));
    }
    must(fbl_program_upload(program, tw, 0, w, sizeof w));
    must(fbl_program_upload(program, tx, 0, x, sizeof x));
    must(fbl_program_upload(program, tg, 0, g, sizeof g));
    must(fbl_program_run(program));
    must(fbl_program_download(program, ty, 0, y, sizeof y));
    must(fbl_program_download(program, gradients[0], 0, dw, sizeof dw));
    must(fbl_program_download(program, gradients[1], 0, dx, sizeof dx));

    for (int n = 0; n < N; n++) {
        for (int m = 0; m < M; m++) {
            for (int k = 0; k < K; k++) {
                ey[n][m] += (double)w[m][k] * x[n][k];
                edw[m][k] += (double)g[n][m] * x[n][k];
                edx[n][k] += (double)g[n][m] * w[m][k];
            }
        }
    }
    int right = check("y", &y[0][0], &ey[0][0], M * N, K);
    right &= check("dw", &dw[0][0], &edw[0][0], M * K, N);
    right &= check("dx", &dx[0][0], &edx[0][0], N * K, M);

    fbl_program_destroy(program);
    fbl_engine_destroy(engine);
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
}
