"""Comments and docstrings of sources, for the checks that read them."""

import ast
import io
import re
import tokenize

CPP = {".h", ".cc"}
HASH = {".sh", ".cmake", ".toml", ".yml", ".yaml", ".txt"}
HASH_NAMES = {"Makefile", "run"}

CPP_COMMENT = re.compile(
    r"""R"(?P<tag>[^(\s]*)\(.*?\)(?P=tag)"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'"""
    r"""|(?P<comment>//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def comments(path, text):
    """(first line, text) of every comment and docstring of a source."""
    if path.suffix in CPP:
        found = [match for match in CPP_COMMENT.finditer(text) if match["comment"]]
        return [(line_of(text, match.start()), match[0]) for match in found]
    if path.suffix in (".py", ".pyi"):
        return python_comments(text)
    if path.suffix in HASH or path.name in HASH_NAMES:
        found = re.finditer(r"(?:^|(?<=\s))#.*", text)
        return [(line_of(text, match.start()), match[0]) for match in found]
    return []


def python_comments(text):
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    found = [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        docstring = ast.get_docstring(node) if isinstance(node, documented) else None
        if docstring is not None:
            found.append((node.body[0].lineno, re.sub(r"^ {4}.*", "", docstring, flags=re.MULTILINE)))
    return found


def beginnings(path, text):
    """(line, first words) of every comment; lines of comments that follow each other are one."""
    lines, last = text.splitlines(), None
    for line, comment in sorted(comments(path, text)):
        is_alone = lines[line - 1].lstrip().startswith(("//", "/*", "#"))
        if not (is_alone and last == line - 1):
            yield line, re.sub(r"^(?://+<?|/\*+|#+[:!]?)\s*", "", comment.lstrip())
        last = line + comment.count("\n") if is_alone else None
