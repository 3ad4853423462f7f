"""The contract suite: requirements for every method, as classes of tests.

```python
from fedshift.testing.contract import MethodContract, ServerRuleContract

class TestMine(MethodContract, ServerRuleContract):
    names = ("mine",)
```
"""

import pytest

pytest.register_assert_rewrite("fedshift.testing.contract.methods", "fedshift.testing.contract.server_rules")

from fedshift.testing.contract.methods import MethodContract  # noqa: E402
from fedshift.testing.contract.server_rules import ServerRuleContract  # noqa: E402

__all__ = ["MethodContract", "ServerRuleContract"]
