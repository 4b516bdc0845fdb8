"""The storage of an official SDK client that has never signed in."""

from __future__ import annotations

from mcp.shared.auth import OAuthClientInformationFull, OAuthToken


class EmptyHome:
    """Where the client keeps its registration and its tokens: nothing at first."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info
