"""ListOps as google-research/long-range-arena generates it (data/listops.py): nested operations on lists of digits.

A tree is a digit or (operator, [trees]). Its tokens are the published ones without parentheses, which the published
reader removes; its length counts them. A model of bytes reads one character for each token.
"""

import random

MAX_DEPTH, MAX_ARGUMENTS, OPERATOR_SHARE = 10, 10, 0.25
OPERATORS = ("MIN", "MAX", "MED", "SM")
#: One character for each token.
CHARACTERS = {"[MIN": "n", "[MAX": "x", "[MED": "d", "[SM": "s", "]": "]"} | {str(digit): str(digit) for digit in range(10)}


def tree(dealer, depth=1):
    """A tree, and its length."""
    if depth >= MAX_DEPTH or dealer.random() > OPERATOR_SHARE:
        return dealer.randrange(10), 1
    arguments, length = [], 2
    for _ in range(dealer.randint(2, MAX_ARGUMENTS)):
        argument, size = tree(dealer, depth + 1)
        arguments.append(argument)
        length += size
    return (dealer.choice(OPERATORS), arguments), length


def value(one):
    if isinstance(one, int):
        return one
    operator, arguments = one[0], sorted(value(argument) for argument in one[1])
    if operator == "MIN":
        return arguments[0]
    if operator == "MAX":
        return arguments[-1]
    if operator == "SM":
        return sum(arguments) % 10
    middle = len(arguments) // 2
    return arguments[middle] if len(arguments) % 2 else (arguments[middle - 1] + arguments[middle]) // 2


def tokens(one):
    if isinstance(one, int):
        return [str(one)]
    return [f"[{one[0]}", *(token for argument in one[1] for token in tokens(argument)), "]"]


def published(one):
    """The text of the published files: every application in parentheses."""
    if isinstance(one, int):
        return str(one)
    text = f"[{one[0]}"
    for argument in one[1]:
        text = f"( {text} {published(argument)} )"
    return f"( {text} ] )"


def examples(count, seed, shortest=500, longest=2000):
    """Different trees whose length is above `shortest` and below `longest`, as texts with their values."""
    dealer = random.Random(seed)
    seen, made = set(), []
    while len(made) < count:
        one, length = tree(dealer)
        if not shortest < length < longest:
            continue
        text = "".join(CHARACTERS[token] for token in tokens(one))
        if text not in seen:
            seen.add(text)
            made.append({"text": text, "label": str(value(one))})
    return made
