/* Hooks that pack and unpack what a graph saves, when they fail, give nonsense or use the library themselves: the graph stays
   usable, everything that was packed is dropped once, and the error says which hook it was. */
#include "support/support.h"
#include <facula/facula.h>

enum way { GIVE, GIVE_NULL, GIVE_DEAD, GIVE_GRAPH };

typedef struct store {
    int packed, unpacked, dropped;
    int fail_pack, fail_unpack; /* the how many-th call fails; 0: none */
    enum way how;
    fac_tensor *dead;
} store;

static void *pack(void *context, fac_tensor *t) {
    store *s = context;
    if (++s->packed == s->fail_pack) {
        s->packed--;
        s->fail_pack = 0;
        fac_error_set(FAC_ERR_IO, "the store is full");
        return NULL;
    }
    return fac_keep(fac_mul(t, 1.0));
}

static fac_tensor *unpack(void *context, void *handle) {
    store *s = context;
    if (++s->unpacked == s->fail_unpack) {
        if (s->how == GIVE) fac_error_set(FAC_ERR_IO, "the store is gone");
        if (s->how == GIVE_DEAD) return s->dead;
        if (s->how != GIVE_GRAPH) return NULL;
        FAC_ENABLE_GRAD(recorded);
        fac_tensor *x = fac_ones(FAC_SHAPE(2), .dtype = FAC_F64, .requires_grad = true), *g = NULL;
        if (fac_grad(FAC_TENSORS(fac_sum(fac_exp(x))), FAC_TENSORS(x), &g)) return NULL;
        return fac_mul(handle, fac_div(g, g));
    }
    return handle;
}

static void drop(void *context, void *handle) {
    ((store *)context)->dropped++;
    fac_release(handle);
}

static void hooks_on(store *s) { fac_set_saved_tensor_hooks(&(fac_saved_tensor_hooks){pack, unpack, drop, s}); }
static void hooks_off(void) { fac_set_saved_tensor_hooks(NULL); }

static fac_tensor *leaf_of(double a, double b) {
    fac_tensor *t = fac_tensor_from((double[]){a, b}, FAC_F64, FAC_INTS(2));
    fac_set_requires_grad(t, true);
    return t;
}

static void assert_grad(fac_tensor *y, fac_tensor *x, double a, double b) {
    fac_tensor *g = NULL;
    assert_ok(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x), &g, .retain_graph = true));
    fac_tensor *expected = fac_tensor_from((double[]){a, b}, FAC_F64, FAC_INTS(2));
    assert_true(fac_allclose(g, expected));
}

static void pack_hook_that_fails_leaves_nothing_behind(void **state) {
    (void)state;
    for (int nth = 1; nth <= 4; nth++) {
        store s = {.fail_pack = nth};
        {
            FAC_SCOPE(scope);
            fac_tensor *x = leaf_of(1, 2), *w = leaf_of(3, 4);
            hooks_on(&s);
            fac_tensor *failed = fac_mul(fac_mul(x, w), x);
            hooks_off();
            assert_null(failed);
            assert_error(FAC_ERR_IO, "the pack hook of a saved tensor: the store is full");
            hooks_on(&s);
            fac_tensor *y = fac_sum(fac_mul(fac_mul(x, w), x));
            hooks_off();
            assert_grad(y, x, 6, 16);
        }
        assert_int_equal(s.dropped, s.packed);
    }
}

static void pack_hook_that_fails_keeps_an_operation_in_place_from_writing(void **state) {
    (void)state;
    for (int nth = 1; nth <= 2; nth++) {
        store s = {.fail_pack = nth};
        {
            FAC_SCOPE(scope);
            fac_tensor *x = leaf_of(1, 2), *w = leaf_of(3, 4), *t = fac_mul(x, 1.0);
            hooks_on(&s);
            assert_null(fac_mul_(t, w));
            hooks_off();
            assert_error(FAC_ERR_IO, "the pack hook of a saved tensor: the store is full");
            assert_true(fac_equal(t, fac_tensor_from((double[]){1, 2}, FAC_F64, FAC_INTS(2))));
            assert_grad(fac_sum(t), x, 1, 1);
        }
        assert_int_equal(s.dropped, s.packed);
    }
}

static void unpack_hook_that_fails_leaves_the_graph_usable(void **state) {
    (void)state;
    static const struct {
        enum way how;
        fac_status code;
        const char *text;
    } ways[] = {{GIVE, FAC_ERR_IO, "the unpack hook of a saved tensor: the store is gone"},
                {GIVE_NULL, FAC_ERR_AUTOGRAD, "the unpack hook of a saved tensor returned NULL"},
                {GIVE_DEAD, FAC_ERR_STATE, "the unpack hook of a saved tensor"}};
    for (size_t i = 0; i < FAC_COUNT(ways); i++)
        for (int nth = 1; nth <= 3; nth++) {
            store s = {.fail_unpack = nth, .how = ways[i].how};
            {
                FAC_SCOPE(scope);
                fac_tensor *x = leaf_of(1, 2), *w = leaf_of(3, 4), *g[2];
                s.dead = fac_ones(FAC_SHAPE(2), .dtype = FAC_F64);
                fac_drop(s.dead);
                hooks_on(&s);
                fac_tensor *y = fac_sum(fac_mul(fac_mul(x, w), x));
                hooks_off();
                assert_int_equal(fac_grad(FAC_TENSORS(y), FAC_TENSORS(x, w), g, .retain_graph = true), ways[i].code);
                assert_error(ways[i].code, ways[i].text);
                assert_grad(y, x, 6, 16);
            }
            assert_int_equal(s.dropped, s.packed);
        }
}

static void unpack_hook_may_go_backward_itself(void **state) {
    (void)state;
    store s = {.fail_unpack = 1, .how = GIVE_GRAPH};
    {
        FAC_SCOPE(scope);
        fac_tensor *x = leaf_of(1, 2), *w = leaf_of(3, 4);
        hooks_on(&s);
        fac_tensor *y = fac_sum(fac_mul(fac_mul(x, w), x));
        hooks_off();
        assert_grad(y, x, 6, 16);
    }
    assert_int_equal(s.dropped, s.packed);
}

FAC_TEST_MAIN(FAC_TEST(pack_hook_that_fails_leaves_nothing_behind),
              FAC_TEST(pack_hook_that_fails_keeps_an_operation_in_place_from_writing),
              FAC_TEST(unpack_hook_that_fails_leaves_the_graph_usable), FAC_TEST(unpack_hook_may_go_backward_itself))
