"""PyTorch's operator database, which needs no more than torch and numpy: {name: OpInfo}. Run as a program it prints the names."""

import sys
import types
import unittest
import warnings

warnings.simplefilter("ignore")
stub = types.ModuleType("expecttest")  # torch.testing._internal imports it; the database itself uses nothing of it
stub.TestCase, stub.ACCEPT = unittest.TestCase, False
sys.modules.setdefault("expecttest", stub)
arguments, sys.argv = sys.argv, sys.argv[:1]  # which torch.testing._internal parses on import

from torch.testing._internal import common_methods_invocations as database  # noqa: E402

sys.argv = arguments
OPERATORS = {op.name + ("." + op.variant_test_name if op.variant_test_name else ""): op for op in
             [*database.op_db, *getattr(database, "foreach_op_db", [])]}

if __name__ == "__main__":
    print("\n".join(OPERATORS))
