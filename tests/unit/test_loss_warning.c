/* What losses say of sizes that differ: legal, and mostly a forgotten squeeze. */
#include "support/support.h"
#include <facula/facula.h>

static char said[256];
static int times;
static void hear(void *context, const char *message) {
    (void)context;
    snprintf(said, sizeof said, "%s", message);
    times++;
}

static void loss_that_broadcasts_is_warned_of_once(void **state) {
    (void)state;
    FAC_SCOPE(s);
    fac_set_warning_handler(hear, NULL);
    fac_tensor *y = fac_tensor_of(1, 2, 3, 4), *column = fac_reshape(y, FAC_SHAPE(4, 1));
    assert_true(fac_item(fac_mse_loss(y, y)) == 0);
    assert_int_equal(times, 0);
    assert_true(fac_item(fac_mse_loss(column, y)) == 2.5);
    assert_int_equal(times, 1);
    assert_non_null(strstr(said, "[4, 1]"));
    assert_non_null(strstr(said, "[4]"));
    assert_true(fac_item(fac_l1_loss(column, y)) == 1.25);
    assert_int_equal(times, 1);
    fac_set_warning_handler(NULL, NULL);
}

FAC_TEST_MAIN(FAC_TEST(loss_that_broadcasts_is_warned_of_once))
