#!/usr/bin/env python3
"""Writes engine/text/unicode_tables.cc from Python's unicodedata.

    python3 scripts/make_unicode_tables.py > engine/text/unicode_tables.cc

Three tables: general category as runs, simple lower case, and the canonical decomposition with the nonspacing
marks (Mn) left out, which is what WordPiece vocabularies call "strip accents". Hangul syllables are left to code.
"""
import sys
import unicodedata

CATEGORIES = ("Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co").split()
WIDTH = 120


def rows(items):
    line = " "
    for item in items:
        if len(line) + 1 + len(item) + 1 > WIDTH:
            yield line
            line = " "
        line += " " + item + ","
    if line.strip():
        yield line


def main():
    runs, before = [], None
    lower, stripped = [], []
    for cp in range(0x110000):
        char = chr(cp)
        category = CATEGORIES.index(unicodedata.category(char))
        if category != before:
            runs.append("{0x%X, %d}" % (cp, category))
            before = category
        if 0xD800 <= cp <= 0xDFFF:
            continue
        low = char.lower()
        # The one letter whose lower case is longer than one code point (U+0130) maps to its base.
        if low != char:
            lower.append("{0x%X, 0x%X}" % (cp, ord(low[0])))
        if 0xAC00 <= cp <= 0xD7A3:
            continue
        base = [c for c in unicodedata.normalize("NFD", char) if unicodedata.category(c) != "Mn"]
        if base != [char] and cp not in (0,):
            assert len(base) <= 3, hex(cp)
            parts = [ord(c) for c in base] + [0] * (3 - len(base))
            stripped.append("{0x%X, {%s}}" % (cp, ", ".join("0x%X" % p for p in parts)))
    out = sys.stdout
    out.write("// Made by scripts/make_unicode_tables.py from Unicode %s; not edited by hand.\n" % unicodedata.unidata_version)
    out.write('#include "engine/text/unicode_tables.h"\n\nnamespace loci::unicode {\n\n// clang-format off\n')
    for name, kind, items in (("kCategoryRuns", "CategoryRun", runs), ("kLower", "LowerPair", lower),
                              ("kStripped", "StrippedEntry", stripped)):
        out.write("const %s %s[] = {\n" % (kind, name))
        out.write("\n".join(rows(items)))
        out.write("\n};\nconst size_t %sSize = %d;\n\n" % (name, len(items)))
    out.write("// clang-format on\n}  // namespace loci::unicode\n")


if __name__ == "__main__":
    main()
