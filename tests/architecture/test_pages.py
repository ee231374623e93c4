"""Templates: escaped, without anything inline, small."""

import ast
import re

from tests.architecture.source import at, calls, files, names, python, text

TEMPLATES = files("templates", suffix=".html")
INLINE = re.compile(
    r"""<style | \sstyle\s*= | \son[a-z]+\s*= | javascript: | hx-on | hx-vals\s*=\s*['"]js: | <script(?![^>]*\bsrc=)""",
    re.VERBOSE | re.IGNORECASE,
)
UNESCAPED = re.compile(r"\|\s*safe\b|\|\s*safeseq\b|autoescape\s+off|mark_safe|\{%\s*debug")


def test_templates_escape_everything():
    """R03: no text of anybody's becomes markup."""
    assert not [path for path in TEMPLATES if UNESCAPED.search(text(path))]


def test_templates_have_nothing_inline():
    """T36: the content policy would refuse it anyway."""
    assert not [path for path in TEMPLATES if INLINE.search(re.sub(r"\{#.*?#\}", "", text(path)))]


def test_templates_are_read_at_a_glance():
    assert not [path for path in TEMPLATES if len(text(path).splitlines()) > 80]


def test_no_page_loads_from_another_host():
    """T36."""
    elsewhere = re.compile(r"""(?:src|href|action)\s*=\s*["'](?:https?:)?//""")
    assert not [path for path in TEMPLATES if elsewhere.search(text(path))]


def test_every_form_that_changes_something_carries_its_token():
    """R11, T34."""
    for path in TEMPLATES:
        for form in re.findall(r"<form\b.*?</form>", whole(text(path)), re.DOTALL | re.IGNORECASE):
            if re.search(r"""method=["']?post""", form, re.IGNORECASE):
                assert "{% csrf_token %}" in form, f"{path}: {form[:200]}"


def whole(template: str) -> str:
    """With what it includes."""
    return re.sub(
        r"""\{% include ["']([^"']+)["'].*?%\}""", lambda found: whole(text(f"templates/{found[1]}")), template
    )


def test_markup_made_in_python_is_constant():
    """R03: markup is a literal of ours; what varies is escaped into it."""
    for path in python("console", "runtime_app", "examples"):
        for node in calls(path):
            match names(node)[-1:]:
                case ["format_html"]:
                    made = isinstance(node.args[0], ast.Constant)
                case ["format_html_join"]:
                    made = isinstance(node.args[0], ast.Constant) and isinstance(node.args[1], ast.Constant)
                case ["mark_safe"] | ["SafeString"]:
                    made = isinstance(node.args[0], ast.Constant) or is_joined_of_escaped(node.args[0])
                case _:
                    continue
            assert made, at(path, node)


def is_joined_of_escaped(node: ast.AST) -> bool:
    """`"<wbr>".join(conditional_escape(…) for …)`"""
    return re.match(r"'[^']*'\.join\(\(?conditional_escape\(", ast.unparse(node)) is not None
