// A ggml program that trains on the plugin, in C++17: it loads libggml-fblayout.so, keeps its own graph and ggml's own gradients, and
// runs AdamW steps on the first device.
//
//     c++ -std=c++17 ggml_step.cpp -I GGML/include -L GGML/lib -lggml -lggml-base -o ggml_step && ./ggml_step libggml-fblayout.so
//
// A layer of weights W learns what another one, hidden, makes of the same inputs.
#include <ggml-backend.h>
#include <ggml.h>

#include <cmath>
#include <cstdio>
#include <memory>
#include <vector>

namespace {

constexpr int64_t INPUTS = 24, OUTPUTS = 10, ROWS = 48;

// Destroys what a pointer names by the library's own function.
template <auto destroy>
struct Free {
    template <typename T>
    void operator()(T *object) const { destroy(object); }
};

std::vector<float> waves(int64_t count, float step) {
    std::vector<float> numbers(static_cast<size_t>(count));
    for (size_t i = 0; i < numbers.size(); i++) numbers[i] = std::sin(step * static_cast<float>(i));
    return numbers;
}

void set(ggml_tensor *tensor, const std::vector<float> &numbers) {
    ggml_backend_tensor_set(tensor, numbers.data(), 0, ggml_nbytes(tensor));
}

int train(const char *plugin) {
    // The plugin registers its devices: one for each Vulkan device, FBLayout0, FBLayout1 and so on.
    ggml_backend_reg_t reg = ggml_backend_load(plugin);
    if (reg == nullptr || ggml_backend_reg_dev_count(reg) == 0) {
        std::fprintf(stderr, "%s: no plugin, or no device\n", plugin);
        return 1;
    }
    ggml_backend_dev_t device = ggml_backend_reg_dev_get(reg, 0);
    std::unique_ptr<ggml_backend, Free<ggml_backend_free>> backend(ggml_backend_dev_init(device, nullptr));
    std::printf("%s: %s\n", ggml_backend_dev_name(device), ggml_backend_dev_description(device));

    // ggml describes tensors in memory of its own; their content will be the device's.
    ggml_init_params memory = {64 * ggml_tensor_overhead() + ggml_graph_overhead_custom(64, true), nullptr, true};
    std::unique_ptr<ggml_context, Free<ggml_free>> context(ggml_init(memory));
    ggml_context *ctx = context.get();
    ggml_tensor *w = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, INPUTS, OUTPUTS);
    ggml_tensor *x = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, INPUTS, ROWS);
    ggml_tensor *wanted = ggml_new_tensor_2d(ctx, GGML_TYPE_F32, OUTPUTS, ROWS);
    ggml_tensor *m = ggml_dup_tensor(ctx, w), *v = ggml_dup_tensor(ctx, w);
    ggml_tensor *settings = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 7);
    ggml_set_param(w);

    // The loss is the mean of squared errors.
    ggml_tensor *error = ggml_sub(ctx, ggml_mul_mat(ctx, w, x), wanted);
    ggml_tensor *loss = ggml_scale(ctx, ggml_sum(ctx, ggml_sqr(ctx, error)), 1.0f / (OUTPUTS * ROWS));
    ggml_set_loss(loss);
    ggml_set_output(loss);

    // ggml adds the backward part; the optimizer's step is one more node.
    ggml_cgraph *graph = ggml_new_graph_custom(ctx, 64, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(ctx, graph, nullptr);
    ggml_tensor *step = ggml_opt_step_adamw(ctx, w, ggml_graph_get_grad(graph, w), m, v, settings);
    ggml_build_forward_expand(graph, step);
    for (int i = 0; i < ggml_graph_n_nodes(graph); i++) {
        if (!ggml_backend_supports_op(backend.get(), ggml_graph_node(graph, i))) {
            std::fprintf(stderr, "%s is not supported\n", ggml_op_name(ggml_graph_node(graph, i)->op));
            return 1;
        }
    }

    // Every tensor gets memory on the device; a larger program would have ggml_gallocr share it among results.
    std::unique_ptr<ggml_backend_buffer, Free<ggml_backend_buffer_free>> buffer(
        ggml_backend_alloc_ctx_tensors(ctx, backend.get()));
    if (buffer == nullptr) return 1;
    ggml_graph_reset(graph);  // the gradient of the loss by itself is 1, moments are 0

    const auto inputs = waves(INPUTS * ROWS, 1.7f), hidden = waves(INPUTS * OUTPUTS, 0.9f);
    std::vector<float> outputs;
    for (int64_t row = 0; row < ROWS; row++) {
        for (int64_t output = 0; output < OUTPUTS; output++) {
            float sum = 0;
            for (int64_t k = 0; k < INPUTS; k++) {
                sum += hidden[static_cast<size_t>(output * INPUTS + k)] * inputs[static_cast<size_t>(row * INPUTS + k)];
            }
            outputs.push_back(sum);
        }
    }
    set(w, std::vector<float>(INPUTS * OUTPUTS));
    set(x, inputs);
    set(wanted, outputs);

    float first = 0, last = 0;
    for (int i = 1; i <= 200; i++) {
        const float beta1 = 0.9f, beta2 = 0.99f, n = static_cast<float>(i);
        // Step size, betas, epsilon, weight decay, corrections for the first steps.
        set(settings, {0.02f, beta1, beta2, 1e-8f, 0, 1 / (1 - std::pow(beta1, n)), 1 / (1 - std::pow(beta2, n))});
        // The first run compiles the graph; all others replay it.
        if (ggml_backend_graph_compute(backend.get(), graph) != GGML_STATUS_SUCCESS) return 1;
        ggml_backend_tensor_get(loss, &last, 0, sizeof last);
        if (i == 1) first = last;
        if (i % 50 == 1 || i == 200) std::printf("step %3d  loss %.6f\n", i, last);
    }
    return last < first / 100 ? 0 : 1;
}

}  // namespace

int main(int count, char **arguments) {
    if (count != 2) {
        std::fprintf(stderr, "usage: ggml_step libggml-fblayout.so\n");
        return 2;
    }
    return train(arguments[1]);
}
