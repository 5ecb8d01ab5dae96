"""What is constant in messages: the template of a line.

Values that look like values (numbers, paths, addresses, quoted text) are masked at once.  What is left
differs only in words: a word is a variable too if `WORDS` different words were seen in its place with
everything else the same (Drain's idea, without its tree).  So is the word after `=`, whatever the other words
of that kind in its line are: `user=root` is a template of its own until several users were seen.  Participles
("VM started", "VM paused") and HTTP's methods tell what happened: they vary only if many were seen.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

MASK = "<*>"
WORDS = 4
STATES = 12  # The same for participles and methods.
ROUNDS = 4
LONGEST = 2_000  # Characters of a message that its template is made of.
MOST_SHAPES = 20_000  # Beyond that the memory of a source does not grow.
MOST_KEYS = 100_000
SLOT = "\1"  # Stands in shapes for the value after `=`.

_DIGITS = re.compile(r"\d+")
_CONTROL = re.compile("[\1\2]")
_LEADER = re.compile(r"\.{3,}(?=\d)")  # Dots that lead to a value: "field ......0".
_VALUE = r"""[^\s,;(){}\[\]"'=]+"""
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT", "TRACE")
_MASKED = re.compile(
    rf"""
      [A-Za-z][\w+.-]*://[^\s,;"')\]]+
    | "(?P<method>{"|".join(_METHODS)})\ [^"]*"
    | (?<![\w:.])(?=[\da-fA-F:]*\d)[\da-fA-F]{{0,4}}(?::[\da-fA-F]{{0,4}}){{2,}}(?![\w:]|\.\d)
    | (?<![\w.-])(?:(?:[\w-]+\.){{2,}}[A-Za-z]{{2,}}
      | [\w-]+\.(?:com|net|org|edu|gov|io|dev|local|internal)):\d+(?![\w.])
    | (?<![\w.-])[\w.-]*~[\w.~-]*
    | (?<![\w.$-])\d[\d.,]*\ [KMGTP]?i?B\b
    | (?<![\w/.])(?:[A-Za-z]:)?[\\/](?:[\w.+@%$-]+[\\/])*[\w.+@%$-]*[\w/]
    | \b(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\ )?
      (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\ +\d+\ [\d:.]+(?:\ \d+)?
    | (?<=\()(?=\))
    | (?<![\w])\w+@[\w.-]+
    | (?<=[\w)\]]=)(?P<slot>{_VALUE})
    | (?<=[\w)\]]\ =\ ){_VALUE}
    | (?<=[\w)\]]\ =){_VALUE}
    | (?<=[\w)\]]=\ ){_VALUE}(?![=\w])
    | (?<=\bfor\ user\ )[\w.-]+
    | (?<![\w.$-])[\w.$-]*\d[\w.$-]*
    | "[^"]*"
    """,
    re.VERBOSE,
)
_RUN = re.compile(rf"(<\*>|{SLOT})(?:[\s,:;./|#-]*<\*>)+")
_WORD = re.compile(r"<\*>|[A-Za-z_$][\w.$-]*")
_PLAIN = re.compile(r"[A-Za-z_]+")

_Split = tuple[tuple[str, ...], tuple[str, ...]]  # The text between the words, and the words.
# A message without its values, and the words after `=`; None stands for one that is no plain word.
Shape = tuple[str, tuple[str | None, ...]]


def _shape(key: str) -> Shape:
    slots: list[str | None] = []

    def masked(found: re.Match[str]) -> str:
        value = found["slot"]
        if value is None:
            return MASK if found["method"] is None else f'"{found["method"]} {MASK}"'
        slots.append(value if _PLAIN.fullmatch(value) else None)
        return SLOT

    text = _MASKED.sub(masked, " ".join(_LEADER.sub("... ", _CONTROL.sub(" ", key)).split()))
    return _RUN.sub(r"\1", text), tuple(slots)


def _split(shape: str) -> _Split:
    words, between, last = [], [], 0
    for word in _WORD.finditer(shape):
        between.append(shape[last : word.start()])
        words.append(word[0])
        last = word.end()
    between.append(shape[last:])
    return tuple(between), tuple(words)


def _joined(split: _Split) -> str:
    between, words = split
    return "".join(text + word for text, word in zip(between, (*words, ""), strict=True))


def _varies(words: set[str]) -> bool:
    """Whether the words seen in a place are values."""
    if len(words) < WORDS:
        return False
    if len(words) >= STATES:
        return True
    return sum(not word.endswith(("ed", "ing")) and word not in _METHODS for word in words) >= WORDS


def _generalised(splits: set[_Split]) -> dict[_Split, _Split]:
    """One round: each split with the words masked that vary."""
    seen: dict[tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]], set[str]] = defaultdict(set)
    for between, words in splits:
        for place, word in enumerate(words):
            if word != MASK:
                seen[between, words[:place], words[place + 1 :]].add(word)
    changed: dict[_Split, _Split] = {}
    for split in splits:
        between, words = split
        if len(words) < 2:
            continue  # A message of one word is that word.
        masked = tuple(
            MASK if word != MASK and _varies(seen[between, words[:place], words[place + 1 :]]) else word
            for place, word in enumerate(words)
        )
        if masked != words:
            changed[split] = (between, masked)
    return changed


class Shapes:
    """The shapes of messages, which do not depend on what was learned; remembers those of the last ones."""

    def __init__(self) -> None:
        self._known: dict[str, Shape] = {}

    def of(self, message: str) -> Shape:
        key = _DIGITS.sub("0", message[:LONGEST])
        shape = self._known.get(key)
        if shape is None:
            if len(self._known) >= MOST_KEYS:
                self._known.clear()
            shape = self._known[key] = _shape(key)
        return shape


def shape_key(shape: Shape) -> str:
    """A shape as one text, for `shape_from`."""
    text, words = shape
    return text + "".join(f"\2{word or ''}" for word in words)


def shape_from(key: str) -> Shape:
    text, *words = key.split("\2")
    return text, tuple(word or None for word in words)


class Templates:
    """The templates of one source: learn messages first, then ask for theirs."""

    def __init__(self) -> None:
        self._shapes: dict[str, Shape] = {}  # By message without its digits.
        self._splits: dict[str, _Split] = {}
        self._general: dict[str, str] = {}  # Shape with the words masked that vary.
        self._slots: dict[str, list[set[str] | None]] = {}  # Words seen in each slot; None: it varies.
        self._pools: dict[str, list[set[str] | None]] = {}  # The same, of all shapes that are one in general.
        self._has_new_words = False
        self._templates: dict[Shape, str] = {}

    def learn(self, messages: Iterable[str]) -> list[Shape]:
        """Take in messages; templates of those before may become more general.  The shapes are in the order
        of the messages, for `template`."""
        known, digits = self._shapes.get, _DIGITS.sub
        found: list[Shape] = []
        before = len(self._splits)
        for message in messages:
            key = digits("0", message[:LONGEST])
            found.append(known(key) or self._taken(key))
        self._generalise(before)
        return found

    def learn_shapes(self, shapes: Iterable[Shape]) -> set[str]:
        """The same with the shapes of messages; the templates of which no message was seen before."""
        before = set(self._splits)
        for shape in shapes:
            self._take(shape)
        self._generalise(len(before))
        old = {self._general[shape] for shape in before}
        return {self._general[shape] for shape in self._splits if shape not in before} - old

    def _generalise(self, before: int) -> None:
        if len(self._splits) != before:
            self._relearn()
        elif self._has_new_words:
            self._pool()

    def general(self, shape: Shape) -> str:
        """The template with its slots left open: what `learn_shapes` calls new."""
        return self._general.get(shape[0], shape[0])

    def of(self, message: str) -> str:
        """The template of a message."""
        key = _DIGITS.sub("0", message[:LONGEST])
        return self.template(self._shapes.get(key) or _shape(key))

    def template(self, shape: Shape) -> str:
        """The template of a shape."""
        template = self._templates.get(shape)
        if template is None:
            if len(self._templates) >= MOST_KEYS:
                self._templates.clear()
            template = self._templates[shape] = self._filled(*shape)
        return template

    # State that outlives a process --------------------------------------------------------------------------

    def state(self) -> dict[str, list[list[str] | None]]:
        """All that was learned, for `restored`: shapes with the words of their slots."""
        return {
            shape: [None if words is None else sorted(words) for words in self._slots.get(shape, ())]
            for shape in self._splits
        }

    @classmethod
    def restored(cls, state: Mapping[str, Sequence[Sequence[str] | None]]) -> Templates:
        templates = cls()
        for shape, slots in state.items():
            templates._splits[shape] = _split(shape)
            if slots:
                templates._slots[shape] = [None if words is None else set(words) for words in slots]
        templates._relearn()
        return templates

    def __len__(self) -> int:
        return len(self._splits)

    # Learning -----------------------------------------------------------------------------------------------

    def _taken(self, key: str) -> Shape:
        """The shape of a message that is new."""
        shape = _shape(key)
        if self._take(shape) and len(self._shapes) < MOST_KEYS:
            self._shapes[key] = shape
        return shape

    def _take(self, shape: Shape) -> bool:
        """Whether there was room for it."""
        text, values = shape
        if text not in self._splits:
            if len(self._splits) >= MOST_SHAPES:
                return False
            self._splits[text] = _split(text)
        if values:
            self._take_slots(text, values)
        return True

    def _take_slots(self, text: str, values: tuple[str | None, ...]) -> None:
        slots = self._slots.setdefault(text, [set() for _ in values])
        for place, (words, value) in enumerate(zip(slots, values, strict=False)):
            if words is None or value in words:
                continue
            self._has_new_words = True
            if value is None or len(words) + 1 >= WORDS:
                slots[place] = None
            else:
                words.add(value)

    def _filled(self, text: str, values: tuple[str | None, ...]) -> str:
        general = self._general.get(text, text)
        if not values:
            return general
        first, *rest = general.split(SLOT)
        slots = self._pools.get(general) or [None] * len(rest)
        pieces = [first]
        for words, value, after in zip(slots, values, rest, strict=False):
            pieces += (MASK if words is None or value is None else value, after)
        return "".join(pieces)

    def _relearn(self) -> None:
        current = dict(self._splits)
        for _ in range(ROUNDS):
            changed = _generalised(set(current.values()))
            if not changed:
                break
            current = {shape: changed.get(split, split) for shape, split in current.items()}
        self._general = {shape: _joined(split) for shape, split in current.items()}
        self._pool()

    def _pool(self) -> None:
        pools: dict[str, list[set[str] | None]] = {}
        for shape, slots in self._slots.items():
            pool = pools.setdefault(self._general[shape], [set() for _ in slots])
            for place, words in enumerate(slots):
                known = pool[place]
                if known is not None:
                    joined = None if words is None else known | words
                    pool[place] = joined if joined is not None and len(joined) < WORDS else None
        self._pools = pools
        self._has_new_words = False
        self._templates.clear()
