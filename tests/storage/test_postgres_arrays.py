"""How values travel to PostgreSQL."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.storage.postgres.session import array

texts = st.text(st.sampled_from('ab",{}\\\0 é') | st.characters(codec="utf-8"))


@given(st.lists(st.none() | texts, min_size=1))
def test_texts_are_written_alike_whether_all_at_once_or_one_by_one(values):
    one_by_one = [array([value])[1:-1] for value in values]

    assert array(values) == "{" + ",".join(one_by_one) + "}"


def test_what_means_something_in_an_array_is_escaped():
    assert array(['say "no"', "C:\\", "{a,b}", "NULL", ""]) == r'{"say \"no\"","C:\\","{a,b}","NULL",""}'
