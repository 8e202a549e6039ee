"""``Places``: finds the user's line above a communication call, and the object collective around it."""

from __future__ import annotations

import re
from dataclasses import dataclass
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
        self._log = log
        self._texts: dict[tuple[int, int], tuple[int, str]] = {}  # by id of the code, and instruction
        self.last = ""
        self.by_library = False

    def forget_texts(self) -> None:
        """Forgets the numbers of texts, because the log has forgotten them."""
        self._texts.clear()

    def find(self, frame: FrameType | None) -> tuple[int, ObjectCall | None]:
        """The number of the place's text, and the object collective around the call.

        ``last`` is then the text: "t.py:20 in test_x", the innermost frame that is of the user's code; ""
        where there is none. ``by_library`` is whether a library stands between that and torch's own function.
        """
        around: ObjectCall | None = None
        self.by_library = False
        inside = _INSIDE
        while frame is not None:
            code = frame.f_code
            asked = inside.get(id(code))
            name = _owner(code) if asked is None else asked[0]
            if name is None:
                known = self._texts.get((id(code), frame.f_lasti))
                if known is None:
                    known = self._text(frame)
                number, self.last = known
                return number, around
            if name == _LIBRARY:
                self.by_library = True
            elif name:
                around = ObjectCall(name, id(frame), frame.f_lasti)
            frame = frame.f_back
        self.last = ""
        return 0, around

    def _text(self, frame: FrameType) -> tuple[int, str]:
        code = frame.f_code
        place = place_text(code.co_filename, frame.f_lineno or 0, code.co_name)
        known = self._texts[id(code), frame.f_lasti] = (self._log.text(place), place)
        return known


def know(module: ModuleType) -> None:
    """Finds out now whose a module's functions are, before ranks are forked that would each do so.

    What decorates a function of torch's that users call is as much torch's, wherever it is written.
    """
    for function in vars(module).values():
        if type(function) is not FunctionType:  # isinstance would ask what stands in for deprecated names
            continue
        layers = _layers(function)
        plain = layers[-1].__code__
        if _owner(plain) == "":
            for layer in layers[:-1]:
                _INSIDE[id(layer.__code__)] = ("", layer.__code__)


def _layers(function: FunctionType) -> list[FunctionType]:
    """A function, what it decorates, what that decorates, and so on."""
    found = [function]
    while isinstance(inner := getattr(found[-1], "__wrapped__", None), FunctionType):
        found.append(inner)
    return found


def _owner(code: CodeType) -> str | None:
    """Whose code it is: None for the user's, the name of an object collective, ``_LIBRARY``, else ""."""
    asked = _INSIDE.get(id(code))
    if asked is None:
        asked = _INSIDE[id(code)] = (_find_owner(code), code)
    return asked[0]


def _find_owner(code: CodeType) -> str | None:
    if code.co_filename.startswith("<"):
        return ""  # what the compiler made of a function: the user's line is the one that calls it
    if is_users(code.co_filename):
        return "" if any(name.startswith("__compiled_fn") for name in code.co_names) else None
    if code.co_name in OBJECT_COLLECTIVES:
        return code.co_name
    return "" if code.co_filename.startswith(_HARNESS) or _C10D.search(code.co_filename) else _LIBRARY


# What ``_find_owner`` says, by id of the code, which is kept so that no other one gets its id. The hash of a
# code object takes longer than the rest of a look-up.
_INSIDE: dict[int, tuple[str | None, CodeType]] = {}
_LIBRARY = "a library"
_HARNESS = __file__.rpartition("/communication/")[0] + "/"
# Where the public functions are, which a user's code calls.
_C10D = re.compile(r"torch/distributed/(?:distributed_c10d|c10d_logger|_functional_collectives)\.py$|^<")
