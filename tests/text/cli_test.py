"""`penstock tokenize` and `penstock render` as a user runs them, on small tokenizers with known answers.

    cli_test.py PENSTOCK GOLDEN_DIR
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PENSTOCK, GOLDEN = sys.argv[1], pathlib.Path(sys.argv[2])


def rows(name):
    return [json.loads(line) for line in (GOLDEN / name).read_text().splitlines()]


def run(command, model, lines):
    """(exit code, answers, standard error); every line of `lines` is JSON text or an object."""
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    done = subprocess.run([PENSTOCK, command, str(model)], input=text.encode(), capture_output=True, timeout=60)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


class ModelFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = pathlib.Path(folder.name)


class TokenizeTest(ModelFolder):
    def test_vectors_in_both_modes(self):
        for style in "gpt2", "llama3":
            shutil.copy(GOLDEN / f"{style}_tokenizer.json", self.model / "tokenizer.json")
            vectors = rows(f"{style}_vectors.jsonl")
            for flag, key in (True, "ids"), (False, "ids_no_special"), (None, "ids_no_special"):
                lines = [{"text": row["text"]} | ({} if flag is None else {"parse_special": flag}) for row in vectors]
                code, answers, error = run("tokenize", self.model, lines)
                self.assertEqual((code, error), (0, ""))
                self.assertEqual(answers, [{"ids": row[key]} for row in vectors])

    def test_streams(self):
        shutil.copy(GOLDEN / "gpt2_tokenizer.json", self.model / "tokenizer.json")
        streams = rows("gpt2_stream.jsonl")
        code, answers, error = run("tokenize", self.model, [{"ids": row["ids"]} for row in streams])
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(answers, [{"text": row["decoded"], "pieces": row["pieces"], "flush": row["flush"]}
                                   for row in streams])

    def test_a_bad_line_is_answered_in_its_place(self):
        shutil.copy(GOLDEN / "gpt2_tokenizer.json", self.model / "tokenizer.json")
        bad = ["{", "[]", {}, {"text": 1}, {"text": "a", "ids": [1]}, {"ids": [-1]}, {"ids": [1.5]}, {"ids": [10**12]},
               {"text": "a", "parse_special": 1}, {"text": "a", "parse_specal": True}, '{"text": "\\ud800"}']
        good = {"text": "a"}
        lines = [line for pair in zip([good] * len(bad), bad) for line in pair]
        code, answers, error = run("tokenize", self.model, lines)
        self.assertEqual(code, 1)
        self.assertIn(f"{len(bad)} of {len(lines)} lines", error)
        self.assertEqual(answers[::2], [{"ids": [64]}] * len(bad))
        for i, answer in enumerate(answers[1::2]):
            self.assertEqual(list(answer), ["error"], bad[i])
            self.assertIn(f"line {2 * i + 2}: ", answer["error"])

    def test_answers_come_line_by_line(self):
        shutil.copy(GOLDEN / "gpt2_tokenizer.json", self.model / "tokenizer.json")
        with subprocess.Popen([PENSTOCK, "tokenize", self.model], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              text=True) as process:
            for _ in range(2):  # the second line is written only after the first was answered
                process.stdin.write('{"text": "a"}\n')
                process.stdin.flush()
                self.assertEqual(json.loads(process.stdout.readline()), {"ids": [64]})
            process.stdin.close()
            self.assertEqual(process.wait(timeout=60), 0)

    def test_no_model(self):
        code, answers, error = run("tokenize", self.model / "none", [{"text": "a"}])
        self.assertEqual((code, answers), (1, []))
        self.assertIn("none/tokenizer.json", error)


class RenderTest(ModelFolder):
    def test_conversations_of_the_demo_model(self):
        shutil.copy(GOLDEN / "smollm2_chat_template.jinja", self.model / "chat_template.jinja")
        cases = rows("smollm2_chat.jsonl")
        code, answers, error = run("render", self.model, [case["variables"] for case in cases])
        self.assertEqual((code, error), (0, ""))
        for case, answer in zip(cases, answers, strict=True):
            self.assertEqual(answer, {"text": case["expected"]} if "expected" in case else {"error": case["message"]})

    def test_special_tokens_are_variables(self):
        config = {"chat_template": "{{ bos_token }}|{{ eos_token }}", "bos_token": "<s>",
                  "eos_token": {"content": "</s>"}}
        (self.model / "tokenizer_config.json").write_text(json.dumps(config))
        code, answers, _ = run("render", self.model, [{}, {"eos_token": "mine"}])
        self.assertEqual((code, answers), (0, [{"text": "<s>|</s>"}, {"text": "<s>|mine"}]))

    def test_what_the_template_refuses_is_an_answer(self):
        (self.model / "chat_template.jinja").write_text(
            "{% if n is defined %}{{ 1 // n }}{% else %}{{ raise_exception('give me n') }}{% endif %}")
        code, answers, _ = run("render", self.model, [{}, {"n": 0}, {"n": 1}])
        self.assertEqual(code, 0)
        self.assertEqual([answers[0], answers[2]], [{"error": "give me n"}, {"text": "1"}])
        self.assertIn("chat_template.jinja: line 1: ZeroDivisionError", answers[1]["error"])

    def test_a_bad_line_is_answered_in_its_place(self):
        (self.model / "chat_template.jinja").write_text("{{ n }}")
        code, answers, error = run("render", self.model, [{"n": 1}, "{", {"n": 2}, "[]"])
        self.assertEqual(code, 1)
        self.assertIn("2 of 4 lines", error)
        self.assertEqual(answers[::2], [{"text": "1"}, {"text": "2"}])
        self.assertIn("line 2: not JSON", answers[1]["error"])
        self.assertIn("line 4: expected an object", answers[3]["error"])

    def test_a_broken_template_names_file_and_line(self):
        (self.model / "chat_template.jinja").write_text("a\n{% if %}")
        code, answers, error = run("render", self.model, [{}])
        self.assertEqual((code, answers), (1, []))
        self.assertIn("chat_template.jinja: line 2", error)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
