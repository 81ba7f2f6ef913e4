"""Writes jinja_cases.jsonl: small templates and what jinja2 makes of them, set up as transformers sets it up.

    pip install jinja2==3.1.6; python3 make_jinja_cases.py > jinja_cases.jsonl

First line: the variables of all. Then one object a line: group, template, and expected or error (the class). What the
group `unsupported` holds the interpreter must refuse, not render differently; moving a line out of it is how support
begins.
"""

import json

from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "n": 7, "f": 2.5, "t": True, "no": None, "s": "Hello, World", "u": "äÖ é€ 𝄞", "empty": "",
    "xs": [3, 1, 2], "words": ["b", "A", "c", "a"], "nested": [[1, 2], [3]], "d": {"b": 1, "a": [2, 3], "c": {"x": "y"}},
    "ms": [{"role": "user", "content": "Hi", "n": 1}, {"role": "bot", "content": " yo ", "n": 2},
           {"role": "user", "content": "Bye", "n": 3}],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
}

# By group, one expression a line.
EXPRESSIONS = {
    "expressions": r"""
1 + 2 * 3 - 4
(1 + 2) * 3
2 ** 3 ** 2
-2 ** 2
7 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
1 / 3
0.1 + 0.2
1e16
1e15 + 0.0
123456789012345680.0
1_000
1e-5
0.0001
2 * "ab"
"ab" * 0
[1] * 3
"a" + "b"
"a" "b" 'c'
"a" ~ 1 ~ none ~ true ~ 2.0 ~ [1, "x"]
1 ~ 2 + 3
[1, 2] + [3]
(1, 2) + (3,)
(1,)
()
1, 2
1 < 2 < 3
1 < 3 < 2
1 == 1.0
true == 1
"a" < "b"
"a" == "a" == "a"
[1, 2] < [1, 3]
[1, 2] == [1, 2]
{"a": 1} == {"a": 1}
none == false
not n
not n == 7
n == 7 and s
empty or "default"
none and x
not none or x
1 if n else 2
1 if not n
"a" if no else "b" if t else "c"
(1 if no) is undefined
n in xs
3 in xs
3 not in xs
"ell" in s
"b" in d
"z" not in d
s[0]
s[-1]
s[1:4]
s[::-1]
s[::2]
s[-5:]
u[1:4]
u[::-1]
xs[0]
xs[-1]
xs[1:]
xs[::-1]
xs[5:]
xs[-100:2]
xs[5] is undefined
d["b"]
d.b
d.c.x
d["c"]["x"]
d.a[1]
d.zz is undefined
d.items is defined
missing is undefined
missing
missing.field
missing["x"]
no.field is undefined
s.nothing is undefined
xs.0
nested[0][1]
xs | first + 1
xs|length * 2
-xs|first
not xs|length
1 + none
"a" + 1
1 + missing
1 < "a"
1 / 0
1 // 0
1 % 0
-s
s()
n.x()
missing()
[1][none]
{"a": 1, "b": {"c": [1.0, none]}}
{1: 2, none: 3, 2.5: 4, true: 5}
{}
[]
["it's", 'say "x"', "both ' and \"", "tab\t nl\n \\ bell\a"]
["ä", "\u00e9", "\x41", "\U0001F600"]
"\101 \q \
x"
true
True
none
None
False
range(3)|list
range(5, 0, -2)|list
range(2, 4)|list
range(0)|list
dict(a=1, b=2)
dict({"x": 1}, y=2)
namespace(a=1).a
loop
s.upper() ~ s
not not t
+n
- -n
9223372036854775807
-9223372036854775807 - 1
1.5e300 * 1e300
-1.5e300 * 1e300
7 == 7.0 and 7 is integer
"a" is string and "b" in "abc"
xs == [3, 1, 2] and xs is iterable
n is not none
1 < 2 == true
-1.0 % 1
(-1) % 0.5
5.0 % -2.5
2.0 ** 10
10.0 ** 400
0.0 ** -1
{1.0000001: "a", 1.00000012: "b"}|length
{1e16: 1}[10 ** 16]
n[1:]
d[1:]
d.keys()
d.values()
d.items()
d.keys()[0] is undefined
d.items()|tojson
d.keys() + [1]
d.keys() is sequence
""",
    "filters": r"""
s|upper
s|lower
u|upper
u|lower
"hello wORLD"|capitalize
"hello wORLD it's o-k x2y"|title
"  x \n"|trim
"xxaxx"|trim("x")
s|replace("l", "L")
s|replace("l", "L", 2)
"abc"|replace("", "-")
s|length
xs|length
d|length
u|length
xs|count
missing|length
n|length
xs|list
s|list
d|list
xs|first
xs|last
[]|first is undefined
s|first
s|last
xs|reverse|list
s|reverse
xs|sort
xs|sort(reverse=true)
words|sort
words|sort(case_sensitive=true)
ms|sort(attribute="content")|map(attribute="content")|list
[1, "a"]|sort
words|unique|list
[1, 1.0, true, 2]|unique|list
xs|max
xs|min
words|max
[]|max is undefined
xs|sum
ms|sum(attribute="n")
[0.5, 1]|sum
xs|join
xs|join(", ")
ms|join("+", attribute="role")
[]|join("x")
s|join("-")
d|items|list
missing|items|list
d|dictsort
d|dictsort(reverse=true)
{"b": 2, "A": 3, "c": 1}|dictsort(by="value")
{"b": 2, "A": 3, "c": 1}|dictsort(case_sensitive=true)
missing|default("x")
no|default("x")
no|default("x", true)
empty|d("y", boolean=true)
n|default("x")
missing.deep|default("x")
xs|map("string")|list
words|map("upper")|join
ms|map(attribute="role")|list
ms|map(attribute="zz", default="-")|list
ms|map(attribute="content")|map("trim")|list
ms|selectattr("role", "equalto", "user")|map(attribute="n")|list
ms|selectattr("role", "eq", "user")|list|length
ms|rejectattr("role", "equalto", "user")|map(attribute="n")|list
ms|selectattr("zz")|list
ms|selectattr("n", "gt", 1)|map(attribute="n")|list
ms|selectattr("role", "in", ["bot"])|map(attribute="n")|list
xs|select("odd")|list
xs|reject("odd")|list
[0, 1, "", "x", none]|select|list
xs|select("greaterthan", 1)|list
xs|batch(2)|list
xs|batch(2, "-")|list
ms|groupby("role")|map("first")|list
d|attr("b") is undefined
"3"|int
"x"|int
"x"|int(5)
"3.9"|int
3.9|int
none|int
"2.5"|float
"x"|float
"x"|float(1.5)
3|float
-3|abs
-2.5|abs
2.567|round
2.567|round(2)
2.5|round
3.5|round
2.1|round(0, "ceil")
2.9|round(0, "floor")
"one two  three-four"|wordcount
"a\nb\n\nc"|indent
"a\nb\n\nc"|indent(2, true)
"a\nb\n\nc"|indent(2, blank=true)
"a\nb"|indent("> ")
n|string + "x"
xs|string
"<a href='x'>&\"</a>"|escape
"<b>"|e
"<b>"|safe
d|tojson
xs|tojson
d|tojson(indent=2)
[]|tojson(indent=2)
{}|tojson(indent=2)
{"a": [], "b": {}}|tojson(indent=1)
u|tojson
"é\"\\\n\t\u0001</script>"|tojson
"é"|tojson(ensure_ascii=true)
d|tojson(sort_keys=true)
d|tojson(separators=(",", ":"))
[1.0, 1e20, none, true, 0.1]|tojson
{1: 2}|tojson
missing|tojson
xs|nosuchfilter
s|replace
(1, 2)|list
(1, 2)|tojson
xs|first|string|length
s|lower|replace("world", "x")|upper
"Straße ﬁx"|upper
"ß"|capitalize
"ßa ßb"|title
(xs|select)[0] is undefined
(xs|select)|length
(xs|select) is sequence
xs|map("string")|last
xs|map("string")|first
xs|reverse|last
(xs|select) == (xs|select)
1 if xs|select("gt", 9) else 2
1 if [] | reverse else 2
(xs|select) + [1]
xs|select|tojson
missing|int
missing|dictsort
missing|float
7|indent
["x"]|max(attribute="zz")
1 if t else xs|float.values()
""",
    "tests": r"""
n is defined
missing is defined
no is none
n is none
t is boolean
n is boolean
t is true
t is false
n is true
n is integer
t is integer
f is integer
f is float
n is number
t is number
s is number
s is string
d is mapping
xs is mapping
range is callable
n is callable
s is iterable
xs is iterable
d is iterable
n is iterable
missing is iterable
s is sequence
xs is sequence
d is sequence
n is sequence
7 is odd
8 is odd
8 is even
9 is divisibleby 3
9 is divisibleby(2)
n is eq 7
n is equalto(7)
n is ne 7
n is lt 8
n is le 7
n is gt 7
n is ge 7
n is greaterthan 3
n is lessthan 3
3 is in xs
3 is in [1]
no is sameas none
t is sameas true
1 is sameas true
"ABC" is upper
"abc" is lower
"aBc" is upper
"1" is lower
"upper" is filter
"nosuch" is filter
"odd" is test
n is not odd
n is not defined
not n is defined
n is nosuchtest
s is odd
d.b is defined and d.b is number
d.zz is not defined
0.5 is even
3.0 is odd
2.5 is divisibleby(0.5)
s is even
["a"] is lower
["A"] is lower
missing is callable
n is odd is true
""",
    "methods": r"""
"  x \n".strip()
"  x ".lstrip() ~ "|"
"  x ".rstrip() ~ "|"
"xyaxy".strip("xy")
"\u00a0x\u3000".strip()
s.upper()
s.lower()
u.upper()
s.title()
"éa BC".capitalize()
"a b  c".split()
"a,b,,c".split(",")
"a,b,c".split(",", 1)
"a b  c".split(maxsplit=1)
"a,b,c".rsplit(",", 1)
"".split()
"".split(",")
"abc".split("")
"a\nb\r\nc\n".splitlines()
s.startswith("He")
s.startswith(("x", "He"))
s.endswith("ld")
s.startswith("")
s.removeprefix("Hello")
s.removesuffix("x")
s.replace("l", "")
s.replace("l", "L", 1)
s.find("o")
s.find("zz")
s.rfind("o")
s.index("W")
s.index("zz")
s.count("l")
"aaaa".count("aa")
"-".join(["a", "b"])
"-".join([1])
"123".isdigit()
"12a".isdigit()
"".isdigit()
"abcä".isalpha()
"ab1".isalnum()
" \n".isspace()
"AB1".isupper()
"ab1".islower()
"1".isupper()
u.find("€")
u.split(" ")
xs.index(1)
xs.index(9)
xs.count(3)
xs.append(4)
xs.pop()
d.items()|list
d.keys()|list
d.values()|list
d.get("b")
d.get("zz")
d.get("zz", "dflt")
d.get(1)
d.update({"x": 1})
d.pop("b")
xs.copy()
d.copy()
s.nosuch()
s.upper(1)
s.__class__
s.__class__.__mro__
xs.__len__()
"Straße".upper()
"ß".title()
"Straße".casefold()
s.startswith(["He"])
""".replace("\\u00a0x\\u3000", "\u00a0x\u3000"),
    "unsupported": r"""
0x1F
0b101
0o17
"%s is %d and %5.2f" % ("a", 3, 2.5)
"%s" % 3
"%05d|%-5s|%x|%%" % (42, "ab", 255)
"%r" % ("q",)
"0x1A"|int(0, 16)
42|round(-1)
"a\nb\n".splitlines(true)
s.find("o", 5)
"{} and {}".format(1, "x")
"{0}{1}{0}".format("a", "b")
"{x}".format(x=3)
"7".zfill(3)
"-7".zfill(4)
"a".ljust(3) ~ "|"
"a".rjust(3, "*")
"a".center(4, "-")
"a-b-c".partition("-")
"a-b-c".rpartition("-")
(-8.0) ** 0.5
2 ** 64
""",
}

TEMPLATES = {
    "lexer": [
        "a{# c #}b", "a {#- c -#} b", "{#\n{{ x }}\n#}\nz", "{% if t %}\nx\n{% endif %}\ny", "  {% if t %}\nx\n  {% endif %}\ny",
        "a  {%- if t -%}  b  {%- endif -%}  c", "a\n\n{%- if t %}\n\nb{% endif %}", "{{ 1 }}\n{{ 2 }}\n", "{{- 1 -}}  \n x", "a\n",
        "a\n\n", "\n", "x {{ '{{' }} y", "{{ \"%}\" }}", "{% raw %}{{ x }}{% if %}{% endraw %}", "{% raw -%}  \n a {%- endraw %} b",
        "{%+ if t %}x{% endif %}", "  {%+ if t %}x{% endif %}", "{% if t +%}\nx{% endif %}", "   {{ 1 }}", "a   {# c #}\nb",
        "   {# c #}\nb", "{{ 1 }}{# c #}\n{{ 2 }}", "a\r\nb\r\n{{ 1 }}\r\nc", "a\rb", "{{ {'a': {'b': 1}} }}", "{{ {'a': 1}}}",
        "{", "}}", "%}", "{ {", "#}", "{{", "{{ 1", "{% if", "{# open", "{{ 'open }}", "{{ 1 $ 2 }}", "{{ @ }}", "{{ ! }}",
        "{% raw %} open", "é {{ 'é' }}", "{{ é }}", "\t {% if t %}\n\tx\n\t{% endif %}", "{% if t %}   \nx{% endif %}",
        "x{% if t %}\n\n\ny{% endif %}", "{%- if t %} a {% endif -%} \n\n b", "a {%- raw %} b {% endraw -%} c", "{{1}}{{2}}",
        "{{ 1 -}} a {{- 2 }}", "{% set x = 1 %}\n{{ x }}", "\n\n  {% set x = 1 %}\n\n{{ x }}", "{{ ']' ~ ')' ~ '}' }}", "{{ (1 }}",
        "{{ 1 ) }}", "{{ [1}] }}",
    ],
    "statements": [
        "{% if no %}a{% elif t %}b{% else %}c{% endif %}", "{% if no %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% endif %}",
        "{% for x in xs %}{{ x }},{% endfor %}", "{% for x in [] %}a{% else %}none{% endfor %}", "{% for x in missing %}a{% else %}e{% endfor %}",
        "{% for x in n %}a{% endfor %}", "{% for x in no %}a{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
        "{% for k in d %}{{ k }}{% endfor %}", "{% for c in s %}{{ c }}.{% endfor %}", "{% for a, b in xs %}{% endfor %}",
        "{% for a, b in [[1, 2, 3]] %}{% endfor %}", "{% for (a, b) in [[1, 2]] %}{{ a + b }}{% endfor %}",
        "{% for x in xs if x > 1 %}{{ loop.index }}:{{ x }}/{{ loop.length }} {% else %}e{% endfor %}",
        "{% for x in xs if x > 9 %}{{ x }}{% else %}e{% endfor %}",
        "{% for x in xs %}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.depth }} {% endfor %}",
        "{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }} {% endfor %}", "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
        "{% for x in [1, 1, 2, 2, 1] %}{% if loop.changed(x) %}{{ x }}{% endif %}{% endfor %}",
        "{% for x in xs %}{% for y in [1, 2] %}{{ loop.depth }}{{ x * y }} {% endfor %}{% endfor %}",
        "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
        "{% for m in tree recursive %}{{ m.v }}({{ loop(m.kids) }}){% endfor %}", "{% for m in tree recursive %}{{ loop.depth }}{{ loop(m.kids) }}{% endfor %}",
        "{% for x in xs %}{% set y = x %}{% endfor %}{{ y is defined }}", "{% set y = 0 %}{% for x in xs %}{% set y = x %}{{ y }}{% endfor %}{{ y }}",
        "{% if t %}{% set y = 5 %}{% endif %}{{ y }}", "{% set ns = namespace(n=0) %}{% for x in xs %}{% set ns.n = ns.n + x %}{% endfor %}{{ ns.n }}",
        "{% set d.b = 1 %}", "{% set a, b = 1, 2 %}{{ b }}{{ a }}", "{% set a = b = 1 %}", "{% set x %}a{{ n }}b{% endset %}{{ x }}|{{ x|length }}",
        "{% set x | upper | replace('A', 'z') %}abc{% endset %}{{ x }}", "{% set loop = 1 %}{{ loop }}",
        "{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}", "{% macro m(a) %}[{{ a }}]{% endmacro %}{{ m() }}",
        "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{% endmacro %}{{ m(z=2) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
        "{% macro m(n) %}{{ n }}{% if n > 0 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(3) }}", "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}{% call m() %}x{% endcall %}",
        "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b) m() %}{{ a + b }}{% endcall %}", "{% macro m() %}{{ n }}{% endmacro %}{% set n = 1 %}{{ m() }}",
        "{% macro m() %}a\n{% endmacro %}{{ m()|trim }}|{{ m() is string }}", "{% macro m() %}{{ x }}{% endmacro %}{% for x in xs %}{{ m() }}|{% endfor %}",
        "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b')|upper %}aac{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a is defined }}",
        "{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}",
        "{{ raise_exception('no ' ~ n) }}", "{{ raise_exception() }}", "{% for x in xs %}", "{% endfor %}", "{% if t %}{% endfor %}", "{% else %}", "{% nosuch %}",
        "{% break %}", "{% continue %}", "{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}", "{% for in xs %}{% endfor %}", "{% set %}", "{% set 1 = 2 %}",
        "{% macro %}{% endmacro %}", "{% if %}{% endif %}", "{% if t }}", "{{ }}", "{{ 1 2 }}", "{{ 1 + }}", "{{ [1, }}", "{{ a.1b }}", "{{ x | }}", "{{ x is }}", "{{ f(a=1, 2) }}",
        "{% for x in xs %}{{ loop.nosuch is defined }}{% endfor %}", "{% for x in xs %}{% endfor %}{{ loop is defined }}", "{% for x in 'ab' %}{% for y in xs %}{{ loop.parent is defined }}{% endfor %}{% endfor %}",
        "{% set xs = [9] %}{{ xs }}", "{% for m in ms %}{{ m['role'] }}: {{ m.content|trim }}\n{% endfor %}", "{{ [x for x in xs] }}", "{% set x = [] %}{% set x = x + [1] %}{{ x }}",
        "{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}", "{% for k, v in d|dictsort %}{{ k }}{% endfor %}", "{{ ms[1:]|length }}{{ ms[-1].role }}", "{% set m = ms[0] %}{{ m.role + m['content'] }}",
        "{% if ms[0]['role'] == 'user' and ms[9] is undefined %}ok{% endif %}", "{{ ms[9].role }}", "{{ (ms|first).role }}", "{% for x in range(3) %}{% if not loop.last %}{{ x }},{% endif %}{% endfor %}",
        "{% if 'a' in missing %}x{% endif %}", "{% if missing == 1 %}x{% else %}y{% endif %}", "{% if missing is none %}x{% else %}y{% endif %}", "{{ missing ~ 'x' }}", "{{ missing|upper }}|", "{{ missing|trim }}|",
        "{{ missing|join(',') }}|{{ missing|list }}", "{% for x in xs recursive %}{{ x }}{% endfor %}", "{% for x in xs %}{% else %}{% break %}{% endfor %}", "{% for x in xs %}a{% continue %}{% else %}e{% endfor %}", "{% for x in xs %}a{% break %}{% else %}e{% endfor %}",
        "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}a{% else %}e{% endfor %}", "{% raw +%}x{% endraw %}",
        "{{ caller }}|{{ caller is defined }}",
    ],
}


def compile_environment():
    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message):
        raise environment.exception(message)

    import jinja2
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.exception = jinja2.exceptions.TemplateError
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    return environment


def main():
    environment = compile_environment()
    groups = dict(TEMPLATES)
    for group, text in EXPRESSIONS.items():
        groups[group] = ["{{ " + line + " }}" for line in text.strip("\n").split("\n")]
    for group, templates in groups.items():
        for template in templates:
            row = {"group": group, "template": template}
            try:
                row["expected"] = environment.from_string(template).render(**VARIABLES)
            except Exception as error:
                row["error"] = type(error).__name__
                if row["error"] == "TemplateError":
                    row["message"] = str(error)
            print(json.dumps(row))


if __name__ == "__main__":
    print(json.dumps({"variables": VARIABLES}))
    main()
