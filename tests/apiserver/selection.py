# SPDX-License-Identifier: GPL-2.0-or-later
"""Label and field selectors: from text to a predicate of an Item."""
import re


class SelectorError(ValueError):
    """An invalid selector (400); str() is the message of the Status."""


_KEY = r"(?:[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
_TERM = re.compile(
    r"\s*(?:(?P<absent>!)\s*(?P<key1>%s)"
    r"|(?P<key2>%s)\s*(?:(?P<set>\bin\b|\bnotin\b)\s*\((?P<values>[^)]*)\)"
    r"|(?P<op>==|!=|=|>|<)\s*(?P<value>[^,\s]*))?)\s*(?:,|$)" % (_KEY, _KEY))


def labels(text):
    """Predicate for a label selector; None: everything matches."""
    tests = []
    pos = 0
    while pos < len(text):
        m = _TERM.match(text, pos)
        if not m or m.end() == pos:
            raise SelectorError("unable to parse requirement: %r at %d" % (text, pos))
        tests.append(_label_test(m))
        pos = m.end()
    return _all(tests)


def _label_test(m):
    if m.group("absent"):
        key = m.group("key1")
        return lambda item: key not in item.labels
    key = m.group("key2")
    if m.group("set"):
        values = frozenset(v.strip() for v in m.group("values").split(","))
        _check(values)
        if m.group("set") == "in":
            return lambda item: item.labels.get(key) in values
        return lambda item: item.labels.get(key) not in values
    op, value = m.group("op"), m.group("value")
    if op is None:
        return lambda item: key in item.labels
    if op in (">", "<"):
        try:
            bound = int(value)
        except ValueError as e:
            raise SelectorError("for 'Gt', 'Lt' operators, the value must be an integer") from e
        return lambda item: _compare(item.labels.get(key), op, bound)
    _check((value,))
    if op == "!=":
        return lambda item: item.labels.get(key) != value
    return lambda item: item.labels.get(key) == value


def _check(values):
    for v in values:
        if len(v) > 63 or not _VALUE.match(v):
            raise SelectorError("unable to parse requirement: values[0][]: Invalid value: %r" % v)


def _compare(value, op, bound):
    try:
        n = int(value)
    except (TypeError, ValueError):
        return False
    return n > bound if op == ">" else n < bound


def fields(text, kind, spec_fields=True):
    """Predicate for a field selector; None: everything matches."""
    tests = []
    for term in filter(None, text.split(",")):
        m = re.match(r"([^=!]+)(==|!=|=)(.*)$", term)
        if not m:
            raise SelectorError("invalid selector: '%s'; can't understand '%s'" % (text, term))
        if not (spec_fields or m.group(1).startswith("metadata.")):
            raise SelectorError('"%s" is not a known field selector: only "metadata.name", "metadata.namespace"' %
                                m.group(1))
        tests.append(_field_test(text, kind, *m.groups()))
    return _all(tests)


def _field_test(text, kind, name, op, value):
    if name == "metadata.name":
        def get(item):
            return item.name
    elif name == "metadata.namespace" and kind.namespaced:
        def get(item):
            return item.ns
    elif name in kind.selectable:
        index = kind.selectable.index(name)

        def get(item):
            return item.fields[index]
    else:
        raise SelectorError(
            'Unable to find "%s, Resource=%s" that match label selector "", field selector "%s": '
            "field label not supported: %s" % (
                "%s/%s" % (kind.group, kind.version), kind.resource, text, name))
    if op == "!=":
        return lambda item: get(item) != value
    return lambda item: get(item) == value


def _all(tests):
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda item: all(t(item) for t in tests)


def both(label_text, field_text, namespace, kind, spec_fields=True):
    """Predicate for both selectors of a request; None: everything matches."""
    tests = [labels(label_text or ""), fields(field_text or "", kind, spec_fields)]
    if namespace:
        tests.append(lambda item: item.ns == namespace)
    return _all([t for t in tests if t])
