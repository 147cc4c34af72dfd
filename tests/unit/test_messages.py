"""Messages: every one that names a setting says so to the command line, and every setting has a flag, or a reason."""

import ast
import copy
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import indubio
import indubio_lab.posteriors
from indubio.cli.by_flags import PHRASES, by_flags
from indubio.cli.flags import flag_of, flags_of, settings_of
from indubio.configuration import FAMILIES
from indubio.errors import DataError, DownloadError, MissingExtraError, NotFoundError
from indubio.message import Message, joined

SOURCE = Path(indubio.__file__).parent
ELSEWHERE = (  # not read from flags
    "cli",
    "evaluation",
    "report",
    "detector/ensemble_detector.py",
    "detector/member_scorer.py",
    "detector/member_scores.py",
    "detector/refits.py",
    "detector/contained_randomness.py",
)
MAKERS = {"Message", "english"}
COMMANDS = ("fit", "assess", "benchmark", "report")
SETTING = re.compile(r"`([a-z_]+)(?:=[^`]*)?`|\b([a-z_]+)=(?:\"|True|False)")

# Of functions that the command line calls with values it made itself, or not at all.
NOT_REACHABLE = {
    "assess", "below", "constant", "detector", "explain", "fit", "fitted", "input_shape", "input_shape_", "k",
    "largest_reference_nll", "level", "metric", "nll", "index", "of", "p", "parameters", "predictions",
    "prevalence", "refer_by", "reference_examples", "rejection_rates", "runs", "scores", "settings", "spread",
    "sums_", "suspects", "temperature", "times", "training_data", "update", "values", "verdict", "weights",
    "windows_at_once", "y", "keep_sums",
}  # fmt: skip


def has_flag(name: str) -> bool:
    return name not in NOT_REACHABLE and any(flag_of(name, command) for command in COMMANDS)


def text_of(node: ast.AST) -> str:
    return "".join(part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and type(part.value) is str)


def called(node: ast.AST) -> str:
    return getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""


def files() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted([*SOURCE.rglob("*.py"), *Path(indubio_lab.posteriors.__file__).parent.rglob("*.py")]):
        name = "/".join(path.parts[path.parts.index("src") + 2 :])
        if not name.startswith(ELSEWHERE):
            yield name, ast.parse(path.read_text())


def texts(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every text with backticks that is no docstring, and whether it is the template of a message."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    templates = {
        id(node.args[0])
        for node in ast.walk(tree)
        if called(node) in MAKERS or (called(node).endswith("Error") and node.keywords)
        if node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in documented | inner:
            yield node, id(node) in templates


def test_every_text_that_names_a_setting_with_a_flag_is_a_message():
    wrong = [
        f"{path}:{node.lineno}: {name}"
        for path, tree in files()
        for node, is_template in texts(tree)
        for name in {bare or given for bare, given in SETTING.findall(text_of(node))}
        if has_flag(name) and (not is_template or isinstance(node, ast.JoinedStr))
    ]
    assert wrong == [], "make it a `Message`, or an error with fields"


def test_no_message_is_filled_into_an_f_string_where_it_would_be_a_text_like_others():
    """What gives a message says so by its annotation, and whatever our errors say may be one."""
    wrong, ours = [], re.compile(r"\b(Indubio|Config|Data|Shape)Error\b")
    makers = {
        node.name
        for _, tree in files()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.returns is not None and ast.unparse(node.returns) == "Message"
    }
    for path, tree in files():
        caught = [
            (handler.name, id(node))
            for handler in ast.walk(tree)
            if isinstance(handler, ast.ExceptHandler) and handler.name and ours.search(ast.unparse(handler.type))
            for node in ast.walk(handler)
        ]
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                names = {getattr(part, "id", "") for part in ast.walk(node)} | {called(part) for part in ast.walk(node)}
                if names & makers or any((name, id(node)) in caught for name in names):
                    wrong.append(path)
    assert wrong == ["storage/loading.py"], "a model's settings are in its files, not in flags"


def test_every_setting_that_a_message_names_has_a_flag_or_a_reason_to_have_none():
    named = {
        (name, path)
        for path, tree in files()
        for node in ast.walk(tree)
        if called(node) in MAKERS or called(node).endswith(("Error", "Warning"))
        for name in {bare or given for bare, given in SETTING.findall(text_of(node))}
    }
    assert len(named) > 50
    known = NOT_REACHABLE | {phrase.partition("=")[0] for phrase in PHRASES}
    known |= {name.rpartition(".")[2] for command in COMMANDS for name in settings_of(command)}
    assert sorted(one for one in named if one[0] not in known and not has_flag(one[0])) == [], "give it a flag"


def test_what_python_says_in_other_words_are_flags_of_fit():
    own = set(flags_of("fit").values())
    for phrase in PHRASES.values():
        assert phrase.partition("=")[0] in own or phrase.partition(" ")[0] in own


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ('Drop them or pass `missing="median"`.', "Drop them or pass --missing median."),
        ("Take a smaller `length`.", "Take a smaller --window."),
        ("or pass `spectra=False`.", "or pass --set spectra=false."),
        ("Sort, or pass `ordered=False`.", "Sort, or pass --set layout.ordered=false."),
        ("Pass `overwrite=True`.", "Pass --overwrite."),
        ('`gaps="hold"` or "linear"', '--set windowing.gaps=hold or "linear"'),
        ("it has `something` in the file", "it has `something` in the file"),
        ("Pass `skip_lines=3`.", "Pass --set file.skip_lines=3."),
        ('Pass `decimal=","` or `thousands=","`.', "Pass --set file.decimal=, or --set file.thousands=,."),
        ("pass `calibration=HoldOut()` to `referral.share`", "pass --set calibration=holdout to --set referral.share"),
        ("set `scaling=MinMax(clip=True)`", "set `scaling=MinMax(clip=True)`"),
    ],
)
def test_settings_become_flags(said, told):
    assert by_flags(Message(said)) == told
    assert by_flags(said) == said, "a text like others names nothing"


def test_values_are_never_taken_for_settings():
    message = Message(
        'column "{column}": pass `group="{name}"` or `ids={ids}`.', column="`rate`", name="a`b", ids=["c d"]
    )
    assert message == """column "`rate`": pass `group="a`b"` or `ids=['c d']`."""
    assert by_flags(message) == """column "`rate`": pass --group 'a`b' or --id 'c d'."""
    assert by_flags(joined([message, "`rate`", Message("`rate`")])).endswith("; `rate`; --rate")


def test_a_command_that_takes_a_model_says_that_the_flags_are_of_fit():
    assert by_flags(Message('{why}. Pass `missing="median"`, or name `label`.', why="no"), "assess") == (
        "no. Pass --missing median, or name --label. (--missing: of `indubio fit`, and the model remembers it. Mend "
        "the file, or fit again with it.)"
    )


def test_settings_without_arguments_have_their_kind_on_the_command_line():
    for family in ("calibration", "scaling", "posterior"):
        for kind, settings in FAMILIES[family].items():
            said = by_flags(Message(f"`{family}={settings.__name__}()`"))
            assert said in (f"--{family} {kind}", f"--set {family}={kind}")


# ----- the value


MESSAGES = [
    Message("plain, with {braces} and `settings`"),
    Message("{a}, {b!r}, {c:.3f}, {d:,}, {e}", a="x", b="y", c=np.float64(1 / 3), d=np.int64(12000), e=None),
    Message("{inner}: {names}", inner=Message("row {row:d}", row=3), names=["a", "b"]),
    Message("{path}", path=Path("a/b")),
]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.template)
def test_a_message_comes_back_from_data_copies_and_other_processes(message):
    for back in (Message.of(message.plain()), pickle.loads(pickle.dumps(message)), copy.deepcopy(message)):
        assert (back, back.template, back.fields) == (message, message.template, message.fields)
        assert type(back) is Message


@pytest.mark.parametrize("kind", [DataError, NotFoundError, DownloadError, MissingExtraError])
def test_the_text_of_an_error_is_its_message(kind):
    error = kind("no {name:s}; {why}", name="x", why=Message("`rate`"))
    assert isinstance(error, kind)
    assert str(error) == "no x; `rate`"
    assert by_flags(str(error)) == by_flags(str(pickle.loads(pickle.dumps(error)))) == "no x; --rate"
    assert str(kind("a text with {braces}")) == "a text with {braces}"


@pytest.mark.parametrize(
    "plain",
    [
        None,
        3,
        {},
        {"template": "x"},
        {"template": 3, "fields": {}},
        {"template": "{a", "fields": {"a": 1}},
        {"template": "{b}", "fields": {"a": 1}},
        {"template": "{a.__class__}", "fields": {"a": 1}},
        {"template": "{a:999999999d}", "fields": {"a": 1}},
        {"template": "{a:{b}}", "fields": {"a": 1, "b": 999999999}},
        {"template": "{a:d}", "fields": {"a": "x"}},
        {"template": "{a}", "fields": {"a": {"template": 3}}},
    ],
)
def test_what_is_no_message_is_refused(plain):
    with pytest.raises(ValueError, match="is no message"):
        Message.of(plain)
