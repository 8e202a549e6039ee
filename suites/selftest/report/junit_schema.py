"""Checks a document against the JUnit schema of Jenkins (junit-10.xsd) and Ant's demands of suites.

Written from the two schemas; it knows the elements, their order, their attributes and the form of values.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

_SECONDS = re.compile(r"[0-9]+(\.[0-9]+)?")
_STAMP = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_NUMBER = re.compile(r"[0-9]+")
_ANY = re.compile(r".*", re.DOTALL)
_SOME = re.compile(r".+", re.DOTALL)

_RESULT = {"message": (False, _ANY), "type": (False, _ANY)}
_INTERIM = {"message": (False, _ANY), "type": (True, _ANY)}
_INTERIM_TAGS = ("rerunFailure", "rerunError", "flakyFailure", "flakyError")
# tag -> attribute -> (is it required, its form)
ATTRIBUTES: Mapping[str, Mapping[str, tuple[bool, re.Pattern[str]]]] = {
    "testsuites": {
        "name": (False, _ANY),
        "time": (False, _SECONDS),
        **dict.fromkeys(("tests", "failures", "errors"), (False, _NUMBER)),
    },
    "testsuite": {
        **dict.fromkeys(("tests", "failures", "errors", "skipped", "id"), (True, _NUMBER)),
        **dict.fromkeys(("name", "package", "hostname"), (True, _SOME)),
        "timestamp": (True, _STAMP),
        "time": (True, _SECONDS),
    },
    "properties": {},
    "property": {"name": (True, _SOME), "value": (True, _ANY)},
    "testcase": {"name": (True, _SOME), "classname": (True, _SOME), "time": (True, _SECONDS)},
    **dict.fromkeys(("failure", "error", "skipped"), _RESULT),
    **dict.fromkeys(_INTERIM_TAGS, _INTERIM),
    **{tag: {} for tag in ("system-out", "system-err", "stackTrace")},
}
# tag -> its children, as a pattern over their names each followed by a space
CHILDREN = {
    "testsuites": r"(testsuite )*",
    "testsuite": r"properties (testcase )*system-out system-err ",
    "properties": r"(property )*",
    "testcase": rf"((skipped|error|failure) )?(({'|'.join(_INTERIM_TAGS)}) )*(system-out )?(system-err )?",
    **dict.fromkeys(_INTERIM_TAGS, r"(stackTrace )?(system-out )?(system-err )?"),
}


def problems(text: str) -> list[str]:
    """The errors of a document; empty where it is valid. ParseError where it is not XML."""
    root = ElementTree.fromstring(text)
    found = [] if root.tag == "testsuites" else [f"root is {root.tag}"]
    for element in root.iter():
        found += _wrong(element)
    for suite in root.iter("testsuite"):
        found += _miscounted(suite)
    return found


def _wrong(element: ElementTree.Element) -> list[str]:
    if element.tag not in ATTRIBUTES:
        return [f"unknown element {element.tag}"]
    allowed = ATTRIBUTES[element.tag]
    found = [f"{element.tag}: unknown attribute {name}" for name in element.attrib if name not in allowed]
    for name, (required, form) in allowed.items():
        value = element.get(name)
        if value is None:
            found += [f"{element.tag}: no {name}"] if required else []
        elif not form.fullmatch(value):
            found.append(f"{element.tag}: {name}={value!r}")
    children = "".join(f"{child.tag} " for child in element)
    if not re.fullmatch(CHILDREN.get(element.tag, ""), children):
        found.append(f"{element.tag} holds {children}")
    return found


def _miscounted(suite: ElementTree.Element) -> list[str]:
    cases = suite.findall("testcase")
    counted = {"tests": len(cases)}
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        counted[name] = sum(case.find(tag) is not None for case in cases)
    return [
        f"{suite.get('name')}: {n}={suite.get(n)}, not {c}"
        for n, c in counted.items()
        if suite.get(n) != str(c)
    ]
