"""Writes small inputs to begin a fuzz run from: make_seeds.py TARGET FOLDER. Needs the Python package gguf."""

import os
import struct
import sys

import gguf
import numpy

TEXTS = (
    "Hello, world! It's 3.14 o'clock\n\n  def f(x):\treturn x**2\r\n",
    "Zażółć gęślą jaźń 你好，世界 こんにちは 🤦🏼‍♂️ e\u0301 \u00a0\u3000",
    "<s></s><|im_start|>user\n<|endoftext|> <0x0A>",
    "1234567890 1,000 AAAAaaaa____----....",
)


def byte_level_vocabulary():
    direct = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in direct]
    return [chr(byte) for byte in direct] + [chr(256 + i) for i in range(len(others))]


def write_model(path, architecture, model, tokens, scores, merges, pre=None):
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(1)
    writer.add_context_length(64)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    if scores:
        writer.add_token_scores(scores)
    if merges:
        writer.add_token_merges(merges)
    writer.add_token_types([1] * len(tokens))
    writer.add_bos_token_id(0)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    writer.add_tensor("token_embd.weight", numpy.zeros((len(tokens), 32), dtype=numpy.float32)[:4])
    writer.add_tensor("output_norm.weight", numpy.ones(32, dtype=numpy.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_scalars(path):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint8("a.u8", 1)
    writer.add_int16("a.i16", -2)
    writer.add_uint64("a.u64", 2**63)
    writer.add_float64("a.f64", 1e300)
    writer.add_bool("a.bool", True)
    writer.add_array("a.ints", [1, 2, 3])
    writer.add_array("a.floats", [0.5, 1.5])
    writer.add_array("a.strings", ["x", "", "żółw"])
    writer.add_tensor("t", numpy.zeros((2, 3, 4), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# Cache files for the manager of cache_file_fuzz.cc, as docs/formats.md describes them. Digests are left 0: the fuzzer's
# reader takes any.
PAGE_TOKENS, PAGE_BYTES = 16, 1024


def cache_header(version, n_tokens=0, n_text=0):
    return struct.pack("<8sIIQQQII16s16s64s", b"loci-kv\n", version, PAGE_TOKENS, 7, n_tokens, PAGE_BYTES, 1, n_text,
                       b"f32", b"f32", b"fuzz")


def cache_images(n_kept, n_new):
    first, end = n_kept // PAGE_TOKENS, -(-(n_kept + n_new) // PAGE_TOKENS)
    return bytes(PAGE_BYTES) * (end - first if n_new else 0)


def cache_record(text_kept, text, tokens_kept, tokens):
    return (struct.pack("<8sQQQQQ", b"loci-rec", text_kept, len(text), tokens_kept, len(tokens), 0) + text +
            struct.pack("<%di" % len(tokens), *tokens) + cache_images(tokens_kept, len(tokens)) + bytes(8))


def write_cache_files(folder):
    tokens = list(range(40))
    records = [cache_record(0, b"one", 0, tokens[:20]), cache_record(3, b", two", 20, tokens[20:]),
               cache_record(1, b"", 33, []), cache_record(0, b"three", 16, [5])]
    seeds = {"empty": b"", "header": cache_header(3) + bytes(8),
             "old": cache_header(2, 20, 3) + b"one" + struct.pack("<20i", *tokens[:20]) + cache_images(0, 20) +
                    bytes(8)}
    for i in range(1, len(records) + 1):
        seeds["records%d" % i] = cache_header(3) + bytes(8) + b"".join(records[:i])
    seeds["torn"] = seeds["records2"][:-100]
    for name, data in seeds.items():
        with open(os.path.join(folder, name), "wb") as out:
            out.write(data)


TEMPLATES = (
    "{% for m in messages %}{{- '<|' + m.role + '|>' + (m.content or '') | trim }}{% endfor %}",
    "{%- macro f(x, y=1) %}{{ x ~ y }}{% endmacro %}{% set ns = namespace(a=[]) %}{{ f(messages[-1]['role'])[::-1] }}",
    "{% if tools is defined and tools %}{{ tools | tojson(indent=2) }}{% else %}{{ raise_exception('no') }}{% endif %}",
    "{{ strftime_now('%d %b %Y') }}"
    "{% for k, v in messages[1].tool_calls[0].function.arguments.items() %}{{ k }}{% endfor %}",
    "{% call(a) f() %}{% endcall %}{% filter upper %}x{% endfilter %}{{ '%s' % n }}",
    "{{ [1, 2] | map('string') | join(',') }}",
)

# Answers with calls; the names of dialects come from their place in server/tools/dialect.cc.
ANSWERS = (
    '<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.f<|channel|>c<|message|>{"a": 1}<|call|>',
    '<tool_call>\n{"name": "f", "arguments": {"a": [1, "x\\n"]}}\n</tool_call>',
    "<tool_call>\n<function=f>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    '[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": 1}[TOOL_CALLS][{"name": "g", "arguments": {}, "id": "123456789"}]',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>'
    'f\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    '<｜DSML｜tool_calls><｜DSML｜invoke name="f">'
    '<｜DSML｜parameter name="a" string="true">x</｜DSML｜parameter></｜DSML｜invoke>',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{}<|tool_call_end|>',
    "<|tool_call_start|>[f(a='x', b=[1, 2.5], c={'d': None})]<|tool_call_end|>",
    '<|tool_call>call:f{a:<|"|>x<|"|>,b:[1,true]}<tool_call|>',
    '{"name": "f", "parameters": {"a": "P"}}; {"name": "g", "parameters": {}}',
    '<|python_tag|>f.call(a="x")', 'all\nHi.>>>f\n{"a": "P"}', "<think>a</think>b",
    '<function name="f"><param name="a"><![CDATA[<b>]]></param></function>',
    '<|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>', 'functools[{"name": "f", "arguments": {}}]',
)
MAX_DIALECTS = 32


def write_answers(folder):
    for i, text in enumerate(ANSWERS):
        for dialect in range(MAX_DIALECTS):
            with open(os.path.join(folder, f"answer{i}-{dialect}"), "wb") as out:
                out.write(bytes([dialect, i % 2, i]) + text.encode())


def main():
    target, folder = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    if target == "cache_file_fuzz":
        write_cache_files(folder)
    elif target == "tool_call_fuzz":
        write_answers(folder)
    elif target == "template_fuzz":
        for i, text in enumerate(TEMPLATES):
            with open(os.path.join(folder, f"template{i}"), "wb") as out:
                out.write(text.encode())
    elif target == "gguf_fuzz":
        letters = byte_level_vocabulary()
        write_scalars(os.path.join(folder, "scalars"))
        write_model(os.path.join(folder, "bpe"), "qwen2", "gpt2", letters + ["He", "ll"], [], ["H e", "l l"], "qwen2")
        pieces = ["<unk>", "<s>", "▁", "a", "▁a"] + [f"<0x{byte:02X}>" for byte in range(256)]
        write_model(os.path.join(folder, "spm"), "llama", "llama", pieces, [float(-i) for i in range(len(pieces))], [])
        words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "hello", "##s", "a"]
        write_model(os.path.join(folder, "bert"), "bert", "bert", words, [], [])
    else:
        for i, text in enumerate(TEXTS):
            with open(os.path.join(folder, f"text{i}"), "wb") as out:
                out.write(bytes([1, i * 7]) + text.encode())
        pieces = "\3\1<s>;\2\0<unk>;\1\5a;\1\4ab;\1\6▁;\1\7▁a;\4\1<x>;\5\0abab;\6\0<0x41>;a ab<s><x>abab 你"
        for i in range(0, 64, 5):
            with open(os.path.join(folder, f"vocabulary{i}"), "wb") as out:
                out.write(bytes([0, i]) + pieces.encode())
        with open(os.path.join(folder, "bytes"), "wb") as out:
            out.write(bytes([1, 3]) + bytes(range(256)))


if __name__ == "__main__":
    main()
