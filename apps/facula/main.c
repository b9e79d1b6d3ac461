/* facula: the library's command line. */
#include "cli.h"
#include <string.h>

static const cli_command *const COMMANDS[] = {&cli_train, &cli_predict,  &cli_generate, &cli_inspect,
                                              &cli_ops,   &cli_dispatch, &cli_info};
enum { N_COMMANDS = sizeof COMMANDS / sizeof *COMMANDS };

static void print_help(FILE *stream) {
    fputs("usage: facula COMMAND [ARGUMENT...]\n\n", stream);
    for (int i = 0; i < N_COMMANDS; i++) fprintf(stream, "  %-10s %s\n", COMMANDS[i]->name, COMMANDS[i]->summary);
    fputs("\n'facula COMMAND --help' explains a command, 'facula --version' prints the version.\n", stream);
}

static const cli_command *find_command(const char *name) {
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(COMMANDS[i]->name, name) == 0) return COMMANDS[i];
    return NULL;
}

static bool asks_for_help(int argc, char **argv) {
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return true;
    return false;
}

static int run(int argc, char **argv) {
    if (argc < 2) {
        print_help(stderr);
        return CLI_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        print_help(stdout);
        return CLI_OK;
    }
    if (strcmp(name, "--version") == 0) {
        printf("facula %s\n", fac_version());
        return CLI_OK;
    }
    const cli_command *command = find_command(name);
    if (!command) {
        fprintf(stderr, "facula: there is no command '%s'\n\n", name);
        print_help(stderr);
        return CLI_USAGE;
    }
    if (asks_for_help(argc - 1, argv + 1)) {
        fputs(command->help, stdout);
        return CLI_OK;
    }
    return command->run(command, argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    if (argc > 0) cli_program = argv[0];
    int code = run(argc, argv);
    fac_shutdown();
    if (fflush(stdout) == 0 && !ferror(stdout)) return code;
    perror("facula: cannot write the output");
    return CLI_FAILED;
}
