"""Pictures as texts, row by row, a character for each pixel: digits of strokes, and Pathfinder's dashed curves.

Both are our own drawings, made from a seed alone: no data set is read.
"""

import math
import random

import numpy as np

#: From dark to bright.
LEVELS = ".:-=+*#%"
#: Pixels of a side of the usual picture.
SIDE = 32

#: Strokes of each digit in a box of 1 × 1, y downward: polylines, and (centre, radii, first angle, last angle) of arcs in degrees.
GLYPHS = {
    0: [((0.5, 0.5), (0.32, 0.46), 0, 360)],
    1: [[(0.3, 0.25), (0.55, 0.05), (0.55, 0.95)]],
    2: [((0.5, 0.3), (0.3, 0.26), 180, 390), [(0.76, 0.43), (0.2, 0.95), (0.82, 0.95)]],
    3: [((0.45, 0.28), (0.3, 0.23), 200, 450), ((0.45, 0.73), (0.34, 0.23), 270, 520)],
    4: [[(0.65, 0.95), (0.65, 0.05), (0.18, 0.65), (0.85, 0.65)]],
    5: [[(0.78, 0.06), (0.3, 0.06), (0.26, 0.45)], ((0.48, 0.66), (0.3, 0.28), 225, 510)],
    6: [((0.7, 0.6), (0.5, 0.56), 180, 265), ((0.5, 0.7), (0.3, 0.26), 0, 360)],
    7: [[(0.18, 0.06), (0.82, 0.06), (0.4, 0.95)]],
    8: [((0.5, 0.27), (0.25, 0.22), 0, 360), ((0.5, 0.72), (0.3, 0.24), 0, 360)],
    9: [((0.5, 0.31), (0.29, 0.26), 0, 360), ((0.29, 0.4), (0.5, 0.56), 0, 80)],
}


def points_of(stroke):
    if isinstance(stroke, list):
        return np.array(stroke, float)
    (x, y), (across, down), first, last = stroke
    angles = np.radians(np.linspace(first, last, max(2, round(abs(last - first) / 20) + 1)))
    return np.stack([x + across * np.cos(angles), y + down * np.sin(angles)], axis=1)


def moved(points, dealer, side):
    """Turned, sheared, stretched and shifted, in pixels."""
    turn, shear = math.radians(dealer.uniform(-15, 15)), dealer.uniform(-0.25, 0.25)
    wide, high = side * dealer.uniform(0.4, 0.62), side * dealer.uniform(0.55, 0.78)
    x, y = (points[:, 0] - 0.5) * wide, (points[:, 1] - 0.5) * high
    x = x + shear * y
    x, y = x * math.cos(turn) - y * math.sin(turn), x * math.sin(turn) + y * math.cos(turn)
    return x, y, side * dealer.uniform(0.41, 0.59), side * dealer.uniform(0.41, 0.59)


def distances(begin, end, side):
    """Distance of the centre of each pixel from a segment, [side, side]."""
    down, across = np.mgrid[0:side, 0:side] + 0.5
    along = end - begin
    length = max(float(along @ along), 1e-9)
    share = np.clip(((across - begin[0]) * along[0] + (down - begin[1]) * along[1]) / length, 0, 1)
    return np.hypot(across - begin[0] - share * along[0], down - begin[1] - share * along[1])


def digit(label, dealer, side):
    """Brightness from 0 to 1 of a picture of a digit."""
    strokes = [points_of(stroke) for stroke in GLYPHS[label]]
    ends = np.cumsum([len(stroke) for stroke in strokes])[:-1]
    every = np.concatenate(strokes)
    wobble = np.array([[dealer.gauss(0, 0.015), dealer.gauss(0, 0.015)] for _ in every])
    x, y, left, top = moved(every + wobble, dealer, side)
    near = np.full((side, side), np.inf)
    for stroke in np.split(np.stack([x + left, y + top], axis=1), ends):
        for begin, end in zip(stroke, stroke[1:]):
            near = np.minimum(near, distances(begin, end, side))
    picture = np.clip(dealer.uniform(1.0, 1.8) * side / SIDE + 0.5 - near, 0, 1) * dealer.uniform(0.7, 1)
    noise = np.array([dealer.random() for _ in range(side * side)]).reshape(side, side)
    return np.clip(picture + 0.25 * noise * (noise > 0.8), 0, 1)


def text_of(picture):
    """Characters of the rows one behind the other."""
    steps = np.minimum((np.asarray(picture) * len(LEVELS)).astype(int), len(LEVELS) - 1)
    return "".join(LEVELS[step] for step in steps.ravel())


def digits(count, seed, side=SIDE):
    dealer = random.Random(seed)
    labels = [dealer.randrange(10) for _ in range(count)]
    return [{"text": text_of(digit(label, dealer, side)), "label": str(label)} for label in labels]


# Pathfinder: two marked places are, or are not, the ends of one dashed curve.

#: Pixels of a dash, step to the next one. Pixels of neighbouring dashes are at most LINK apart, in the larger of both
#: directions, pixels of different curves are farther apart.
DASH, GAP, LINK = 3, 2, 3
#: Dashes of the two long curves of a picture of the usual size.
DIFFICULTIES = {"easy": 4, "hard": 6}
DISTRACTORS, DISTRACTOR_DASHES = 2, 2


def curve(dealer, dashes, side):
    """Pixels of the dashes of a curve that bends slowly, each a set of (row, column); None where it leaves the picture."""
    x, y, angle = dealer.uniform(2, side - 2), dealer.uniform(2, side - 2), dealer.uniform(0, 2 * math.pi)
    made = []
    for _ in range(dashes):
        dash = []
        for step in range(4 * (DASH - 1) + 1):
            place = (math.floor(y + step / 4 * math.sin(angle)), math.floor(x + step / 4 * math.cos(angle)))
            if not all(1 <= part < side - 1 for part in place):
                return None
            if place not in dash:
                dash.append(place)
        made.append(dash)
        forward = DASH - 1 + GAP
        x, y = x + forward * math.cos(angle), y + forward * math.sin(angle)
        angle += dealer.uniform(-0.5, 0.5)
    return made


def marker(place):
    row, column = place
    return {(row + down, column + across) for down, across in ((0, 0), (0, 1), (1, 0), (0, -1), (-1, 0))}


def around(pixels, distance):
    reach = range(-distance, distance + 1)
    return {(row + down, column + across) for row, column in pixels for down in reach for across in reach}


def scene(dealer, dashes, side):
    """Curves that keep their distance: the pixels of each, and the two ends of the long ones. None where one finds no room."""
    curves, ends, taken = [], [], set()
    for number in range(2 + DISTRACTORS):
        is_long = number < 2
        for _ in range(60):
            made = curve(dealer, dashes if is_long else DISTRACTOR_DASHES, side)
            if made is None:
                continue
            first, last = made[0][0], made[-1][-1]
            pixels = {place for dash in made for place in dash}
            if is_long:
                pixels |= marker(first) | marker(last)
            if pixels & taken:
                continue
            taken |= around(pixels, LINK)
            curves.append([place for dash in made for place in dash])
            if is_long:
                ends.append((first, last))
            break
        else:
            return None
    return curves, ends


def apart(one, other):
    return math.hypot(one[0] - other[0], one[1] - other[1])


def path(dealer, label, dashes, side):
    """A picture whose marked places are as far apart as those of the other label could be, so that distance says nothing."""
    while True:
        made = scene(dealer, dashes, side)
        if made is None:
            continue
        curves, ((begin, end), others) = made
        other = min(others, key=lambda place: abs(apart(begin, place) - apart(begin, end)))
        if abs(apart(begin, other) - apart(begin, end)) > 2:
            continue
        picture = np.zeros((side, side))
        for places in curves:
            for place in places:
                picture[place] = 0.6
        for place in marker(begin) | marker(end if label else other):
            picture[place] = 1
        return picture


def pathfinder(count, seed, difficulty="easy", side=SIDE):
    dealer = random.Random(seed)
    dashes = round(DIFFICULTIES[difficulty] * side / SIDE)
    labels = [dealer.randrange(2) for _ in range(count)]
    return [{"text": text_of(path(dealer, label, dashes, side)), "label": "connected" if label else "apart"} for label in labels]
