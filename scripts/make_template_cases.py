#!/usr/bin/env python3
"""Fills in tests/data/template/cases.json: renders every case with Python's Jinja2 as transformers sets it up.

usage: make_template_cases.py [--check]     (needs the PyPI package jinja2; tests do not)

Each case has a template, optionally variables, and gets "expected" (the text) or "error" (the exception's type).
With --check nothing is written: the script fails if a stored result differs.
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
from jinja2 import nodes
from jinja2.sandbox import ImmutableSandboxedEnvironment

PATH = pathlib.Path(__file__).parent.parent / "tests" / "data" / "template" / "cases.json"
NOW = datetime.datetime(2025, 3, 14, 9, 26, 53)


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def result(env, case):
    try:
        return {"expected": env.from_string(case["template"]).render(**case.get("variables", {}))}
    except Exception as error:  # any failure of the template is a result
        return {"error": type(error).__name__}


def main():
    env = environment()
    cases = json.loads(PATH.read_text())
    wrong = 0
    for case in cases:
        fresh = result(env, case)
        stored = {key: case[key] for key in ("expected", "error") if key in case}
        if stored != fresh:
            wrong += 1
            print(f"{case['template']!r}\n  stored {stored}\n  fresh  {fresh}")
        for key in ("expected", "error"):
            case.pop(key, None)
        case.update(fresh)
    if "--check" in sys.argv:
        sys.exit(1 if wrong else 0)
    lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
    PATH.write_text("[\n" + lines + "\n]\n")


if __name__ == "__main__":
    main()
