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
    fac_scope_end(&s);
}

int main() {
    every_overload_is_an_error_without_tensors();
    overloads_compute();
    expect(c_part() == 0, "the C functions in a C file of the same program");
    return failures != 0;
}
