#!/usr/bin/env python3
"""Writes tests/data/tokenizer_splits.json: how the published pre-tokenizer patterns cut test strings, by the PyPI
package regex. The patterns stand here a second time on purpose: the test compares two readings of them.

    python3 scripts/make_split_goldens.py > tests/data/tokenizer_splits.json
"""
import json
import random

import regex

CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"
UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES
CASED = "[^\\r\\n\\p{L}\\p{N}]?%s*%s+%s|[^\\r\\n\\p{L}\\p{N}]?%s+%s*%s|"
ASCII_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"

RULES = {
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "gpt-2": [GPT2],
    "smollm": [r"\p{N}", GPT2],
    "llama-bpe": [LLAMA3],
    "qwen2": [LLAMA3.replace("{1,3}", "")],
    "qwen35": [CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|" + SPACES],
    "tekken": [CASED % (UPPER, LOWER, "", UPPER, LOWER, "") + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES],
    "gpt-4o": [CASED % (UPPER, LOWER, CONTRACTIONS + "?", UPPER, LOWER, CONTRACTIONS + "?")
               + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + SPACES],
    "deepseek-v3": [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
                    ASCII_PUNCTUATION + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
                    r" ?[\p{P}\p{S}]+[\r\n]*|" + SPACES],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+", r"\p{N}"],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "gemma4": [r"[^\n]+|[\n]+"],
}

FIXED = [
    "", " ", "  ", "\n", "a", "Hello world", "  Hello   world  ", "I'M we'LL can't IT'S o'clock",
    "x1y22z333 4444 55555",
    "a\r\nb\r\r\nc\n\n\n  d", "\t\tif x:\n\n\n  y", "f(x)->y;//z", "caf\u00e9 cafe\u0301 \u00c5ngstr\u00f6m",
    "\u0660\u0661\u0662 \u00b2\u00bd\u2167",
    "\u4e2d\u6587\uff0ctest\u3002\u304b\u306a\u30ab\u30ca", "\ud55c\uad6d\uc5b4 text",
    "a\u00a0b\u2029 c\u3000d", "HTTPServer XMLHttp iPhone", "\u01c5 \u02b0\u0e33",
    "!!!??? ...\u2014\u201cquote\u201d", "$100 + 20% = <120>", "\U0001F600\U0001F468\u200d\U0001F469 ok",
    "a" * 40, " " * 40 + "x", "path/to/file.txt\n//\n",
]
ALPHABET = ["a", "B", "z", "\u00e9", "\u00df", "\u01c5", "\u02b0", "\u4e2d", "\u3042", "\ud55c", "\u0301",
    "\u0903", "0", "7", "\u0661", "\u00bd", " ", " ", "\u00a0",
            "\u3000", "\t", "\n", "\r", "\u0085", "'", "'s", "'LL", "!", ".", "/", "$", "+", "`", "\u2014",
    "\u3002", "\u20ac", "\U0001F600", "\u200d"]


def split(stages, text):
    pieces = [text] if text else []
    for stage in stages:
        pattern = regex.compile(stage)
        cut = []
        for piece in pieces:
            at = 0
            for match in pattern.finditer(piece):
                cut += [piece[at : match.start()], match.group()]
                at = match.end()
            cut.append(piece[at:])
        pieces = [piece for piece in cut if piece]
    return pieces


def main():
    random.seed(20240)
    strings = FIXED + ["".join(random.choice(ALPHABET) for _ in range(random.randint(2, 24))) for _ in range(60)]
    print("{")
    for i, (name, stages) in enumerate(RULES.items()):
        lines = ",\n".join(json.dumps(split(stages, text)) for text in strings)
        print('"%s": [\n%s\n]%s' % (name, lines, "," if i + 1 < len(RULES) else ""))
    print("}")


if __name__ == "__main__":
    main()
