"""The prompts of the server `cone`: each cone with a system prompt is one, with a question to fill in."""


def generate_prompts(server_name: str, context) -> list:
    """`cone:<name>` for each such cone; `{{query}}` in its system prompt stands for the question too."""
    cones = context.state.several(context.state.starting("cone/")).values()
    return [
        {
            "name": f"cone:{cone['name']}",
            "description": f"Ask as {cone['name']} would be asked, which uses {cone['model_id']}.",
            "arguments": [{"name": "query", "description": "What to ask.", "required": True}],
            "messages": [{"content": cone["system_prompt"]}, {"content": "{{query}}"}],
        }
        for cone in sorted(cones, key=lambda cone: cone["name"])
        if cone["system_prompt"]
    ]
