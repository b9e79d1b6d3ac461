/* An error names its operator once, in front: "conv2d: ..." and never "conv2d: conv2d: ..." or "cat: torch.cat(): ..."; and it tells
   the line of the call, however many operators the one that failed is made of. Every operator is called, from valid samples,
   with one argument spoilt at a time. */
#include "dispatch/operator.h"
#include "support/bad_calls.h"
#include "support/samples.h"
#include "support/support.h"
#include <ctype.h>
#include <facula/facula.h>
#include <string.h>

enum { SAMPLES_PER_OPERATOR = 3 };

typedef struct tally {
    int64_t failing, wrong, without_line;
} tally;

static bool is_name(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* Whether the text begins with a name and a colon, or a call of it: "name: ", "torch.name: ", "name(): ". */
static bool begins_with_a_name(const char *text) {
    if (strncmp(text, "torch.", 6) == 0) text += 6;
    const char *end = text;
    while (is_name(*end)) end++;
    return end > text && (strncmp(end, ": ", 2) == 0 || strncmp(end, "()", 2) == 0);
}

/* "name: " or "name, argument x: " in front, and then no name. */
static bool names_once(const fac_error_info *e) {
    const size_t n = strlen(e->op);
    if (strncmp(e->message, e->op, n) != 0) return false;
    const char *colon = strstr(e->message + n, ": ");
    return colon && !begins_with_a_name(colon + 2);
}

static void try_bad(void *context, const sample_call *c) {
    tally *y = context;
    static char text[SAMPLE_TEXT];
    fac_error_info e;
    if (sample_try(c, fac_device_make(FAC_CPU, -1)) == FAC_OK) return;
    fac_error_get(&e);
    y->failing += e.op[0] != 0; /* else its arguments could not be made */
    if (e.op[0] && !names_once(&e) && y->wrong++ < 40)
        print_error("%s\n    %s\n", sample_print(c, text, sizeof text), e.message);
    if (e.line == 0 && y->without_line++ < 40)
        print_error("%s\n    no line: %s\n", sample_print(c, text, sizeof text), e.message);
    fac_error_clear();
}

static void try_operator(tally *y, const fac_operator *op, const sample_set *samples) {
    static sample_call valid;
    size_t n;
    char *const *texts = samples_of(samples, op->name, &n);
    for (size_t i = 0; i < n && i < SAMPLES_PER_OPERATOR; i++) {
        assert_true(sample_parse(texts[i], &valid, NULL));
        bad_calls(&valid, atomic_load(&op->schema), try_bad, y);
    }
}

static void ignore(void *context, const char *message) { (void)context, (void)message; }

static void errors_name_their_operator_once_and_the_line(void **state) {
    (void)state;
    FAC_SCOPE(s);
    sample_set samples;
    tally y = {0};
    assert_true(samples_load(&samples));
    fac_set_warning_handler(ignore, NULL);
    for (size_t i = 0; i < fac_operator_count(); i++) try_operator(&y, fac_operator_at(i), &samples);
    fac_set_warning_handler(NULL, NULL);
    samples_free(&samples);
    print_message("%lld failing calls\n", (long long)y.failing);
    assert_true(y.failing > 10000);
    assert_int_equal(y.wrong, 0);
    assert_int_equal(y.without_line, 0);
}

static void errors_of_convolutions_begin_with_one_name(void **state) {
    (void)state;
    FAC_SCOPE(s);
    assert_null(fac_conv2d(fac_ones(FAC_SHAPE(1, 2, 4, 4)), fac_ones(FAC_SHAPE(2, 2, 3)), NULL));
    assert_string_equal(fac_error_message(),
                        "conv2d: expected weight to have 4 dimensions, but got weight of size [2, 2, 3]");
    fac_error_clear();
}

FAC_TEST_MAIN(FAC_TEST(errors_name_their_operator_once_and_the_line),
              FAC_TEST(errors_of_convolutions_begin_with_one_name))
