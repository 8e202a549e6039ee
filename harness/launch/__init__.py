"""How ranks come to life: one strategy a file behind ``base``."""
