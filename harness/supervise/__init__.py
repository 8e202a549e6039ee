"""How ranks are watched and ended."""
