"""The tool that is called in the benchmark: it does nothing, so that what is measured is the way there and back."""


def echo(message: str) -> str:
    """Return the message."""
    return message
