"""The checks of `patchbay doctor`: each gives a verdict, a sentence and the command that fixes the problem."""
