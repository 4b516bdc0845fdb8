"""The methods of the extension `io.modelcontextprotocol/events`: lists, polls, streams and webhook subscriptions."""
