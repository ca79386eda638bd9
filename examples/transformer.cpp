// A transformer of two layers that learns one sentence by heart, in C++17.
//
//     c++ -std=c++17 transformer.cpp $(pkg-config --cflags --libs fblayout) -o transformer && ./transformer [PLAN.html]
//
// Every weight is trained with AdamW. The plan of the step is drawn in PLAN.html: its dispatches, memory and what became of views.
#include <fblayout.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void must(fbl_status status) {
    if (status >= 0) return;
    char message[512];
    fbl_error_message(nullptr, message, sizeof message, nullptr);
    throw std::runtime_error(message);
}

constexpr uint32_t WIDTH = 32, HEADS = 2, HEAD = WIDTH / HEADS, HIDDEN = 64, LAYERS = 2;

// The functions of the header as expressions.
struct Builder {
    struct Weight {
        fbl_tensor tensor;
        size_t count;
        float scale;  // of its first numbers; 0: ones
    };
    fbl_graph *graph;
    std::vector<Weight> weights = {};
    // What names begin with, as in GGUF files: by "blk.0." and so on the page draws layers once that are alike.
    std::string layer = {};
    int made = 0;

    template <typename Call, typename... Arguments>
    fbl_tensor get(Call call, Arguments... arguments) {
        fbl_tensor result;
        must(call(graph, arguments..., &result));
        return result;
    }
    template <typename Call, typename... Arguments>
    fbl_tensor make(Call call, Arguments... arguments) {
        auto result = get(call, arguments...);
        must(fbl_graph_name(graph, result, (layer + std::to_string(made++)).c_str()));
        return result;
    }
    fbl_tensor input(const char *name, uint32_t type, fbl_extent n, fbl_extent rows = 1) {
        const fbl_extent shape[4] = {n, rows, 1, 1};
        return get(fbl_input, name, type, shape);
    }
    fbl_tensor weight(const char *name, fbl_extent n, fbl_extent rows, float scale) {
        const fbl_extent shape[4] = {n, rows, 1, 1};
        auto tensor = get(fbl_parameter, (layer + name).c_str(), FBL_F32, shape);
        weights.push_back({tensor, static_cast<size_t>(n * rows), scale});
        return tensor;
    }
    fbl_tensor matmul(fbl_tensor w, fbl_tensor x) { return make(fbl_matmul, w, x); }
    fbl_tensor add(fbl_tensor a, fbl_tensor b) { return make(fbl_add, a, b); }
    fbl_tensor reshape(fbl_tensor x, fbl_extent a, fbl_extent b, fbl_extent c = 1) {
        const fbl_extent shape[4] = {a, b, c, 1};
        return get(fbl_reshape, x, shape);
    }
    fbl_tensor permute(fbl_tensor x, uint32_t a, uint32_t b, uint32_t c) {
        const uint32_t axes[4] = {a, b, c, 3};
        return get(fbl_permute, x, axes);
    }
    fbl_tensor norm(fbl_tensor x, const char *name) {
        return make(fbl_mul, make(fbl_rms_norm, x, 1e-5f), weight(name, WIDTH, 1, 0));
    }
};

// x, in {WIDTH, tokens}, with what the tokens before have to say.
fbl_tensor attend(Builder &b, fbl_tensor x, fbl_tensor positions, fbl_tensor mask) {
    const float scale = 1 / std::sqrt(static_cast<float>(WIDTH));
    auto normed = b.norm(x, "attn_norm");
    // Heads and transposes are views: they become coordinates of the kernels that read them.
    auto project = [&](const char *name) {
        return b.reshape(b.matmul(b.weight(name, WIDTH, WIDTH, scale), normed), HEAD, HEADS, FBL_REST);
    };
    auto turned = [&](fbl_tensor heads) {
        return b.permute(b.make(fbl_rope, heads, positions, HEAD, 1u, 10000.0f), 0, 2, 1);
    };
    auto scores = b.matmul(turned(project("k")), turned(project("q")));
    auto shares = b.make(fbl_soft_max, scores, mask, 1 / std::sqrt(static_cast<float>(HEAD)));
    auto mixed = b.permute(b.matmul(b.permute(project("v"), 2, 0, 1), shares), 0, 2, 1);
    auto joined = b.make(fbl_copy, mixed, FBL_F32);
    return b.add(x, b.matmul(b.weight("o", WIDTH, WIDTH, scale), b.reshape(joined, WIDTH, FBL_REST)));
}

fbl_tensor feed_forward(Builder &b, fbl_tensor x) {
    const float in = 1 / std::sqrt(static_cast<float>(WIDTH)), out = 1 / std::sqrt(static_cast<float>(HIDDEN));
    auto normed = b.norm(x, "ffn_norm");
    auto gate = b.matmul(b.weight("gate", WIDTH, HIDDEN, in), normed);
    auto up = b.matmul(b.weight("up", WIDTH, HIDDEN, in), normed);
    auto hidden = b.make(fbl_swiglu, gate, up);
    return b.add(x, b.matmul(b.weight("down", HIDDEN, WIDTH, out), hidden));
}

int learn(const char *plan_path) {
    const std::string sentence = "a tensor that never moves is read both ways.";
    const auto tokens = static_cast<uint32_t>(sentence.size() - 1);
    std::string letters = sentence;
    std::sort(letters.begin(), letters.end());
    letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
    const auto classes = static_cast<uint32_t>(letters.size());

    fbl_engine *engine;
    must(fbl_engine_create(nullptr, &engine));
    std::unique_ptr<fbl_engine, decltype(&fbl_engine_destroy)> engine_owner(engine, fbl_engine_destroy);
    fbl_graph *graph;
    must(fbl_graph_create(engine, &graph));
    std::unique_ptr<fbl_graph, decltype(&fbl_graph_destroy)> graph_owner(graph, fbl_graph_destroy);
    Builder b{graph};
    auto ids = b.input("ids", FBL_I32, tokens), positions = b.input("positions", FBL_I32, tokens);
    auto mask = b.input("mask", FBL_F32, tokens, tokens), labels = b.input("labels", FBL_F32, classes, tokens);
    auto table = b.weight("embedding", WIDTH, classes, 1);
    auto x = b.make(fbl_get_rows, table, ids);
    for (uint32_t i = 0; i < LAYERS; i++) {
        b.layer = "blk." + std::to_string(i) + ".", b.made = 0;
        x = feed_forward(b, attend(b, x, positions, mask));
    }
    b.layer = "";
    const float scale = 1 / std::sqrt(static_cast<float>(WIDTH));
    auto logits = b.matmul(b.weight("head", WIDTH, classes, scale), b.norm(x, "norm"));
    auto loss = b.make(fbl_cross_entropy, logits, labels);
    auto guess = b.make(fbl_op, "ARGMAX", nullptr, &logits, 1);
    must(fbl_output(graph, guess));

    // Gradients and optimizer are the trainer's to write.
    fbl_train_options options;
    FBL_INIT(options);
    options.loss = loss;
    options.logits = logits;
    options.labels = labels;
    options.learning_rate = 0.004f;
    fbl_trainer *trainer;
    must(fbl_trainer_create(graph, &options, &trainer));
    std::unique_ptr<fbl_trainer, decltype(&fbl_trainer_destroy)> trainer_owner(trainer, fbl_trainer_destroy);
    fbl_program *program;
    must(fbl_trainer_program(trainer, &program));
    auto upload = [&](fbl_tensor tensor, const auto &data) {
        must(fbl_program_upload(program, tensor, 0, data.data(), data.size() * sizeof data[0]));
    };
    std::mt19937 random(1);
    for (const auto &weight : b.weights) {
        std::vector<float> numbers(weight.count, 1);
        std::normal_distribution<float> normal(0, weight.scale);
        if (weight.scale > 0) std::generate(numbers.begin(), numbers.end(), [&] { return normal(random); });
        upload(weight.tensor, numbers);
    }
    std::vector<int32_t> id(tokens), position(tokens);
    std::vector<float> see(tokens * tokens), label(classes * tokens);
    for (uint32_t t = 0; t < tokens; t++) {
        id[t] = static_cast<int32_t>(letters.find(sentence[t]));
        position[t] = static_cast<int32_t>(t);
        label[t * classes + letters.find(sentence[t + 1])] = 1;
        for (uint32_t key = t + 1; key < tokens; key++) see[t * tokens + key] = -INFINITY;
    }
    upload(ids, id), upload(positions, position), upload(mask, see), upload(labels, label);

    if (plan_path != nullptr) {
        size_t length;
        must(fbl_program_plan_html(program, "A transformer", nullptr, 0, &length));
        std::string page(length + 1, 0);
        must(fbl_program_plan_html(program, "A transformer", page.data(), page.size(), nullptr));
        std::ofstream(plan_path) << page.c_str();
    }
    fbl_outcome outcome;
    FBL_INIT(outcome);
    for (int step = 0; step < 200 && outcome.accuracy < 1; step++) {
        must(fbl_trainer_step(trainer, &outcome));
        if (step % 5 == 0 || outcome.accuracy == 1) {
            must(fbl_program_download(program, guess, 0, id.data(), id.size() * sizeof id[0]));
            std::string told = sentence.substr(0, 1);
            for (auto letter : id) told += letters[static_cast<size_t>(letter)];
            std::printf("step %3d  loss %.3f  %3.0f %%  %s\n", step, outcome.loss, 100 * outcome.accuracy, told.c_str());
        }
    }
    std::puts(outcome.accuracy == 1 ? "learned" : "not learned");
    return outcome.accuracy == 1 ? 0 : 1;
}

}  // namespace

int main(int count, char **arguments) {
    try {
        return learn(count > 1 ? arguments[1] : nullptr);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
