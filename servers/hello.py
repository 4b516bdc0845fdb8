"""Your first server. Every function below is a tool: change one, save, and it is live at /mcp/hello."""


def hello(name: str = "world") -> str:
    """Greet somebody.

    Args:
        name: Who to greet.
    """
    return f"Hello, {name}!"


def add(a: float, b: float) -> float:
    """Add two numbers.

    Args:
        a: The first number.
        b: The second number.
    """
    return a + b
