"""Secrets: masked by name in parameters, by value in what is said; and texts from outside made harmless."""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from penstock import InvalidInput
from penstock.domain import payload
from penstock.domain.secrets.policy import (
    DEFAULT_PATTERNS,
    Scrubber,
    SecretPolicy,
    mask_params,
    neutralise,
    secret_values,
)

# Nothing that a mask could make anew or take part in.
_LETTERS = some.characters(codec="utf-8", exclude_characters="*\x00", exclude_categories=["Cs"])
_SECRETS = some.text(_LETTERS, min_size=4, max_size=60)
_TEXTS = some.text(_LETTERS, max_size=40)
_VALUES = some.recursive(
    some.none()
    | some.booleans()
    | some.integers(-(2**63), 2**63 - 1)
    | some.floats(allow_nan=False, allow_infinity=False)
    | _TEXTS,
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(_TEXTS, inner, max_size=4),
    max_leaves=12,
)


class TestMaskedParameters:
    """What is shown of parameters."""

    @pytest.mark.parametrize(
        "name",
        [
            "password", "PASSWORD", "db_password", "dbPassword", "password2", "passwd", "client_secret", "secret",
            "access_token", "accessToken", "AccessToken", "token", "X-Api-Key", "apiKey", "APIKey", "apikey", "API_KEY",
            "Authorization", "proxy-authorization", "private_key", "private key", "aws.secret.access.key",
            "to\\u006ben",
        ],
    )  # fmt: skip
    def test_a_name_that_ends_with_a_pattern_is_hidden_at_any_depth(self, name: str) -> None:
        text = f'{{"a":[{{"{name}":"hush"}}]}}'

        assert mask_params(text) == f'{{"a":[{{"{name}":"***"}}]}}'

    @pytest.mark.parametrize(
        "name",
        ["token_count", "tokenizer", "max_tokens", "secretary", "password_length", "key", "author", "tokenCount"],
    )
    def test_a_name_that_only_holds_a_pattern_is_shown(self, name: str) -> None:
        text = f'{{"{name}": 1}}'

        assert mask_params(text) is text

    def test_a_secret_field_is_hidden_where_the_definition_has_it_and_nowhere_else(self) -> None:
        text = '{"code": [1, {"x": "]}"}], "other": {"code": 1, "y": "\\"code\\": 5"}}'

        assert mask_params(text, ["code"]) == '{"code": "***", "other": {"code": 1, "y": "\\"code\\": 5"}}'

    def test_a_field_is_known_by_its_name_however_that_is_written(self) -> None:
        assert mask_params('{"c\\u006fde":1}', ["code"]) == '{"c\\u006fde":"***"}'

    def test_whatever_is_not_hidden_stays_to_the_letter(self) -> None:
        text = '{ "n": 1.50e3,\n"big":123456789012345678901234567890, "pin":{"a":[1,[2]]}, "z" : -0.0, "ä":"\\u00e4" }'

        shown = mask_params(text, ["pin"])

        assert shown == text.replace('{"a":[1,[2]]}', '"***"')

    def test_text_without_a_secret_comes_back_as_it_is(self) -> None:
        text = '{"to":"bob","password_hint":"cat"}'

        assert mask_params(text, ["password"]) is text

    def test_other_patterns_stand_instead_of_ours(self) -> None:
        policy = SecretPolicy(("pin", "card-number"))

        assert policy.mask(["to"], '{"to":1,"userPin":2,"cardNumber":3,"password":4}') == (
            '{"to":"***","userPin":"***","cardNumber":"***","password":4}'
        )
        assert SecretPolicy(()).mask([], '{"password":4}') == '{"password":4}'
        assert SecretPolicy().patterns == DEFAULT_PATTERNS

    @pytest.mark.parametrize("pattern", ["", "*", "a|b", "__", 5])
    def test_a_pattern_is_made_of_words(self, pattern: Any) -> None:
        with pytest.raises(InvalidInput, match="cannot be a pattern of secret names"):
            SecretPolicy((pattern,))

    @given(some.dictionaries(_TEXTS, _VALUES, max_size=5), some.sampled_from(["name", "ä\n", 'quo"te']), _SECRETS)
    def test_only_the_value_of_the_field_is_changed(self, others: dict[str, Any], name: str, secret: str) -> None:
        assume(secret not in json.dumps(others, ensure_ascii=False) and not _has_secret_name(others))
        assume(name not in others)
        given = {**others, name: {"deep": [secret, 17]}}
        text = payload.encode(given)

        shown = mask_params(text, [name])

        hidden = payload.encode({"x": given[name]})[5:-1]
        assert shown == text.replace(hidden, '"***"')
        assert json.loads(shown) == {**others, name: "***"}
        assert mask_params(shown, [name]) == shown


class TestScrubbedTexts:
    """Secret values in what an attempt says."""

    @given(_SECRETS, _TEXTS, _TEXTS, some.integers(0, 9))
    def test_nothing_of_a_secret_is_left_in_any_form(self, secret: str, before: str, after: str, form: int) -> None:
        shape = _SHAPES[form]
        assume(secret not in before + after and shape(secret) not in before + after)

        shown = Scrubber([secret]).clean(f"{before} {shape(secret)} {after}")

        assert shape(secret) not in shown
        assert secret not in shown

    @given(_SECRETS, _TEXTS, _TEXTS)
    def test_what_is_not_secret_stays(self, secret: str, before: str, after: str) -> None:
        text = f"{before}\x00{after}"
        assume(not any(_share_a_part(secret, each) for each in (before, after)))

        assert Scrubber([secret]).clean(text) == text

    @given(some.lists(_SECRETS, min_size=1, max_size=4), some.lists(some.integers(1, 7), max_size=30), _TEXTS)
    def test_a_text_in_pieces_shows_no_more_than_in_one(
        self, secrets: list[str], cuts: list[int], filling: str
    ) -> None:
        text = filling.join(["", *secrets, *secrets, ""])
        scrubber = Scrubber(secrets)
        stream = scrubber.stream()
        shown, at = "", 0

        for size in cuts:
            shown += stream.feed(text[at : at + size])
            at += size
        shown += stream.feed(text[at:]) + stream.end()

        assert not any(secret in shown for secret in secrets)
        assert stream.end() == ""

    @given(_SECRETS, some.data())
    def test_where_a_text_was_cut_no_part_of_a_secret_is_left(self, secret: str, data: Any) -> None:
        size = data.draw(some.integers(60, 200))
        text = "~" * data.draw(some.integers(0, 100)) + secret + "~" * 400
        assume("~" not in secret)

        cut = payload.sanitise_text(text, size)
        shown = Scrubber([secret]).clean(cut)

        head, marker, tail = re.split(r"(… \[cut, \d+ characters more\])", shown)
        assert marker
        assert set(head + tail) <= {"~", "*", secret[0], secret[-1]}

    def test_the_end_of_a_stream_that_was_cut_shows_no_beginning_of_a_secret(self) -> None:
        stream = Scrubber(["hunter2-and-more"]).stream()

        assert stream.feed("it is hunter2-a") == "it is "
        assert stream.end(cut=True) == "***"

    def test_the_beginning_of_a_secret_that_goes_on_otherwise_is_shown(self) -> None:
        stream = Scrubber(["hunter2-and-more"]).stream()

        assert stream.feed("a hunter") + stream.feed(" and a hun") + stream.end() == "a hunter and a hun"

    def test_whole_lines_do_not_wait(self) -> None:
        assert Scrubber(["hunter2-and-more"]).stream().feed("one\ntwo\n") == "one\ntwo\n"

    def test_a_secret_of_several_lines_is_hidden_as_one_and_line_by_line(self) -> None:
        scrubber = Scrubber(["-----BEGIN\nabcdefghij\nxyz\n-----END\n"])

        assert scrubber.clean("key: -----BEGIN\nabcdefghij\nxyz\n-----END\n!") == "key: ***!"
        assert scrubber.clean("line 2 is abcdefghij.") == "line 2 is ***."

    def test_long_parts_of_a_long_secret_are_hidden(self) -> None:
        secret = "".join(f"{number:03d}-" for number in range(30))

        shown = Scrubber([secret]).clean(f"not {secret!r:.80}, but '...{secret[-20:]}'")

        assert shown == "not '***, but '...***'"

    def test_the_longer_of_two_secrets_goes_first_and_overlapping_ones_go_together(self) -> None:
        scrubber = Scrubber(["abcd", "abcdefgh", "ghijkl"])

        assert scrubber.clean("abcdefgh abcd abcdefghijkl") == "*** *** ***"

    def test_short_values_are_not_looked_for(self) -> None:
        scrubber = Scrubber(["abc", ""])

        assert not scrubber
        assert scrubber.clean("abc") == "abc"

    def test_in_basic_authorization_the_password_is_hidden(self) -> None:
        password = "hunter2-and-more"

        for user in ("a", "ab", "abc"):
            header = base64.b64encode(f"{user}:{password}".encode()).decode()
            shown = Scrubber([password]).clean(f"Authorization: Basic {header}")
            rest = shown.removeprefix("Authorization: Basic ").replace("***", "")
            assert len(rest) < len(header) - len(password)

    def test_very_many_secrets_cost_little_more_than_few(self) -> None:
        secrets = [f"secret-number-{number:06d}" for number in range(20_000)]

        scrubber = Scrubber(secrets)

        assert scrubber.clean("is it secret-number-019999?") == "is it ***?"


class TestScrubbedJson:
    """Secret values in events, details and results."""

    def test_strings_keys_and_numbers_are_cleaned_and_it_stays_json(self) -> None:
        text = '{"a":"x hunter2 y","hunter2":[123456,1234567,1.50,true,null],"b":"q\\"hunter2\\n"}'

        shown = Scrubber(["hunter2", "123456", "true", "null"]).clean_json(text)

        assert shown == '{"a":"x *** y","***":["***",1234567,1.50,true,null],"b":"q\\"***\\n"}'

    def test_an_escaped_secret_is_found(self) -> None:
        assert Scrubber(["häß\nlich"]).clean_json('["h\\u00e4\\u00df\\nlich"]') == '["***"]'

    def test_of_a_result_only_what_is_the_secret_itself_is_hidden(self) -> None:
        text = '{"token":"hunter2","said":"with hunter2","n":[123456,12.30]}'

        shown = Scrubber(["hunter2", "123456"]).clean_result(text)

        assert shown == '{"token":"***","said":"with hunter2","n":["***",12.30]}'

    @given(_VALUES, _SECRETS)
    def test_what_has_no_secret_in_it_stays_to_the_letter(self, value: Any, secret: str) -> None:
        text = payload.encode(value)
        assume(not _share_a_part(secret, text) and not _share_a_part(secret, json.dumps(value)))

        assert Scrubber([secret]).clean_json(text) == text

    @given(_VALUES, _SECRETS)
    def test_no_string_of_it_holds_the_secret(self, value: Any, secret: str) -> None:
        text = payload.encode({"x": value, "y": [f"a{secret}b", {secret: 1}]})

        shown = Scrubber([secret]).clean_json(text)

        assert not any(secret in each for each in _strings(json.loads(shown)))


def test_the_values_of_secret_fields_are_found_to_the_last_one() -> None:
    params = '{"a":{"user":"ada","pins":[1234,"5678",true,null,1.50]},"b":"open","c":98765432109876543210}'

    assert secret_values(params, ["a", "c", "missing"]) == {
        "ada", "1234", "5678", "1.50", "1.5", "98765432109876543210",
    }  # fmt: skip
    assert secret_values(params, []) == set()
    assert secret_values("[]", ["a"]) == set()


class TestHarmlessTexts:
    """Names from outside in logs and on terminals."""

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ('x\n{"level":"fatal"}', 'x\\n{"level":"fatal"}'),
            ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
            ("a\rb\tc", "a\\rb\\tc"),
            ("next\x85line\x9b31m\x7f", "next\\x85line\\x9b31m\\x7f"),
            ("one\u2028two\u2029", "one\\u2028two\\u2029"),
            ("evil\u202etxt.exe\u2066\u200f\u061c", "evil\\u202etxt.exe\\u2066\\u200f\\u061c"),
            ("half \ud800", "half \\ud800"),
            ("plain ä 🌊 ~", "plain ä 🌊 ~"),
        ],
    )
    def test_what_steers_is_escaped_and_what_is_text_is_not(self, text: str, shown: str) -> None:
        assert neutralise(text) == shown

    @given(some.text())
    def test_it_is_one_line_whatever_comes(self, text: str) -> None:
        shown = neutralise(text)

        assert len(shown.splitlines()) <= 1
        assert not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]", shown)


_SHAPES: list[Any] = [
    str,
    repr,
    json.dumps,
    lambda text: json.dumps(text, ensure_ascii=False),
    quote,
    lambda text: quote(text, safe=""),
    quote_plus,
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: base64.urlsafe_b64encode(text.encode()).decode().rstrip("="),
    lambda text: repr(text.encode()),
]


def _share_a_part(secret: str, text: str) -> bool:
    """Whether a text holds what may be taken for a part of a secret in one of its forms."""
    forms = {shape(secret).strip("\"'") for shape in _SHAPES} | {*secret.splitlines()}
    return any(form[at : at + 4] in text for form in forms for at in range(max(1, len(form) - 3)))


def _has_secret_name(value: Any) -> bool:
    return mask_params(json.dumps(value)) != json.dumps(value)


def _strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [*value, *(text for each in value.values() for text in _strings(each))]
    if isinstance(value, list):
        return [text for each in value for text in _strings(each)]
    return [value] if isinstance(value, str) else []
