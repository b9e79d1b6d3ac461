/* by_name OPERATOR: calls it by its name, without arguments. The error that follows names what is wrong: the arguments, or the name. */
#include <facula/facula.h>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    fac_value result;
    return fac_call(argv[1], NULL, 0, &result) ? fac_report(stderr) : 0;
}
