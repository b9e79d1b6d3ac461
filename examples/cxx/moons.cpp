/* Two moons in C++17: the same network as in moons.c, with errors as exceptions and owners that release what they hold.

   Shows the headers as C++ sees them: overloads in the place of macros, structs of keywords, lists, and a handler that throws.

       c++ -std=c++17 moons.cpp $(pkg-config --cflags --libs facula) -o moons && ./moons [steps]

   Prints the loss every 100 steps, how many of 1000 new points are placed rightly, and a map of the plane. Returns 1 if fewer
   than 98 % are right. */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <facula/facula.h>

/* Owners: modules and optimisers are released with them; tensors belong to scopes, as in C. */
struct releaser {
    void operator()(fac_module *m) const { fac_module_release(m); }
    void operator()(fac_optimizer *o) const { fac_optimizer_release(o); }
};
using module = std::unique_ptr<fac_module, releaser>;
using optimizer = std::unique_ptr<fac_optimizer, releaser>;

/* The library calls this after a call that failed, when nothing of it is on the stack: it may throw. */
static void throw_error(void *, const fac_error_info *e) {
    throw std::runtime_error(std::string(e->file) + ":" + std::to_string(e->line) + ": " + fac_status_name(e->code) +
                             " error: " + e->message);
}

/* Takes a status that nobody has to look at, since what fails throws. */
static void done(fac_status) {}

/* n points, float32[n, 2], and the moon of each, 0 or 1 as float32[n]. */
static std::pair<fac_tensor *, fac_tensor *> points(int64_t n) {
    fac_tensor *moon = fac_bernoulli(fac_full(n, 0.5));
    fac_tensor *angle = fac_mul(fac_rand(n), 3.14159265), *x = fac_cos(angle), *y = fac_sin(angle);
    fac_tensor *lower = fac_eq(moon, 1);
    x = fac_where(lower, fac_rsub(x, 1), x);
    y = fac_where(lower, fac_rsub(y, 0.5), y);
    fac_stack_kw last; /* keywords are structs with their defaults; in C++20 {.dim = -1} will do */
    last.dim = -1;
    return {fac_add(fac_stack(FAC_TENSORS(x, y), last), fac_mul(fac_randn(FAC_SHAPE(n, 2)), 0.1)), moon};
}

/* The logit of the second moon, for each of the points x. */
static fac_tensor *logit(const module &model, fac_tensor *x) { return fac_squeeze(fac_forward(model.get(), x)); }

static void train(const module &model, int steps) {
    const optimizer adam(fac_adam_new(model.get(), 1e-2));
    for (int step = 1; step <= steps; step++) {
        FAC_SCOPE(s);
        const auto [x, moon] = points(128);
        fac_tensor *loss = fac_binary_cross_entropy_with_logits(logit(model, x), moon);
        fac_optimizer_zero_grad(adam.get());
        done(fac_backward(loss));
        done(fac_optimizer_step(adam.get()));
        if (step % 100 == 0) std::printf("step %4d   loss %.4f\n", step, fac_item(loss));
    }
}

static void draw(const module &model) {
    const int rows = 20, columns = 64;
    FAC_SCOPE(s);
    FAC_INFERENCE(g);
    const fac_tensors grid =
        fac_meshgrid_indexing(FAC_TENSORS(fac_linspace(1.4, -0.9, rows), fac_linspace(-1.5, 2.5, columns)), "ij");
    fac_stack_kw last;
    last.dim = -1;
    fac_tensor *x = fac_reshape(fac_stack(FAC_TENSORS(grid.v[1], grid.v[0]), last), FAC_SHAPE(-1, 2));
    std::vector<float> side(rows * columns);
    done(fac_tensor_read(logit(model, x), FAC_F32, side.data(), side.size()));
    const float *logit_here = side.data();
    for (int row = 0; row < rows; row++) {
        for (int column = 0; column < columns; column++) std::putchar(*logit_here++ > 0 ? ' ' : '.');
        std::putchar('\n');
    }
}

int main(int argc, char **argv) try {
    fac_set_error_handler(throw_error, nullptr);
    FAC_SCOPE(s);
    fac_manual_seed(1);
    const module model(fac_sequential(fac_linear_new(2, 32), fac_relu_new(), fac_linear_new(32, 32), fac_relu_new(),
                                      fac_linear_new(32, 1)));
    train(model, argc > 1 ? std::atoi(argv[1]) : 500);

    const auto [x, moon] = points(1000);
    const double right = static_cast<double>(fac_item_int(fac_sum(fac_eq(fac_gt(logit(model, x), 0), moon)))) / 1000;
    std::printf("%.1f %% of 1000 new points are placed rightly\n\n", 100 * right);
    draw(model);
    if (right < 0.98) fac_error_set(FAC_ERR_STATE, "the border is not good enough"); /* throws, as any error */
    return 0;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
