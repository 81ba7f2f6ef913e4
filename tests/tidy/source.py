"""Reading C++ just well enough: comments and strings blanked, functions found by their braces."""

import re

_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^(\s]{0,16})\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|'
    r"(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'",
    re.DOTALL)


def blank_comments_and_strings(text):
    """Same length and lines, with the inside of comments and literals replaced by spaces."""

    def blank(match):
        found = match.group(0)
        blanked = re.sub(r"[^\n]", " ", found)
        if found[0] in "\"'R":
            blanked = '"' + blanked[1:-1] + '"'
        return blanked

    return _TOKEN.sub(blank, text)


def blank_directives(code):
    """Preprocessor lines, with their continuations, replaced by spaces."""
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", lambda m: re.sub(r"[^\n]", " ", m.group(0)), code,
                  flags=re.MULTILINE)


def _matching_brace(code, opening):
    depth = 0
    for at in range(opening, len(code)):
        if code[at] == "{":
            depth += 1
        elif code[at] == "}":
            depth -= 1
            if depth == 0:
                return at
    return len(code) - 1


_CONTAINER = re.compile(r"\b(namespace|extern)\b|\b(class|struct|union)\b(?![^(]*\))")
_DATA = re.compile(r"[=(,]\s*$|\benum\b|\breturn\s*$")
_INITIALIZER = re.compile(r"\)\s*(?:noexcept\s*)?:\s*[^;]*[\w>]\s*$")


def functions(text):
    """Yields (name, first line, last line) of every function body outside other functions; lambdas belong to
    the function around them. First line: where the declaration starts."""
    code = blank_directives(blank_comments_and_strings(text))
    head_start = at = 0
    while at < len(code):
        character = code[at]
        if character in ";}":
            head_start = at + 1
        elif character == "{":
            head = code[head_start:at]
            if _INITIALIZER.search(head):  # `: member_{value}` before a constructor's body
                at = _matching_brace(code, at)
            elif "(" not in head or _DATA.search(head) or _CONTAINER.search(head):
                if _CONTAINER.search(head):
                    head_start = at + 1  # look inside
                else:
                    at = _matching_brace(code, at)
                    head_start = at + 1
            else:
                end = _matching_brace(code, at)
                stripped = head_start + len(head) - len(head.lstrip())
                name = re.search(r"([\w:~]+|operator\W+)\s*\(", head)
                yield (name.group(1) if name else "?", code.count("\n", 0, stripped) + 1,
                       code.count("\n", 0, end) + 1)
                at = end
                head_start = at + 1
        at += 1


def includes(text):
    """Yields (line, header, is_quoted)."""
    for number, line in enumerate(text.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', line)
        if match:
            yield number, match.group(1) or match.group(2), match.group(1) is not None


def cmake_calls(text, name):
    """Yields the arguments of every `name(...)` call, comments dropped."""
    text = re.sub(r"#[^\n]*", "", text)
    for match in re.finditer(r"^\s*" + name + r"\(([^()]*)\)", text, re.MULTILINE):
        yield match.group(1).split()


def room_deps(arguments):
    """The DEPS of a room(...) call."""
    deps, keyword = [], None
    for word in arguments[1:]:
        if word in ("SRCS", "DEPS", "LIBS"):
            keyword = word
        elif keyword == "DEPS":
            deps.append(word)
    return deps
