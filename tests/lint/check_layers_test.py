"""Tests scripts/check_layers.py on small trees: each rule once broken, once kept."""

import os
import sys
import tempfile
import unittest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
import check_layers  # noqa: E402

EXISTING = (
    "main/cli.h",
    "server/json.h",
    "engine/engine.h",
    "gguf/gguf.h",
    "gguf/metadata.h",
    "kernels/backend.h",
    "kernels/error.h",
    "kernels/tensor.h",
    "kernels/quant/q4_0.h",
    "kernels/cpu/cpu_backend.h",
    "kernels/cpu/dot.inl",
    "kernels/cuda/cuda_backend.h",
    "tests/support/near.h",
)


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        for path in EXISTING:
            full = os.path.join(self.folder.name, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="ascii"):
                pass

    def tearDown(self):
        self.folder.cleanup()

    def found(self, path, text):
        return check_layers.check_file(path, text, self.folder.name)

    def refuses(self, path, text):
        self.assertEqual(len(self.found(path, text)), 1, f"{path}: {text}")

    def allows(self, path, text):
        self.assertEqual(self.found(path, text), [], f"{path}: {text}")

    def test_arrows_point_down(self):
        self.allows("main/main.cc", '#include "engine/engine.h"\n#include "kernels/error.h"\n')
        self.allows("engine/engine.h", '#include "gguf/gguf.h"\n')
        self.refuses("engine/engine.h", '#include "main/cli.h"\n')
        self.refuses("gguf/gguf.h", '#include "engine/engine.h"\n')
        self.refuses("kernels/tensor.h", '#include "gguf/gguf.h"\n')
        self.refuses("engine/engine.h", '#include "server/json.h"\n')

    def test_reports_the_line(self):
        self.assertEqual(self.found("gguf/gguf.h", '// x\n\n#include "engine/engine.h"\n')[0][0], 3)

    def test_engine_sees_no_device(self):
        self.allows("engine/model/decoder.cc", '#include "kernels/backend.h"\n#include "kernels/quant/q4_0.h"\n')
        self.refuses("engine/model/decoder.cc", '#include "kernels/cpu/dot.inl"\n')
        self.refuses("engine/model/decoder.cc", '#include "kernels/cpu/cpu_backend.h"\n')
        self.allows("engine/engine.cc", '#include "kernels/cpu/cpu_backend.h"\n')

    def test_devices_do_not_meet(self):
        self.refuses("kernels/cpu/cpu_backend.cc", '#include "kernels/cuda/cuda_backend.h"\n')
        self.refuses("kernels/cuda/cuda_backend.cu", '#include "kernels/cpu/cpu_backend.h"\n')
        self.allows("kernels/cpu/cpu_backend.cc", '#include "kernels/cpu/cpu_backend.h"\n')

    def test_server_touches_no_tensor(self):
        self.allows("server/routes.cc", '#include "kernels/error.h"\n')
        self.refuses("server/routes.cc", '#include "kernels/tensor.h"\n')

    def test_inl_is_pasted_in_one_place(self):
        self.allows("kernels/cpu/isa_kernels.cc", '#include "kernels/cpu/dot.inl"\n')
        self.refuses("kernels/cpu/cpu_backend.cc", '#include "kernels/cpu/dot.inl"\n')

    def test_paths_start_at_the_root(self):
        self.refuses("engine/engine.h", '#include "batch.h"\n')
        self.refuses("tests/engine/engine_test.cc", '#include "engine/absent.h"\n')

    def test_tests_are_not_included(self):
        self.refuses("engine/engine.h", '#include "tests/support/near.h"\n')
        self.allows("tests/engine/engine_test.cc", '#include "tests/support/near.h"\n')

    def test_third_party_at_its_edge(self):
        self.allows("main/cli.h", "#include <CLI/CLI.hpp>\n")
        self.refuses("engine/engine.cc", "#include <CLI/CLI.hpp>\n")
        self.refuses("engine/engine.cc", "#include <nlohmann/json.hpp>\n")
        self.allows("engine/text/spm_tokenizer.cc", "#include <sentencepiece_processor.h>\n")
        self.refuses("main/cmd_run.cc", "#include <sentencepiece_processor.h>\n")
        self.refuses("kernels/log.cc", "#include <gtest/gtest.h>\n")

    def test_environment(self):
        self.allows("main/model_cache.cc", 'std::getenv("HOME");\n')
        self.allows("kernels/cpu/isa.cc", 'std::getenv("LOCI_ISA");\n')
        self.allows("engine/engine.cc", "// getenv() is read elsewhere\n")
        self.refuses("engine/engine.cc", 'std::getenv("HOME");\n')


if __name__ == "__main__":
    unittest.main()
