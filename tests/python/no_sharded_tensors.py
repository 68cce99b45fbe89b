"""For PyTorch 1.13 under Python 3.11, which cannot import its own sharded tensors. Lightning 2.2 asks for their hooks and needs them for
nothing here.

scripts/setup.sh --python puts this into the environment of the tests where it is needed. It is no part of the package.
"""

import sys
import types


def _nothing(*_arguments, **_options):
    return None


for _name in ("torch.distributed._shard", "torch.distributed._shard.sharded_tensor"):
    sys.modules[_name] = types.ModuleType(_name)
sys.modules["torch.distributed._shard.sharded_tensor"].state_dict_hook = _nothing
sys.modules["torch.distributed._shard.sharded_tensor"].pre_load_state_dict_hook = _nothing
