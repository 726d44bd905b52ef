"""One rule for all gaps between rows of the pages: Student's t, Holm over the table, three verdicts.

A gap is the mean of first − second. Rows that share seeds are paired by seed; rows with other noise are compared by
Welch's t. A row with one value that no seed changes (BM25, word counts) is a constant. Unpaired rows and constants share no
noise with the other row, so the error of the test documents is added, as if both had met different ones, which is too wide. `p` is two-sided, and the
interval has 95 %. Holm's correction counts all gaps of one table. Verdicts:

- shown: p after Holm is below 0.05, and the gap has the sign that its row expects;
- against: p after Holm is below 0.05, and the gap has the other sign;
- not shown: everything else, also gaps of one run each, which have no p.

Five seeds are wanted for a claim; the table says how many there are. Only the standard library is needed.
"""

import dataclasses
import math
import statistics

LEVEL = 0.05
CLAIM_SEEDS = 5
SHOWN, NOT_SHOWN, AGAINST = "shown", "not shown", "against"


@dataclasses.dataclass
class Gap:
    mean: float
    count: int  # pairs, or runs of the row that has fewer, constants apart
    error: float | None = None  # standard error; without it there is neither p nor an interval
    freedom: float | None = None
    kind: str = "paired"

    @property
    def p(self):
        if self.error is None:
            return None
        if self.error == 0:
            return 0.0 if self.mean else 1.0
        return two_sided(self.mean / self.error, self.freedom)

    @property
    def interval(self):
        if self.error is None:
            return None
        reach = quantile(1 - LEVEL / 2, self.freedom) * self.error
        return self.mean - reach, self.mean + reach


def beta_fraction(a, b, x):
    """Continued fraction of the incomplete beta function (Lentz)."""
    tiny = 1e-300
    c, d = 1.0, 1 - (a + b) * x / (a + 1)
    d = 1 / (d if abs(d) > tiny else tiny)
    value = d
    for m in range(1, 400):
        for numerator in (m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)), -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))):
            d = 1 + numerator * d
            d = 1 / (d if abs(d) > tiny else tiny)
            c = 1 + numerator / c
            c = c if abs(c) > tiny else tiny
            value *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return value


def incomplete_beta(a, b, x):
    """Regularised, I_x(a, b)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    if x < (a + 1) / (a + b + 2):
        return front * beta_fraction(a, b, x) / a
    return 1 - front * beta_fraction(b, a, 1 - x) / b


def two_sided(t, freedom):
    """Probability of |T| ≥ |t| for Student's T."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def quantile(probability, freedom):
    """The t that T exceeds with 1 − probability, for probabilities above a half."""
    low, high = 0.0, 1.0
    while two_sided(high, freedom) > 2 * (1 - probability):
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if two_sided(middle, freedom) > 2 * (1 - probability) else (low, middle)
    return (low + high) / 2


def paired(differences):
    """Gap of differences between runs of equal seeds."""
    mean, count = statistics.mean(differences), len(differences)
    if count < 2:
        return Gap(mean, count)
    return Gap(mean, count, statistics.stdev(differences) / math.sqrt(count), count - 1)


def welch(first, second):
    """Gap of runs that share no noise."""
    mean, count = statistics.mean(first) - statistics.mean(second), min(len(first), len(second))
    if count < 2:
        return Gap(mean, count, kind="unpaired")
    shares = [statistics.variance(values) / len(values) for values in (first, second)]
    error = math.sqrt(sum(shares))
    if error == 0:
        return Gap(mean, count, 0.0, len(first) + len(second) - 2, "unpaired")
    freedom = sum(shares) ** 2 / sum(share**2 / (len(values) - 1) for share, values in zip(shares, (first, second)))
    return Gap(mean, count, error, freedom, "unpaired")


def with_documents(found, shares, documents, whole):
    """A gap of shares of `whole` (1 or 100) with the error of the test documents, by Welch and Satterthwaite."""
    if found.error is None:
        return found
    seeds, sampled = found.error**2, sum(share * (whole - share) for share in shares) / documents
    freedom = (seeds + sampled) ** 2 / (seeds**2 / found.freedom + sampled**2 / (documents - 1)) if seeds + sampled else found.freedom
    return dataclasses.replace(found, error=math.sqrt(seeds + sampled), freedom=freedom)


def gap(first, second, pair=True, documents=None, whole=1):
    """Gap of two rows, each {seed: value}; None without runs. Seed 0 alone marks a row that no seed changes. Values are shares
    of `whole` over so many test documents, where these are given."""
    if not first or not second:
        return None
    if set(first) == {0} or set(second) == {0}:
        one, many, sign = (first[0], second, -1) if set(first) == {0} else (second[0], first, 1)
        found = dataclasses.replace(paired([sign * (value - one) for value in many.values()]), kind="constant")
        return with_documents(found, (one, statistics.mean(many.values())), documents, whole) if documents else found
    common = sorted(first.keys() & second.keys())
    if pair and common:
        return paired([first[seed] - second[seed] for seed in common])
    found = welch(list(first.values()), list(second.values()))
    return with_documents(found, [statistics.mean(row.values()) for row in (first, second)], documents, whole) if documents else found


def holm(values):
    """Adjusted p values, in the given order; None stays None and is not counted."""
    order = sorted((value, place) for place, value in enumerate(values) if value is not None)
    adjusted, largest = [None] * len(values), 0.0
    for rank, (value, place) in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - rank) * value))
        adjusted[place] = largest
    return adjusted


def verdict(found, adjusted):
    """Rows are written such that a positive gap is expected."""
    if found is None or adjusted is None or adjusted >= LEVEL:
        return NOT_SHOWN
    return SHOWN if found.mean > 0 else AGAINST


@dataclasses.dataclass
class Line:
    """One gap of a table: its name, what the paper has, and how it came out."""

    name: str
    paper: str
    found: Gap | None
    digits: int
    note: str = ""  # why a small p would still show nothing
    adjusted: float | None = None

    @property
    def verdict(self):
        if self.note:
            return f"{NOT_SHOWN}: {self.note}"
        if self.found is not None and self.found.p is None:
            return f"{NOT_SHOWN}: one run"
        said = verdict(self.found, self.adjusted)
        if said != NOT_SHOWN and self.found.count < CLAIM_SEEDS:
            return f"{said}, by {self.found.count} seeds"
        return said

    def cells(self):
        if self.found is None:
            return [self.name, self.paper, "", "", "", "", "", "not run"]
        text = f"{self.found.mean:+.{self.digits}f}"
        if self.found.p is None:
            return [self.name, self.paper, text, "", self.found.count, "", "", self.verdict]
        low, high = self.found.interval
        return [self.name, self.paper, text, f"{low:+.{self.digits}f} to {high:+.{self.digits}f}", self.found.count,
                p_text(self.found.p), p_text(self.adjusted), self.verdict]


HEADER = ["gap", "paper", "here", "95 % interval", "seeds", "p", "p (Holm)", "verdict"]


def p_text(p):
    return "" if p is None else "< 0.0001" if p < 0.0001 else f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def corrected(lines):
    """The lines with Holm's p; those with a note count too, as they were looked at."""
    for line, adjusted in zip(lines, holm([line.found.p if line.found else None for line in lines])):
        line.adjusted = adjusted
    return lines
