"""Payloads: the same JSON in, kept and out on both stores, and a clear refusal of everything else."""

import enum
import json
import math
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.domain.errors import InvalidPayload
from penstock.domain.payload import (
    MAX_BYTES,
    MAX_DEPTH,
    decode,
    digest,
    encode,
    encode_decoded,
    load,
    sanitise,
    sanitise_text,
)

REPLACED = "\ufffd"

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
any_texts = st.text(st.characters(exclude_categories=[]))
integers = st.integers(-(2**63), 2**63 - 1)
finite = st.floats(allow_nan=False, allow_infinity=False)


def json_values(leaves: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=20,
    )


good_values = json_values(st.none() | st.booleans() | integers | finite | texts, texts)
repairable_values = json_values(st.none() | st.booleans() | st.integers() | st.floats() | any_texts, any_texts)
other_leaves = st.binary() | st.decimals() | st.datetimes() | st.frozensets(st.integers()) | st.uuids()
any_values = json_values(
    st.none() | st.booleans() | st.integers() | st.floats() | any_texts | other_leaves,
    any_texts | st.integers() | st.floats() | st.none() | st.booleans() | st.binary(),
)


def nested(levels: int) -> Any:
    value: Any = []
    for _ in range(levels - 1):
        value = [value]
    return value


def refusal(call: Callable[[Any], object], value: object) -> InvalidPayload:
    with pytest.raises(InvalidPayload) as caught:
        call(value)
    return caught.value


def exactly_equal(one: object, other: object) -> bool:
    """Equal in value, type and key order, which `==` alone does not say."""
    return repr(one) == repr(other)


@given(good_values)
@example({"-0": -0.0, "e": [1e16, 5e-324, 1.7976931348623157e308], "": {"__proto__": 1, "$ref": "x"}})
@example(["\ufffe\uffff\u202e\u200b", "\U0001f600", "Z̸a̷" * 1000, "\\u0000 is not a NUL", "\x01\x1f\x7f\u2028"])
@example([2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 0.1 + 0.2, 1e22, 0.00012345678901234567])
@example(["NaN", "Infinity", "1234567890123456789012345678901234567890", {"NaN": "\\ud800"}])
def test_what_is_encoded_comes_back_the_same(value):
    text = encode(value)

    assert exactly_equal(load(text), value)
    assert exactly_equal(decode(text), value)
    assert exactly_equal(decode(text.encode()), value)
    assert encode(decode(text)) == text


@given(any_values)
def test_encode_accepts_only_what_decode_accepts_and_both_stores_keep(value):
    try:
        text = encode(value)
    except InvalidPayload:
        return

    assert encode(decode(text)) == text
    assert "\0" not in text
    assert "\\u0000" not in text.replace("\\\\", "")
    text.encode()
    assert sqlite_says("json_valid(?, 1)", text) == 1
    assert sqlite_says("?", text) == text


@given(any_values)
@example({"k": float("nan")})
@example({"k": 2**63})
@example({"k": "\0"})
@example({"k\0": 1})
@example({"k": "\ud83d\ude00"})
def test_a_value_the_standard_library_can_write_is_accepted_by_both_doors_or_by_neither(value):
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        return
    # Here json.dumps changes the value itself, or joins two surrogates into one character.
    if not exactly_equal(json.loads(text), value):
        return

    assert accepts(encode, value) == accepts(decode, text)


@given(st.text(alphabet='{}[]":,\\ue+-.0123456789truefalsnNaIity \n\0\ud800é', max_size=40))
def test_no_text_makes_decode_raise_anything_but_a_refusal(text):
    for given_text in (text, text.encode(errors="surrogatepass")):
        if accepts(decode, given_text):
            value = decode(given_text)
            assert exactly_equal(decode(encode(value)), value)
            assert exactly_equal(json.loads(given_text), value)


@given(st.binary(max_size=40))
def test_no_bytes_make_decode_raise_anything_but_a_refusal(data):
    accepts(decode, data)


def test_nesting_is_limited_to_the_same_depth_everywhere():
    deepest, too_deep = nested(MAX_DEPTH), nested(MAX_DEPTH + 1)

    assert load(encode(deepest)) == deepest
    assert decode(json.dumps(deepest)) == deepest
    assert sanitise(deepest) == (encode(deepest), [])
    assert "64 levels" in str(refusal(encode, too_deep))
    assert "64 levels" in str(refusal(sanitise, too_deep))
    assert "64 levels" in str(refusal(decode, json.dumps(too_deep)))
    assert refusal(encode, {"a": too_deep}).path == "/a" + "/0" * (MAX_DEPTH - 1)


def test_many_brackets_beside_each_other_or_inside_strings_are_not_depth():
    wide = {"rows": [[] for _ in range(1000)], "text": '[{"\\' * 1000, "end": '\\"' + "{" * 100}

    assert decode(encode(wide)) == wide


@pytest.mark.parametrize("text", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 1000, "]" * 1000])
def test_depth_is_refused_before_the_parser_recurses(text):
    refusal(decode, text)


def test_size_is_limited_to_the_byte():
    fits = "é" * ((MAX_BYTES - 2) // 2)

    assert len(encode(fits).encode()) == MAX_BYTES
    assert decode(encode(fits)) == fits
    for too_large in (fits + "a", ["a" * MAX_BYTES], [0] * MAX_BYTES):
        assert "larger than 1048576 bytes" in str(refusal(encode, too_large))
        assert "larger than 1048576 bytes" in str(refusal(sanitise, too_large))
    for too_long in (f'"{fits}a"', f'"{fits}a"'.encode(), b" " * MAX_BYTES + b"1"):
        assert "larger than 1048576 bytes" in str(refusal(decode, too_long))


def test_wide_payloads_within_the_limit_are_kept():
    keys = {f"k{n}": n for n in range(60_000)}
    zeros = [0] * 500_000

    assert load(encode(keys)) == decode(encode(keys)) == keys
    assert decode(encode(zeros)) == zeros


def test_numbers_that_grow_when_written_our_way_are_measured_as_they_will_be_kept():
    short_form = "[" + ",".join(["1e15"] * 150_000) + "]"

    assert "larger than" in str(refusal(decode, short_form))


@pytest.mark.parametrize(
    "text",
    [
        *[
            "",
            " ",
            "{",
            "}",
            "{} x",
            "{}{}",
            "[1] [2]",
            "// c\n{}",
            "/* c */ {}",
            "{'a':1}",
            '{"a":1,}',
            "[1,]",
        ],
        *["{a:1}", "tru", "None", "undefined", '"a', '"\n"', '"\t"', '"\x00"', '"\\x41"', '"\\u12"', '"\\'],
        *["01", "+1", ".5", "1.", "0x1", "1_000", "１", "-", "1e", "--1", "٣", "\u00a01", "\ufeff{}"],
        *["NaN", "Infinity", "-Infinity", "1e400", "-1e400", '{"a":[NaN]}', "1" * 400 + ".0"],
        *[str(2**63), str(-(2**63) - 1), "1" + "0" * 4300, "1" + "0" * 5000, f'{{"a":[-{10**5000 + 1:#x}]}}'],
        *["[-1" + "0" * 5000 + "]", '{"a":1' + "0" * 100 + "}"],
        *[
            '"\\u0000"',
            '{"a\\u0000":1}',
            '"\\ud800"',
            '"\\udc00\\ud800"',
            '{"\\uD800":1}',
            '"\\ud800x"',
            '"\ud800"',
        ],
        *['{"a":1,"a":1}', '{"a":1,"\\u0061":2}', '[{"b":{"a":1,"a":2}}]', '{"":1,"":2}'],
    ],
)
def test_text_that_is_not_the_json_we_keep_is_refused(text):
    refusal(decode, text)
    refusal(decode, text.encode(errors="surrogatepass"))


@pytest.mark.parametrize(
    "data",
    [
        *[b"\xef\xbb\xbf{}", "{}".encode("utf-16"), "{}".encode("utf-16-le"), '{"a":1}'.encode("utf-32")],
        *['"é"'.encode("latin-1"), b'"\xc0\xaf"', b'"\xe0\x80\x80"', b'"\xff"', b'"\xe2\x82'],
        *[b'"\xed\xa0\x80"', b'"\xf4\x90\x80\x80"'],
    ],
)
def test_bytes_that_are_not_plain_utf8_are_refused(data):
    refusal(decode, data)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ("-0", 0),
        ("-0.0", -0.0),
        ("1E+2", 100.0),
        (" [ 1 , 2 ]\r\n", [1, 2]),
        ('"\\ud83d\\ude00"', "\U0001f600"),
        ('"\\\\u0000"', "\\u0000"),
        ('"\\\\ud800"', "\\ud800"),
        ('"\ufeff"', "\ufeff"),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("0.1234567890123456789012345", 0.12345678901234568),
        ("1e-400", 0.0),
        ('{"é":1,"e\u0301":2}', {"é": 1, "e\u0301": 2}),
        ('{"b":1,"a":2}', {"b": 1, "a": 2}),
        ('{"' + "k" * 65_536 + '":1}', {"k" * 65_536: 1}),
    ],
)
def test_unusual_but_valid_json_is_kept_verbatim(text, value):
    assert exactly_equal(decode(text), value)
    assert exactly_equal(load(encode(decode(text))), value)


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Plain(enum.Enum):
    ONE = 1


class Odd(str):
    """A string that claims to differ from its equals."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return self is other


class Hostile:
    """An object that answers no question about itself."""

    def __repr__(self) -> str:
        raise RuntimeError("no")

    __str__ = __len__ = __iter__ = __bool__ = __eq__ = __hash__ = __repr__  # type: ignore[assignment]


Point = namedtuple("Point", "x y")


def circular() -> dict[str, Any]:
    value: dict[str, Any] = {"list": []}
    value["list"] += [1, value, value]
    return value


@pytest.mark.parametrize(
    ("value", "path", "said"),
    [
        ({"a": [1, math.nan]}, "/a/1", "nan"),
        ({"a": -math.inf}, "/a", "inf"),
        (2**63, "", "64 bits"),
        ({"a": -(2**63) - 1}, "/a", "64 bits"),
        ([10**5000], "/0", "64 bits"),
        ({"a": "x\0"}, "/a", "NUL"),
        ({"a": {"b\0": 1}}, f"/a/b{REPLACED}", "NUL"),
        (["\ud800"], "/0", "surrogate"),
        ({"\udfff": 1}, f"/{REPLACED}", "surrogate"),
        ({"a/b": {"~": b"x"}}, "/a~1b/~0", "bytes"),
        ({"a": {1: 2}}, "/a", "key of type int"),
        ({1.5: 2}, "", "key of type float"),
        ({None: 2}, "", "key of type NoneType"),
        ({True: 2}, "", "key of type bool"),
        ({("a",): 2}, "", "key of type tuple"),
        ({b"a": 2}, "", "key of type bytes"),
        ({"1": 1, 1: 2}, "", "key of type int"),
        ({"a": 1, Odd("a"): 2}, "/a", "more than once"),
        ({1, 2}, "", "sorted()"),
        ([datetime.now(UTC)], "/0", "isoformat()"),
        ([Decimal("1.5")], "/0", "Decimal"),
        ([UUID(int=1)], "/0", "str()"),
        (Plain.ONE, "", "Plain"),
        (Hostile(), "", "Hostile"),
        ({"a": Hostile()}, "/a", "Hostile"),
        (range(3), "", "range"),
        (circular(), "/list/1", "contains itself"),
    ],
    ids=lambda part: part if isinstance(part, str) else "value",
)
def test_a_value_that_is_not_json_is_refused_with_its_place_and_what_to_do(value, path, said):
    error = refusal(encode, value)

    assert error.path == path
    assert said in str(error)
    assert str(error).startswith("params")
    assert error.hint
    str(error).encode()


def test_subclasses_of_json_types_are_written_as_what_they_are():
    value = {Colour.RED: Level.HIGH, "point": Point(1, 2), "more": OrderedDict(b=Colour.RED, a=(1, (2,)))}

    assert encode(value) == '{"red":3,"point":[1,2],"more":{"b":"red","a":[1,[2]]}}'


def test_the_same_list_may_be_held_twice():
    shared = [1]

    assert encode([shared, {"again": shared}]) == '[[1],{"again":[1]}]'


def test_a_structure_that_unfolds_beyond_the_limit_is_refused_and_not_unfolded():
    bomb: list[Any] = [0] * 1000
    for _ in range(5):
        bomb = [bomb] * 1000

    assert "larger than" in str(refusal(encode, bomb))
    assert "larger than" in str(refusal(sanitise, bomb))


@given(good_values)
def test_a_value_that_must_be_walked_is_written_like_any_other(value):
    assert encode([value, Colour.RED]) == f'[{encode(value)},"red"]'


def test_text_is_compact_and_keeps_the_order_of_keys():
    assert encode({}) == "{}"
    assert encode({"b": [1, 2.0, None], "a": "é/\n"}) == '{"b":[1,2.0,null],"a":"é/\\n"}'


def test_a_refusal_names_what_was_given_and_a_repeated_key():
    error = refusal(lambda text: decode(text, what="the body"), '{"a":[{"b/c":1,"x":0,"b/c":2}]}')

    assert str(error) == "the body at /a/0/b~1c is there more than once. Name each key once."
    assert error.path == "/a/0/b~1c"


@pytest.mark.parametrize(
    "text",
    [
        r'{"a":1,"a":1}',
        r'{"a":1,"\u0061":2}',
        r'{"\"":"\\","\"":"[\\\""}',
        r'[{"x":"\\"},{"":0,"":1},{"x":"\u0022"}]',
    ],
)
def test_a_repeated_key_is_found_however_it_is_written(text):
    assert "more than once" in str(refusal(decode, text))


def test_brackets_inside_of_strings_are_no_levels():
    shallow = ["[" * 100, 'a"]"[', "\\", {"]{": '}}\\"'}, '"'] * 40
    closed_in_strings = '["]",' * (MAX_DEPTH + 1) + "1" + "]" * (MAX_DEPTH + 1)

    assert decode(json.dumps(shallow)) == shallow
    assert "64 levels" in str(refusal(decode, closed_in_strings))


@given(good_values)
def test_what_was_decoded_is_written_as_it_would_be_anyway(value):
    decoded = decode(json.dumps(value, indent=1))

    assert encode_decoded(decoded) == encode(decoded)


def test_what_was_decoded_may_still_be_too_large():
    fits, too_large = "x" * (MAX_BYTES - 2), "x" * (MAX_BYTES - 1)

    assert encode_decoded(fits) == f'"{fits}"'
    assert str(refusal(encode_decoded, too_large)) == str(refusal(encode, too_large))


def test_a_refusal_stays_short_however_long_the_keys_are():
    error = refusal(encode, {"k" * 500_000: {"j\0" * 100_000: math.nan}})

    assert len(str(error)) < 1000
    assert len(error.path) < 1000


@given(repairable_values)
def test_sanitise_repairs_every_content_problem(value):
    try:
        text, repairs = sanitise(value)
    except InvalidPayload as refused:
        # Two keys may become one by being repaired; nothing else is beyond repair here.
        if "more than once" in str(refused):
            return
        raise

    assert encode(load(text)) == text
    assert decode(text) == load(text)
    assert accepts(encode, value) == (repairs == [])
    if not repairs:
        assert text == encode(value)


def test_a_repair_is_told_in_a_sentence():
    text, repairs = sanitise({"a": [math.nan, -math.inf, 2**64, "x\0\ud800"], "k\0": 1, 1: 2, None: 3})

    assert load(text) == {
        "a": ["nan", "-inf", "18446744073709551616", f"x{REPLACED}{REPLACED}"],
        f"k{REPLACED}": 1,
        "1": 2,
        "null": 3,
    }
    assert repairs == [
        "result at /a/0 is nan, which is not JSON. It was kept as a string.",
        "result at /a/1 is -inf, which is not JSON. It was kept as a string.",
        "result at /a/2 is an integer beyond 64 bits. It was kept as a string.",
        "result at /a/3 has a NUL character. U+FFFD was put there.",
        f"result at /k{REPLACED} has a NUL character. U+FFFD was put there.",
        "result has a key of type int. It was kept as a string.",
        "result has a key of type NoneType. It was kept as a string.",
    ]


def test_only_the_first_repairs_are_told_one_by_one():
    _, repairs = sanitise([math.nan] * 1000)

    assert len(repairs) == 21
    assert repairs[-1] == "result has more parts like these."


def test_an_integer_too_long_for_decimal_digits_is_kept_in_hexadecimal():
    text, _ = sanitise(10**5000)

    assert load(text) == hex(10**5000)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        Hostile(),
        {"a": {1}},
        b"x",
        circular(),
        {("a",): 1},
        {"1": 1, 1: 2},
        {"a\0": 1, "a\ud800": 2},
    ],
)
def test_what_is_not_json_at_all_cannot_be_repaired(value):
    error = refusal(sanitise, value)

    assert str(error).startswith("result")
    assert error.hint


@given(any_texts, st.integers(0, 60))
def test_a_sanitised_text_is_within_its_limit_and_can_be_kept(text, limit):
    kept = sanitise_text(text, limit)

    assert len(kept) <= limit
    assert "\0" not in kept
    kept.encode()
    if len(text) <= limit and text.isprintable():
        assert kept == text


def test_a_long_text_keeps_a_quarter_of_its_head_and_the_rest_of_its_tail():
    text = "H" * 50_000 + "T" * 50_000

    kept = sanitise_text(text, 1000)

    head, rest = kept.split("… [cut, ")
    more, tail = rest.split(" characters more]")
    assert len(kept) == 1000 - (len("100000") - len(more))
    assert len(head) + len(tail) + int(more) == 100_000
    assert set(head) == {"H"}
    assert set(tail) == {"T"}
    assert 0 <= len(tail) - 3 * len(head) <= 3


def test_a_text_without_problems_is_not_touched():
    assert sanitise_text("a" * 65_536) == "a" * 65_536
    assert sanitise_text("é\n\t\U0001f600\x1b") == "é\n\t\U0001f600\x1b"
    assert sanitise_text("a\0b\ud800c\udfff") == f"a{REPLACED}b{REPLACED}c{REPLACED}"


@given(good_values, st.randoms())
def test_a_digest_does_not_depend_on_the_order_of_keys(value, random):
    assert digest(encode(value)) == digest(encode(shuffled(value, random)))


@given(good_values, good_values)
@example({"a": 1}, {"a": "1"})
@example({"a": 1}, {"a": 1.0})
@example([1, 2], [2, 1])
@example({}, [])
@example(True, 1)
def test_different_parameters_have_different_digests(one, other):
    # -0.0 and 0.0 are told apart too, and the order of keys is not.
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

    assert (digest(encode(one)) == digest(encode(other))) == same


def test_a_digest_is_short_and_never_changes():
    assert digest('{"b":[2.5,"é"],"a":1}') == digest('{"a": 1, "b": [2.5, "\\u00e9"]}')
    assert digest("{}") == "44136fa355b3678a1146ad16f7e8649e"


def accepts(call: Callable[[Any], object], value: object) -> bool:
    try:
        call(value)
    except InvalidPayload:
        return False
    return True


def sqlite_says(expression: str, text: str) -> object:
    return apsw.Connection(":memory:").execute(f"SELECT {expression}", (text,)).get


def shuffled(value: Any, random: Any) -> Any:
    if isinstance(value, list):
        return [shuffled(child, random) for child in value]
    if isinstance(value, dict):
        keys = list(value)
        random.shuffle(keys)
        return {key: shuffled(value[key], random) for key in keys}
    return value
