"""What the calls of all ranks mean together: which match, who can never go on, what broke first. Pure."""
