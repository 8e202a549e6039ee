"""Faults of the stores, at the methods that Python calls.

What torch does with a store in C++, for gloo's own rendezvous, goes on as it should. Keys by which the tests
themselves put their members in order (``C10dTestCase.come_last``), and the harness at their end, are not
concerned.
"""

from __future__ import annotations

import torch.distributed as dist

from harness.communication.taps.group_shutdown import CAME_OUT
from suites.planting import replacing

STORE = "torch._C._distributed_c10d:Store"
#: The first parts of the keys by which every test with a late member starts, and ranks leave a group.
OTHERS = ("start/", CAME_OUT)


def _is_of_the_suite(store, key, *_):
    keys = [key] if isinstance(key, str) else key  # no keys: nothing to wait for, with the fault or without
    return bool(keys) and not keys[0].startswith(OTHERS)


def _forget(original, store, key, *_):
    return None


def _is_there(store, key, *_):
    return _is_of_the_suite(store, key) and store.check([key])


def _add_one(original, store, key, amount):
    return original(store, key, 1)


def _is_no_one(store, key, amount):
    return amount not in (0, 1)


def _set_anyway(original, store, key, expected, desired):
    store.set(key, desired)
    return store.get(key)


def _return_at_once(original, store, keys, *_):
    return None


def _say_yes(original, store, keys):
    return True


_check = dist.Store.check


def _is_missing(store, keys):
    return not _check(store, keys)


def _keep_the_key(original, store, key):
    return True


def _seven(original, store):
    return 7


def _overwrite(original, store, key, value):
    store.set(key, value)


def _reversed(original, store, keys):
    return original(store, keys)[::-1]


def _first_key(original, store, keys, values):
    return original(store, keys[:1], values[:1])


def _several(store, keys, *_):
    return len(keys) > 1


STORES = (
    replacing("store_forgets_a_key", "set stores nothing", f"{STORE}.set", _forget, _is_of_the_suite),
    replacing(
        "store_keeps_the_old_value", "set leaves a key that is there", f"{STORE}.set", _forget, _is_there
    ),
    replacing("store_adds_one", "add adds one, whatever it is told", f"{STORE}.add", _add_one, _is_no_one),
    replacing("compare_set_does_not_compare", "compare_set sets", f"{STORE}.compare_set", _set_anyway),
    replacing(
        "store_does_not_wait", "wait returns at once", f"{STORE}.wait", _return_at_once, _is_of_the_suite
    ),
    replacing("store_has_every_key", "check says yes", f"{STORE}.check", _say_yes, _is_missing),
    replacing("store_keeps_deleted_keys", "delete_key deletes nothing", f"{STORE}.delete_key", _keep_the_key),
    replacing("store_miscounts", "num_keys is always 7", f"{STORE}.num_keys", _seven),
    replacing("append_overwrites", "append sets", f"{STORE}.append", _overwrite),
    replacing(
        "multi_get_reverses", "multi_get gives values in reverse", f"{STORE}.multi_get", _reversed, _several
    ),
    replacing(
        "multi_set_sets_one", "multi_set sets the first key", f"{STORE}.multi_set", _first_key, _several
    ),
)
