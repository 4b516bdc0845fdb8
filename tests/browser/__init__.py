"""What a person does in a browser, at one hub that runs until the last of these tests."""
