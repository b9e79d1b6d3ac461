/* facula dispatch: which kernel serves an operator at each key. */
#include "cli.h"
#include <string.h>

/* "add.Tensor" means "aten::add.Tensor". */
static const fac_operator *find(const char *name) {
    char full[256];
    int n = snprintf(full, sizeof full, "%s%s", strstr(name, "::") ? "" : "aten::", name);
    return fac_operator_find(n >= 0 && (size_t)n < sizeof full ? full : name);
}

static int dispatch(const cli_command *self, int argc, char **argv) {
    cli_args a = {.command = self, .argc = argc, .argv = argv, .at = 1};
    bool is_option, grid = false;
    const char *name = NULL;
    for (const char *arg; (arg = cli_next(&a, &is_option)) != NULL;) {
        if (is_option && strcmp(arg, "--grid") == 0)
            grid = true;
        else if (is_option || name)
            return cli_usage_error(self, "'%s' is not understood", arg);
        else
            name = arg;
        if (is_option && !cli_no_value(&a, arg)) return CLI_USAGE;
    }
    if (grid == (name != NULL)) return cli_usage_error(self, "give either one operator or --grid");
    if (fac_init() != FAC_OK) return cli_failed(self);
    const fac_operator *op = grid ? NULL : find(name);
    if ((!grid && !op) || fac_dispatch_dump(op, stdout) != FAC_OK) return cli_failed(self);
    return CLI_OK;
}

const cli_command cli_dispatch = {
    "dispatch", "which kernel serves an operator for each dispatch key",
    "usage: facula dispatch OPERATOR\n"
    "       facula dispatch --grid\n\n"
    "Prints an operator's row of the dispatch table: for each key the kernel that serves it and where that was\n"
    "registered. OPERATOR is a name with its overload, such as add.Tensor; the namespace aten:: may be left out.\n\n"
    "  --grid        all operators against all keys\n",
    dispatch};
