"""Numbers and verdicts in words that a person in a factory reads at once."""

from datetime import date, datetime
from typing import Any

from indubio.chain import UNFAMILIAR, Assessment
from indubio.decision import Reason, Verdict
from indubio.judging import LARGEST_TOTAL
from indubio.texts import _, gettext, language, marked, ngettext, written

# Bounds of total_percent. A probability of 0.975 (or 0.025) is 10, 0.9 is 36, 0.75 is 75, 0.5 is 100.
LEVELS = ((10, marked("hardly any doubt")), (36, marked("some doubt")), (75, marked("considerable doubt")))
REASONS = {
    Reason.BAD_INPUT: marked("its data are bad"),
    Reason.OUT_OF_RANGE: marked("a value is far outside the training range"),
    Reason.UNFAMILIAR: marked("nothing like it was seen in training"),
    Reason.EPISTEMIC: marked("the verdict is uncertain, and more examples like this would settle it"),
    Reason.ALEATORIC: marked("it lies on the border between good and bad"),
}
VERDICTS = (marked("INLIER"), marked("ANOMALY"), marked("REFER"))  # as badges show them
ONE_SIDED = 0.6  # from this share of the total on, one kind of uncertainty is called the reason


def count(number: int, one: str = "", many: str | None = None) -> str:
    """1 example, 1,200 examples."""
    if not one:
        return written(f"{number:,}")
    return f"{written(f'{number:,}')} {ngettext(one, f'{one}s' if many is None else many, number)}"


def percent(share: float) -> str:
    """A share, with as many digits as matter: 62%, 4.2%, 5%, below 0.1%."""
    value = 100 * share
    if value != value:
        return "-"
    if 0 < value < 0.1:
        return _("below 0.1%")
    if 99.9 < value < 100:
        return _("above 99.9%")
    whole = 10 <= value <= 99.5 or abs(value - round(value)) < 1e-9
    digits = f"{value:.0f}" if whole else f"{value:.1f}"
    return _("{digits}%", digits=written(digits))


def number(value: float) -> str:
    """Four significant digits, and an exponent only where zeros would have to be counted."""
    if value != value:
        return _("missing")
    if value == 0 or 1e-3 <= abs(value) < 1e6:
        digits = 0 if abs(value) >= 1000 else 3 if value == 0 else max(0, 3 - _magnitude(value))
        text = f"{value:,.{digits}f}"
        return written(text.rstrip("0").rstrip(".") if "." in text else text)
    return written(f"{value:.2e}")


def point(value: float) -> str:
    """A metric from 0 to 1 as percentage points; "-" where it is undefined."""
    return "-" if value != value else written(f"{100 * value:.1f}")


def decimals(value: float, form: str) -> str:
    """A number in a form of Python's, such as ".2f"."""
    return written(format(value, form))


def plain(value: Any) -> str:
    """A value of an id or time column."""
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def moment(at: date) -> str:
    """A day, or a time to the minute, as people read it."""
    day = f"{at:%d.%m.%Y}" if language() == "de" else f"{at:%Y-%m-%d}"
    return f"{day} {at:%H:%M}" if isinstance(at, datetime) else day


def verdict_in_words(found: Assessment, example: int) -> str:
    """What was decided, and why."""
    leaning = _("an anomaly") if found.prediction[example] else _("normal")
    if found.verdict[example] != Verdict.REFER:
        return _("accepted as {leaning}", leaning=leaning)
    why = gettext(REASONS[Reason(str(found.reason[example]))])
    if found.reason[example] == Reason.UNFAMILIAR and float(found.novelty[example]) > UNFAMILIAR:
        why = _("{nothing} (novelty {far})", nothing=why, far=_shown_novelty(found, example))
    if found.reason[example] in (Reason.BAD_INPUT, Reason.OUT_OF_RANGE):
        return _("referred to a person because {why}; the score alone says {leaning}", why=why, leaning=leaning)
    return _("referred to a person because {why}; left alone, it would be {leaning}", why=why, leaning=leaning)


def level_in_words(uncertainty: float) -> str:
    """How much doubt a total uncertainty, or one of its two parts, is."""
    percentage = 100 * uncertainty / LARGEST_TOTAL
    return next((gettext(words) for bound, words in LEVELS if percentage < bound), _("strong doubt"))


def doubt_in_words(found: Assessment, example: int) -> str:
    """How much doubt there is, and of which kind."""
    total, epistemic = float(found.total[example]), float(found.epistemic[example])
    level = level_in_words(total)
    if level == gettext(LEVELS[0][1]):
        return level
    share, level = epistemic / total, _("{level} ({doubt})", level=level, doubt=of_hundred(total))
    if share >= ONE_SIDED:
        return _("{level}, mostly epistemic: more examples like this would settle it", level=level)
    if share <= 1 - ONE_SIDED:
        return _("{level}, mostly aleatoric: it lies on the border between good and bad", level=level)
    return _(
        "{level}, partly epistemic: more examples like this would settle some of it; partly aleatoric: it lies on the "
        "border between good and bad",
        level=level,
    )


def of_hundred(uncertainty: float) -> str:
    """A total uncertainty, or one of its two parts, from 0 to 100."""
    return _("{share} of 100", share=f"{100 * uncertainty / LARGEST_TOTAL:.0f}")


def novelty_in_words(found: Assessment, example: int) -> str:
    """That nothing like it was seen, and how far away it is; "" for what is familiar, or where it is not known."""
    if not float(found.novelty[example]) > UNFAMILIAR:
        return ""
    # A sentence of its own; after "because" other languages have the words in another order.
    return _("nothing like it was seen in training (novelty {far})", far=_shown_novelty(found, example))


def _shown_novelty(found: Assessment, example: int) -> str:
    return number(float(f"{float(found.novelty[example]):.3g}"))


def _magnitude(value: float) -> int:
    return int(f"{value:e}".partition("e")[2])
