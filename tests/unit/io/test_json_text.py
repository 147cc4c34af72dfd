import json

from indubio.io import json_text


def test_json_has_null_for_what_is_not_a_number():
    assert json.loads(json_text({"w": float("nan"), "x": [1.5, float("nan")]})) == {"w": None, "x": [1.5, None]}
