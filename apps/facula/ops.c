/* facula ops: the operators by name or tag, with their documentation or facts; which of PyTorch's there are. */
#include "cli.h"
#include "coverage.h"
#include <regex.h>
#include <string.h>

typedef struct ops_filter {
    const char *pattern, *tag;
    bool docs, facts, coverage;
    regex_t regex;
} ops_filter;

static bool matches(const ops_filter *f, const fac_operator *op) {
    if (f->tag && !fac_operator_has_tag(op, f->tag)) return false;
    if (!f->pattern) return true;
    return regexec(&f->regex, fac_operator_schema(op), 0, NULL, 0) == 0 ||
           regexec(&f->regex, fac_operator_doc(op), 0, NULL, 0) == 0;
}

static const char *const combining[] = {"unknown", "nothing", "exactly", "rounded", "as_parts"};

/* The arguments of a mask by number, from 0; "-" for none. */
static void print_mask(const char *name, uint64_t mask) {
    const char *sep = "";
    printf(" %s=", name);
    if (!mask) putchar('-');
    for (int i = 0; i < 64; i++)
        if (mask >> i & 1) printf("%s%d", sep, i), sep = ",";
}

static int print_facts(const fac_operator *op) {
    fac_operator_facts f;
    if (fac_operator_facts_of(op, &f) != FAC_OK) return CLI_FAILED;
    printf("   ");
    print_mask("writes", f.writes);
    print_mask("aliases", f.aliases);
    printf(" offsets=%d data_dependent=%s combines=%s functional=%s%s batch=%s\n    gradient: %s\n", f.offsets,
           f.data_dependent ? "yes" : "no", combining[f.combines], f.functional ? fac_operator_name(f.functional) : "-",
           f.fills ? " fills" : "", fac_operator_batch_rule(op), f.gradient);
    return CLI_OK;
}

static int list(const ops_filter *f) {
    size_t found = 0;
    for (size_t i = 0; i < fac_operator_count(); i++) {
        const fac_operator *op = fac_operator_at(i);
        if (!matches(f, op)) continue;
        found++;
        puts(fac_operator_schema(op));
        if (f->facts && print_facts(op) != CLI_OK) return cli_failed(&cli_ops);
        if (f->docs && *fac_operator_doc(op)) printf("    %s\n", fac_operator_doc(op));
    }
    if (found) return CLI_OK;
    fputs("facula ops: no operator matches\n", stderr);
    return CLI_FAILED;
}

static bool accepts(const void *filter, const char *name) {
    const ops_filter *f = filter;
    return !f->pattern || regexec(&f->regex, name, 0, NULL, 0) == 0;
}

/* Options that are only there or not. */
static bool *flag(ops_filter *f, const char *arg) {
    return strcmp(arg, "--docs") == 0       ? &f->docs
           : strcmp(arg, "--facts") == 0    ? &f->facts
           : strcmp(arg, "--coverage") == 0 ? &f->coverage
                                            : NULL;
}

static int parse(const cli_command *self, int argc, char **argv, ops_filter *f) {
    cli_args a = {.command = self, .argc = argc, .argv = argv, .at = 1};
    bool is_option;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        if (is_option && strcmp(arg, "--grep") == 0) {
            if (!(f->pattern = cli_value(&a, arg))) return CLI_USAGE;
        } else if (is_option && strcmp(arg, "--tag") == 0) {
            if (!(f->tag = cli_value(&a, arg))) return CLI_USAGE;
        } else if (is_option && flag(f, arg)) {
            if (!cli_no_value(&a, arg)) return CLI_USAGE;
            *flag(f, arg) = true;
        } else if (is_option || f->pattern) {
            return cli_usage_error(self, "'%s' is not understood", arg);
        } else {
            f->pattern = arg;
        }
    }
    if (f->coverage && (f->tag || f->docs || f->facts))
        return cli_usage_error(self, "--coverage goes with --grep alone");
    return CLI_OK;
}

static int ops(const cli_command *self, int argc, char **argv) {
    ops_filter f = {0};
    int code = parse(self, argc, argv, &f);
    if (code != CLI_OK) return code;
    if (fac_init() != FAC_OK) return cli_failed(self);
    if (f.pattern) {
        int bad = regcomp(&f.regex, f.pattern, REG_EXTENDED | REG_ICASE | REG_NOSUB);
        if (bad) {
            char why[128];
            regerror(bad, &f.regex, why, sizeof why);
            return cli_usage_error(self, "'%s' is not a regular expression: %s", f.pattern, why);
        }
    }
    code = f.coverage ? coverage_print(accepts, &f) : list(&f);
    if (f.pattern) regfree(&f.regex);
    return code;
}

const cli_command cli_ops = {
    "ops", "the operators and their schemas",
    "usage: facula ops [[--grep] REGEX] [--tag TAG] [--docs] [--facts]\n"
    "       facula ops --coverage [[--grep] REGEX]\n\n"
    "Prints the schema of every operator in order of name; exit status 1 if none matches.\n\n"
    "  --grep REGEX  those whose schema or description matches an extended regular expression, in any case;\n"
    "                the option's name may be left out\n"
    "  --tag TAG     those that carry a tag, such as core\n"
    "  --docs        with a line of description each\n"
    "  --facts       with a line of what may be relied on: which arguments are written, which a result may be a view of (by\n"
    "                number, from 0), random numbers drawn, whether sizes depend on values, how elements are combined\n"
    "                (nothing, exactly, rounded, as_parts of a composite, unknown of a program's own), and the operator that\n"
    "                computes the same and writes nothing, or fills if what is written does not depend on what was there;\n"
    "                then which arguments have a gradient, or why none has\n"
    "  --coverage    the operators of PyTorch by kind, each with its kernels and its gradient, or the word missing, then the\n"
    "                totals; exit status 1 if one is missing\n",
    ops};
