/* A defect of the library: the call says so, and its engine answers nothing else until it is destroyed. Others go on. */
#include "check.h"

fbl_status fbl_test_panic(const fbl_engine *engine);

int main(void) {
    fbl_engine *engine = open_engine(), *other = open_engine();
    fbl_graph *graph = NULL, *later = NULL;
    CHECK(fbl_has_feature(FBL_FEATURE_TEST) == 1);
    CHECK_OK(fbl_graph_create(engine, &graph));
    CHECK_FAILS(fbl_test_panic(engine), FBL_ERR_PANIC, "a defect of the library: on purpose");
    CHECK_FAILS(fbl_graph_create(engine, &later), FBL_ERR_POISONED, "destroy the engine");
    CHECK(later == NULL);
    fbl_tensor x = 1;
    const fbl_extent shape[4] = {4, 1, 1, 1};
    CHECK_FAILS(fbl_input(graph, "x", FBL_F32, shape, &x), FBL_ERR_POISONED, "destroy the engine");
    CHECK(x == 0);
    char message[256];
    CHECK_OK(fbl_error_message(engine, message, sizeof message, NULL));
    fbl_graph_destroy(graph);
    fbl_engine_destroy(engine);
    CHECK_OK(fbl_graph_create(other, &graph));
    CHECK_OK(fbl_input(graph, "x", FBL_F32, shape, &x));
    fbl_graph_destroy(graph);
    return finish(other);
}
