"""Test files in upstream's style, which know nothing of this library: what the drop-in is proved on."""
