"""The ahead-of-time compiler: compiled, a function does what it does in eager, and its graphs are known."""
