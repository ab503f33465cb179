"""The tests. Each folder mirrors its source folder; `services` and `waiting` serve all of them."""
