/* Arguments whose sizes and dtype follow from the others: wrong ones are refused before a kernel reads them. */
#include "support/refused.h"
#include "support/support.h"

static void saved_statistics_that_do_not_fit_are_refused(void **state) {
    (void)state;
    const fac_device cpu = fac_device_make(FAC_CPU, -1);
    refused_run(refused_everywhere, refused_everywhere_count, cpu);
    refused_run(refused_on_cpu, refused_on_cpu_count, cpu);
}

static void saved_statistics_that_do_not_fit_are_refused_on_meta_too(void **state) {
    (void)state;
    const fac_device meta = fac_device_make(FAC_META, -1);
    refused_run(refused_everywhere, refused_everywhere_count, meta);
    refused_run(refused_on_cpu, refused_on_cpu_count, meta);
}

FAC_TEST_MAIN(FAC_TEST(saved_statistics_that_do_not_fit_are_refused),
              FAC_TEST(saved_statistics_that_do_not_fit_are_refused_on_meta_too))
