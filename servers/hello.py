"""Your first server. Every function in this file is a tool: edit one, save the file, and call it at /mcp/hello."""


def hello(name: str = "world") -> str:
    """Greet a person.

    Args:
        name: The person to greet.
    """
    return f"Hello, {name}!"


def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
