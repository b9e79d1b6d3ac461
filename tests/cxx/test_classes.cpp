// Kinds of modules and optimisers of one's own, written in C++: a module whose state has a constructor, and signed descent.
#include <cstdio>
#include <new>
#include <string>

#include <facula/facula.h>

static int failures;

static void expect(bool good, const char *what) {
    if (good && fac_error() == FAC_OK) return;
    std::printf("FAILED: %s: %s\n", what, fac_error_message());
    fac_error_clear();
    failures++;
}

// ---- a module ------------------------------------------------------------------------------------------------------------

struct scale_state {
    std::string name = "twice";
    double factor = 2;
};

static scale_state *scale_of(fac_module *m) { return static_cast<scale_state *>(fac_module_state(m)); }

static fac_tensor *scale_forward(fac_module *self, fac_tensor *x) {
    return fac_mul(fac_mul(x, fac_module_parameter(self, "weight")), scale_of(self)->factor);
}

static fac_status scale_init(fac_module *self) {
    new (fac_module_state(self)) scale_state;
    return FAC_OK;
}

static void scale_destroy(fac_module *self) { scale_of(self)->~scale_state(); }

static void scale_describe(fac_module *self, char *buf, size_t size) {
    std::snprintf(buf, size, "%s", scale_of(self)->name.c_str());
}

static fac_status scale_copy(fac_module *copy, fac_module *self) {
    *scale_of(copy) = *scale_of(self);
    return FAC_OK;
}

static fac_module_class scale_class() {
    fac_module_class c = {};
    c.name = "Scale";
    c.version = 1;
    c.state_size = sizeof(scale_state);
    c.forward = scale_forward;
    c.init = scale_init;
    c.destroy = scale_destroy;
    c.describe = scale_describe;
    c.copy = scale_copy;
    return c;
}

static fac_module *scale_new() {
    static const fac_module_class cls = scale_class();
    fac_module *m = fac_module_new(&cls);
    if (!m) return nullptr;
    const float one = 1;
    fac_module_add_parameter(m, "weight", fac_tensor_from(&one, FAC_F32, {nullptr, 0}));
    return m;
}

// ---- an optimiser ----------------------------------------------------------------------------------------------------------

static fac_status signed_step(const fac_optimizer_update *u) {
    fac_sub_(u->parameter, fac_mul(fac_sign(u->grad), u->options[0]));
    fac_add_(u->state[0], 1);
    return fac_error();
}

static const fac_option signed_options[] = {{"lr", 0.5}, {nullptr, 0}};
static const char *const signed_state[] = {"steps", nullptr};
static const fac_optimizer_class signed_class = {"SignedDescent", signed_options, signed_state, signed_step,
                                                 nullptr,         nullptr,        nullptr,      nullptr};

// ---- both together -----------------------------------------------------------------------------------------------------------

static void a_module_and_an_optimiser_train() {
    fac_scope s = fac_scope_begin();
    fac_module *m = scale_new();
    fac_optimizer *o = fac_optimizer_new(&signed_class, m, FAC_OPTIONS({"lr", 0.25}));
    const float three = 3;
    fac_tensor *x = fac_tensor_from(&three, FAC_F32, {nullptr, 0});
    expect(fac_item(fac_forward(m, x)) == 6, "forward");
    expect(fac_backward(fac_forward(m, x), nullptr) == FAC_OK && fac_optimizer_step(o) == FAC_OK, "a step");
    expect(fac_item(fac_module_parameter(m, "weight")) == 0.75, "the parameter moved");
    const float other = 1;
    fac_tensor *p = fac_tensor_from(&other, FAC_F32, {nullptr, 0});
    expect(fac_optimizer_add_group(o, {&p, 1}, FAC_OPTIONS()) == FAC_OK, "another group");
    expect(fac_optimizer_option(o, 1, "lr") == 0.25, "has the settings that the optimiser was made with");
    fac_optimizer_release(o);
    fac_module_release(m);
    fac_scope_end(&s);
}

static void a_copy_has_a_state_of_its_own() {
    fac_scope s = fac_scope_begin();
    fac_module *m = scale_new();
    scale_of(m)->name = "a name that is too long to lie in the string itself";
    fac_module *copy = fac_module_copy(m);
    expect(copy != nullptr, "a copy");
    if (copy) expect(scale_of(copy)->name == scale_of(m)->name, "the copy's name");
    fac_module_release(m);
    fac_module_release(copy);
    fac_scope_end(&s);
}

int main() {
    a_module_and_an_optimiser_train();
    a_copy_has_a_state_of_its_own();
    return failures != 0;
}
