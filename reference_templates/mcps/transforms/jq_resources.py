"""The resources of the jq server: a cheat sheet, so that a model need not guess the filters."""

FILTERS = {
    ".": "the input as it is",
    ".name": "the value under a key; null when it is not there",
    ".[]": "each element of an array, each value of an object",
    ".items[0], .items[-1]": "the first and the last element",
    "map(.price)": "one value out of each element",
    "select(.price < 10)": "only what meets a condition",
    "sort_by(.name)": "sorted by a key",
    "group_by(.kind)": "an array for each value of a key",
    "unique_by(.id)": "one element for each value of a key",
    "add / length": "the mean of an array of numbers",
    "{name, total: (.price * .count)}": "a new object",
    "to_entries, from_entries": "an object as key and value pairs, and back",
    "with_entries(.value |= ascii_upcase)": "each pair changed",
    "[paths(scalars)]": "where the leaves are",
    '"\\(.first) \\(.last)"': "text put together",
    'test("^a"), capture("(?<year>\\\\d+)")': "regular expressions",
    '.a // "none"': "a value, or another one in place of null and false",
    "limit(3; .[])": "the first few results",
    "reduce .[] as $x (0; . + $x)": "everything folded into one value",
}


def generate_resources(server_name: str, context: dict) -> list:
    """One resource: the cheat sheet, as Markdown."""
    rows = [f"| `{filter.replace('|', chr(92) + '|')}` | {meaning} |" for filter, meaning in FILTERS.items()]
    return [
        {
            "uri": "jq://cheat-sheet",
            "name": "cheat-sheet",
            "title": "jq cheat sheet",
            "description": "The filters that are needed most, each with its meaning.",
            "mimeType": "text/markdown",
            "text": "\n".join(["# jq filters", "", "| Filter | Meaning |", "| --- | --- |", *rows, ""]),
        }
    ]
