"""Events that servers emit: their records in the journal, the cursors of readers, and the sources that give them."""
