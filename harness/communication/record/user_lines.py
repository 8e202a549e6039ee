"""``Places``: finds the user's line above a communication call, and the object collective around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import CO_GENERATOR
from sys import _getframe
from types import CodeType, FrameType, FunctionType, ModuleType

from harness.communication.call_log import CallLog
from harness.frames import is_users, place_text

# Functions of torch.distributed of which one call makes several calls of the backend.
OBJECT_COLLECTIVES = frozenset(
    {"all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"}
    | {"send_object_list", "recv_object_list"}
)


@dataclass(frozen=True, slots=True)
class ObjectCall:
    """A running call of a function that makes several calls of the backend: which, and how far it is."""

    name: str
    frame: int
    instruction: int

    def continues(self, earlier: ObjectCall | None) -> bool:
        """Whether this is the same running function as ``earlier``, further on."""
        if earlier is None or (self.name, self.frame) != (earlier.name, earlier.frame):
            return False
        return self.instruction > earlier.instruction


class Places:
    """The places of one rank's calls, as numbers of texts in its log."""

    def __init__(self, log: CallLog) -> None:
        self.write = log.text
        self.texts: dict[tuple[int, int], tuple[int, str]] = {}  # by id of the code, and instruction
        self.last = ""
        self.by_library = False
        self.around: ObjectCall | None = None
        self.plain = True

    def forget_texts(self) -> None:
        """Forgets the numbers of texts, because the log has forgotten them."""
        self.texts.clear()

    def find(self, above: int) -> int:
        """The number of the text of the place where a call was made; 0 for none.

        ``above``: how far out from this function the frame is that made it; a thread of torch may have none.
        Afterwards ``last`` is that text: "t.py:20 in test_x", the innermost frame that is of the user's code;
        "" where there is none. ``around`` is the object collective around the call, ``by_library`` whether a
        library stands between the user's code and torch's own function, ``plain`` that neither is the case.
        """
        frame = innermost = _frame(above + 1)
        while frame is not None and id(frame.f_code) in _PUBLIC_CODES:
            frame = frame.f_back
        if frame is None or (known := self.texts.get((id(frame.f_code), frame.f_lasti))) is None:
            return self._search(innermost)
        self.around, self.by_library, self.plain = None, False, True
        number, self.last = known
        return number

    def of_user(self, frame: FrameType) -> tuple[int, str] | None:
        """The number and the text of the place where a frame is; None where that is not the user's."""
        return self._text(frame) if _owner(frame.f_code) is _USER else None

    def _search(self, frame: FrameType | None) -> int:
        """The same, and finds out whose each frame is."""
        self.around, self.by_library, self.last = None, False, ""
        number = 0
        while frame is not None:
            owner = _owner(frame.f_code)
            if owner is _USER:
                known = self.texts.get((id(frame.f_code), frame.f_lasti))
                number, self.last = known or self._text(frame)
                break
            if owner is _LIBRARY:
                self.by_library = True
            elif owner is not _PUBLIC:
                self.around = ObjectCall(owner, id(frame), frame.f_lasti)
            frame = frame.f_back
        self.plain = not self.by_library and self.around is None
        return number

    def _text(self, frame: FrameType) -> tuple[int, str]:
        code = frame.f_code
        place = place_text(code.co_filename, frame.f_lineno or 0, code.co_name)
        known = self.texts[id(code), frame.f_lasti] = (self.write(place), place)
        return known


def _frame(above: int) -> FrameType | None:
    """The frame that is so far out from this function; None where a thread of torch has none there."""
    try:
        return _getframe(above)
    except ValueError:
        return None


def know(module: ModuleType) -> None:
    """Finds out now whose a module's functions are, before ranks are forked that would each do so.

    What decorates a function of torch's that users call is as much torch's, wherever it is written.
    """
    for function in vars(module).values():
        if type(function) is not FunctionType:  # isinstance would ask what stands in for deprecated names
            continue
        layers = _layers(function)
        plain = layers[-1].__code__
        if _owner(plain) is _PUBLIC:
            for layer in layers[:-1]:
                _keep(layer.__code__, _PUBLIC)
            if not plain.co_flags & CO_GENERATOR:
                FURTHER[id(plain)] = len(layers)


def _layers(function: FunctionType) -> list[FunctionType]:
    """A function, what it decorates, what that decorates, and so on."""
    found = [function]
    while isinstance(inner := getattr(found[-1], "__wrapped__", None), FunctionType):
        found.append(inner)
    return found


def _owner(code: CodeType) -> str:
    """Whose code it is: ``_USER``, ``_PUBLIC``, ``_LIBRARY``, or the name of an object collective."""
    known = _OWNERS.get(id(code))
    return known[0] if known is not None else _keep(code, _find_owner(code))


def _keep(code: CodeType, owner: str) -> str:
    _OWNERS[id(code)] = owner, code
    if owner is _PUBLIC:
        _PUBLIC_CODES.add(id(code))
    return owner


def _find_owner(code: CodeType) -> str:
    if code.co_filename.startswith("<"):
        return _PUBLIC  # what the compiler made of a function: the user's line is the one that calls it
    if is_users(code.co_filename):
        return _PUBLIC if _COMPILED in " ".join(("", *code.co_names)) else _USER
    if code.co_name in OBJECT_COLLECTIVES:
        return code.co_name
    return _PUBLIC if code.co_filename.startswith(_HARNESS) or _C10D.search(code.co_filename) else _LIBRARY


# What ``_find_owner`` says, by id of the code, which is kept so that no other one gets its id. The hash of a
# code object takes longer than the rest of a look-up.
_OWNERS: dict[int, tuple[str, CodeType]] = {}
_PUBLIC_CODES: set[int] = set()  # the ids of those that are neither the user's nor a library's
# How many frames further out than such a function of torch.distributed is who calls it: one, and one more for
# each decorator. By id of the code; not for generators, which are called by others than their decorators.
FURTHER: dict[int, int] = {}
# The user's; a library's; and what stands between the user's code and the backend without being either: the
# functions of torch.distributed that users call, and the harness.
_USER, _LIBRARY, _PUBLIC = "the user's", "a library's", "public"
_COMPILED = " __compiled_fn"  # how the names begin of what dynamo has a function call
_HARNESS = __file__.rpartition("/communication/")[0] + "/"
# Where the public functions are, which a user's code calls.
_C10D = re.compile(r"torch/distributed/(?:distributed_c10d|c10d_logger|_functional_collectives)\.py$")
