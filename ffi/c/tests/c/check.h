/* What the C suite checks with: a failed check is told with its line, and makes the program fail. */
#ifndef CHECK_H
#define CHECK_H

#include <fblayout.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static int failures;

#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            failures++; \
        } \
    } while (0)

/* That a call answers a status, and that its message has these words. */
#define CHECK_FAILS(call, expected, words) check_fails(__LINE__, #call, (call), (expected), (words))

#define CHECK_OK(call) check_ok(__LINE__, #call, (call))

static inline void last_message(char message[512]) {
    fbl_error_message(NULL, message, 512, NULL);
}

static inline void check_ok(int line, const char *call, fbl_status status) {
    if (status != FBL_OK) {
        char message[512];
        last_message(message);
        fprintf(stderr, "%d: %s is %s: %s\n", line, call, fbl_status_name(status), message);
        failures++;
    }
}

static inline void check_fails(int line, const char *call, fbl_status status, fbl_status expected, const char *words) {
    char message[512];
    last_message(message);
    if (status != expected || strstr(message, words) == NULL) {
        fprintf(stderr, "%d: %s is %s: \"%s\", expected %s and \"%s\"\n", line, call, fbl_status_name(status), message,
                fbl_status_name(expected), words);
        failures++;
    }
}

/* The first device, as the environment says. */
static inline fbl_engine *open_engine(void) {
    fbl_engine *engine = NULL;
    CHECK_OK(fbl_engine_create(NULL, &engine));
    if (engine == NULL) {
        exit(1);
    }
    return engine;
}

/* Ends a program: a message of the validation layer is a failure too. */
static inline int finish(fbl_engine *engine) {
    uint64_t messages = 1;
    CHECK_OK(fbl_engine_validation_count(engine, &messages));
    CHECK(messages == 0);
    fbl_engine_destroy(engine);
    return failures != 0;
}

#endif
