#!/usr/bin/env python3
"""Plants one breach of each rule in a small clean tree and sees it found; the clean tree itself passes."""

import tempfile
import unittest
from pathlib import Path

import source
import tidy

HEADER = "// A thing.\n#pragma once\n"
CLEAN = {
    "base/CMakeLists.txt": "room(base\n  SRCS a.cc)\n",
    "base/a.h": HEADER + "int a();\n",
    "base/a.cc": '#include "base/a.h"\n\nint a() { return 1; }\n',
    "topology/CMakeLists.txt": "room(topology\n  SRCS t.cc\n  DEPS base)\n",
    "topology/t.cc": '#include "base/a.h"\n\nint t() { return a(); }\n',
    "scheduler/CMakeLists.txt": "room(scheduler\n  SRCS s.cc\n  DEPS base topology)\n",
    "scheduler/s.cc": '#include "base/a.h"\n\nint s() { return a(); }\n',
    "tests/base/CMakeLists.txt": "room_test(base SRCS a_test.cc ROOMS base)\n",
    "tests/base/a_test.cc": "#include <gtest/gtest.h>\n\nTEST(A, IsOne) { EXPECT_EQ(a(), 1); }\n",
}


def long_function(lines, head="int f() {"):
    return head + "\n" + "  g();\n" * (lines - 2) + "}\n"


class PlantedBreaches(unittest.TestCase):
    def findings(self, planted):
        with tempfile.TemporaryDirectory() as folder:
            for path, text in {**CLEAN, **planted}.items():
                file = Path(folder) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            checks = [check for check in tidy.CHECKS if check is not tidy.check_format]
            return tidy.findings_of(folder, checks)

    def expect(self, planted, *expected):
        found = self.findings(planted)
        self.assertEqual(len(found), len(expected), found)
        for finding, words in zip(found, expected):
            self.assertIn(words, finding)

    def test_clean_tree_passes(self):
        self.assertEqual(self.findings({}), [])

    def test_include_upwards(self):
        self.expect({"base/a.cc": '#include "topology/t.h"\n'},
                    "base/a.cc:1: layering: room base includes topology/t.h")

    def test_include_without_deps(self):
        self.expect({"scheduler/CMakeLists.txt": "room(scheduler\n  SRCS s.cc\n  DEPS topology)\n"},
                    "scheduler/s.cc:1: layering: room scheduler includes base/a.h without base among its DEPS")

    def test_deps_beyond_the_table(self):
        self.expect({"scheduler/CMakeLists.txt": "room(scheduler\n  SRCS s.cc\n  DEPS base wire)\n"},
                    "layering: room scheduler may not depend on wire")

    def test_include_from_no_room_and_without_folder(self):
        self.expect({"base/a.cc": '#include "tests/x.h"\n#include "a.h"\n'},
                    "base/a.cc:1: layering: tests/x.h belongs to no room", 'base/a.cc:2: layering: write #include "base/a.h"')

    def test_vendor_header_in_a_file_not_named_for_it(self):
        for header in ("zmq.hpp", "ucp/api/ucp.h", "cuda_runtime.h", "nccl.h", "spdlog/spdlog.h", "boost/asio.hpp"):
            self.expect({"base/a.cc": f"#include <{header}>\n"}, f"base/a.cc:1: vendor: <{header}>")

    def test_vendor_header_where_it_belongs(self):
        self.expect({"base/CMakeLists.txt": "room(base SRCS a.cc a_zmq.cc)\n", "base/a_zmq.cc": "#include <zmq.hpp>\n"})

    def test_cuda_ifdef(self):
        self.expect({"base/a.cc": "int a();\n#ifdef __CUDACC__\n#endif\n"}, "base/a.cc:2: vendor: no #if for CUDA")

    def test_impure_scheduler(self):
        self.expect({"scheduler/s.cc": "#include <thread>\nint s() { return getenv; }\n"},
                    "scheduler/s.cc:1: purity", "scheduler/s.cc:2: purity")

    def test_log_in_a_room_that_does_not_log(self):
        self.expect({"topology/t.cc": '#include "base/log.h"\n'}, "topology/t.cc:1: purity: room topology does not log")

    def test_throw(self):
        self.expect({"base/a.cc": '// throw is a word here\nconst char* a = "throw";\nint b() { throw 1; }\n'},
                    "base/a.cc:3: errors")

    def test_long_function(self):
        self.expect({"base/a.cc": long_function(70)})
        self.expect({"base/a.cc": "\n" + long_function(71)}, "base/a.cc:2: length: function f has 71 lines")
        self.expect({"tests/tidy_x.py": "def f():\n" + "    pass\n" * 70}, "tests/tidy_x.py:1: length: function f has 71")

    def test_long_file(self):
        self.expect({"base/a.cc": "//\n" * 601}, "base/a.cc:1: length: 601 lines, 600 allowed")
        self.expect({"kernels/k.h": HEADER + "//\n" * 790})

    def test_names(self):
        self.expect({"base/CMakeLists.txt": "room(base SRCS a.cc Bad.cc)\n", "base/Bad.cc": "int b;\n"},
                    "base/Bad.cc:1: naming")
        self.expect({"base/a.cc": "struct bad_name {};\n"}, "base/a.cc:1: naming: type bad_name")

    def test_generated_file(self):
        self.expect({"base/x_generated.h": HEADER}, "base/x_generated.h:1: generated")

    def test_header_without_purpose_or_guard(self):
        self.expect({"base/a.h": "#pragma once\n"}, "base/a.h:1: header: opens without a comment")
        self.expect({"base/a.h": "// A thing.\n"}, "base/a.h:1: header: no #pragma once")

    def test_unregistered(self):
        self.expect({"tests/base/b_test.cc": "int b;\n"}, "tests/base/b_test.cc:1: registered")
        self.expect({"base/b.cc": "int b;\n"}, "base/b.cc:1: registered")

    def test_unfinished_and_machine_paths(self):
        self.expect({"base/a.cc": "// TO" "DO: more\n"}, "base/a.cc:1: unfinished")
        self.expect({"tests/base/a_test.cc": "// GTEST_" "SKIP()\n"}, "tests/base/a_test.cc:1: unfinished")
        self.expect({"base/a.cc": 'auto a = "/ro' 'ot/x";\n'}, "base/a.cc:1: path")

    def test_documents_name_files_that_exist(self):
        self.expect({"ARCHITECTURE.md": "`base/a.h` and `base/`\n[b](base/b.h), `base/c.h`\n"},
                    "ARCHITECTURE.md:2: documents: base/b.h", "ARCHITECTURE.md:2: documents: base/c.h")

    def test_format(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / ".clang-format").write_text("BasedOnStyle: Google\n")
            (Path(folder) / "a.cc").write_text("int  a ;\n")
            (Path(folder) / "b.cc").write_text("int b;\n")
            self.assertEqual(tidy.findings_of(folder, [tidy.check_format]),
                             ["a.cc:1: format: clang-format -i would change it"])


class FindsFunctions(unittest.TestCase):
    def names(self, text):
        return [name for name, _, _ in source.functions(text)]

    def test_shapes(self):
        self.assertEqual(self.names("namespace a {\nint f() { if (x) { g(); } }\nvoid C::h() const {}\n}"), ["f", "C::h"])
        self.assertEqual(self.names("struct S {\n  S(int a) : a_{a}, b_(a) { g(); }\n  int a_ = f({1});\n};"), ["S"])
        self.assertEqual(self.names("constexpr int kTable[] = {f(1), {2}};\nenum class E { kA };\n"), [])
        self.assertEqual(self.names("template <typename T>\nauto f(T t) -> int {\n  return [&] { return 1; }();\n}"), ["f"])
        self.assertEqual(self.names('TEST(A, B) {\n  const char* s = R"({ (})";\n}\nint g() {}'), ["TEST", "g"])
        self.assertEqual(self.names("#define M(x) \\\n  f() { x }\nclass A : public B<int> {\n  void f() { }\n};"), ["f"])

    def test_lines(self):
        self.assertEqual(list(source.functions("\n\nstatic int f(int a,\n             int b) {\n  g();\n}\n")), [("f", 3, 6)])


if __name__ == "__main__":
    unittest.main()
