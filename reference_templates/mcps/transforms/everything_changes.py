"""What comes and goes on the server `everything`: one tool and one prompt, listed when its memory says so."""


def generate_tools(server_name: str, context) -> list:
    """The tool that `test_trigger_tool_change` adds and takes away."""
    if not context.state.get("test_extra_tool", False):
        return []
    return [
        {
            "name": "test_extra_tool",
            "description": "Come and go, to show that lists may change.",
            "inputSchema": {"type": "object", "properties": {}},
            "function": "_extra_tool",
        }
    ]


def generate_prompts(server_name: str, context) -> list:
    """The prompt that `test_trigger_prompt_change` adds and takes away."""
    if not context.state.get("test_extra_prompt", False):
        return []
    return [
        {
            "name": "test_extra_prompt",
            "description": "Come and go, to show that lists may change.",
            "messages": [{"content": "This prompt comes and goes."}],
        }
    ]
