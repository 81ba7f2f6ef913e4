#!/usr/bin/env python3
"""Checks a tree against the rules of the house (house.py): `tidy.py [ROOT]`. Prints `file:line: rule: what` for
every breach; exit code 1 when there is one."""

import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import house
import source

CPP = {".cc", ".h", ".cu", ".cuh"}
SKIPPED_FOLDERS = {".git", ".cache", "__pycache__", "golden"}


class Tree:
    """The files under check, read once. Paths are relative, with forward slashes."""

    def __init__(self, root):
        self.root = Path(root)
        self.files = sorted(self._walk())
        self.text = {}
        for path in self.files:
            if Path(path).suffix in CPP | {".py", ".sh", ".inc", ".fbs", ".txt", ".cmake", ".md", ".toml"}:
                self.text[path] = (self.root / path).read_text(encoding="utf-8", errors="replace")
        self.findings = []

    def _walk(self):
        for folder, folders, names in os.walk(self.root):
            relative = Path(folder).relative_to(self.root)
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS and not
                          (relative == Path(".") and (name.startswith("build") or name == "shared"))]
            for name in names:
                yield (relative / name).as_posix()

    def cpp(self):
        return [path for path in self.files if Path(path).suffix in CPP]

    def add(self, path, line, rule, what):
        self.findings.append(f"{path}:{line}: {rule}: {what}")


def room_of(path):
    return path.split("/", 1)[0]


def declared_deps(tree):
    """Room -> the DEPS of its room() line; breaches of the table of levels are found on the way."""
    deps = {}
    for path, text in tree.text.items():
        if Path(path).name != "CMakeLists.txt" or path.startswith("tests/"):
            continue
        for arguments in source.cmake_calls(text, "room"):
            room = arguments[0]
            deps[room] = set(source.room_deps(arguments))
            for dep in sorted(deps[room] - house.MAY_DEPEND_ON.get(room, set())):
                tree.add(path, 1, "layering", f"room {room} may not depend on {dep}")
    return deps


def check_layering(tree):
    deps = declared_deps(tree)
    for path in tree.cpp():
        room = room_of(path)
        for line, header, quoted in source.includes(tree.text[path]):
            target = room_of(header)
            if not quoted or "/" not in header:
                if quoted:
                    tree.add(path, line, "layering", f'write #include "{room}/{header}", from the top')
                continue
            if room in house.OTHER_FOLDERS or target == room:
                continue
            if target not in house.ROOMS:
                tree.add(path, line, "layering", f"{header} belongs to no room")
            elif target not in deps.get(room, set()):
                tree.add(path, line, "layering", f"room {room} includes {header} without {target} among its DEPS")


def check_vendors(tree):
    for path in tree.cpp():
        if path.startswith("tests/"):
            continue
        for line, header, quoted in source.includes(tree.text[path]):
            for name, files in house.VENDORS:
                if not quoted and name.match(header) and not files.search(path):
                    tree.add(path, line, "vendor", f"<{header}> may appear only in files matching {files.pattern}")
        if "_cuda" in path or path.startswith("kernels/emulator/"):
            continue
        for number, text in enumerate(tree.text[path].splitlines(), 1):
            if re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b.*CUDA", text):
                tree.add(path, number, "vendor", "no #if for CUDA outside *_cuda files: CMake picks the files")


def check_purity(tree):
    for path in tree.cpp():
        room = room_of(path)
        for line, header, quoted in source.includes(tree.text[path]):
            if room == "scheduler" and house.IMPURE_HEADER.match(header):
                tree.add(path, line, "purity", f"scheduler/ is pure and cannot include {header}")
            if room in house.ROOMS_WITHOUT_LOG and header == "base/log.h":
                tree.add(path, line, "purity", f"room {room} does not log: its driver does")
        code = source.blank_comments_and_strings(tree.text[path]).splitlines()
        for number, text in enumerate(code, 1):
            if room == "scheduler" and house.IMPURE_WORD.search(text):
                tree.add(path, number, "purity", "scheduler/ is pure: time and randomness are arguments")
            if room in house.ROOMS and re.search(r"\bthrow\b", text):
                tree.add(path, number, "errors", "no exception is thrown: return a Result")


def check_lengths(tree):
    for path, text in tree.text.items():
        lines = text.count("\n")
        limit = house.KERNEL_FILE_LINES_MAX if room_of(path) == "kernels" else house.FILE_LINES_MAX
        if Path(path).suffix in CPP | {".py", ".sh"} and lines > limit:
            tree.add(path, 1, "length", f"{lines} lines, {limit} allowed")
        if Path(path).suffix in CPP:
            spans = source.functions(text)
        elif path.endswith(".py"):
            spans = [(node.name, node.lineno, node.end_lineno) for node in ast.walk(ast.parse(text))
                     if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        else:
            continue
        for name, first, last in spans:
            if last - first + 1 > house.FUNCTION_LINES_MAX:
                tree.add(path, first, "length",
                         f"function {name} has {last - first + 1} lines, {house.FUNCTION_LINES_MAX} allowed")


def check_names(tree):
    for path in tree.files:
        name = Path(path).name
        if house.GENERATED_NAME.search(name):
            tree.add(path, 1, "generated", "generated files do not belong in the tree")
        if Path(path).suffix in CPP | {".py", ".sh", ".fbs"} and not house.SOURCE_NAME.match(name):
            tree.add(path, 1, "naming", "file names are snake_case")
    for path in tree.cpp():
        if path.startswith("kernels/emulator/"):
            continue  # it gives CUDA's own names to g++
        code = source.blank_comments_and_strings(tree.text[path]).splitlines()
        for number, text in enumerate(code, 1):
            match = re.match(r"\s*(?:enum\s+)?(?:class|struct)\s+(?:alignas\([^)]*\)\s*)?(\w+)\s*(?:final\s*)?(?::(?!:)|\{)",
                             text)
            if match and not house.TYPE_NAME.match(match.group(1)):
                tree.add(path, number, "naming", f"type {match.group(1)} is not UpperCamel")


def check_headers(tree):
    for path in tree.cpp():
        if not path.endswith((".h", ".cuh")):
            continue
        text = tree.text[path]
        if "#pragma once" not in text:
            tree.add(path, 1, "header", "no #pragma once")
        if not text.startswith("//"):
            tree.add(path, 1, "header", "opens without a comment on its purpose, owning thread and lifetime")


def nearest_cmake(tree, path):
    folder = Path(path).parent
    while True:
        candidate = (folder / "CMakeLists.txt").as_posix()
        if candidate in tree.text or folder == Path("."):
            return candidate, folder
        folder = folder.parent


def check_registered(tree):
    """Every source is named in the CMakeLists.txt of its room or test folder: no file that nothing builds."""
    for path in tree.cpp():
        if not path.endswith((".cc", ".cu")):
            continue
        cmake, folder = nearest_cmake(tree, path)
        relative = Path(path).relative_to(folder).as_posix()
        text = tree.text.get(cmake, "")
        if path.startswith("tests/"):
            text += tree.text.get("cmake/room.cmake", "")  # names tests/link/link_main.cc for every room
            relative = relative if folder != Path("tests") else path
        elif path.startswith("kernels/emulator/"):
            text += tree.text.get("tests/kernels/CMakeLists.txt", "")  # only tests link it
        if not re.search(r"(?<![\w])" + re.escape(relative) + r"(?![\w.])", text):
            tree.add(path, 1, "registered", f"is in no target of {cmake}")


def check_words(tree):
    for path, text in tree.text.items():
        if path.endswith(".md") or path.startswith("tests/tidy/"):
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if house.UNFINISHED.search(line):
                tree.add(path, number, "unfinished", "unfinished or skipped, by its own words")
            if house.MACHINE_PATH.search(line):
                tree.add(path, number, "path", "a path of one machine")


def check_documents(tree):
    """Files that README.md and ARCHITECTURE.md name exist."""
    present = set(tree.files)
    for path in ("README.md", "ARCHITECTURE.md"):
        for number, line in enumerate(tree.text.get(path, "").splitlines(), 1):
            for name in re.findall(r"`([\w.]+(?:/[\w.]+)+)`|\]\(([\w./]+)\)", line):
                if "".join(name).removeprefix("./") not in present:
                    tree.add(path, number, "documents", f"{''.join(name)} does not exist")


def check_golden(tree):
    golden = tree.root / "tests" / "golden"
    size = sum(file.stat().st_size for file in golden.rglob("*") if file.is_file()) if golden.is_dir() else 0
    if size > house.GOLDEN_BYTES_MAX:
        tree.add("tests/golden", 1, "length", f"{size} bytes, {house.GOLDEN_BYTES_MAX} allowed")


def check_format(tree):
    tool = shutil.which("clang-format-14")
    if tool is None:
        tree.add(".clang-format", 1, "format", "clang-format-14 is missing: install it")
        return
    files = tree.cpp()
    running = [subprocess.Popen([tool, "--dry-run", "-Werror", *files[part::2]], cwd=tree.root, text=True,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for part in range(2) if files[part::2]]
    for process in running:
        seen = set()
        for line in process.communicate()[1].splitlines():
            match = re.match(r"(\S+?):(\d+):\d+: error: ", line)
            if match and match.group(1) not in seen:
                seen.add(match.group(1))
                tree.add(match.group(1), match.group(2), "format", "clang-format -i would change it")
        if process.returncode != 0 and not seen:
            tree.add(".clang-format", 1, "format", f"clang-format-14 failed with {process.returncode}")


CHECKS = [check_layering, check_vendors, check_purity, check_lengths, check_names, check_headers,
          check_registered, check_words, check_documents, check_golden, check_format]


def findings_of(root, checks=None):
    tree = Tree(root)
    for check in checks or CHECKS:
        check(tree)
    return tree.findings


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else Path(__file__).resolve().parents[2]
    findings = findings_of(root)
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
