"""Test files in upstream's style that do not know this library, on which the drop-in is tested."""
