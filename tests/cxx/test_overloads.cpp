// Every overload of the C++ header reaches the function that it stands for: called with nothing, each returns, with an
// error if it is of a tensor. overloads.h has one call for each, made from the header.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <facula/facula.h>

extern "C" int c_part(void);

struct overload {
    const char *name;
    bool takes_tensor; // first, and not optional
    void (*call)();
};

// The results of operators, as one value.
template <class T> static const void *first(const T &result) { return &result; }

#include "overloads.h"

// A 0 in the place of keywords, which C takes for the first of them, would be a null pointer here, and so all defaults.
#define IS_CALL(name, call)                                            \
    template <class T, class = void> struct name : std::false_type {}; \
    template <class T> struct name<T, decltype((void)(call))> : std::true_type {}
IS_CALL(sums_over_0, (fac_sum)(static_cast<T>(nullptr), 0));
IS_CALL(sums, (fac_sum)(static_cast<T>(nullptr)));
IS_CALL(sums_by_kw, (fac_sum)(static_cast<T>(nullptr), fac_sum_kw()));
IS_CALL(sums_by_defaults, (fac_sum)(static_cast<T>(nullptr), nullptr));
IS_CALL(makes_linear_of_0, (fac_linear_new)(T(3), 4, 0));
IS_CALL(makes_linear, (fac_linear_new)(T(3), 4));
IS_CALL(adds_times_0, (fac_add_tensor)(static_cast<T>(nullptr), nullptr, 0));
static_assert(!sums_over_0<fac_tensor *>::value && !makes_linear_of_0<int64_t>::value &&
                  !adds_times_0<fac_tensor *>::value,
              "");
static_assert(sums<fac_tensor *>::value && sums_by_kw<fac_tensor *>::value && sums_by_defaults<fac_tensor *>::value,
              "");
static_assert(makes_linear<int64_t>::value, "");

static int failures;

static void expect(bool good, const char *what) {
    if (good) return;
    std::printf("FAILED: %s: %s\n", what, fac_error_message());
    failures++;
}

static void every_overload_is_an_error_without_tensors() {
    for (const overload &o : overloads) {
        fac_scope s = fac_scope_begin();
        o.call();
        if (o.takes_tensor && fac_error() == FAC_OK) expect(false, o.name);
        fac_error_clear(); // factories of nothing are legal
        fac_scope_end(&s);
    }
    std::printf("%zu overloads called\n", sizeof overloads / sizeof overloads[0]);
}

static void overloads_compute() {
    fac_scope s = fac_scope_begin();
    const float a[] = {7, -7}, b[] = {2, 2};
    const bool c[] = {true, false};
    const int64_t two = 2;
    fac_ints sizes = {&two, 1};
    fac_tensor *x = fac_tensor_from(a, FAC_F32, sizes), *y = fac_tensor_from(b, FAC_F32, sizes);
    fac_tensor *condition = fac_tensor_from(c, FAC_BOOL, sizes);
    expect(fac_item(fac_sum(fac_where(condition, x, y))) == 9, "fac_where of tensors");
    expect(fac_item(fac_sum(fac_where(condition, x, 5.0))) == 12, "fac_where with a number");
    expect(fac_item(fac_sum(fac_floor_divide(x, y))) == -1, "fac_floor_divide of tensors");
    expect(fac_item(fac_sum(fac_floor_divide(x, 2))) == -1, "fac_floor_divide by a number");
    expect(fac_item(fac_sum(fac_add(x, y))) == 4, "fac_add of tensors");
    expect(fac_item(fac_sum(fac_add(x, 1.5))) == 3, "fac_add of a number");
    expect(fac_equal(fac_flip(fac_flip(x, 0), 0), x), "a number for a list");
    expect(fac_item(fac_sum(fac_full(3, 0.5))) == 1.5, "numbers for a list and for a Scalar");
    expect(fac_item(fac_sum(fac_full(FAC_SHAPE(2, 2), 2))) == 8, "a list, and a number for a Scalar");
    expect(fac_item(fac_sum(fac_linspace(0, 1.0, 5))) == 2.5, "numbers for two Scalars");
    expect(fac_item(fac_sum(fac_linspace(0, fac_num(1), 5))) == 2.5, "a number and a Scalar");
    fac_scope_end(&s);
}

/* What C has by macros: lists, literal tensors, modules, optimisers, passes, with and without keywords. */
static void a_model_trains() {
    fac_scope s = fac_scope_begin();
    fac_manual_seed(1);
    fac_module *model = fac_sequential(fac_linear_new(2, 8), fac_tanh_new(), fac_linear_new(8, 1));
    fac_adamw_new_kw options;
    options.weight_decay = 0;
    fac_optimizer *adam = fac_adamw_new(model, 0.05, options);
    fac_tensor *x = fac_reshape(fac_tensor_of(0, 0, 0, 1, 1, 0, 1, 1), FAC_SHAPE(4, 2));
    fac_tensor *y = fac_reshape(fac_tensor_of(0, 1, 1, 0), FAC_SHAPE(4, 1));
    double loss = 1;
    for (int step = 0; step < 300 && !fac_error(); step++) {
        fac_scope inner = fac_scope_begin();
        fac_tensor *l = fac_mse_loss(fac_forward(model, x), y);
        if (fac_backward(l) || fac_optimizer_step(adam)) break;
        fac_optimizer_zero_grad(adam);
        loss = fac_item(l);
        fac_scope_end(&inner);
    }
    expect(loss < 0.01, "exclusive or is learnt");
    fac_clip_grad_norm_kw clip;
    double norm = -1;
    clip.norm_type = 1;
    clip.total_norm = &norm;
    expect(!fac_clip_grad_norm(fac_optimizer_parameters(adam), 1, clip) && norm == 0, "no gradients are left to clip");
    fac_optimizer_release(adam);
    fac_module_release(model);
    fac_scope_end(&s);
}

static void errors_tell_the_place() {
    fac_scope s = fac_scope_begin();
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    fac_error_info e;
    const int line = __LINE__ + 1;
    fac_tensor *y = fac_relu(fac_mm(x, x));
    expect(!y && fac_error_get(&e) == FAC_ERR_SHAPE, "a product of what does not fit");
    expect(e.line == line && std::strstr(e.file, "test_overloads.cpp"), "the place of an operator");
    fac_error_clear();
    fac_module *m = fac_linear_new(-1, 2);
    expect(!m && fac_error_get(&e) != FAC_OK && e.line == line + 4, "the place of a module");
    fac_error_clear();
    fac_scope_end(&s);
}

static void handlers_may_throw() {
    fac_scope s = fac_scope_begin();
    bool caught = false;
    fac_tensor *x = fac_ones(FAC_SHAPE(2, 3));
    fac_set_error_handler([](void *, const fac_error_info *e) { throw e->code; }, nullptr);
    try {
        fac_tensor *y = fac_mm(x, x);
        expect(!y, "a product of what does not fit");
    } catch (fac_status code) { caught = code == FAC_ERR_SHAPE; }
    fac_set_error_handler(nullptr, nullptr);
    expect(caught, "the handler's exception");
    fac_error_clear();
    fac_scope_end(&s);
}

int main() {
    every_overload_is_an_error_without_tensors();
    overloads_compute();
    a_model_trains();
    errors_tell_the_place();
    handlers_may_throw();
    expect(c_part() == 0, "the C functions in a C file of the same program");
    return failures != 0;
}
