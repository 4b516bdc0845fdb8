"""The authorization server of one hub that runs until the last of these tests."""
